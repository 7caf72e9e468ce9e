"""Gallery: every figure of `attnflow reproduce` with its text, numbers, command and code.

Pictures are made as the site is built, in their quick size: of the figures that take four seconds or less, of all in a
full build, of the fastest in a small one. Those in `_build/figures` that the same code has made are used again.
"""

import html
import shutil
from pathlib import Path

from generated import contents, linked, size_of_build, write_page
from sphinx.application import Sphinx

from attnflow._common import extras
from attnflow.figures.catalogue import CHAPTERS, catalogue
from attnflow.figures.figure import Figure
from attnflow.figures.make import make
from attnflow.figures.records import Made

QUICK_SECONDS = {"small": 0.3, "html": 4.0, "full": float("inf")}  # of the figures that a build makes


def setup(app: Sphinx) -> dict:
    """Write the pages before the sources are read."""
    app.connect("builder-inited", lambda app: write_gallery(Path(app.srcdir)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_gallery(source: Path) -> None:
    """Make the figures and write a page for each chapter."""
    pages = []
    for number, (chapter, modules) in enumerate(CHAPTERS.items(), start=1):
        figures = [figure for module in modules for figure in module.FIGURES]
        sections = [_section(source, figure, made_figure(source, figure)) for figure in figures]
        write_page(source, f"gallery/chapter_{number}.md", "\n\n".join([f"# {chapter}", *sections]) + "\n")
        pages.append(f"chapter_{number}")
    introduction = (
        f"{len(catalogue())} published figures, each made by one command, `attnflow reproduce NAME`: picture "
        "(PNG, PDF), data (netCDF), a script that draws it from the data, numbers, and the verdicts of the theorems "
        "that apply. `--set n=80` changes a parameter, and in Python every figure is a function: "
        "`attnflow.figures.polytope_2d(n=80)`. Pictures here have the size of `--quick`."
    )
    write_page(source, "gallery/index.md", contents("Gallery", introduction, pages))


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


def _section(source: Path, figure: Figure, made: Made | None) -> str:
    parts = [f"(figure-{figure.id})=\n## {figure.title}", figure.shows, f"Source: {linked(figure.source)}."]
    if figure.deviates:
        parts.append(f"Differs from the published figure: {figure.deviates}")
    parts.append(f"```console\n$ attnflow reproduce {figure.id}\n```")
    if made is None:
        parts.append("This build of the site leaves out the picture; `make -C docs full` makes all.")
    else:
        links = " · ".join(f'<a href="../../figures/{name}">{name}</a>' for name in made.files)
        picture = f'<img src="../../figures/{picture_of(made)}" alt="{html.escape(figure.title)}" loading="lazy">'
        parts.append(f"```{{raw}} html\n{picture}\n<p>{links}</p>\n```")
        rows = "\n".join(f"| {name} | {value} |" for name, value in made.numbers.items())
        parts.append(f"| Number | Value |\n|---|---|\n{rows}" if rows else "")
        for name in made.files:
            if name.endswith(".py"):
                script = (source / "_build" / "figures" / name).read_text("utf-8").strip()
                parts.append(f":::{{dropdown}} The script that draws it\n```python\n{script}\n```\n:::")
    return "\n\n".join(part for part in parts if part)
