"""`CirclePanel`: tokens on the circle at one time, with some of them marked as centres; its movie."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from attnflow.show.parts.animation import Movie
from attnflow.show.parts.page import theme
from attnflow.show.parts.style import new_figure, write_heading
from attnflow.show.parts.symbols import at_time

DOT_SPACING = 0.035  # radii of the circle, outwards, between dots in one sector
SECTOR_ANGLE = 0.05  # radians: dots of one sector are stacked outwards


@dataclass(frozen=True)
class CirclePanel:
    """Panel of tokens as grey dots stacked outwards, with kinds of centres on the circle itself."""

    tokens: np.ndarray
    """(token, 2), unit vectors."""
    kinds: Sequence[tuple[str, str, np.ndarray]] = ()
    """Name, colour and tokens (True) of each kind of centre; later ones are drawn over earlier ones."""
    title: str = ""
    has_legend: bool = False
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Draw the panel into empty axes."""
        axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=theme().pale, linewidth=1.2, zorder=1))
        stacked = self.tokens * (1 + DOT_SPACING * (1 + stack_heights(self.tokens)))[:, None]
        axes.scatter(*stacked.T, s=5, color=theme().grey, linewidths=0, zorder=2, label="tokens")
        for order, (name, colour, is_kind) in enumerate(self.kinds):
            where = self.tokens[is_kind].T
            axes.scatter(
                *where, s=34, color=colour, edgecolors=theme().paper, linewidths=0.6, zorder=3 + order, label=name
            )
        axes.set(aspect="equal", xlim=(-1.62, 1.62), ylim=(-1.62, 1.62))
        axes.set_axis_off()
        axes.set_title(self.title, loc="left")
        if self.has_legend:
            axes.legend(loc="upper left", bbox_to_anchor=(0, 0), borderaxespad=0, handletextpad=0.2)


def stack_heights(tokens: np.ndarray) -> np.ndarray:
    """Number of earlier tokens in the same narrow sector of the circle, scaled so that stacks stay in the picture.

    Examples
    --------
    >>> stack_heights(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    array([0., 0., 1.])
    """
    sectors = np.floor(np.arctan2(tokens[:, 1], tokens[:, 0]) / SECTOR_ANGLE)
    heights = np.zeros(len(tokens))
    for sector in np.unique(sectors):
        inside = np.flatnonzero(sectors == sector)
        heights[inside] = np.arange(len(inside))
    highest = 0.6 / DOT_SPACING  # the picture ends 0.6 radii outside the circle
    return heights * min(1.0, highest / max(heights.max(), 1.0))


def circle_movie(
    tokens: np.ndarray, times: np.ndarray, kinds: Sequence[tuple[str, str, np.ndarray]], title: str
) -> Movie:
    """Movie of tokens (time, token, 2) on the circle, one frame a time."""
    figure = new_figure(4.2, 4.6)
    axes = figure.add_subplot()
    write_heading(figure, title, "")

    def show_frame(frame: int) -> None:
        axes.clear()
        CirclePanel(tokens[frame], kinds, at_time(times[frame]), has_legend=True).draw(axes)

    return Movie(figure, len(times), show_frame)
