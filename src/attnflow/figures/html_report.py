"""The report: one HTML file that holds every figure; it loads nothing and can be printed."""

import base64
import datetime
import html
import json
import re
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Any

from attnflow._common.files import written_beside
from attnflow.figures.catalogue import chapter_of
from attnflow.figures.drawing import command_options
from attnflow.figures.figure import Figure
from attnflow.figures.records import LIBRARIES, Made
from attnflow.figures.thumbnails import thumbnail
from attnflow.show.parts.style import DOTS_PER_INCH

HERE = Path(__file__).parent
VERDICTS = {"holds": "hold", "undecided": "are undecided", "fails": "fail", "not_applicable": "do not apply"}
Entries = Sequence[tuple[Figure, Made]]
Chapters = Sequence[tuple[str, Entries]]


def write_report(entries: Entries, folder: Path, *, is_quick: bool) -> Path:
    """Write ``report.html`` (``report-quick.html``) from figures and the records of making them. Returns its path."""
    path = folder / ("report-quick.html" if is_quick else "report.html")
    with written_beside(path) as beside:
        beside.write_text(_page(entries, folder, is_quick), encoding="utf-8")
    return path


def remake_command(figure: Figure, made: Made) -> str:
    """Command that makes a figure again, with its parameters, model and size."""
    return figure.command(made.is_quick) + command_options(made.drawing)


def _page(entries: Entries, folder: Path, is_quick: bool) -> str:
    chapters = [(name, list(group)) for name, group in groupby(entries, lambda entry: chapter_of(entry[0].id))]
    return Template((HERE / "report.html").read_text("utf-8")).substitute(
        style=(HERE / "report.css").read_text("utf-8"),
        contents=_contents(chapters),
        count=len(entries),
        size="the long ones smaller, as each of them says" if is_quick else "in full size",
        verdicts=_verdict_counts(entries),
        overview=_overview(chapters, folder),
        chapters="".join(_chapter(*chapter, folder) for chapter in chapters),
        footer=_footer(entries),
    )


def _verdict_counts(entries: Entries) -> str:
    counts = Counter(one["verdict"] for _, made in entries for one in made.verdicts)
    words = ", ".join(f"{counts[name]} {verb}" for name, verb in VERDICTS.items() if counts[name])
    return f"Of the verdicts {words}." if words else ""


def _contents(chapters: Chapters) -> str:
    """Links to all figures by chapter, shown beside a wide page."""
    parts = []
    for name, entries in chapters:
        links = "".join(
            f'<li><a href="#{figure.stem(False)}">{_text(figure.title)}{_changed(figure)}</a></li>'
            for figure, _ in entries
        )
        parts.append(f"<p>{_text(name)}</p><ul>{links}</ul>")
    return "".join(parts)


def _overview(chapters: Chapters, folder: Path) -> str:
    """Thumbnails of all figures by chapter."""
    parts = []
    for name, entries in chapters:
        cells = "".join(_thumbnail(figure, made, folder) for figure, made in entries)
        parts.append(f'{f"<h3>{_text(name)}</h3>" if name else ""}<div class="thumbs">{cells}</div>')
    return "".join(parts)


def _thumbnail(figure: Figure, made: Made, folder: Path) -> str:
    image = ""
    if made.files:
        content = _data("image/png", thumbnail(folder / made.files[0], made.panel))
        image = f'<img class="thumb" src="{content}" alt="">'
    return f'<a href="#{figure.stem(False)}">{image}{_text(figure.title)}{_changed(figure)}</a>'


def _changed(figure: Figure) -> str:
    """Words on the parameters that were changed, after the title of the figure."""
    words = ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in figure.changes.items())
    return f" ({_text(words)})" if words else ""


def _chapter(name: str, entries: Entries, folder: Path) -> str:
    heading = f'<h2 class="chapter">{_text(name)}</h2>' if name else ""
    return heading + "".join(_article(figure, made, folder) for figure, made in entries)


def _footer(entries: Entries) -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    libraries = ", ".join(f"{name} {version(name)}" for name in ("attnflow", *LIBRARIES))
    seconds = sum(made.seconds for _, made in entries)
    return f"{libraries}. Computed in {seconds:.0f} s, written {today}."


