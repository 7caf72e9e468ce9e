"""`Scene`: tokens of a run in R^2 or R^3 at any of its times, with what they gather on; panels and movies of it."""

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
from attnflow.show.parts.style import GREY, INK, PALE, fix_ticks, in_house_style, new_figure, write_heading
from attnflow.show.parts.subspaces import AffineSubspace, draw_subspaces
from attnflow.show.parts.token_artists import current_style, path_style, start_style
from attnflow.show.parts.view3d import hull_edges
from attnflow.show.parts.word_labels import write_words

MARGIN = 0.06  # of the longest side, around all tokens
SHORTEST = 0.045  # of the longest side: where an arrow ends before a ring, and arrows shorter than this are not drawn
FLAT_VIEW, SPACE_VIEW = "rectilinear", "3d"


@dataclass(frozen=True)
class Scene:
    """What is drawn at every time of one run."""

    drawn: DrawnRun
    has_hull: bool = False
    subspaces: tuple[AffineSubspace, ...] = ()
    arrows: np.ndarray | None = None
    """(time, token, token), True where the one follows the other."""
    is_to_scale: bool = True
    """One scale for all axes."""
    reach: float | None = None
    """All axes go from minus to plus this, so that scenes can be compared; None: as far as tokens go."""
    names: tuple[str, ...] = ()
    """Of the axes; none: those of the coordinates."""
    words: tuple[str, ...] = ()
    """Written beside tokens in the plane."""

    @property
    def projection(self) -> str:
        """The kind of axes it is drawn in."""
        return FLAT_VIEW if self.drawn.dimension == 2 else SPACE_VIEW

    @property
    def box(self) -> np.ndarray:
        """Least and greatest coordinate with a margin, shape (d, 2)."""
        if self.reach is not None:
            return self.reach * np.outer(np.ones(self.drawn.dimension), [-1, 1])
        flat = self.drawn.tokens.reshape(-1, self.drawn.dimension)
        low, high = flat.min(axis=0), flat.max(axis=0)
        side = (high - low).max() if self.is_to_scale else high - low
        return np.stack([low - MARGIN * side, high + MARGIN * side], axis=1)

    def place_of(self, time: float) -> int:
        """The saved time nearest to one."""
        return int(np.abs(self.drawn.times - time).argmin())


@dataclass(frozen=True)
class Snapshot:
    """A scene at one of its times; fits on a board."""

    scene: Scene
    place: int
    title: str = ""
    elevation: float = 20
    azimuth: float = -55

    @property
    def projection(self) -> str:
        """The kind of axes it is drawn in."""
        return self.scene.projection

    def draw(self, axes: Any) -> None:
        """Ways so far, dots, and what they gather on."""
        scene, place = self.scene, self.place
        _set_box(axes, scene, self.elevation, self.azimuth)
        draw_subspaces(axes, scene.subspaces, scene.box)
        if scene.has_hull:
            _draw_hull(axes, scene.drawn.tokens[place])
        if scene.arrows is not None:
            _draw_arrows(axes, scene.drawn.tokens[place], scene.arrows[place])
        _draw_tokens(axes, scene.drawn, place)
        if scene.words:
            write_words(axes, scene.drawn.tokens[place], scene.words)
        axes.set_title(
            self.title or f"t = {scene.drawn.times[place]:.3g}",
            loc="left",
            y=0.95 if self.projection == SPACE_VIEW else None,
        )


def scene_of(run: xr.Dataset, *, distance: float | None = None, **options: Any) -> Scene:
    """The scene of a run; tokens closer than `distance` at the end share a colour."""
    return Scene(run_to_draw(run, 0, None, distance), **options)


def snapshots(scene: Scene, times: Sequence[float], **view: Any) -> list[Snapshot]:
    """The scene at several times, for a board."""
    return [Snapshot(scene, scene.place_of(time), **view) for time in times]


@in_house_style()
def scene_movie(
    scene: Scene, title: str, caption: str = "", *, until: float = np.inf, most: int = 60, turns: float = 0.0
) -> Movie:
    """The scene from its first time on, in at most `most` frames; in space it turns by `turns` degrees in all."""
    figure = new_figure(5.0, 5.2)
    axes = figure.add_subplot(projection=scene.projection)
    write_heading(figure, title, caption)
    last = scene.place_of(min(until, scene.drawn.times[-1]))
    places = evenly_spaced(last + 1, most)

    def show_frame(frame: int) -> None:
        axes.clear()
        azimuth = -55 + turns * frame / max(len(places) - 1, 1)
        Snapshot(scene, int(places[frame]), azimuth=azimuth).draw(axes)

    return Movie(figure, len(places), show_frame)


