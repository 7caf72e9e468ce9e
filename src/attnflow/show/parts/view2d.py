"""Trajectories in the plane, also of principal components, and on the circle."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Polygon
from matplotlib.ticker import MultipleLocator

from attnflow.show.parts.drawn_run import DrawnRun
from attnflow.show.parts.page import theme
from attnflow.show.parts.projection import Points
from attnflow.show.parts.style import fix_ticks
from attnflow.show.parts.subspaces import draw_subspaces
from attnflow.show.parts.token_artists import draw_tokens, final_hull, longest_side


def draw_plane(axes: Axes, drawn: DrawnRun, points: Points) -> None:
    """Draw trajectories in the plane, in R^2 with the lines or the convex hull of the final tokens."""
    is_plane = drawn.dimension == 2
    hull = final_hull(points) if is_plane and not drawn.subspaces else None
    if is_plane:
        draw_subspaces(axes, points.in_axes(drawn.subspaces), points.box(0.06))
    if hull is not None:
        corners = hull.points[hull.vertices]
        axes.add_patch(Polygon(corners, fill=False, edgecolor=theme().grey, linewidth=0.9, label="hull", zorder=1.5))
    draw_tokens(axes, drawn, points.values)
    _set_box(axes, points)
    axes.set(xlabel=points.names[0], ylabel=points.names[1])
    fix_ticks(axes)


def draw_circle(axes: Axes, drawn: DrawnRun, points: Points) -> None:
    """Draw trajectories on the unit circle."""
    axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=theme().pale, linewidth=1.2, zorder=1))
    draw_tokens(axes, drawn, points.values, is_round=True)
    axes.set(aspect="equal", xlim=(-1.12, 1.12), ylim=(-1.12, 1.12), xlabel=points.names[0], ylabel=points.names[1])
    axes.xaxis.set_major_locator(MultipleLocator(1))
    axes.yaxis.set_major_locator(MultipleLocator(1))
    fix_ticks(axes)


def _set_box(axes: Axes, points: Points) -> None:
    """Set the limits around all points; with one scale both axes have the same margin."""
    flat = points.values.reshape(-1, 2)
    low, high = flat.min(axis=0), flat.max(axis=0)
    margin = 0.06 * (longest_side(flat) if points.is_to_scale else high - low) * np.ones(2)
    limits = np.stack([low - margin, high + margin], axis=1)
    axes.set(xlim=limits[0], ylim=limits[1], aspect="equal" if points.is_to_scale else "auto")
