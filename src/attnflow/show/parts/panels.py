"""`board`: several drawings side by side, and the plain ones: lines, matrices, points."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, ScalarFormatter

from attnflow.show.parts.style import (
    GREY,
    OKABE_ITO,
    fix_ticks,
    in_house_style,
    legend_below,
    new_figure,
    write_heading,
)
from attnflow.show.runs.attention import colour_scale, draw_bar, draw_matrix

PANEL = 3.1  # inches
ABOVE_MARKS = 10.0  # points from a matrix to its title, with the triangles between
MANY_DECADES = 1e3  # from least to largest: over these the strokes between decades only add ink
MOST_MARKED = 32  # points of a line that are marked one by one: of more the marks would hide it


class Panel(Protocol):
    """Something that fills one place of a board."""

    @property
    def projection(self) -> str:
        """That matplotlib should make the axes with: "rectilinear" or "3d"."""
        ...

    def draw(self, axes: Any) -> None:
        """Draw it into empty axes."""
        ...


@dataclass(frozen=True)
class Line:
    """One line of `Lines`, or its points where `marker` is given and `style` is empty.

    Points of a line are marked while they are few.
    """

    x: Any
    y: Any
    label: str = ""
    colour: str = ""
    style: str = "-"
    marker: str = ""
    band: tuple[Any, Any] | None = None
    """Lower and upper edge of a shaded band around it."""
    width: float = 1.4
    alpha: float = 1.0


@dataclass(frozen=True)
class Lines:
    """Lines against a common axis, with marked levels; the legend stands below."""

    lines: Sequence[Line]
    xlabel: str = "time t"
    ylabel: str = ""
    title: str = ""
    xscale: str = "linear"
    yscale: str = "linear"
    levels: dict[str, float] = field(default_factory=dict)
    """Horizontal lines by name."""
    moments: dict[str, float] = field(default_factory=dict)
    """Vertical lines by name."""
    xlim: tuple[float, float] | None = None
    ylim: tuple[float | None, float | None] | None = None
    xticks: Sequence[float] = ()
    """Where the numbers of the axis are; by default where matplotlib puts them."""
    counts: bool = False
    """Whether x is a whole number, such as a layer: no ticks between."""
    is_square: bool = False
    """One scale for both axes."""
    columns: int = 1
    """Of the legend."""
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Draw it into empty axes."""
        axes.set(xscale=self.xscale, yscale=self.yscale, xlabel=self.xlabel, ylabel=self.ylabel)
        for place, line in enumerate(self.lines):
            _draw_line(axes, line, line.colour or OKABE_ITO[place % len(OKABE_ITO)])
        for name, height in self.levels.items():
            axes.axhline(height, color=GREY, linewidth=0.9, linestyle=":", label=name, zorder=1)
        for name, moment in self.moments.items():
            axes.axvline(moment, color=GREY, linewidth=0.9, linestyle="--", label=name, zorder=1)
        axes.set_title(self.title, loc="left")
        axes.set(**{name: limit for name in ("xlim", "ylim") if (limit := getattr(self, name)) is not None})
        if self.is_square:
            axes.set_aspect("equal")
        if len(self.xticks):
            axes.xaxis.set_major_locator(FixedLocator(list(self.xticks)))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(ScalarFormatter())
        if self.counts:
            axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True, steps=[1, 2, 5, 10]))
        for axis, ends in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            if axis.get_scale() == "log" and ends[1] > MANY_DECADES * ends[0]:
                axis.set_minor_locator(NullLocator())
        axes.grid(True, which="major")
        axes.set_axisbelow(True)
        fix_ticks(axes)
        if axes.get_legend_handles_labels()[1]:
            legend_below(axes, self.columns)


@dataclass(frozen=True)
class Matrix:
    """An attention matrix; `columns` are marked above, as the tokens that lead."""

    values: np.ndarray
    title: str = ""
    columns: Sequence[int] = ()
    scale: Normalize | None = None
    has_bar: bool = False
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Draw it into empty axes."""
        image = draw_matrix(axes, self.values, self.scale or colour_scale(self.values[None]), "")
        axes.set_title(self.title, loc="left", pad=ABOVE_MARKS)
        if len(self.columns):
            style: dict[str, Any] = {"clip_on": False, "marker": "v", "s": 26, "color": OKABE_ITO[1], "zorder": 5}
            axes.scatter(self.columns, np.full(len(self.columns), -1.2), **style)
            axes.set_ylim(len(self.values) - 0.5, -0.5)
        if self.has_bar:
            draw_bar(axes, image)


@in_house_style()
def panel_figure(
    rows: Sequence[Sequence[Panel]],
    title: str,
    caption: str = "",
    *,
    width: float = PANEL,
    heights: Sequence[float] | None = None,
) -> Figure:
    """Draw rows of drawings under one title, a panel being `width` inches wide in the longest row.

    Parameters
    ----------
    rows
        Drawings; a shorter row stretches to the width of the longest.
    title, caption
        Above and below all of them.
    width
        Inches of a panel in the longest row.
    heights
        Inches of every row; by default `width`.
    """
    heights = list(heights or [width] * len(rows))
    columns = max(len(row) for row in rows)
    figure = new_figure(0.3 + width * columns, 0.75 + sum(heights))
    outer = figure.add_gridspec(len(rows), 1, height_ratios=heights)
    for place, row in enumerate(rows):
        inner = outer[place].subgridspec(1, len(row))
        for column, drawing in enumerate(row):
            drawing.draw(figure.add_subplot(inner[column], projection=drawing.projection))
    write_heading(figure, title, caption)
    return figure


def _draw_line(axes: Axes, line: Line, colour: str) -> None:
    marker = "" if line.style and np.size(line.x) > MOST_MARKED else line.marker
    style: dict[str, Any] = {"color": colour, "linestyle": line.style or "none", "marker": marker}
    axes.plot(line.x, line.y, label=line.label or None, linewidth=line.width, alpha=line.alpha, markersize=4.5, **style)
    if line.band is not None:
        axes.fill_between(line.x, *line.band, color=colour, alpha=0.18, linewidth=0)
