"""`CirclePanel`: tokens on the circle at one time, with some of them marked as centres."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from attnflow.show.parts.animation import Movie
from attnflow.show.parts.style import GREY, INK, OKABE_ITO, PALE, in_house_style, new_figure, write_heading

OUTWARD = 0.035  # between tokens that share a place, so that crowds are seen
SAME_PLACE = 0.05  # an angle


@dataclass(frozen=True)
class CirclePanel:
    """Tokens as grey dots that pile up outwards; kinds of centres on the circle itself. Fits on a board."""

    tokens: np.ndarray
    """(token, 2), unit vectors."""
    kinds: Sequence[tuple[str, str, np.ndarray]] = ()
    """Name, colour and tokens (True) of each kind of centre; later ones are drawn over earlier ones."""
    title: str = ""
    has_legend: bool = False
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Draw it into empty axes."""
        axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=PALE, linewidth=1.2, zorder=1))
        piled = self.tokens * (1 + OUTWARD * (1 + heights(self.tokens)))[:, None]
        axes.scatter(*piled.T, s=5, color=GREY, linewidths=0, zorder=2, label="tokens")
        for order, (name, colour, is_kind) in enumerate(self.kinds):
            where = self.tokens[is_kind].T
            axes.scatter(*where, s=34, color=colour, edgecolors="white", linewidths=0.6, zorder=3 + order, label=name)
        axes.set(aspect="equal", xlim=(-1.62, 1.62), ylim=(-1.62, 1.62))
        axes.set_axis_off()
        axes.set_title(self.title, loc="left")
        if self.has_legend:
            axes.legend(loc="upper left", bbox_to_anchor=(0, 0), borderaxespad=0, handletextpad=0.2)


def heights(tokens: np.ndarray) -> np.ndarray:
    """How many earlier tokens stand under each one: those in the same narrow sector of the circle.

    Examples
    --------
    >>> heights(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    array([0., 0., 1.])
    """
    sectors = np.floor(np.arctan2(tokens[:, 1], tokens[:, 0]) / SAME_PLACE)
    found = np.zeros(len(tokens))
    for sector in np.unique(sectors):
        inside = np.flatnonzero(sectors == sector)
        found[inside] = np.arange(len(inside))
    most = 0.6 / OUTWARD  # a pile stays within the picture
    return found * min(1.0, most / max(found.max(), 1.0))


@in_house_style()
def circle_movie(
    tokens: np.ndarray, times: np.ndarray, kinds: Sequence[tuple[str, str, np.ndarray]], title: str
) -> Movie:
    """Tokens (time, token, 2) on the circle, a frame a time."""
    figure = new_figure(4.2, 4.6)
    axes = figure.add_subplot()
    write_heading(figure, title, "")

    def show_frame(frame: int) -> None:
        axes.clear()
        CirclePanel(tokens[frame], kinds, f"t = {float(f'{times[frame]:.3g}'):g}", has_legend=True).draw(axes)

    return Movie(figure, len(times), show_frame)


RENYI_COLOUR, STRONG_COLOUR = INK, OKABE_ITO[1]
