"""Tables of names and values: as plain text, and as HTML for notebooks."""

from collections.abc import Mapping, Sequence
from html import escape

# Colours are those of the page, light or dark: names are a fainter kind of its text, lines a trace of it.
_CELL = "text-align:left;vertical-align:top;white-space:pre-line;padding:.15em .8em .15em 0"
_NAME = f"{_CELL};font-weight:normal;opacity:.7;white-space:nowrap"
_HEADING = f"{_CELL};border-bottom:1px solid currentColor"


def text_table(facts: Mapping[str, str], title: str = "") -> str:
    """Names and values in two columns; further lines of a value stand below its first.

    Examples
    --------
    >>> print(text_table({"limit": "one point", "hypotheses": "V = I\\nfull mask"}, "sphere"))
    sphere
      limit       one point
      hypotheses  V = I
                  full mask
    """
    width = max(map(len, facts), default=0)
    below = "\n" + " " * (width + 4)
    lines = [f"  {name.ljust(width)}  {text.replace(chr(10), below)}" for name, text in facts.items()]
    return "\n".join([title, *lines] if title else lines)


def html_table(facts: Mapping[str, str], title: str = "") -> str:
    """Names and values as a table of HTML, escaped, in the colours of the page.

    Examples
    --------
    >>> table = html_table({"hypothesis": "<x, y> > 0"}, "polytope")
    >>> "polytope" in table, "&lt;x, y&gt; &gt; 0" in table
    (True, True)
    """
    rows = [(_cell("th", _NAME, name) + _cell("td", _CELL, text)) for name, text in facts.items()]
    return _table(rows, title)


def html_rows(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> str:
    """Rows of text under headings as a table of HTML, escaped, in the colours of the page.

    Examples
    --------
    >>> html_rows(["statement"], [["a < b"]]).count("<tr>")
    2
    """
    heading = "".join(_cell("th", _HEADING, name) for name in headings)
    return _table([heading, *("".join(_cell("td", _CELL, text) for text in row) for row in rows)], title)


def _cell(tag: str, style: str, text: str) -> str:
    return f'<{tag} style="{style}">{escape(text)}</{tag}>'


def _table(rows: Sequence[str], title: str) -> str:
    caption = f'<caption style="{_CELL};color:inherit;font-weight:bold">{escape(title)}</caption>' if title else ""
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table style="border-collapse:collapse;color:inherit;background:transparent">{caption}{body}</table>'
