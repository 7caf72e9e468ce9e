"""Figures of several panels under one title, and the most common panel: lines against a common axis."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import (
    FixedLocator,
    LogFormatterSciNotation,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
    ScalarFormatter,
)

from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.page import theme
from attnflow.show.parts.picture import Panel, Picture
from attnflow.show.parts.style import fix_ticks, legend_below, line_colour
from attnflow.show.parts.symbols import TIME_AXIS


@dataclass(frozen=True)
class Line:
    """One line of `Lines`; its points alone where `marker` is given and `style` is empty.

    A line of more than 32 points is drawn without markers, which would hide it.
    """

    x: Any
    y: Any
    label: str = ""
    colour: str = ""
    style: str = "-"
    marker: str = ""
    band: tuple[Any, Any] | None = None
    """Lower and upper edge of a shaded band around it."""
    error: Any = None
    """Half the length of a vertical error bar at every point."""
    width: float = 1.4
    alpha: float = 1.0


@dataclass(frozen=True)
class Lines:
    """Panel of lines against a common axis, with marked levels; the legend stands below."""

    lines: Sequence[Line]
    xlabel: str = TIME_AXIS
    ylabel: str = ""
    title: str = ""
    xscale: str = "linear"
    yscale: str = "linear"
    levels: dict[str, float] = field(default_factory=dict)
    """Heights of horizontal lines by name."""
    marked_x: dict[str, float] = field(default_factory=dict)
    """Positions of vertical lines by name."""
    xlim: tuple[float, float] | None = None
    ylim: tuple[float | None, float | None] | None = None
    xticks: Sequence[float] = ()
    """Positions of the numbers of the axis; by default those of matplotlib."""
    yticks: Sequence[float] = ()
    has_integer_x: bool = False
    """Whether x is a whole number, such as a layer: no ticks between."""
    is_square: bool = False
    """One scale for both axes."""
    columns: int = 1
    """Columns of the legend."""
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Draw the panel into empty axes."""
        axes.set(xscale=self.xscale, yscale=self.yscale, xlabel=self.xlabel, ylabel=self.ylabel)
        if self.xscale == "symlog":  # logarithmic from the first number above zero on; decades below it have no points
            above = [x for line in self.lines for x in np.asarray(line.x, float) if x > 0]
            axes.set_xscale("symlog", linthresh=min(above, default=1.0), linscale=0.5)
        for index, line in enumerate(self.lines):
            _draw_line(axes, line, line.colour or line_colour(index))
        for name, height in self.levels.items():
            axes.axhline(height, color=theme().grey, linewidth=0.9, linestyle=":", label=name, zorder=1)
        for name, position in self.marked_x.items():
            axes.axvline(position, color=theme().grey, linewidth=0.9, linestyle="--", label=name, zorder=1)
        axes.set_title(self.title, loc="left")
        self._set_limits_and_ticks(axes)
        axes.grid(True, which="major")
        axes.set_axisbelow(True)
        fix_ticks(axes)
        if axes.get_legend_handles_labels()[1]:
            legend_below(axes, self.columns)

    def _set_limits_and_ticks(self, axes: Axes) -> None:
        if self.xlim is not None:
            axes.set_xlim(self.xlim)
        if self.ylim is not None:
            axes.set_ylim(*self.ylim)
        if self.is_square:
            axes.set_aspect("equal")
        for axis, ticks in ((axes.xaxis, self.xticks), (axes.yaxis, self.yticks)):
            if len(ticks):
                axis.set_major_locator(FixedLocator(list(ticks)))
                axis.set_minor_locator(NullLocator())
                axis.set_major_formatter(ScalarFormatter())
        if self.has_integer_x:
            axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True, steps=[1, 2, 5, 10]))
        given = {axes.xaxis: self.xticks, axes.yaxis: self.yticks}
        for axis, ends in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            if axis.get_scale() == "log" and not len(given[axis]):
                set_log_ticks(axis, *ends)


def set_log_ticks(axis: Axis, low: float, high: float) -> None:
    """Set ticks between the powers of ten of a logarithmic axis that leave room for the numbers."""
    if high > 1e3 * low:  # such ticks would be too dense to be seen apart
        axis.set_minor_locator(NullLocator())
    elif np.floor(np.log10(high)) > np.ceil(np.log10(low)):  # two powers of ten have numbers
        axis.set_minor_formatter(NullFormatter())
    elif high > 3 * low:  # 2 or 5 times a power of ten is on the axis
        axis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        axis.set_minor_formatter(LogFormatterSciNotation(labelOnlyBase=False, minor_thresholds=(np.inf, np.inf)))


def panel_picture(
    rows: Sequence[Sequence[Panel]],
    title: str,
    caption: str = "",
    *,
    width: float = 3.1,
    heights: Sequence[float] | None = None,
    least: float = 2.3,
) -> Picture:
    """Picture of rows of panels under one title.

    Parameters
    ----------
    rows
        Panels; a shorter row stretches to the width of the longest.
    title, caption
        Text above and below all panels.
    width
        Width of a panel in the longest row, in inches.
    heights
        Height of each row, in inches; by default `width`. A row of one panel keeps it on narrower pages.
    least
        Width, in inches and with text of 10 points, below which the longest rows are broken.
    """
    longest = max(len(row) for row in rows)
    given = [
        PanelRow(row, height, least if len(row) == longest else 2.3, is_square=len(row) == 1)
        for row, height in zip(rows, heights or [width] * len(rows), strict=True)
    ]
    return Picture(given, title, caption, 0.3 + width * longest)


def _draw_line(axes: Axes, line: Line, colour: str) -> None:
    marker = "" if line.style and np.size(line.x) > 32 else line.marker
    style: dict[str, Any] = {"color": colour, "linestyle": line.style or "none", "marker": marker}
    axes.plot(line.x, line.y, label=line.label or None, linewidth=line.width, alpha=line.alpha, markersize=4.5, **style)
    if line.error is not None:
        axes.errorbar(line.x, line.y, line.error, color=colour, linestyle="none", linewidth=1.0, capsize=2.5)
    if line.band is not None:
        axes.fill_between(line.x, *line.band, color=colour, alpha=0.18, linewidth=0)