def _draw_tokens(axes: Any, drawn: DrawnRun, place: int) -> None:
    colours, tokens = drawn.token_colours, drawn.tokens
    depth: dict[str, Any] = {"depthshade": False} if drawn.dimension == 3 else {"zorder": 3}
    if place > 0:
        ways = list(tokens[: place + 1].transpose(1, 0, 2))
        lines = (Line3DCollection if drawn.dimension == 3 else LineCollection)(
            ways, colors=colours, **path_style(len(colours))
        )
        axes.add_collection(lines)
    starts = start_style(len(colours)) | {"alpha": 0.35 if place > 0 else 0.9}
    axes.scatter(*tokens[0].T, edgecolors=colours, **starts, **depth)
    if place > 0:
        axes.scatter(*tokens[place].T, c=colours, **current_style(drawn, place), **depth)


def _draw_hull(axes: Any, tokens: np.ndarray) -> None:
    try:
        hull = ConvexHull(tokens)
    except (QhullError, ValueError):  # too few tokens, or all on a line or plane
        return
    if tokens.shape[1] == 2:
        corners = tokens[hull.vertices]
        axes.add_patch(Polygon(corners, facecolor=PALE, edgecolor=GREY, alpha=0.35, linewidth=0.9, zorder=1))
        axes.add_patch(Polygon(corners, fill=False, edgecolor=GREY, linewidth=0.9, zorder=1.1))
        return
    axes.add_collection3d(Poly3DCollection(tokens[hull.simplices], facecolor=GREY, alpha=0.09))
    axes.add_collection3d(Line3DCollection(hull_edges(hull), colors=GREY, linewidths=0.8, alpha=0.6))


def _draw_arrows(axes: Axes, tokens: np.ndarray, follows: np.ndarray) -> None:
    """Thin arrows from followers to those they attend to; leaders get a ring."""
    starts, ends = np.nonzero(follows)
    ways = tokens[ends] - tokens[starts]
    lengths = np.linalg.norm(ways, axis=1)
    is_seen = lengths > SHORTEST * np.ptp(tokens)
    ways *= 1 - SHORTEST * np.ptp(tokens) / np.maximum(lengths, 1e-300)[:, None]  # the head stays clear of the ring
    opacity = max(0.15, min(0.75, 60 / max(is_seen.sum(), 1)))
    style: dict[str, Any] = {"color": GREY, "alpha": opacity, "width": 0.0035, "headwidth": 7, "headlength": 8}
    to_scale: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "scale": 1, "minlength": 0}
    axes.quiver(*tokens[starts][is_seen].T, *ways[is_seen].T, zorder=1.3, **style, **to_scale)
    leaders = np.flatnonzero(follows.any(axis=0))
    axes.scatter(*tokens[leaders].T, s=110, facecolors="none", edgecolors=INK, linewidths=1.0, zorder=4)


def _set_box(axes: Any, scene: Scene, elevation: float, azimuth: float) -> None:
    coordinates = [scene.drawn.coordinate_name(index) for index in range(scene.drawn.dimension)]
    box, names = scene.box, scene.names or coordinates
    axes.set(xlim=box[0], ylim=box[1], xlabel=names[0], ylabel=names[1])
    axes.locator_params(nbins=4 if scene.projection == SPACE_VIEW else 5)
    fix_ticks(axes)
    if scene.drawn.dimension == 2:
        axes.set_aspect("equal" if scene.is_to_scale else "auto")
        return
    axes.set(zlim=box[2], zlabel=names[2])
    sides = np.ptp(box, axis=1) if scene.is_to_scale else np.ones(3)
    axes.set_box_aspect(sides / sides.max(), zoom=0.86)
    axes.view_init(elev=elevation, azim=azimuth)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.pane.set(facecolor="white", edgecolor=PALE)
    axes.tick_params(pad=-1)
    axes.zaxis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
    room = max(3.0, 1.5 * max(len(_plain(tick)) for tick in axes.get_zticks()) - 3)  # else numbers lie on the axis
    axes.tick_params(axis="z", pad=room)
    axes.xaxis.labelpad, axes.yaxis.labelpad, axes.zaxis.labelpad = -2, -2, 1.5 * room - 7  # else panels overlap


def _plain(number: float) -> str:
    """Short, and never with a power of ten beside the axis."""
    return f"{number:g}".replace("-", "\N{MINUS SIGN}")
