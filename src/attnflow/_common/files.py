"""Files are written beside their final name and moved into place when they are whole."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnflow._common.checks import InputError


def require_free(path: str | os.PathLike, *, overwrite: bool) -> Path:
    """A path that can be written to and where no file exists, unless `overwrite` allows to replace it."""
    path = Path(path)
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists already. Choose another name, or pass `overwrite` (`--overwrite`).")
    parent = path.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"{path} cannot be written: {parent} is not a directory that can be written to.")
    return path


def require_free_picture(path: str | os.PathLike, *, overwrite: bool = True) -> Path:
    """A path that a picture can be written to.

    Raises
    ------
    ValueError
        If the suffix is not a known one, nothing can be written there, or a file is there and `overwrite` is False.
    """
    path = Path(path)
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InputError(
            f"A picture is written as `.png`, `.pdf` or `.svg`, but the path is {path}. Use {path.with_suffix('.png')}."
        )
    if path.is_dir():
        raise InputError(f"{path} cannot be written: it is a directory. Choose another name.")
    return require_free(path, overwrite=overwrite)


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path`; the file written there replaces `path` unless an error is raised."""
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        yield beside
        _move_into_place(beside, path)
    finally:
        _remove(beside)


def _move_into_place(beside: Path, path: Path) -> None:
    """Move a file to its final name; an old directory is renamed first, since it cannot be replaced in one move."""
    aside = path.with_name(f"{beside.name}.old")
    if path.is_dir():
        os.replace(path, aside)
    os.replace(beside, path)
    _remove(aside)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
