"""Markdown of the site for readers that do not know its pages, such as Jupyter."""

import re
from pathlib import Path


def plain(text: str, page: Path, papers: dict[str, str]) -> str:
    """The text of a page with citations as links to arXiv and links to other pages as their titles.

    `papers` has the arXiv number of every key of the bibliography; see `numbers_of_papers`.
    """
    text = re.sub(r"\s*<a [^>]*\bdownload>[^<]*</a>\.?", "", text)
    text = re.sub(r"\{cite\}`([^`]+)`", lambda found: _citation(found[1], papers), text)
    return re.sub(
        r"\[([^\]]*)\]\(([^)\s]+\.md)(?:#[^)\s]*)?\)", lambda found: found[1] or _title(page.parent / found[2]), text
    )


def numbers_of_papers(bibliography: str) -> dict[str, str]:
    """The arXiv number of every entry of a BibTeX file."""
    return dict(re.findall(r"^@\w+\{([^,]+),.*?\beprint=\{([^}]+)\}", bibliography, re.MULTILINE))


def _citation(keys: str, papers: dict[str, str]) -> str:
    numbers = [papers[key] for key in keys.split(",")]
    return "(" + ", ".join(f"[arXiv:{number}](https://arxiv.org/abs/{number})" for number in numbers) + ")"


def _title(page: Path) -> str:
    found = re.search(r"^# (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return f'"{found[1]}"' if found else page.stem
