"""What every view draws: ways, dots and hulls."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from scipy.spatial import ConvexHull, QhullError

from attnflow._common.plain import evenly_spaced
from attnflow.analyse import clusters
from attnflow.show.parts.drawn_run import DrawnRun
from attnflow.show.parts.projection import Points

MOST_VERTICES = 200_000  # of all trajectories together: more is slow and looks the same
MOST_TRAJECTORIES = 4_000
SPECK = 0.03  # share of the picture below which a hull hides behind a dot
STRAIGHT = 0.1  # a step on the sphere up to which a line looks like an arc


def draw_tokens(axes: Axes, drawn: DrawnRun, points: np.ndarray, *, is_round: bool = False) -> None:
    """Faint ways from hollow starts to filled ends, coloured by the final cluster."""
    colours = drawn.token_colours
    if drawn.is_followed:
        ways, tokens = paths_to_draw(drawn, points)
        ways = curved_on_sphere(ways) if is_round else ways
        axes.add_collection(LineCollection(list(ways), colors=colours[tokens], zorder=1.8, **path_style(len(colours))))
    axes.scatter(*points[0].T, edgecolors=list(colours), alpha=0.8, zorder=2, **start_style(len(colours)))
    axes.scatter(*points[-1].T, c=colours, zorder=3, **end_style(drawn))


def paths_to_draw(drawn: DrawnRun, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lines (line, point, axis) and whose they are: all, unless they are too many to see or to draw."""
    n = len(drawn.labels)
    tokens = evenly_spaced(n, MOST_TRAJECTORIES)
    times = drawn.times_of_interest(max(MOST_VERTICES // len(tokens), 50))
    return points[times][:, tokens].transpose(1, 0, 2), tokens


def curved_on_sphere(ways: np.ndarray) -> np.ndarray:
    """Lines on the unit sphere with points between, so that long steps bend along it."""
    longest = np.linalg.norm(np.diff(ways, axis=1), axis=-1).max(initial=0)
    parts = int(np.clip(np.ceil(longest / STRAIGHT), 1, 20))
    share = np.arange(parts)[:, None] / parts
    between = (1 - share) * ways[:, :-1, None] + share * ways[:, 1:, None]
    fine = np.concatenate([between.reshape(len(ways), -1, ways.shape[-1]), ways[:, -1:]], axis=1)
    norms = np.linalg.norm(fine, axis=-1, keepdims=True)
    return fine / np.where(norms > 0, norms, 1)


def path_style(n: int) -> dict:
    """Lines that stay faint when there are many."""
    alpha = float(np.clip(3 / np.sqrt(n), 0.06, 0.5))
    return {"alpha": alpha, "linewidths": 0.9, "label": "ways", "rasterized": is_rasterised(n)}


def start_style(n: int) -> dict:
    """Small hollow dots."""
    return {
        "s": 0.6 * _area(n),
        "facecolors": "none",
        "linewidths": 0.8,
        "label": "start",
        "rasterized": is_rasterised(n),
    }


def end_style(drawn: DrawnRun) -> dict:
    """Filled dots; those of large clusters are larger, since they stand for many."""
    return _dot_style(drawn.cluster_sizes[drawn.labels])


def current_style(drawn: DrawnRun, place: int) -> dict:
    """Filled dots at one of the times, larger where tokens have met by then."""
    labels = clusters.labels(drawn.tokens[place], drawn.distance)
    return _dot_style(np.bincount(labels)[labels])


def _dot_style(sizes: np.ndarray) -> dict:
    how = {"edgecolors": "white", "linewidths": 0.5, "label": "end", "rasterized": is_rasterised(len(sizes))}
    n = len(sizes)
    return {"s": _area(n) * (1 + 4 * (sizes - 1) / n), **how}


def is_rasterised(n: int) -> bool:
    """Whether a vector file should hold an image of the tokens instead of each of them."""
    return n > MOST_TRAJECTORIES


def final_hull(points: Points) -> ConvexHull | None:
    """The hull of the final tokens, or None where there is none or it would be a speck or a sliver."""
    box, final = np.ptp(points.values, axis=(0, 1)).max(), np.ptp(points.values[-1], axis=0).max()
    if not points.is_to_scale or final <= SPECK * box:
        return None
    try:
        return ConvexHull(points.values[-1])
    except (QhullError, ValueError):  # too few tokens, or all on a line or plane
        return None


def longest_side(points: np.ndarray) -> float:
    """Of the box around points (point, axis); if they are one point, a size to see it in."""
    side, size = np.ptp(points, axis=0).max(), np.abs(points).max()
    return float(side if side > 1e-9 * size else 10 * size or 10.0)


def _area(n: int) -> float:
    """Of a dot in square points: small crowds have large dots."""
    return float(np.clip(44 * (20 / n) ** 0.4, 4, 44))
