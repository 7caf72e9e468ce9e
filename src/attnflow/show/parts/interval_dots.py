"""`IntervalDots`: means with their intervals, one row a category, as a panel of a figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from attnflow.show.parts.style import fix_ticks, legend_below, line_colour


@dataclass(frozen=True)
class IntervalDots:
    """Panel with a dot and the bar of its interval for every category and series; the legend stands below."""

    categories: Sequence[str]
    series: Mapping[str, tuple[Any, Any, Any]]
    """Mean, low and high end of every category, by name; NaN where there is none."""
    title: str = ""
    xlabel: str = ""
    least: float | None = None
    """The lower end of the axis; None: that of the data."""
    columns: int = 1
    """Columns of the legend."""
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Draw the panel into empty axes: the first category on top, the series of one below each other."""
        rows, spread = np.arange(len(self.categories)), 0.5 / max(len(self.series), 1)
        for place, (name, (mean, low, high)) in enumerate(self.series.items()):
            heights = rows + spread * (place - (len(self.series) - 1) / 2)
            axes.hlines(heights, low, high, color=line_colour(place), linewidth=2.0, alpha=0.6)
            axes.plot(mean, heights, "o", color=line_colour(place), markersize=5, label=name)
        axes.set_yticks(rows, [str(one) for one in self.categories])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        if self.least is not None:
            axes.set_xlim(left=self.least)
        axes.set_xlabel(self.xlabel)
        axes.set_title(self.title, loc="left")
        axes.grid(True, axis="x")
        axes.set_axisbelow(True)
        fix_ticks(axes)
        legend_below(axes, self.columns)
