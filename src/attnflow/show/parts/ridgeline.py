"""`RidgelinePanel`: densities at several times drawn above each other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from attnflow.show.parts.page import theme
from attnflow.show.parts.style import fix_ticks, legend_below, line_colour


@dataclass(frozen=True)
class RidgelinePanel:
    """Panel of densities over common bins, one above the other, the first at the bottom."""

    x: np.ndarray
    densities: np.ndarray
    """(density, x)."""
    names: Sequence[str]
    marks: np.ndarray | None = None
    """Position of a mark in each density, such as its expected mean."""
    mark_label: str = ""
    xlabel: str = ""
    xlim: tuple[float, float] = (-1.0, 1.0)
    height: float = 1.6
    """Height of a density in units of the spacing: above one, densities overlap."""
    title: str = ""
    projection: str = "rectilinear"

    @property
    def words_beside(self) -> int:
        """The number of names along the vertical axis."""
        return len(self.names)

    def draw(self, axes: Axes) -> None:
        """Draw the panel into empty axes; each density is scaled to the same height."""
        heights = self.height * self.densities / self.densities.max(axis=1, keepdims=True)
        # An empty bin on either side, so that the outer bins are drawn in full.
        heights = np.pad(heights, ((0, 0), (1, 1)))
        x = np.concatenate([[2 * self.x[0] - self.x[1]], self.x, [2 * self.x[-1] - self.x[-2]]])
        light = 0.75 * np.array(to_rgb(theme().paper)) + 0.25 * np.array(to_rgb(line_colour(0)))
        for place, height in enumerate(heights):
            order = len(heights) - place  # lower densities are in front
            is_edge = np.convolve(height > 0, np.ones(3), "same") > 0  # bins that are not empty, and their neighbours
            edge = np.where(is_edge, place + height, np.nan)
            axes.fill_between(x, place, place + height, step="mid", color=light, linewidth=0, zorder=order)
            axes.step(x, edge, where="mid", color=line_colour(0), linewidth=1.0, zorder=order + 0.1)
            axes.axhline(place, color=theme().grey, linewidth=0.5, zorder=order + 0.2)
            if self.marks is not None:
                axes.plot(
                    [self.marks[place]] * 2, [place, place + 0.8], color=theme().ink, linewidth=1.2, zorder=order + 0.3
                )
        if self.marks is not None:
            axes.plot([], [], color=theme().ink, linewidth=1.2, label=self.mark_label)
            legend_below(axes)
        axes.set(xlabel=self.xlabel, xlim=self.xlim, yticks=range(len(heights)))
        axes.set_yticklabels(list(self.names))
        axes.set_title(self.title, loc="left")
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        fix_ticks(axes)
