"""The report: one HTML file that holds every figure; it loads nothing and can be printed."""

import base64
import datetime
import html
import io
import json
import shlex
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Any

from attnflow._common.files import written_beside
from attnflow.figures.catalogue import chapter_of
from attnflow.figures.figure import Figure
from attnflow.figures.make import LIBRARIES, Made, stem

HERE = Path(__file__).parent
THUMBNAIL = (400, 300)  # pixels: about twice the size at which it is shown, for screens of high resolution
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
    """Command that makes a figure again, with its model if that is not the one of the catalogue."""
    model = made.settings.get("model")
    other = f" --model {shlex.quote(model)}" if model and model != figure.settings["model"] else ""
    return f"attnflow reproduce {figure.id}{' --quick' if made.is_quick else ''}{other}"


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
        links = "".join(f'<li><a href="#{figure.id}">{_text(figure.title)}</a></li>' for figure, _ in entries)
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
    image = f'<img class="thumb" src="{_thumbnail_data(folder / made.files[0])}" alt="">' if made.files else ""
    return f'<a href="#{figure.id}">{image}{_text(figure.title)}</a>'


def _thumbnail_data(path: Path) -> str:
    """A small image of the right part of a wide picture, which shows late times, or the upper part of a tall one."""
    from PIL import Image

    with Image.open(path) as picture:
        width, height = picture.size
        side = min(width / THUMBNAIL[0], height / THUMBNAIL[1])
        left, lower = round(width - side * THUMBNAIL[0]), round(side * THUMBNAIL[1])
        small = picture.convert("RGB").crop((left, 0, width, lower)).resize(THUMBNAIL, Image.Resampling.LANCZOS)
    content = io.BytesIO()
    small.quantize(64).save(content, "PNG", optimize=True)
    return _data("image/png", content.getvalue())


def _chapter(name: str, entries: Entries, folder: Path) -> str:
    heading = f'<h2 class="chapter">{_text(name)}</h2>' if name else ""
    return heading + "".join(_article(figure, made, folder) for figure, made in entries)


def _footer(entries: Entries) -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    libraries = ", ".join(f"{name} {version(name)}" for name in ("attnflow", *LIBRARIES))
    seconds = sum(made.seconds for _, made in entries)
    return f"{libraries}. Computed in {seconds:.0f} s, written {today}."


def _article(figure: Figure, made: Made, folder: Path) -> str:
    parts = [
        f'<article id="{figure.id}"><a class="top" href="#top">\u2191 top</a><h2>{_text(figure.title)}</h2>',
        f'<p class="source">{_text(figure.source)} &middot; <code>{figure.id}</code></p>',
        f'<p class="quick">Quick version: {_replaced(figure)}</p>' if made.is_quick else "",
        f"<p>{_text(figure.shows)}</p>",
    ]
    if not made.is_there:
        return "".join([*parts, f'<p class="quick">{_text(made.note)}</p></article>'])
    name = stem(figure, made.is_quick)
    parts += [_media(figure, name, made, folder), _numbers(made.numbers), _verdicts(made.verdicts)]
    if figure.deviates:
        parts.append(f"<h3>How it differs from what was published</h3><p>{_text(figure.deviates)}</p>")
    parts.append(_recipe(figure, made))
    return "".join([*parts, "</article>"])


def _replaced(figure: Figure) -> str:
    """Sentence on the parameters of the quick figure."""
    if not figure.quick:
        return "the same as the full figure."
    changes = ", ".join(f"{name} = {value} for {figure.settings.get(name)}" for name, value in figure.quick.items())
    return f"smaller than the full figure, with {_text(changes)}."


def _media(figure: Figure, name: str, made: Made, folder: Path) -> str:
    image = f'<img src="{_embedded(folder / f"{name}.png")}" alt="{_text(figure.title)}">'
    picture = f'<a href="{name}.png" title="In full size">{image}</a>'
    moving = ""
    if f"{name}.mp4" in made.files:
        moving = f'<video controls loop muted playsinline src="{_embedded(folder / f"{name}.mp4")}"></video>'
    elif f"{name}.gif" in made.files:
        alternative = f"Movie: {_text(figure.title)}"
        moving = f'<img class="moving" src="{_embedded(folder / f"{name}.gif")}" alt="{alternative}">'
    links = ", ".join(f'<a href="{file}">{file}</a>' for file in made.files)
    return f'<figure>{picture}{moving}<figcaption class="small">Files beside this page: {links}</figcaption></figure>'


def _embedded(path: Path) -> str:
    kinds = {".png": "image/png", ".gif": "image/gif", ".mp4": "video/mp4"}
    return _data(kinds[path.suffix], path.read_bytes())


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _numbers(numbers: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{_text(name)}</td><td>{_text(_rounded(value))}</td></tr>" for name, value in numbers.items()
    )
    return f"<h3>Numbers</h3><table>{rows}</table>"


def _rounded(value: Any) -> str:
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
