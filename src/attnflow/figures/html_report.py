"""The report: one HTML file with every figure in it, which needs no network and prints well."""

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
from typing import Any

from PIL import Image

from attnflow._common.files import written_beside
from attnflow.figures.catalogue import chapter_of
from attnflow.figures.figure import Figure
from attnflow.figures.make import LIBRARIES, Made, stem

STYLE = """
:root { color-scheme: light dark; --ink: #1d1f23; --paper: #ffffff; --soft: #5c6370; --line: #d9dce2;
  --tint: #f5f6f8; --accent: #0072b2; --good: #00734f; --bad: #b5450a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ee; --paper: #16181d; --soft: #a2a9b5; --line: #343943;
  --tint: #1f232a; --accent: #6cbcec; --good: #4cc79b; --bad: #f0935a; } img, video { filter: brightness(.92); } }
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0; color: var(--ink); background: var(--paper); font: 16px/1.55 system-ui, sans-serif;
  overflow-wrap: anywhere; }
main, header, footer { max-width: 62rem; margin: 0 auto; padding: 0 1.2rem; } nav { display: none; }
header { padding-top: 2.2rem; } h1 { margin: 0 0 .5rem; font-size: 1.9rem; line-height: 1.2; }
.chapter { margin: 3rem 0 1rem; font-size: 1.55rem; } article h2 { margin: 0 0 .2rem; font-size: 1.3rem; }
h3 { margin: 1.3rem 0 .3rem; font-size: 1.05rem; } a { color: var(--accent); }
nav p { margin: 1rem 0 .2rem; font-weight: 600; }
nav ul { list-style: none; margin: 0; padding: 0; } nav li { margin: .15rem 0; font-size: .92rem; line-height: 1.35; }
nav a, .thumbs a, .top { text-decoration: none; } nav a:hover, .thumbs a:hover { text-decoration: underline; }
.thumbs { display: grid; grid-template-columns: repeat(auto-fill, minmax(10.5rem, 1fr)); gap: .9rem;
  margin: .8rem 0 2rem; }
.thumbs a { display: block; color: var(--ink); font-size: .84rem; line-height: 1.3; }
.thumbs img { display: block; width: 100%; margin-bottom: .3rem; border: 1px solid var(--line); }
article { border-top: 1px solid var(--line); padding: 1.8rem 0; }
.source, .small { color: var(--soft); font-size: .88rem; margin: 0 0 .6rem; }
.top { float: right; font-size: .88rem; }
.quick { background: var(--tint); border-left: 3px solid var(--bad); padding: .3rem .7rem; font-size: .9rem; }
figure { margin: .8rem 0; } img, video { max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
video, .moving { display: block; margin: .8rem auto 0; max-width: 30rem; width: 100%; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; } td { border-bottom: 1px solid var(--line);
  padding: .25rem .6rem .25rem 0; vertical-align: top; } td + td { font-variant-numeric: tabular-nums; }
.holds { color: var(--good); font-weight: 600; } .fails { color: var(--bad); font-weight: 600; }
.undecided, .not_applicable { color: var(--soft); font-weight: 600; }
.holds, .fails, .undecided, .not_applicable { white-space: nowrap; }
code, pre { font: .86rem/1.5 ui-monospace, monospace; } pre { background: var(--tint); padding: .6rem .8rem;
  overflow-x: auto; border-radius: 6px; white-space: pre-wrap; }
footer { padding-bottom: 3rem; }
@media (min-width: 80rem) { body { display: grid; grid-template-columns: 19rem minmax(0, 1fr); }
  header, main, footer { grid-column: 2; width: 100%; margin: 0; padding-left: 2.5rem; }
  nav { display: block; grid-column: 1; grid-row: 1 / span 3; position: sticky; top: 0; height: 100vh;
    overflow-y: auto; padding: 1.2rem 1.2rem 2rem; border-right: 1px solid var(--line); } }
@media print { :root { --ink: #000; --paper: #fff; --soft: #444; --line: #bbb; --tint: #f3f3f3; --good: #00734f;
    --bad: #b5450a; --accent: #000; } body { display: block; font-size: 11pt; }
  nav, video, .moving, .top { display: none; } a { text-decoration: none; } img { filter: none; }
  article { break-before: page; border: 0; } .chapter { break-before: page; margin-top: 0; }
  .chapter + article { break-before: avoid; } figure, tr, pre, .thumbs a { break-inside: avoid; }
  h2, h3 { break-after: avoid; } figure img { max-height: 70vh; } }
"""
KINDS = {".png": "image/png", ".gif": "image/gif", ".mp4": "video/mp4"}
THUMBNAIL = (400, 300)  # about twice what it is shown at, for sharp screens
VERDICTS = {"holds": "hold", "undecided": "are undecided", "fails": "fail", "not_applicable": "do not apply"}
Entries = Sequence[tuple[Figure, Made]]
Chapters = Sequence[tuple[str, Entries]]


