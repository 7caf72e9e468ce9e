"""Tokens of a run at single saved times, in the view that suits their space: panels of `trajectories` and of movies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.patches import Circle

from attnflow._common.checks import InputError
from attnflow.show.parts.drawn_run import DrawnRun
from attnflow.show.parts.page import theme
from attnflow.show.parts.picture import Panel
from attnflow.show.parts.principal_components import DOT_DISTANCE
from attnflow.show.parts.projection import points_of
from attnflow.show.parts.scene import Scene, Snapshot
from attnflow.show.parts.sphere_panel import SpherePanel
from attnflow.show.parts.view3d import camera_of


@dataclass(frozen=True)
class Moment:
    """Panel of a run at one saved time, in dimension one, two or more than three, or in space."""

    scene: Scene
    index: int
    title: str
    azimuth: float
    is_line: bool
    is_circle: bool

    @property
    def projection(self) -> str:
        """Projection of the axes in matplotlib."""
        return self.scene.projection

    def draw(self, axes: Any) -> None:
        """Draw the panel into empty axes."""
        Snapshot(self.scene, self.index, self.title, azimuth=self.azimuth).draw(axes)
        if self.is_line:
            axes.set(ylabel="token", yticks=[])
        if self.is_circle:
            axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=theme().pale, linewidth=1.2, zorder=0))


def moment_maker(drawn: DrawnRun) -> Callable[[int, str, float], Panel]:
    """Function that makes the panel of a saved time, given its index, its title and the azimuth of a view of space."""
    if drawn.is_sphere and drawn.dimension == 3:
        camera = camera_of(drawn.tokens[-1])
        return lambda index, title, _: SpherePanel(drawn, index, title, camera=camera)
    scene, is_circle = _scene_of(drawn), drawn.dimension == 2 and drawn.is_sphere
    return lambda index, title, azimuth: Moment(scene, index, title, azimuth, drawn.dimension == 1, is_circle)


def saved_places(times: Any, saved: np.ndarray) -> list[int]:
    """Positions in `saved` of the saved times nearest to `times`, each of which must lie between the first and last.

    Examples
    --------
    >>> saved_places([0, 2.2], np.array([0.0, 1.0, 2.0, 3.0]))
    [0, 2]
    """
    try:
        wanted = np.atleast_1d(np.asarray(times, dtype=float))
    except (TypeError, ValueError):
        wanted = np.empty(0)
    if wanted.ndim != 1 or len(wanted) == 0 or not np.all(np.isfinite(wanted)):
        raise InputError(f"`times` must be one or more finite numbers, but it is {times!r}.")
    outside = wanted[(wanted < saved[0]) | (wanted > saved[-1])]
    if len(outside):
        raise InputError(
            f"`times` must lie between the first and the last saved time, {saved[0]:.4g} and {saved[-1]:.4g}, "
            f"but {outside[0]:.4g} does not."
        )
    return [int(np.abs(saved - time).argmin()) for time in wanted]


def moment_panels(drawn: DrawnRun, times: Sequence[float]) -> list[Panel]:
    """Panels of the saved times nearest to `times`."""
    if not drawn.is_followed:
        raise InputError("`times` needs tokens over time, but `run` holds only the first and last. Leave it out.")
    make = moment_maker(drawn)
    return [make(index, "", -55.0) for index in saved_places(times, drawn.times)]


def _scene_of(drawn: DrawnRun) -> Scene:
    if drawn.dimension == 1:
        heights = np.broadcast_to(-np.arange(float(drawn.tokens.shape[1]))[:, None], drawn.tokens.shape)
        return Scene(replace(drawn, tokens=np.concatenate([drawn.tokens, heights], axis=-1)), is_to_scale=False)
    if drawn.dimension > 3:
        points = points_of(drawn)
        drawn = replace(drawn, tokens=points.values, is_sphere=False, distance=DOT_DISTANCE)
        return Scene(drawn, is_to_scale=points.is_to_scale, names=points.names, words=drawn.words)
    return Scene(drawn, has_hull=not drawn.is_sphere and not drawn.subspaces, subspaces=drawn.subspaces)
