"""The view of the page's stage: its size, camera, axes, colours and hidden parts, and where tokens are seen in it."""

import math
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow.explorer.measure.principal_axes import principal_axes

PARTS = ("trails", "hull", "centres", "colours", "lines")  # of the picture, that can be hidden
UNIT_SHARE = 0.41  # of the smaller side: the radius of the sphere before zooming, as on the page
SIDES = (64, 4_000)  # pixels: smallest and largest side of a stage
MAX_AXIS = 4_096  # largest dimension of axes in a request
LIGHT = {
    "paper": "#ffffff", "card": "#f6f7f8", "ink": "#22262a", "grey": "#5d656c", "rule": "#c3c9cf",
    "accent": "#0069a6", "bad": "#b04300", "alone": "#808a94",
}  # fmt: skip


@dataclass(frozen=True)
class StageView:
    """A stage of `width` x `height` pixels.

    `camera` is the page's: nine numbers of a rotation matrix by rows, the zoom, and the shift to the right and up.
    """

    width: float
    height: float
    camera: tuple[float, ...]
    extents: tuple[float, ...] = (1.0, 1.0, 1.0)
    """Coordinate of each axis that is drawn at the radius of the sphere."""
    axes: np.ndarray | None = None
    """Three rows, onto which tokens in more than three dimensions are projected."""
    hidden: frozenset[str] = frozenset()
    theme: dict[str, str] = field(default_factory=lambda: LIGHT)
    is_dark: bool = False

    @property
    def matrix(self) -> np.ndarray:
        """The rotation."""
        return np.reshape(self.camera[:9], (3, 3))

    @property
    def unit(self) -> float:
        """Pixels of the radius of the sphere before zooming."""
        return UNIT_SHARE * min(self.width, self.height)

    @property
    def scale(self) -> float:
        """Pixels of the radius of the sphere."""
        return self.unit * self.camera[9]

    @property
    def origin(self) -> tuple[float, float]:
        """The centre of the sphere: pixels to the right and down."""
        return self.width / 2 + self.unit * self.camera[10], self.height / 2 - self.unit * self.camera[11]

    def points(self, tokens: np.ndarray) -> np.ndarray:
        """The three coordinates that are drawn of each token; tokens on the line are above each other."""
        n, d = tokens.shape
        if d > 3:
            assert self.axes is not None
            return tokens @ self.axes.T
        points = np.zeros((n, 3))
        points[:, :d] = tokens
        if d == 1:
            points[:, 1] = 0.75 * (1 - 2 * (np.arange(n) + 0.5) / n)
        return points

    def seen(self, points: np.ndarray) -> np.ndarray:
        """Pixels to the right and down, and the depth towards the viewer, of points (..., 3)."""
        turned = points / np.asarray(self.extents) @ self.matrix.T
        x, y = self.origin
        return np.stack([x + self.scale * turned[..., 0], y - self.scale * turned[..., 1], turned[..., 2]], axis=-1)


def default_view(frames: list[np.ndarray], is_sphere: bool) -> StageView:
    """The view of a page that was not touched, wide enough for the tokens of all frames."""
    d = frames[0].shape[1]
    axes = np.array(principal_axes(np.concatenate(frames))) if d > 3 else None
    camera = (*np.eye(3).ravel(), 1.0, 0.0, 0.0)
    if d > 2:
        (c, s), (e, f) = ((math.cos(angle), math.sin(angle)) for angle in (0.6, 0.35))
        turned = np.array([[1, 0, 0], [0, e, -f], [0, f, e]]) @ np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
        camera = (*turned.ravel().tolist(), 1.0, 0.0, 0.0)
    view = StageView(760, 500, camera, axes=axes)
    if is_sphere:
        return view
    reach = [np.abs(points[np.isfinite(points)]).max(initial=0) for points in map(view.points, frames)]
    extent = 1.05 * max(reach) or 1.0
    return StageView(760, 500, camera, (extent, 1.0 if d == 1 else extent, extent), axes)


def parsed_view(given: Any, number: Any) -> StageView | None:
    """The view in a request; `number` checks one number and its name. None for a request without view."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise InputError("`view` must be an object, but it is another type.")
    sides = [number(given.get(name), name) for name in ("width", "height")]
    if not all(SIDES[0] <= side <= SIDES[1] for side in sides):
        raise InputError(f"`width` and `height` must be from {SIDES[0]} to {SIDES[1]} pixels.")
    camera = _numbers(given.get("camera"), 12, "camera", number)
    extents = _numbers(given.get("extents"), 3, "extents", number)
    if min(*extents, camera[9]) <= 0:
        raise InputError("`extents` and the zoom of `camera` must be positive.")
    hidden, is_dark = given.get("hidden", []), given.get("dark", False)
    if not isinstance(hidden, list) or not all(isinstance(name, str) and name in PARTS for name in hidden):
        raise InputError(f"`hidden` must be a list of {', '.join(PARTS)}.")
    if not isinstance(is_dark, bool):
        raise InputError("`dark` must be true or false.")
    return StageView(
        width=sides[0],
        height=sides[1],
        camera=camera,
        extents=extents,
        axes=_axes(given.get("axes"), number),
        hidden=frozenset(hidden),
        theme=_theme(given.get("theme")),
        is_dark=is_dark,
    )


def _numbers(given: Any, count: int, name: str, number: Any) -> tuple[float, ...]:
    if not isinstance(given, list) or len(given) != count:
        raise InputError(f"`{name}` must be a list of {count} numbers.")
    return tuple(number(one, name) for one in given)


def _axes(given: Any, number: Any) -> np.ndarray | None:
    if given is None:
        return None
    is_list = isinstance(given, list) and len(given) == 3 and all(isinstance(row, list) for row in given)
    if not is_list or not 3 < len(given[0]) <= MAX_AXIS:
        raise InputError("`axes` must be three lists of numbers.")
    return np.array([_numbers(row, len(given[0]), "axes", number) for row in given])


def _theme(given: Any) -> dict[str, str]:
    if given is None:
        return LIGHT
    is_known = isinstance(given, dict) and set(given) == set(LIGHT)
    if not is_known or not all(isinstance(one, str) and re.fullmatch("#[0-9a-fA-F]{6}", one) for one in given.values()):
        raise InputError(f"`theme` must have colours such as #22262a for {', '.join(LIGHT)}.")
    return given
