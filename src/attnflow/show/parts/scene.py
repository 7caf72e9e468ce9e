"""`Scene`: tokens of a run in R^2 or R^3 with hulls, subspaces and arrows; its panels and movies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Polygon
from matplotlib.ticker import FuncFormatter
from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection
from scipy.spatial import ConvexHull, QhullError

from attnflow._common.plain import evenly_spaced
from attnflow.show.parts.animation import Movie
from attnflow.show.parts.drawn_run import DrawnRun, run_to_draw
from attnflow.show.parts.page import current_page, theme
from attnflow.show.parts.style import fix_ticks, new_figure, size_in_inches, write_heading
from attnflow.show.parts.subspaces import AffineSubspace, draw_subspaces
from attnflow.show.parts.symbols import at_time
from attnflow.show.parts.token_artists import current_style, path_style, start_style
from attnflow.show.parts.view3d import hull_edges
from attnflow.show.parts.word_labels import write_words

FLAT_VIEW, SPACE_VIEW = "rectilinear", "3d"  # projections of matplotlib
ARROW_GAP = 0.045  # of the longest side, between the head of an arrow and its token; shorter arrows are not drawn


@dataclass(frozen=True)
class Scene:
    """A run, and what is drawn with its tokens at every time."""

    drawn: DrawnRun
    has_hull: bool = False
    subspaces: tuple[AffineSubspace, ...] = ()
    arrows: np.ndarray | None = None
    """(time, token, token), True where the first token follows the second."""
    is_to_scale: bool = True
    """One scale for all axes."""
    reach: float | None = None
    """All axes go from minus to plus this, so that scenes can be compared; None: as far as the tokens."""
    names: tuple[str, ...] = ()
    """Names of the axes; empty: the names of the coordinates."""
    words: tuple[str, ...] = ()
    """Words written beside the tokens, in the plane."""

    @property
    def projection(self) -> str:
        """Projection of the axes in matplotlib."""
        return FLAT_VIEW if self.drawn.dimension == 2 else SPACE_VIEW

    @property
    def box(self) -> np.ndarray:
        """Least and greatest coordinate with a margin of 6 % of the longest side, shape (d, 2)."""
        if self.reach is not None:
            return self.reach * np.outer(np.ones(self.drawn.dimension), [-1, 1])
        flat = self.drawn.tokens.reshape(-1, self.drawn.dimension)
        low, high = flat.min(axis=0), flat.max(axis=0)
        side = (high - low).max() if self.is_to_scale else high - low
        return np.stack([low - 0.06 * side, high + 0.06 * side], axis=1)

    def index_of(self, time: float) -> int:
        """Index of the saved time nearest to `time`."""
        return int(np.abs(self.drawn.times - time).argmin())


@dataclass(frozen=True)
class Snapshot:
    """Panel of a scene at one saved time."""

    scene: Scene
    index: int
    title: str = ""
    elevation: float = 20
    azimuth: float = -55

    @property
    def projection(self) -> str:
        """Projection of the axes in matplotlib."""
        return self.scene.projection

    def draw(self, axes: Any) -> None:
        """Draw the paths so far, the dots, and the hull, subspaces, arrows and words of the scene."""
        scene, index = self.scene, self.index
        _set_box(axes, scene, self.elevation, self.azimuth)
        draw_subspaces(axes, scene.subspaces, scene.box)
        if scene.has_hull:
            _draw_hull(axes, scene.drawn.tokens[index])
        if scene.arrows is not None:
            _draw_arrows(axes, scene.drawn.tokens[index], scene.arrows[index])
        _draw_tokens(axes, scene.drawn, index)
        if scene.words:
            write_words(axes, scene.drawn.tokens[index], scene.words)
        axes.set_title(
            self.title or at_time(scene.drawn.times[index]),
            loc="left",
            x=0.1 if self.projection == SPACE_VIEW else 0.0,  # beside the box, which does not fill its axes
            y=0.9 if self.projection == SPACE_VIEW else None,
        )


def scene_of(run: xr.Dataset, *, distance: float | None = None, **options: Any) -> Scene:
    """Scene of a run; tokens closer than `distance` at the end share a colour."""
    return Scene(run_to_draw(run, distance=distance), **options)


def snapshots(scene: Scene, times: Sequence[float], **view: Any) -> list[Snapshot]:
    """Panels of the scene at the saved times nearest to `times`."""
    return [Snapshot(scene, scene.index_of(time), **view) for time in times]


def scene_movie(
    scene: Scene, title: str, caption: str = "", *, until: float = np.inf, most: int = 60, turns: float = 0.0
) -> Movie:
    """Movie of the scene in at most `most` frames; in space the view turns by `turns` degrees in all."""
    figure = new_figure(5.0, 5.2)
    axes = figure.add_subplot(projection=scene.projection)
    write_heading(figure, title, caption)
    last = scene.index_of(min(until, scene.drawn.times[-1]))
    indices = evenly_spaced(last + 1, most)

    def show_frame(frame: int) -> None:
        axes.clear()
        azimuth = -55 + turns * frame / max(len(indices) - 1, 1)
        Snapshot(scene, int(indices[frame]), azimuth=azimuth).draw(axes)

    return Movie(figure, len(indices), show_frame)


def _draw_tokens(axes: Any, drawn: DrawnRun, index: int) -> None:
    colours, tokens = drawn.token_colours, drawn.tokens
    depth: dict[str, Any] = {"depthshade": False} if drawn.dimension == 3 else {"zorder": 3}
    if index > 0:
        paths = list(tokens[: index + 1].transpose(1, 0, 2))
        collection = Line3DCollection if drawn.dimension == 3 else LineCollection
        axes.add_collection(collection(paths, colors=colours, **path_style(len(colours))))
    starts = start_style(len(colours)) | {"alpha": 0.35 if index > 0 else 0.9}
    axes.scatter(*tokens[0].T, edgecolors=colours, **starts, **depth)
    if index > 0:
        axes.scatter(*tokens[index].T, c=colours, **current_style(drawn, index), **depth)


def _draw_hull(axes: Any, tokens: np.ndarray) -> None:
    try:
        hull = ConvexHull(tokens)
    except (QhullError, ValueError):  # too few tokens, or all on a line or plane
        return
    if tokens.shape[1] == 2:
        corners = tokens[hull.vertices]
        axes.add_patch(
            Polygon(corners, facecolor=theme().pale, edgecolor=theme().grey, alpha=0.35, linewidth=0.9, zorder=1)
        )
        axes.add_patch(Polygon(corners, fill=False, edgecolor=theme().grey, linewidth=0.9, zorder=1.1))
        return
    axes.add_collection3d(Poly3DCollection(tokens[hull.simplices], facecolor=theme().grey, alpha=0.09))
    axes.add_collection3d(Line3DCollection(hull_edges(hull), colors=theme().grey, linewidths=0.8, alpha=0.6))


def _draw_arrows(axes: Axes, tokens: np.ndarray, follows: np.ndarray) -> None:
    """Draw thin arrows from each token to the tokens it follows, and a ring around every token that is followed."""
    starts, ends = np.nonzero(follows)
    arrows = tokens[ends] - tokens[starts]
    lengths = np.linalg.norm(arrows, axis=1)
    is_seen = lengths > ARROW_GAP * np.ptp(tokens)
    arrows *= 1 - ARROW_GAP * np.ptp(tokens) / np.maximum(lengths, 1e-300)[:, None]  # the head ends before the ring
    opacity = max(0.15, min(0.75, 60 / max(is_seen.sum(), 1)))
    style: dict[str, Any] = {"color": theme().grey, "alpha": opacity, "width": 0.0035, "headwidth": 7, "headlength": 8}
    to_scale: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "scale": 1, "minlength": 0}
    axes.quiver(*tokens[starts][is_seen].T, *arrows[is_seen].T, zorder=1.3, **style, **to_scale)
    followed = np.flatnonzero(follows.any(axis=0))
    axes.scatter(*tokens[followed].T, s=110, facecolors="none", edgecolors=theme().ink, linewidths=1.0, zorder=4)


def _set_box(axes: Any, scene: Scene, elevation: float, azimuth: float) -> None:
    coordinates = [scene.drawn.coordinate_name(index) for index in range(scene.drawn.dimension)]
    box, names = scene.box, scene.names or coordinates
    axes.set(xlim=box[0], ylim=box[1], xlabel=names[0], ylabel=names[1])
    is_small = size_in_inches(axes)[0] < 2.0 * current_page().scale
    if scene.projection == SPACE_VIEW:
        bins = 2 if is_small else 4 if current_page().width is None else 3
        axes.locator_params(nbins=bins, min_n_ticks=2 if is_small else min(bins, 3), steps=[1, 2, 3, 4, 5, 10])
    else:
        axes.locator_params(nbins=3 if is_small else 5)
    fix_ticks(axes)
    if scene.drawn.dimension == 2:
        axes.set_aspect("equal" if scene.is_to_scale else "auto")
        return
    axes.set(zlim=box[2], zlabel=names[2])
    sides = np.ptp(box, axis=1) if scene.is_to_scale else np.ones(3)
    axes.set_box_aspect(sides / sides.max(), zoom=0.8 if is_small else 0.94)  # numbers keep their size
    axes.view_init(elev=elevation, azim=azimuth)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.pane.set(facecolor=theme().paper, edgecolor=theme().pale)
    axes.tick_params(pad=-3 if is_small else -1)
    if is_small:
        axes.tick_params(labelsize=0.75 * current_page().text)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
    room = max(3.0, 1.5 * max(len(_plain(tick)) for tick in axes.get_zticks()) - 3)  # else numbers overlap the axis
    axes.tick_params(axis="z", pad=room)
    below = -8 if is_small else -2  # points; else panels overlap
    axes.xaxis.labelpad, axes.yaxis.labelpad, axes.zaxis.labelpad = below, below, 1.5 * room + (below - 5) / 1.4


def _plain(number: float) -> str:
    """A number as short text, without a power of ten beside the axis."""
    return f"{number:g}".replace("-", "\N{MINUS SIGN}")
