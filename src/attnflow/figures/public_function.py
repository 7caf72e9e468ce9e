"""Functions that make figures in Python: `attnflow.figures.polytope_2d(n=80)` and its sisters."""

import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.figure
import xarray as xr

from attnflow._common import extras
from attnflow._common.checks import InputError
from attnflow._common.progress import Progress
from attnflow.figures.catalogue import catalogue, find
from attnflow.figures.data_file import figure_id, stamped
from attnflow.figures.drawing import drawn
from attnflow.figures.parameters import changed_figure, parameter_list
from attnflow.results.provenance import kind_of
from attnflow.show.parts.picture import HEADLINE, Title
from attnflow.show.parts.style import save_figure

OPTIONS = {"quick": False, "size": None, "style": None, "palette": None, "title": HEADLINE, "progress": None}
"""Arguments of all functions of figures, besides the parameters."""


class DrawnFigure(NamedTuple):
    """A figure and the data that it shows."""

    figure: matplotlib.figure.Figure
    data: xr.Dataset


def draw(
    data: xr.Dataset,
    *,
    size: str | Sequence[float] | None = None,
    style: str | None = None,
    palette: str | Sequence[Any] | None = None,
    title: Title = HEADLINE,
) -> matplotlib.figure.Figure:
    """Draw a figure from its data, as `attnflow reproduce` writes them to a file or a figure's function returns them.

    Parameters
    ----------
    data
        The dataset of a figure.
    size
        ``"column"`` (3.4 inches wide), ``"page"`` (7), ``"slide"`` (13.33 by 7.5), or (width, height) in inches.
    style
        ``"paper"``, ``"slides"`` or ``"dark"``; by default that of the size.
    palette
        A colormap of matplotlib by its name, or a list of colours.
    title
        Instead of the headline; None: no title and no caption, which `caption` gives for the text of a paper.

    Examples
    --------
    >>> from attnflow import figures
    >>> data = figures.force(beta=3.0).data
    >>> float(figures.draw(data, size="column", title=None).get_figwidth())
    3.4
    """
    return drawn(find(figure_id(data)), data, size=size, style=style, palette=palette, title=title)


def caption(data: xr.Dataset) -> str:
    """The title and the caption of a figure, computed from its data.

    Examples
    --------
    >>> from attnflow import figures
    >>> figures.caption(figures.force(beta=3.0).data)
    'The force between two tokens at an angle.'
    """
    picture = find(figure_id(data)).draw(data)
    return " ".join(f"{text}." if text[-1] != "." else text for text in (picture.title, picture.caption) if text)


def numbers(data: xr.Dataset) -> dict[str, float | int | str]:
    """The numbers that are printed beside a figure, from its data.

    Examples
    --------
    >>> from attnflow import figures
    >>> round(figures.numbers(figures.force(beta=3.0).data)["tau*"], 4)
    0.5602
    """
    return find(figure_id(data)).numbers(data)


def runs(data: xr.Dataset) -> dict[str, xr.Dataset]:
    """The runs that a figure shows, by what tells them apart: results that `verify`, `describe` and `show` take.

    Empty for figures whose data hold statistics of runs and no tokens over time.

    Examples
    --------
    >>> import attnflow as af
    >>> data = af.figures.multihead_circle(n=[4, 8], saves=5, progress=False).data
    >>> {name: run.sizes["token"] for name, run in af.figures.runs(data).items()}
    {'n = 4': 4, 'n = 8': 8}
    """
    entry = find(figure_id(data))
    if entry.runs is not None:
        return entry.runs(data)
    return {entry.title: data} if kind_of(data) is not None and "tokens" in data else {}


def save(figure: matplotlib.figure.Figure, path: str | os.PathLike) -> Path:
    """Write a figure as PNG, PDF or SVG by the suffix of the path.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from attnflow import figures
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     figures.save(figures.force(size="column").figure, Path(folder) / "force.pdf").name
    'force.pdf'
    """
    return save_figure(figure, path)


def function_of(name: str) -> Callable[..., DrawnFigure]:
    """The function that makes the figure of an id; its arguments are the parameters of the figure."""
    entry = catalogue()[name]

    def make_figure(
        *,
        quick: bool = False,
        size: Any = None,
        style: str | None = None,
        palette: Any = None,
        title: Title = HEADLINE,
        progress: Progress = None,
        **parameters: Any,
    ) -> DrawnFigure:
        chosen = changed_figure(entry, parameters)
        if entry.needs and (missing := extras.missing(entry.needs)):
            raise InputError(extras.needs(f"The figure {name}", *missing))
        data = stamped(chosen, chosen.compute(progress, **chosen.settings_of(quick)), is_quick=quick)
        return DrawnFigure(drawn(chosen, data, size=size, style=style, palette=palette, title=title), data)

    keyword = lambda argument, default: inspect.Parameter(argument, inspect.Parameter.KEYWORD_ONLY, default=default)
    options = [keyword(*option) for option in OPTIONS.items()]
    arguments = [keyword(argument, default) for argument, default in entry.parameters_of(False).items()]
    make_figure.__signature__ = inspect.Signature([*arguments, *options], return_annotation=DrawnFigure)  # type: ignore[attr-defined]
    make_figure.__name__ = make_figure.__qualname__ = entry.function_name
    make_figure.__doc__ = (
        f"Make the figure {name}: {entry.title}.\n\n{entry.shows}\n\nSource: {entry.source}.\n\n"
        f"Parameters and their values in the catalogue: {parameter_list(entry)}. `quick=True` replaces some of them by "
        "smaller ones; `size`, `style`, `palette` and `title` are those of `figures.draw`. Returns the "
        "matplotlib figure and the dataset that it shows.\n\nExamples\n--------\n>>> import attnflow as af\n"
        f">>> figure, data = af.figures.{entry.function_name}(quick=True, size='column')"
    )
    return make_figure
