"""`RidgelinePanel`: densities above each other, one for each moment, as one reads a histogram that changes in time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from attnflow.show.parts.style import GREY, INK, OKABE_ITO, fix_ticks

FILL = "#bfe0f5"  # a pale blue that hides what stands behind
OVERLAP = 1.6  # heights of a row that a ridge is tall: above one, it stands over the next


@dataclass(frozen=True)
class RidgelinePanel:
    """Densities over common bins, the first below; fits on a board."""

    x: np.ndarray
    densities: np.ndarray
    """Of shape (moment, x)."""
    names: Sequence[str]
    marks: np.ndarray | None = None
    """Where a theory expects the middle of each."""
    mark_label: str = ""
    xlabel: str = ""
    xlim: tuple[float, float] = (-1.0, 1.0)
    tall: float = OVERLAP
    """Heights of a row that each ridge is tall: below one, none hides another."""
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Each ridge is drawn to its own height: early ones are wide and low, late ones narrow and high."""
        heights = self.tall * self.densities / self.densities.max(axis=1, keepdims=True)
        heights = np.pad(
            heights, ((0, 0), (1, 1))
        )  # an empty bin on either side, so that the outer ones are drawn whole
        x = np.concatenate([[2 * self.x[0] - self.x[1]], self.x, [2 * self.x[-1] - self.x[-2]]])
        for place, height in enumerate(heights):
            order = len(heights) - place  # earlier ridges stand in front
            is_ridge = np.convolve(height > 0, np.ones(3), "same") > 0  # with a foot on either side
            edge = np.where(is_ridge, place + height, np.nan)
            axes.fill_between(x, place, place + height, step="mid", color=FILL, linewidth=0, zorder=order)
            axes.step(x, edge, where="mid", color=OKABE_ITO[0], linewidth=1.0, zorder=order + 0.1)
            axes.axhline(place, color=GREY, linewidth=0.5, zorder=order + 0.2)
            if self.marks is not None:
                axes.plot([self.marks[place]] * 2, [place, place + 0.8], color=INK, linewidth=1.2, zorder=order + 0.3)
        if self.marks is not None:
            axes.plot([], [], color=INK, linewidth=1.2, label=self.mark_label)
            axes.legend(loc="upper left", bbox_to_anchor=(0, -0.12), borderaxespad=0)
        axes.set(xlabel=self.xlabel, xlim=self.xlim, yticks=range(len(heights)))
        axes.set_yticklabels(list(self.names))
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        fix_ticks(axes)