def _article(figure: Figure, made: Made, folder: Path) -> str:
    heading = f"{_text(figure.title)}{_changed(figure)}"
    parts = [
        f'<article id="{figure.stem(False)}"><a class="top" href="#top">\u2191 top</a><h2>{heading}</h2>',
        f'<p class="source">{_linked(figure.source)} &middot; <code>{figure.id}</code></p>',
        f'<p class="quick">Quick version: {_replaced(figure)}</p>' if made.is_quick else "",
        f"<p>{_text(figure.shows)}</p>",
    ]
    if not made.is_there:
        return "".join([*parts, f'<p class="quick">{_text(made.note)}</p></article>'])
    name = figure.stem(made.is_quick)
    if "title" in made.drawing:  # the picture itself has no title and no caption
        parts.append(f"<p>{_text(' '.join(made.caption))}</p>")
    parts += [_media(figure, name, made, folder), _numbers(made.numbers), _verdicts(made.verdicts)]
    if figure.deviates:
        own = " with the parameters of the catalogue" if figure.changes or (made.is_quick and figure.quick) else ""
        parts.append(f"<h3>How the figure{own} differs from what was published</h3><p>{_text(figure.deviates)}</p>")
    parts.append(_recipe(figure, made))
    return "".join([*parts, "</article>"])


def _linked(source: str) -> str:
    """A source with its numbers of arXiv as links."""
    return re.sub(r"arXiv:(\d{4}\.\d{5})", r'<a href="https://arxiv.org/abs/\1">arXiv:\1</a>', _text(source))


def _replaced(figure: Figure) -> str:
    """Sentence on the parameters of the quick figure."""
    if not figure.quick:
        return "the same as the full figure."
    changes = ", ".join(f"{name} = {value} for {figure.settings.get(name)}" for name, value in figure.quick.items())
    return f"smaller than the full figure, with {_text(changes)}."


def _media(figure: Figure, name: str, made: Made, folder: Path) -> str:
    image = (
        f'<img src="{_embedded(folder / f"{name}.png")}" alt="{_text(figure.title)}" '
        f'style="--readable:{_readable_width(folder / f"{name}.png")}px">'
    )
    picture = f'<a class="picture" href="{name}.png" title="In full size">{image}</a>'
    moving = ""
    if f"{name}.mp4" in made.files:
        moving = f'<video controls loop muted playsinline src="{_embedded(folder / f"{name}.mp4")}"></video>'
    elif f"{name}.gif" in made.files:
        alternative = f"Movie: {_text(figure.title)}"
        moving = f'<img class="moving" src="{_embedded(folder / f"{name}.gif")}" alt="{alternative}">'
    links = ", ".join(f'<a href="{file}">{file}</a>' for file in made.files)
    return f'<figure>{picture}{moving}<figcaption class="small">Files beside this page: {links}</figcaption></figure>'


def _readable_width(path: Path) -> int:
    """Width in pixels of a screen below which the letters of a picture cannot be read."""
    from PIL import Image

    with Image.open(path) as picture:
        return round(60 * picture.width / DOTS_PER_INCH)  # letters of 10 points are then 8 pixels high


def _embedded(path: Path) -> str:
    kinds = {".png": "image/png", ".gif": "image/gif", ".mp4": "video/mp4"}
    return _data(kinds[path.suffix], path.read_bytes())


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _numbers(numbers: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{_text(name)}</td><td>{_text(rounded(value))}</td></tr>" for name, value in numbers.items()
    )
    return f"<h3>Numbers</h3><table>{rows}</table>"


def rounded(value: Any) -> str:
    """A number of a figure with four digits; other values as they are."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _verdicts(verdicts: list[dict[str, Any]]) -> str:
    if not verdicts:
        return ""
    rows = "".join(
        f'<tr><td class="{one["verdict"]}">{one["verdict"].replace("_", " ")}</td><td>{_text(one["statement"])} '
        f'<span class="small">({_text(one["paper"])})</span><br><span class="small">{_text(one["explanation"])}</span>'
        "</td></tr>"
        for one in verdicts
    )
    return f"<h3>What theory says of this run</h3><table>{rows}</table>"


def _recipe(figure: Figure, made: Made) -> str:
    """The command and the parameters that make a figure again."""
    others = {name: value for name, value in made.settings.items() if name != "seed"}
    settings = "; ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in others.items())
    seed = f"Seed {made.settings['seed']}. " if "seed" in made.settings else ""
    return (
        f"<h3>Make it again</h3><pre>{_text(remake_command(figure, made))}</pre>"
        f'<p class="small">{seed}Parameters: <code>{_text(settings)}</code>. It took {made.seconds:.1f} s.</p>'
    )


def _text(value: Any) -> str:
    """A value as text of HTML."""
    return html.escape(str(value))
