"""Pages and files that are made from the package when the site is built."""

import functools
import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

import attnflow


def size_of_build() -> str:
    """`small` (nothing executed), `html` (what takes seconds is made) or `full` (everything is)."""
    return os.environ.get("ATTNFLOW_SITE", "html")


def write_page(source: str | Path, name: str, text: str) -> None:
    """Write `generated/name` under the source folder, if its text differs: unchanged pages are not read again."""
    path = Path(source) / "generated" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def contents(title: str, introduction: str, pages: list[str], is_hidden: bool = False) -> str:
    """A page with a table of contents, which may be for the sidebar only."""
    listed, option = "\n".join(pages), ":hidden:" if is_hidden else ":maxdepth: 1"
    return f"# {title}\n\n{introduction}\n\n```{{toctree}}\n{option}\n\n{listed}\n```\n"


def linked(source: str) -> str:
    """A source with links to the papers that it names."""
    return re.sub(r"arXiv:(\d{4}\.\d{4,5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", source)


def made(path: Path, make: Callable[[Path], object]) -> Path:
    """The file at a path, made unless the same version of the package has made it."""
    record = path.parents[2] / "made" / f"{path.parent.name}-{path.name}"
    if not path.exists() or not record.exists() or record.read_text() != _fingerprint():
        for folder in (path.parent, record.parent):
            folder.mkdir(parents=True, exist_ok=True)
        make(path)
        record.write_text(_fingerprint())
    return path


@functools.cache
def _fingerprint() -> str:
    """A digest of all files of the package."""
    digest = hashlib.sha256()
    for path in sorted(Path(attnflow.__file__).parent.rglob("*")):
        if path.suffix in (".py", ".cpp", ".h", ".js", ".css", ".html"):
            digest.update(path.read_bytes())
    return digest.hexdigest()