def write_report(entries: Entries, folder: Path, *, is_quick: bool) -> Path:
    """Write ``report.html`` (``report-quick.html``) from figures and what making them gave. Returns its path."""
    path = folder / ("report-quick.html" if is_quick else "report.html")
    with written_beside(path) as beside:
        beside.write_text(_page(entries, folder, is_quick), encoding="utf-8")
    return path


def remake_command(figure: Figure, made: Made) -> str:
    """What makes this one figure again, with the model it was made with if that is not the catalogue's."""
    model = made.settings.get("model")
    other = f" --model {shlex.quote(model)}" if model and model != figure.settings["model"] else ""
    return f"attnflow reproduce {figure.id}{' --quick' if made.is_quick else ''}{other}"


def _page(entries: Entries, folder: Path, is_quick: bool) -> str:
    chapters = [(name, list(group)) for name, group in groupby(entries, lambda entry: chapter_of(entry[0].id))]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Self-attention dynamics: figures</title><style>{STYLE}</style></head><body>"
        f"{_contents(chapters)}{_header(entries, is_quick)}"
        f"<main>{_overview(chapters, folder)}{''.join(_chapter(*one, folder) for one in chapters)}</main>"
        f"{_footer(entries)}</body></html>\n"
    )


def _header(entries: Entries, is_quick: bool) -> str:
    counts = Counter(one["verdict"] for _, made in entries for one in made.verdicts)
    verdicts = ", ".join(f"{counts[name]} {words}" for name, words in VERDICTS.items() if counts[name])
    kind = "the long ones smaller, as each of them says" if is_quick else "in full size"
    return (
        '<header id="top"><h1>Self-attention dynamics: the published figures, made again</h1>'
        f"<p>The tokens of a transformer as particles that attract each other through attention: {len(entries)} "
        f"figures, {kind}, each computed from scratch. Beside every picture stand its numbers, what the "
        "theorems that apply say of this very run, how it differs from what was published, and the command to make it "
        "again.</p>"
        f'<p class="small">{f"Of the verdicts {verdicts}. " if verdicts else ""}A verdict holds or fails by a '
        "number; it is undecided where the limit that a theorem speaks of is not reached yet.</p></header>"
    )


def _contents(chapters: Chapters) -> str:
    """All titles, beside the page where there is room."""
    parts = []
    for name, entries in chapters:
        links = "".join(f'<li><a href="#{figure.id}">{_text(figure.title)}</a></li>' for figure, _ in entries)
        parts.append(f"<p>{_text(name)}</p><ul>{links}</ul>")
    return f'<nav aria-label="Contents">{"".join(parts)}</nav>'


def _overview(chapters: Chapters, folder: Path) -> str:
    """All pictures at a glance."""
    parts = []
    for name, entries in chapters:
        cells = "".join(_thumbnail(figure, made, folder) for figure, made in entries)
        parts.append(f'{f"<h3>{_text(name)}</h3>" if name else ""}<div class="thumbs">{cells}</div>')
    return "".join(parts)


def _thumbnail(figure: Figure, made: Made, folder: Path) -> str:
    image = f'<img class="thumb" src="{_small(folder / made.files[0])}" alt="">' if made.files else ""
    return f'<a href="#{figure.id}">{image}{_text(figure.title)}</a>'


def _small(path: Path) -> str:
    """The right part of a wide picture, where time has gone on; the upper part of a tall one."""
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
    return f'<footer class="small">{libraries}. Computed in {seconds:.0f} s, written {today}.</footer>'


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
    if not figure.quick:
        return "the same as the full figure."
    words = ", ".join(f"{name} = {value} for {figure.settings.get(name)}" for name, value in figure.quick.items())
    return f"smaller than the full figure, with {_text(words)}."


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
    return _data(KINDS[path.suffix], path.read_bytes())


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _numbers(numbers: dict[str, Any]) -> str:
    rows = "".join(f"<tr><td>{_text(name)}</td><td>{_text(_shown(value))}</td></tr>" for name, value in numbers.items())
    return f"<h3>Numbers</h3><table>{rows}</table>"


def _shown(value: Any) -> str:
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
    others = {name: value for name, value in made.settings.items() if name != "seed"}
    settings = "; ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in others.items())
    seed = f"Seed {made.settings['seed']}. " if "seed" in made.settings else ""
    return (
        f"<h3>Make it again</h3><pre>{_text(remake_command(figure, made))}</pre>"
        f'<p class="small">{seed}Parameters: <code>{_text(settings)}</code>. It took {made.seconds:.1f} s.</p>'
    )


def _text(words: str) -> str:
    return html.escape(str(words))
