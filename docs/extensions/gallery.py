"""Gallery: every figure of `attnflow reproduce` with its text, numbers, command and code, and players of its runs.

Pictures are made as the site is built, in their quick size: of the figures that take eight seconds or less, of all in a
full build, of the fastest in a small one. Those in `_build/figures` that the same code has made are used again.
"""

import functools
import html
import re
import shutil
from pathlib import Path
from typing import Any

import generated
from generated import contents, linked, size_of_build, write_page
from sphinx.application import Sphinx
from statement_mathematics import mathematics

import attnflow as af
from attnflow._common import extras
from attnflow.figures.catalogue import CHAPTERS, catalogue
from attnflow.figures.data_file import read_data
from attnflow.figures.figure import Figure
from attnflow.figures.html_report import rounded
from attnflow.figures.make import make
from attnflow.figures.records import Made
from attnflow.figures.thumbnails import thumbnail

FRAMES = 150  # of a player: a megabyte for 40 tokens
QUICK_SECONDS = {"small": 0.3, "html": 8.0, "full": float("inf")}  # of the figures that a build makes


def setup(app: Sphinx) -> dict:
    """Write the pages before the sources are read."""
    app.connect("builder-inited", lambda app: write_gallery(Path(app.srcdir)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_gallery(source: Path) -> None:
    """Make the figures and write a page for each chapter."""
    pages, cards = [], []
    for number, (chapter, modules) in enumerate(CHAPTERS.items(), start=1):
        page = f"chapter_{number}"
        figures = [(one, made_figure(source, one)) for module in modules for one in module.FIGURES]
        sections = [_section(source, figure, made) for figure, made in figures]
        write_page(source, f"gallery/{page}.md", "\n\n".join([f"# {chapter}", *sections]) + "\n")
        pages.append(page)
        shown = "".join(_card(source, page, figure, made) for figure, made in figures)
        cards.append(f'## [{chapter}]({page}.md)\n\n{_raw(f"""<div class="cards">{shown}</div>""")}')
    introduction = (
        f"{len(catalogue())} published figures, each made by one command, `attnflow reproduce NAME`: picture "
        "(PNG, PDF), data (netCDF), a script that draws it from the data, numbers, and the verdicts of the theorems "
        "that apply. `--set n=80` changes a parameter, and in Python every figure is a function: "
        "`attnflow.figures.polytope_2d(n=80)`. Pictures here have the size of `--quick`."
    )
    write_page(
        source, "gallery/index.md", contents("Gallery", "\n\n".join([introduction, *cards]), pages, is_hidden=True)
    )


def made_figure(source: Path, figure: Figure, is_wanted: bool = False) -> Made | None:
    """The record of a figure, also if it takes long and `is_wanted`; None where this build does not make it."""
    is_quick = figure.seconds[1] <= QUICK_SECONDS[size_of_build()]
    if not (is_quick or is_wanted) or (figure.needs and extras.missing(figure.needs)):
        return None
    folder, shown = source / "_build" / "figures", source / "_build" / "extra" / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    shown.mkdir(parents=True, exist_ok=True)
    made = make(figure, folder, is_quick=True, progress=False)
    if picture_of(made) is None:
        raise RuntimeError(f"The figure {figure.id} has no picture: {made.note}")
    for name in made.files:
        shutil.copy2(folder / name, shown / name)
    return made


def picture_of(made: Made) -> str | None:
    """The name of the PNG file of a figure."""
    return next((name for name in made.files if name.endswith(".png")), None)


def _card(source: Path, page: str, figure: Figure, made: Made | None) -> str:
    """A link to the section of a figure, with one panel of its picture where there is one."""
    panel = ""
    if made is not None:
        name = f"{figure.id}-thumbnail.png"
        picture = source / "_build" / "figures" / str(picture_of(made))
        (source / "_build" / "extra" / "figures" / name).write_bytes(thumbnail(picture, made.panel))
        panel = f'<img src="../../figures/{name}" alt="" loading="lazy">'
    return f'<a href="{page}.html#figure-{figure.id}">{panel}<strong>{html.escape(figure.title)}</strong></a>'


def _players(source: Path, made: Made) -> str:
    """Players of the runs that a figure shows, as tabs where there are several; its movie where it has no whole run."""
    folder, shown = source / "_build" / "figures", source / "_build" / "extra" / "figures"
    data = next(name for name in made.files if name.endswith(".nc"))
    frames = {}
    for place, (name, run) in enumerate(af.figures.runs(read_data(folder / data)).items()):
        page = shown / f"{Path(data).stem}-player-{place}.html"
        generated.made(page, functools.partial(af.show.html, run, title=name, frames=FRAMES))
        attributes = f'src="../../figures/{page.name}" title="{html.escape(name)}"'
        frames[name] = f'<iframe class="player" {attributes} loading="lazy"></iframe>'
    if len(frames) > 1:
        tabs = [f":::{{tab-item}} {name}\n{_raw(frame)}\n:::" for name, frame in frames.items()]
        return "\n".join(["::::{tab-set}", *tabs, "::::"])
    if frames:
        return _raw(*frames.values())
    movie = next((name for name in made.files if name.endswith(".gif")), None)
    return _raw(f'<img src="../../figures/{movie}" alt="The tokens over time" loading="lazy">') if movie else ""


def _raw(text: str) -> str:
    return f"```{{raw}} html\n{text}\n```"


def _verdicts(verdicts: list[dict[str, Any]]) -> str:
    """A table of the statements that are checked on a figure, with links to their pages."""
    rows = "\n".join(
        f"| {{ref}}`{one['id']}` | {one['verdict'].replace('_', ' ')} | {_cell(one['explanation'])} |"
        for one in verdicts
    )
    return f"| Statement | On this run | What was measured |\n|---|---|---|\n{rows}" if rows else ""


def _cell(text: str) -> str:
    """A text of a table with its mathematics, in which a bar would begin the next cell."""
    return re.sub(r"\$[^$]+\$", lambda formula: formula[0].replace("|", r"\vert "), mathematics(text))


def _section(source: Path, figure: Figure, made: Made | None) -> str:
    parts = [
        f"(figure-{figure.id})=\n## {figure.title}",
        mathematics(figure.shows),
        f"Source: {linked(figure.source)}.",
    ]
    if figure.deviates:
        parts.append(f"Differs from the published figure: {mathematics(figure.deviates)}")
    parts.append(f"```console\n$ attnflow reproduce {figure.id}\n```")
    if made is None:
        parts.append("This build of the site leaves out the picture; `make -C docs full` makes all.")
    else:
        links = " · ".join(f'<a href="../../figures/{name}">{name}</a>' for name in made.files)
        picture = f'<img src="../../figures/{picture_of(made)}" alt="{html.escape(figure.title)}" loading="lazy">'
        parts += [_raw(f"{picture}\n<p>{links}</p>"), _players(source, made)]
        rows = "\n".join(f"| {_cell(name)} | {_cell(rounded(value))} |" for name, value in made.numbers.items())
        parts.append(f"| Number | Value |\n|---|---|\n{rows}" if rows else "")
        parts.append(_verdicts(made.verdicts))
        for name in made.files:
            if name.endswith(".py"):
                script = (source / "_build" / "figures" / name).read_text("utf-8").strip()
                parts.append(f":::{{dropdown}} The script that draws it\n```python\n{script}\n```\n:::")
    return "\n\n".join(part for part in parts if part)
