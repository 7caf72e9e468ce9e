"""Trajectories in R^3, with the hull of the final tokens, and on the sphere, drawn as a globe."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Circle
from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection
from scipy.linalg import null_space

from attnflow.show.parts.drawn_run import DrawnRun
from attnflow.show.parts.page import current_page, theme
from attnflow.show.parts.projection import Points
from attnflow.show.parts.style import fix_ticks
from attnflow.show.parts.subspaces import AffineSubspace, draw_subspaces
from attnflow.show.parts.token_artists import (
    curved_on_sphere,
    end_style,
    final_hull,
    longest_side,
    path_style,
    paths_to_draw,
    start_style,
)

FAR_SIDE_OPACITY = 0.3  # relative to that of the near side


def draw_space(axes: Any, drawn: DrawnRun, points: Points) -> None:
    """Draw trajectories in R^3, with the lines, planes or convex hull of the final tokens if they have any."""
    values, colours = points.values, drawn.token_colours
    hull = None if drawn.subspaces else final_hull(points)
    draw_subspaces(axes, points.in_axes(drawn.subspaces), points.box(0.03))
    if hull is not None:
        faces = hull.points[hull.simplices]
        axes.add_collection3d(Poly3DCollection(faces, facecolor=theme().grey, alpha=0.08, label="hull"))
        axes.add_collection3d(
            Line3DCollection(hull_edges(hull), colors=theme().grey, linewidths=0.7, alpha=0.7, label="edges")
        )
    if drawn.is_followed:
        paths, tokens = paths_to_draw(drawn, values)
        axes.add_collection3d(Line3DCollection(paths, colors=colours[tokens], **path_style(len(colours))))
    axes.scatter(*values[0].T, edgecolors=colours, alpha=0.6, depthshade=False, **start_style(len(colours)))
    axes.scatter(*values[-1].T, c=colours, depthshade=False, **end_style(drawn))
    _set_box(axes, points, points.in_axes(drawn.subspaces))


def view_of_subspaces(subspaces: tuple[AffineSubspace, ...], scales: np.ndarray) -> tuple[float, float]:
    """Elevation and azimuth, in degrees, from which planes are seen as planes and lines in their full length.

    `scales` are lengths in the picture over lengths of the data, for each axis. A plane of unit normal n, seen from the
    direction c, appears with the share |<c, n>| of its area, and two of them are apart by the share of the rest:
    0.45 shows both. A line of direction u appears with the share sqrt(1 - <c, u>^2) of its length.
    """
    if not subspaces:
        return 20.0, -55.0
    normals = null_space(null_space(subspaces[0].rows / scales).T).T  # orthonormal, in the proportions of the picture
    # 20 degrees or more from every side of the box: an axis along the line of sight has no room for its numbers.
    azimuths = [azimuth for azimuth in np.arange(-55.0, 305.0, 5.0) if abs(azimuth % 90 - 45) <= 25]
    views = [(elevation, azimuth) for elevation in (20.0, 15.0, 25.0, 30.0) for azimuth in azimuths]
    losses = []
    for elevation, azimuth in views:
        up, around = np.radians(elevation), np.radians(azimuth)
        seen_from = np.array([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)])
        share = float(np.linalg.norm(normals @ seen_from))  # of a line it is that of its length
        losses.append(round(abs(share - (0.45 if len(normals) == 1 else 0.95)), 2))
    return views[int(np.argmin(losses))]


def hull_edges(hull: Any) -> np.ndarray:
    """Edges of a hull in space, shape (edge, 2, 3), without those between triangles of one plane face."""
    edges = []
    for face, (corners, neighbours) in enumerate(zip(hull.simplices, hull.neighbors, strict=True)):
        for opposite, neighbour in enumerate(neighbours):
            is_edge = np.abs(hull.equations[face, :3] - hull.equations[neighbour, :3]).max() > 1e-8  # normals differ
            if face < neighbour and is_edge:
                edges.append(hull.points[np.delete(corners, opposite)])
    return np.array(edges)


def draw_globe(axes: Axes, drawn: DrawnRun, points: Points) -> None:
    """Draw trajectories on the unit sphere, seen from the side where most of the tokens end."""
    camera = camera_of(points.values[-1])
    seen = points.values @ camera.T
    draw_grid(axes, camera)
    if drawn.is_followed:
        paths, tokens = paths_to_draw(drawn, seen)
        style = path_style(len(drawn.labels))
        draw_by_side(axes, curved_on_sphere(paths), drawn.token_colours[tokens], zorder=1.8, **style)
    _draw_dots(axes, drawn, seen)
    axes.set(aspect="equal", xlim=(-1.22, 1.22), ylim=(-1.22, 1.22))
    axes.set_axis_off()


def camera_of(tokens: np.ndarray) -> np.ndarray:
    """Rows to the right, upwards and towards the viewer, on the side where most tokens are."""
    mean = tokens.mean(axis=0)
    # 0.4 radians to the side, so that paths to the mean are seen as curves.
    azimuth = np.arctan2(mean[1], mean[0]) + 0.4 if np.hypot(mean[0], mean[1]) > 0.05 else -1.0
    tilt = np.radians(-22 if mean[2] < -0.5 else 22)
    right = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
    towards = np.array([np.cos(azimuth) * np.cos(tilt), np.sin(azimuth) * np.cos(tilt), np.sin(tilt)])
    return np.stack([right, np.cross(towards, right), towards])


def draw_grid(axes: Axes, camera: np.ndarray) -> None:
    """Draw the outline, meridians and parallels every 30 degrees, and the ends of the coordinate axes."""
    axes.add_patch(Circle((0, 0), 1, facecolor=theme().tint, edgecolor=theme().grey, linewidth=0.8, zorder=0))
    lines = np.concatenate([_meridians(), _parallels()])
    shades = np.full(len(lines), theme().pale)
    draw_by_side(axes, lines @ camera.T, shades, alpha=1.0, linewidths=0.6, zorder=0.5, label="grid")
    for name, end in zip("xyz", camera.T, strict=True):
        _draw_axis(axes, name, end)


def _meridians() -> np.ndarray:
    sides, turn = np.meshgrid(np.radians(np.arange(0, 180, 30)), np.linspace(0, 2 * np.pi, 121), indexing="ij")
    return np.stack([np.cos(sides) * np.cos(turn), np.sin(sides) * np.cos(turn), np.sin(turn)], axis=-1)


def _parallels() -> np.ndarray:
    heights, turn = np.meshgrid(np.radians(np.arange(-60, 61, 30)), np.linspace(0, 2 * np.pi, 121), indexing="ij")
    return np.stack([np.cos(heights) * np.cos(turn), np.cos(heights) * np.sin(turn), np.sin(heights)], axis=-1)


def _draw_axis(axes: Axes, name: str, end: np.ndarray) -> None:
    """Draw a short line outwards from the globe, with the name of the axis."""
    if end[2] < -0.5 or np.hypot(end[0], end[1]) < 0.7:
        return  # it would seem to leave the globe on the near side, or its name would stand on the globe
    opacity = 1.0 if end[2] >= 0 else FAR_SIDE_OPACITY
    stroke = np.array([1.0, 1.12])[:, None] * end[:2]
    axes.plot(*stroke.T, color=theme().ink, linewidth=0.8, alpha=opacity, zorder=0.6)
    small: dict[str, Any] = {"fontsize": 0.9 * current_page().text, "color": theme().ink}
    axes.annotate(f"${name}$", (1.18 * end[0], 1.18 * end[1]), ha="center", va="center", alpha=opacity, **small)


def draw_by_side(
    axes: Axes, lines: np.ndarray, colours: np.ndarray, *, alpha: float, zorder: float, **style: Any
) -> None:
    """Draw lines (line, point, 3), faint on the far side."""
    is_near = lines[:, :-1, 2] + lines[:, 1:, 2] >= 0  # of every segment
    for is_side, opacity in ((~is_near, FAR_SIDE_OPACITY * alpha), (is_near, alpha)):
        parts = [connected_parts(line, is_kept) for line, is_kept in zip(lines[..., :2], is_side, strict=True)]
        shades = np.repeat(colours, [len(each) for each in parts], axis=0)
        flat = [part for each in parts for part in each]
        axes.add_collection(LineCollection(flat, colors=shades, alpha=opacity, zorder=zorder, **style))


def connected_parts(line: np.ndarray, is_kept: np.ndarray) -> list[np.ndarray]:
    """Parts of a line (point, 2) whose segments are kept; neighbouring segments form one part.

    Examples
    --------
    >>> line = np.arange(5.0)[:, None] * np.ones(2)
    >>> [part[:, 0].tolist() for part in connected_parts(line, np.array([True, True, False, True]))]
    [[0.0, 1.0, 2.0], [3.0, 4.0]]
    """
    changes = np.diff(np.concatenate([[0], is_kept.astype(int), [0]]))
    ends = zip(np.flatnonzero(changes == 1), np.flatnonzero(changes == -1), strict=True)
    return [line[first : last + 1] for first, last in ends]


def _draw_dots(axes: Axes, drawn: DrawnRun, seen: np.ndarray) -> None:
    colours, (first, last) = drawn.token_colours, seen[[0, -1]]
    edges = faint_behind(colours, first, 0.8)
    axes.scatter(*first[:, :2].T, edgecolors=list(edges), zorder=2, **start_style(len(colours)))
    draw_filled(axes, colours, last, **end_style(drawn))


def draw_filled(axes: Axes, colours: np.ndarray, seen: np.ndarray, **style: Any) -> None:
    """Draw filled dots (token, 3), those of the far side first and in pale colours.

    Their colours are mixed with that of the paper: many transparent dots at one place would be as dark as one in front.
    """
    order = np.argsort(seen[:, 2], kind="stable")
    share = np.where(seen[order, 2] >= 0, 1.0, FAR_SIDE_OPACITY)[:, None]
    mixed = share * colours[order] + (1 - share) * np.array(to_rgb(theme().paper))
    sizes = np.broadcast_to(style.pop("s"), len(order))[order]
    axes.scatter(*seen[order, :2].T, c=mixed, s=sizes, zorder=3, **style)


def faint_behind(colours: np.ndarray, seen: np.ndarray, opacity: float) -> np.ndarray:
    """Colours (token, 4) with an opacity, lower for tokens on the far side."""
    return np.column_stack([colours, np.where(seen[:, 2] >= 0, opacity, FAR_SIDE_OPACITY * opacity)])


def _set_box(axes: Any, points: Points, subspaces: tuple[AffineSubspace, ...] = ()) -> None:
    """Set limits and proportions of the box, the view and the faint walls."""
    flat = points.values.reshape(-1, 3)
    middle, sides = (flat.min(axis=0) + flat.max(axis=0)) / 2, np.ptp(flat, axis=0)
    if points.is_to_scale:
        sides = np.maximum(sides, 0.25 * longest_side(flat))  # a side of zero would leave no room for its axis
    limits = middle[:, None] + np.outer(0.53 * sides, [-1, 1])
    axes.set(xlim=limits[0], ylim=limits[1], zlim=limits[2])
    # Long names of axes need room that the layout engine does not reserve.
    box, zoom = (sides / sides.max(), 1.03) if points.is_to_scale else (np.ones(3), 0.95)
    zoom = zoom if current_page().width is None else 0.85 * zoom
    axes.set_box_aspect(box, zoom=zoom)
    axes.set(xlabel=points.names[0], ylabel=points.names[1], zlabel=points.names[2])
    elevation, azimuth = view_of_subspaces(subspaces, box / (limits[:, 1] - limits[:, 0]))
    axes.view_init(elev=elevation, azim=azimuth)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.pane.set(facecolor=theme().paper, edgecolor=theme().pale)
        axis.labelpad += max(12 * (current_page().scale - 1), 0)  # points: larger numbers need more room
    axes.locator_params(nbins=5)
    fix_ticks(axes)
