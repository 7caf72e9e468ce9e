"""A pen that draws in the pixels of the page's stage with matplotlib."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.collections import EllipseCollection, LineCollection, PolyCollection
from matplotlib.patheffects import withStroke

from attnflow.explorer.export.stage_view import StageView

POINTS_PER_PIXEL = 0.72  # at 100 dots per inch
LEVELS = 8  # shades of a colour, from far to near


class StagePen:
    """Draws into axes whose coordinates are pixels of the page, to the right and down.

    `shrink` is the number of pixels of the movie for each of the page. What is drawn later lies above.
    """

    def __init__(self, axes: Any, view: StageView, shrink: float, palette: Sequence[Sequence[int]]):
        self._axes, self.view, self._points = axes, view, POINTS_PER_PIXEL * shrink
        self.theme, self._palette = view.theme, readable(palette, view)
        self._order = 0

    def clear(self) -> None:
        """Begin another picture."""
        self._axes.clear()
        self._axes.set(xlim=(0, self.view.width), ylim=(self.view.height, 0))
        self._axes.axis("off")
        self._order = 0

    def _above(self) -> int:
        self._order += 1
        return self._order

    def lines(self, paths: Sequence[np.ndarray], colour: Any, width: float | np.ndarray, alpha: Any = None) -> None:
        """Draw lines of a width in pixels."""
        self._axes.add_collection(
            LineCollection(
                paths, colors=colour, linewidths=np.asarray(width) * self._points, alpha=alpha, capstyle="round",
                zorder=self._above(),
            ),
            autolim=False,
        )  # fmt: skip

    def polygon(self, corners: np.ndarray, colour: Any, alpha: float) -> None:
        """Fill a polygon."""
        filled = PolyCollection([corners], facecolors=[colour], alpha=alpha, linewidths=0, zorder=self._above())
        self._axes.add_collection(filled, autolim=False)

    def discs(
        self,
        at: np.ndarray,
        radii: Any,
        colours: Any,
        alpha: Any = None,
        rim: str | None = None,
        is_square: bool = False,
    ) -> None:
        """Draw discs, or squares, of radii in pixels, in the order given."""
        sizes = 2 * np.broadcast_to(np.asarray(radii, float), (len(at),))
        look: dict[str, Any] = {"facecolors": colours, "alpha": alpha, "edgecolors": rim or "none"}
        look |= {"linewidths": self._points if rim else 0, "zorder": self._above()}
        if is_square:
            half = 0.45 * sizes[:, None, None]
            corners = at[:, None, :2] + half * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
            self._axes.add_collection(PolyCollection(list(corners), **look), autolim=False)
            return
        shapes = EllipseCollection(
            sizes, sizes, np.zeros(len(at)), units="x", offsets=at[:, :2], offset_transform=self._axes.transData, **look
        )
        self._axes.add_collection(shapes, autolim=False)

    def rings(self, at: np.ndarray, radius: float, colour: Any, width: float) -> None:
        """Draw circles."""
        sizes = np.full(len(at), 2 * radius)
        shapes = EllipseCollection(
            sizes, sizes, np.zeros(len(at)), units="x", offsets=at[:, :2], offset_transform=self._axes.transData,
            facecolors="none", edgecolors=colour, linewidths=width * self._points, zorder=self._above(),
        )  # fmt: skip
        self._axes.add_collection(shapes, autolim=False)

    def text(
        self, text: str, x: float, y: float, colour: str, size: float, align: str = "center", outlined: bool = False,
        weight: str = "normal",
    ) -> None:  # fmt: skip
        """Write a text whose baseline is at y; `outlined` puts the colour of the paper around it."""
        effects = [withStroke(linewidth=3 * self._points, foreground=self.theme["paper"])] if outlined else None
        self._axes.text(
            x, y, text, color=colour, fontsize=size * self._points, ha=align, va="baseline", weight=weight,
            path_effects=effects, zorder=self._above(), clip_on=True, parse_math=False,
        )  # fmt: skip

    def colours(self, clusters: np.ndarray) -> np.ndarray:
        """Colours of clusters, as numbers from 0 to 1; 0 is the colour of tokens in no cluster."""
        known = np.vstack([rgb(self.theme["alone"]), np.asarray(self._palette)]) / 255
        return known[np.where(clusters == 0, 0, (clusters.astype(int) - 1) % len(self._palette) + 1)]

    def shaded(self, colours: np.ndarray, nearness: np.ndarray) -> np.ndarray:
        """Colours of dots at a nearness from 0 (far, nearly the colour of the paper) to 1."""
        level = np.round(nearness * (LEVELS - 1))[:, None]
        share, paper = 0.3 + 0.7 * level / (LEVELS - 1), rgb(self.theme["paper"]) / 255
        return paper + share * (colours - paper)

    def axis_name(self, k: int, d: int) -> str:
        """Name of a coordinate axis, or of a principal axis."""
        axes = self.view.axes
        if d <= 3 or axes is None:
            return f"x{_lowered(k + 1)}"
        axis = np.flatnonzero(axes[k])
        is_coordinate = len(axis) == 1 and axes[k][axis[0]] == 1
        return f"x{_lowered(int(axis[0]) + 1)}" if is_coordinate else f"pc {k + 1}"


def readable(palette: Sequence[Sequence[int]], view: StageView) -> list[list[int]]:
    """The palette; on a dark page black is replaced by the colour of its text."""
    ink = rgb(view.theme["ink"]).astype(int).tolist()
    return [ink if view.is_dark and max(colour) < 40 else list(colour) for colour in palette]


def rgb(colour: str) -> np.ndarray:
    """The numbers of a colour such as #22262a, from 0 to 255."""
    return np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)], float)


def _lowered(index: int) -> str:
    return "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(index))
