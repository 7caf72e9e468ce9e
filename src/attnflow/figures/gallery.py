"""The report: one HTML file with every figure in it, which needs no network and prints well."""

import base64
import datetime
import html
import json
import shlex
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attnflow._files import written_beside
from attnflow.figures.figure import Figure
from attnflow.figures.make import Made, stem

STYLE = """
:root { --ink: #1d1f23; --paper: #ffffff; --soft: #5c6370; --line: #d9dce2; --tint: #f5f6f8; --accent: #0072b2;
  --good: #00734f; --bad: #b5450a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ee; --paper: #16181d; --soft: #a2a9b5; --line: #343943;
  --tint: #1f232a; --accent: #6cbcec; --good: #4cc79b; --bad: #f0935a; } }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--paper); font: 16px/1.55 system-ui, sans-serif;
  overflow-wrap: anywhere; }
main, header, nav { max-width: 62rem; margin: 0 auto; padding: 0 1.2rem; }
header { padding-top: 2.2rem; } h1 { margin: 0 0 .3rem; font-size: 1.9rem; }
h2 { margin: 0 0 .2rem; font-size: 1.3rem; }
h3 { margin: 1.3rem 0 .3rem; font-size: 1.05rem; } a { color: var(--accent); }
nav ol { columns: 2 20rem; column-gap: 2rem; padding: 0; } nav li { break-inside: avoid; margin-left: 2rem; }
article { border-top: 1px solid var(--line); padding: 1.8rem 0; }
.source, .small { color: var(--soft); font-size: .88rem; margin: 0 0 .6rem; }
.quick { background: var(--tint); border-left: 3px solid var(--bad); padding: .3rem .7rem; font-size: .9rem; }
figure { margin: .8rem 0; } img, video { max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
video, .moving { display: block; margin: .8rem auto 0; max-width: 30rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; } td { border-bottom: 1px solid var(--line);
  padding: .25rem .6rem .25rem 0; vertical-align: top; } td + td { font-variant-numeric: tabular-nums; }
.holds { color: var(--good); font-weight: 600; } .fails { color: var(--bad); font-weight: 600; }
.undecided, .not_applicable { color: var(--soft); font-weight: 600; }
.holds, .fails, .undecided, .not_applicable { white-space: nowrap; }
code, pre { font: .86rem/1.5 ui-monospace, monospace; } pre { background: var(--tint); padding: .6rem .8rem;
  overflow-x: auto; border-radius: 6px; white-space: pre-wrap; }
details summary { cursor: pointer; color: var(--soft); font-size: .92rem; margin-top: .8rem; }
@media print { :root { --ink: #000; --paper: #fff; --soft: #444; --line: #bbb; --tint: #f3f3f3; }
  article { break-inside: avoid-page; } video, .moving { display: none; } a { color: inherit; text-decoration: none; } }
"""
KINDS = {".png": "image/png", ".gif": "image/gif", ".mp4": "video/mp4"}


def write_report(entries: Sequence[tuple[Figure, Made]], folder: Path, *, is_quick: bool) -> Path:
    """Write ``report.html`` (``report-quick.html``) from figures and what making them gave. Returns its path."""
    path = folder / ("report-quick.html" if is_quick else "report.html")
    text = _page([_article(figure, made, folder) for figure, made in entries], entries, is_quick)
    with written_beside(path) as beside:
        beside.write_text(text, encoding="utf-8")
    return path


def remake_command(figure: Figure, made: Made) -> str:
    """What makes this one figure again, with the model it was made with if that is not the catalogue's."""
    model = made.settings.get("model")
    other = f" --model {shlex.quote(model)}" if model and model != figure.settings["model"] else ""
    return f"attnflow reproduce {figure.id}{' --quick' if made.is_quick else ''}{other}"


def _page(articles: list[str], entries: Sequence[tuple[Figure, Made]], is_quick: bool) -> str:
    kind = "Quick report" if is_quick else "Full report"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    seconds = sum(made.seconds for _, made in entries)
    contents = "".join(f'<li><a href="#{figure.id}">{_text(figure.title)}</a></li>' for figure, _ in entries)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Self-attention dynamics: figures</title><style>{STYLE}</style></head><body>"
        "<header><h1>Self-attention dynamics: the published figures, made again</h1>"
        f'<p class="source">{kind}, attnflow {version("attnflow")}, {today}. {len(entries)} figures, '
        f"computed in {seconds:.0f} s.</p></header>"
        f'<nav aria-label="Contents"><ol>{contents}</ol></nav><main>{"".join(articles)}</main></body></html>\n'
    )


def _article(figure: Figure, made: Made, folder: Path) -> str:
    parts = [
        f'<article id="{figure.id}"><h2>{_text(figure.title)}</h2>',
        f'<p class="source">{_text(figure.source)} &middot; <code>{figure.id}</code></p>',
        f'<p class="quick">Quick version: {_replaced(figure)}</p>' if made.is_quick else "",
        f"<p>{_text(figure.shows)}</p>",
    ]
    if made.state == "skipped":
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
    return f"data:{KINDS[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


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
    settings = json.dumps(made.settings, indent=2)
    seed = f"Seed {made.settings['seed']}. " if "seed" in made.settings else ""
    return (
        f"<h3>Make it again</h3><pre>{_text(remake_command(figure, made))}</pre>"
        f'<p class="small">{seed}It took {made.seconds:.1f} s.</p>'
        f"<details><summary>All parameters</summary><pre>{_text(settings)}</pre></details>"
    )


def _text(words: str) -> str:
    return html.escape(str(words))
