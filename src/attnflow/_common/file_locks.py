"""Locks on files. The system releases a lock when its process ends, however it ends."""

import contextlib
import errno
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from attnflow._common.checks import InputError

LOCKED_BYTE = 1 << 20  # of the file on Windows, past its text: other processes cannot read a byte that is locked
HELD = (errno.EAGAIN, errno.EACCES)  # answers of a system whose file is locked; others say that it has no locks


@contextmanager
def locked_file(file: Path, name: str) -> Iterator[TextIO]:
    """The open file, created if there is none, with its lock; InputError, about `name`, if another process has it.

    On a file system without locks, as some clusters have it, the file is opened without one.
    """
    try:
        opened = file.open("a+")
    except OSError as error:
        raise InputError(f"{name} cannot be written: {error.strerror or error}.") from error
    with opened:
        if not lock(opened):
            opened.seek(0)
            raise InputError(
                f"{name} is being written by another process ({opened.read().strip() or 'unknown'}). Wait for it to "
                "end, or choose another name."
            )
        with contextlib.suppress(OSError):  # the text is only for the message above, and a disk may be full
            opened.truncate(0)
            # Past Python's buffer: what a full disk refuses would be written again when the file is closed.
            os.write(opened.fileno(), f"process {os.getpid()} on {platform.node()}".encode())
        yield opened


def is_locked(file: Path) -> bool:
    """Whether a process has the lock of a file."""
    try:
        with file.open("a+") as opened:
            return not lock(opened)
    except OSError:  # no permission to write, or no file
        return False


def lock(opened: Any) -> bool:
    """Take the lock of an open file, which ends when the file is closed; False if another process has it.

    True, too, on a file system without locks.
    """
    try:
        import fcntl
    except ImportError:  # no POSIX system
        import msvcrt

        try:
            opened.seek(LOCKED_BYTE)
            msvcrt.locking(opened.fileno(), msvcrt.LK_NBLCK, 1)  # pyright: ignore[reportAttributeAccessIssue]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in HELD
    return True
