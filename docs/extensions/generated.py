"""Pages that are written from the package when the site is built."""

import re
from pathlib import Path


def write_page(source: str | Path, name: str, text: str) -> None:
    """Write `generated/name` under the source folder, if its text differs: unchanged pages are not read again."""
    path = Path(source) / "generated" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def contents(title: str, introduction: str, pages: list[str]) -> str:
    """A page with a table of contents."""
    listed = "\n".join(pages)
    return f"# {title}\n\n{introduction}\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"


def linked(source: str) -> str:
    """A source with links to the papers that it names."""
    return re.sub(r"arXiv:(\d{4}\.\d{4,5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", source)
