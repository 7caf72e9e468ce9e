"""Artists of tokens that all views share: paths, dots at the start and at the end, the hull of the final tokens."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from scipy.spatial import ConvexHull, QhullError

from attnflow._common.plain import evenly_spaced
from attnflow.analyse import clusters
from attnflow.show.parts.drawn_run import DrawnRun
from attnflow.show.parts.projection import Points

MOST_VERTICES = 200_000  # of all paths together: more take seconds to draw and look the same
MOST_PATHS = 4_000  # more tokens are drawn as an image in vector files, and only some of them get a path


def draw_tokens(axes: Axes, drawn: DrawnRun, points: np.ndarray, *, is_round: bool = False) -> None:
    """Draw faint paths from hollow dots at the start to filled dots at the end, coloured by the final cluster."""
    colours = drawn.token_colours
    if drawn.is_followed:
        paths, tokens = paths_to_draw(drawn, points)
        paths = curved_on_sphere(paths) if is_round else paths
        axes.add_collection(LineCollection(list(paths), colors=colours[tokens], zorder=1.8, **path_style(len(colours))))
    axes.scatter(*points[0].T, edgecolors=list(colours), alpha=0.8, zorder=2, **start_style(len(colours)))
    axes.scatter(*points[-1].T, c=colours, zorder=3, **end_style(drawn))


def paths_to_draw(drawn: DrawnRun, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Paths (path, point, axis) and the token of each; fewer tokens and times where all would be too many."""
    tokens = evenly_spaced(len(drawn.labels), MOST_PATHS)
    times = drawn.times_of_interest(max(MOST_VERTICES // len(tokens), 50))
    return points[times][:, tokens].transpose(1, 0, 2), tokens


def curved_on_sphere(paths: np.ndarray) -> np.ndarray:
    """Paths on the unit sphere with points inserted, so that long steps follow the sphere."""
    longest = np.linalg.norm(np.diff(paths, axis=1), axis=-1).max(initial=0)
    parts = int(np.clip(np.ceil(longest / 0.1), 1, 20))  # a chord of length 0.1 looks like an arc
    share = np.arange(parts)[:, None] / parts
    between = (1 - share) * paths[:, :-1, None] + share * paths[:, 1:, None]
    fine = np.concatenate([between.reshape(len(paths), -1, paths.shape[-1]), paths[:, -1:]], axis=1)
    norms = np.linalg.norm(fine, axis=-1, keepdims=True)
    return fine / np.where(norms > 0, norms, 1)


def path_style(n: int) -> dict:
    """Style of the paths of n tokens: fainter the more there are."""
    alpha = float(np.clip(3 / np.sqrt(n), 0.06, 0.5))
    return {"alpha": alpha, "linewidths": 0.9, "label": "paths", "rasterized": is_rasterised(n)}


def start_style(n: int) -> dict:
    """Style of the dots of n tokens at the start: small and hollow."""
    hollow = {"facecolors": "none", "linewidths": 0.8, "label": "start", "rasterized": is_rasterised(n)}
    return {"s": 0.6 * _area(n), **hollow}


def end_style(drawn: DrawnRun) -> dict:
    """Style of the dots at the end: filled, and larger the more tokens a cluster has."""
    return _dot_style(drawn.tokens_at_one_place)


def current_style(drawn: DrawnRun, index: int) -> dict:
    """Style of the dots at a saved time: filled, and larger the more tokens a cluster of that time has."""
    labels = clusters.labels(drawn.tokens[index], drawn.distance)
    return _dot_style(np.bincount(labels)[labels])


def _dot_style(sizes: np.ndarray) -> dict:
    how = {"edgecolors": "white", "linewidths": 0.5, "label": "end", "rasterized": is_rasterised(len(sizes))}
    n = len(sizes)
    return {"s": _area(n) * (1 + 4 * (sizes - 1) / n), **how}


def is_rasterised(n: int) -> bool:
    """Whether a vector file holds n tokens as one image instead of one mark each."""
    return n > MOST_PATHS


def final_hull(points: Points) -> ConvexHull | None:
    """The convex hull of the final tokens; None where there is none or a dot would cover it."""
    box, final = np.ptp(points.values, axis=(0, 1)).max(), np.ptp(points.values[-1], axis=0).max()
    if not points.is_to_scale or final <= 0.03 * box:  # about the size of a dot
        return None
    try:
        return ConvexHull(points.values[-1])
    except (QhullError, ValueError):  # too few tokens, or all on a line or plane
        return None


def longest_side(points: np.ndarray) -> float:
    """Longest side of the box around points (point, axis); of a single point, ten times its coordinate."""
    side, size = np.ptp(points, axis=0).max(), np.abs(points).max()
    return float(side if side > 1e-9 * size else 10 * size or 10.0)


def _area(n: int) -> float:
    """Area of a dot in square points, smaller the more tokens there are."""
    return float(np.clip(44 * (20 / n) ** 0.4, 4, 44))
