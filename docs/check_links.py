"""Check that every link and picture of the built site is a page, a file or a section that exists.

    python docs/check_links.py FOLDER

Links to other sites are not followed: `tests/test_documentation.py` checks their form. A small build has no live page.
"""

import functools
import html
import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse


def broken_links(folder: Path) -> tuple[int, list[str]]:
    """The number of links between pages, and those that lead nowhere, with the page that has them."""
    found = [
        (page, link)
        for page in sorted(folder.rglob("*.html"))
        if not {"_static", "_modules"} & set(page.relative_to(folder).parts)
        for link in links_of(page)
    ]
    return len(found), [
        f"{page.relative_to(folder)}: {link}" for page, link in found if not leads_somewhere(page, link)
    ]


def links_of(page: Path) -> list[str]:
    """The addresses in a page that are not of another site."""
    text = re.sub(r"<(script|style)\b.*?</\1>", "", page.read_text("utf-8"), flags=re.DOTALL)
    links = [html.unescape(link) for link in re.findall(r'\s(?:href|src)="([^"]+)"', text)]
    return [link for link in links if not urlparse(link).scheme and not link.startswith("//")]


def leads_somewhere(page: Path, link: str) -> bool:
    """Whether the target of a link exists, with the section that it names."""
    parts = urlparse(link)
    target = page.parent / unquote(parts.path) if parts.path else page
    target = target / "index.html" if target.is_dir() else target
    has_sections = bool(parts.fragment) and target.suffix == ".html"
    return target.exists() and (not has_sections or unquote(parts.fragment) in sections(target.resolve()))


@functools.cache
def sections(page: Path) -> frozenset[str]:
    """The names in a page that a link can lead to."""
    return frozenset(html.unescape(name) for name in re.findall(r'\sid="([^"]+)"', page.read_text("utf-8")))


def main(folder: Path) -> int:
    """Print the links that lead nowhere; 0 if there are none."""
    count, broken = broken_links(folder)
    if not (folder / "live").exists():
        broken = [one for one in broken if not re.search(r"live\.html: live/index\.html$", one)]
    print("\n".join([f"{count} links between pages, {len(broken)} lead nowhere", *broken]))
    return 1 if broken or not count else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
