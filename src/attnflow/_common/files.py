"""Files are written beside their final name and moved into place when they are whole.

The temporary name of `run.zarr` is `.run.zarr.MACHINE-PROCESS-RANDOM.part`: the next writer of `run.zarr` removes what
a killed process of the same machine has left, and leaves alone what a living process writes.
"""

import contextlib
import os
import platform
import re
import shutil
import time
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnflow._common.checks import InputError

SECONDS_TO_REMOVE = 10.0  # the longest time for which a directory is removed again and again
SECONDS_ABSENT = 0.5  # after the first error the threads of Zarr continue, and create a removed directory once more


PICTURES = (".png", ".pdf", ".svg")
RESULTS = ("", ".zarr", ".nc")


def require_free(path: str | os.PathLike, *, overwrite: bool, may_be_directory: bool = False) -> Path:
    """A path that can be written to and where no file exists, unless `overwrite` allows to replace it.

    An empty file is created beside it and removed, since permissions alone do not tell whether a system can write.
    """
    named = Path(require_name(path))
    try:
        is_there, is_directory = named.exists(), named.is_dir()
        if is_there and not overwrite:
            raise InputError(f"{named} exists already. Choose another name, or pass `overwrite` (`--overwrite`).")
        if is_there and not (named.is_file() or (is_directory and may_be_directory)):
            found = "it is a directory" if is_directory else "it is not a file"
            raise InputError(f"{named} cannot be written: {found}. Choose another name.")
        _try_to_write(named)
    except OSError as error:
        raise _cannot_be_written(named, error) from error
    return named


def require_folder(folder: str | os.PathLike, argument: str = "out") -> Path:
    """A folder that can be written to, created if it does not exist."""
    folder = Path(folder)
    try:
        _require_no_null(folder)
        folder.mkdir(parents=True, exist_ok=True)
        _try_to_write(folder / "any")
    except OSError as error:
        raise InputError(
            f"`{argument}` must be a folder that can be written to, but {folder} is not: {error.strerror or error}."
        ) from error
    return folder


def require_free_picture(path: str | os.PathLike, *, overwrite: bool = True) -> Path:
    """A path that a picture can be written to.

    Raises
    ------
    ValueError
        If the suffix is not a known one, nothing can be written there, or a file is there and `overwrite` is False.
    """
    require_suffix(path, "A picture", PICTURES)
    return require_free(path, overwrite=overwrite)


def require_suffix(path: str | os.PathLike, what: str, suffixes: tuple[str, ...]) -> None:
    """Require one of the suffixes, in small or large letters; the message names them and a path with the first."""
    if Path(require_name(path)).suffix.lower() in suffixes:
        return
    *most, last = [f"`{suffix}`" for suffix in suffixes if suffix]
    listed = f"{', '.join(most)} or {last}" if most else last
    first = next(suffix for suffix in suffixes if suffix)
    raise InputError(f"{what} is written as {listed}, but the path is {path}. Use {with_suffix(path, first)}.")


def with_suffix(path: str | os.PathLike, suffix: str) -> Path:
    """The path with another suffix; InputError where it has no name.

    Examples
    --------
    >>> with_suffix("runs/polytope.zarr", ".png").as_posix()
    'runs/polytope.png'
    """
    return Path(require_name(path)).with_suffix(suffix)


def require_name(path: str | os.PathLike) -> str | os.PathLike:
    """The path, if it ends with the name of a file or directory, as "", ".", ".." and "/" do not."""
    _require_no_null(path)
    if Path(path).name in ("", ".."):
        raise InputError(f"A path must end with a name, but it is {os.fspath(path)!r}. Use a path such as ./result.")
    return path


def _require_no_null(path: str | os.PathLike) -> None:
    if "\0" in str(path):
        raise InputError(f"A path cannot hold the character of number zero, but it is {str(path)!r}.")


def _try_to_write(path: Path) -> None:
    """Create and remove an empty file under the longest temporary name of `path`; raises OSError."""
    if not path.parent.is_dir():
        raise NotADirectoryError(0, f"{path.parent} is not a directory")
    probe = _aside(_beside(path))
    os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    probe.unlink()


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path`; the file written there replaces `path` unless an error is raised.

    An error of the system, as on a full disk, becomes an InputError with the path.
    """
    beside = _beside(path)
    try:
        for leftover in _leftovers(path, ".part"):
            _remove(leftover)
        yield beside
        _move_into_place(beside, path)
        for leftover in _leftovers(path, ".part.old"):
            _remove(leftover)
    except BaseException as error:
        _remove(beside, SECONDS_ABSENT if beside.is_dir() else 0.0)
        if isinstance(error, OSError):
            raise _cannot_be_written(path, error) from error
        raise


def _cannot_be_written(path: Path, error: OSError) -> InputError:
    return InputError(f"{path} cannot be written: {error.strerror or error}.")


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.part")


def _aside(beside: Path) -> Path:
    return beside.with_name(f"{beside.name}.old")


def _machine() -> str:
    """A short name of the machine and its space of process numbers; containers have spaces of their own."""
    try:
        processes = os.readlink("/proc/self/ns/pid")
    except OSError:
        processes = ""
    return f"{zlib.crc32(f'{platform.node()} {processes}'.encode()):08x}"


def _leftovers(path: Path, suffix: str) -> list[Path]:
    """Temporary files for `path` that a process of this machine began and did not live to remove."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.{_machine()}-(\d+)-[0-9a-f]{{8}}{re.escape(suffix)}")
    found = [(pattern.fullmatch(entry.name), Path(entry.path)) for entry in os.scandir(path.parent)]
    return [entry for match, entry in found if match is not None and not _is_alive(int(match[1]))]


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True  # signal 0, which only asks, is unknown elsewhere
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # the process of another user, or no number of a process: left alone
        return True
    return True


def _move_into_place(beside: Path, path: Path) -> None:
    """Move a file to its final name; an old directory is renamed first, since it cannot be replaced in one move."""
    aside = _aside(beside)
    if path.is_dir() and beside.is_dir():
        os.replace(path, aside)
    os.replace(beside, path)
    _remove(aside)


def _remove(path: Path, seconds_absent: float = 0.0) -> None:
    """Remove a file or directory with all that is in it, until it has been absent for some seconds."""
    began = seen = time.monotonic()
    while (now := time.monotonic()) < began + SECONDS_TO_REMOVE:
        if os.path.lexists(path):
            seen = now
            with contextlib.suppress(OSError):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        elif now >= seen + seconds_absent:
            return
        else:
            time.sleep(0.02)
