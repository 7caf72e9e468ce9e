"""Convex hulls of points in R^d: vertices, membership, distances, volume.

Degenerate sets (few points, points on a line, all equal) are treated in the affine space that they span.
Vertices are found by Qhull up to dimension six, by linear programmes above.

`points` and `tokens` have shapes (m, d) and (n, d).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from attnflow._common.checks import InputError, require_positive_number

LARGEST_QHULL_DIMENSION = 6  # the number of facets of a hull grows like n^(d/2)
PROGRAMME_TOLERANCE = 1e-10  # of the constraints of a linear programme: the smallest that SciPy's HiGHS accepts
INSIDE_TOLERANCE = 10 * PROGRAMME_TOLERANCE  # relative to the size of the set


class Hull(NamedTuple):
    """The hull of points that span their space."""

    vertices: np.ndarray
    """Indices of the points that are vertices."""
    simplices: np.ndarray
    """Indices (facets, d) of the corners of the triangulated boundary."""
    equations: np.ndarray
    """Outer unit normal and offset (facets, d + 1) of every facet: normal x + offset <= 0 inside."""
    volume: float


def vertices(points: Any) -> np.ndarray:
    """Increasing indices of the points that are vertices of their hull; of equal points the first.

    Examples
    --------
    >>> vertices([[0.0, 0.0], [1.0, 0.0], [0.5, 0.0], [0.0, 1.0]])
    array([0, 1, 3])
    """
    points = checked_points(points)
    _, first = np.unique(points, axis=0, return_index=True)
    return np.sort(first[_vertices_of_full(coordinates_in_span(points[first]))])


def contains(points: Any, tokens: Any, tolerance: float = INSIDE_TOLERANCE) -> np.ndarray | bool:
    """Whether each token lies in the hull of `points`, by linear programming in any dimension.

    A token outside by less than `tolerance` times the size of the set counts as inside.

    Examples
    --------
    >>> contains([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[0.2, 0.2], [0.6, 0.6]])
    array([ True, False])
    """
    require_positive_number(tolerance, "tolerance")
    points, tokens = checked_points(points), np.asarray(tokens, dtype=float)
    require_same_dimension(points, tokens)
    centre = points.mean(axis=0)
    # The size of a single point is the rounding of its coordinates; that of the origin, which has none, is not zero.
    rounding = max(np.abs(centre).max() * np.finfo(float).eps, np.finfo(float).tiny)
    size = max(np.abs(points - centre).max(), rounding)
    corners = (points - centre) / size
    is_inside = [_is_convex_combination(corners, (token - centre) / size, tolerance) for token in np.atleast_2d(tokens)]
    return is_inside[0] if tokens.ndim == 1 else np.array(is_inside)


def distance_to_hull(points: Any, tokens: Any) -> np.ndarray | float:
    """Distance of each token to the hull of `points`, 0 inside; accurate to rounding in any dimension.

    With the token at 0, the nearest point sum_j w_j p_j is found by non-negative least squares: the minimiser of
    |sum_j u_j p_j|^2 + (1 - sum_j u_j)^2 over u >= 0 is a multiple of w.

    Examples
    --------
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> distance_to_hull(square, [[0.5, 0.5], [2.0, 0.5]]).round(12)
    array([0., 1.])
    """
    points, tokens = checked_points(points), np.asarray(tokens, dtype=float)
    require_same_dimension(points, tokens)
    distances = np.array([_distance(points - token) for token in np.atleast_2d(tokens)])
    return float(distances[0]) if tokens.ndim == 1 else distances


def distance_to_boundary(points: Any, tokens: Any) -> np.ndarray:
    """Distance of each token (n, d) to the boundary of the hull, from either side.

    A hull of lower dimension than d is its own boundary.

    Examples
    --------
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> distance_to_boundary(square, [[0.5, 0.5], [2.0, 0.5]]).round(12)
    array([0.5, 1. ])
    """
    points, tokens = checked_points(points), np.atleast_2d(np.asarray(tokens, dtype=float))
    outside = np.asarray(distance_to_hull(points, tokens))
    centre, axes, sizes = span(points)
    if len(sizes) < points.shape[1]:
        return outside
    if len(sizes) == 1:
        return np.abs(tokens - np.array([[points.min(), points.max()]])).min(axis=1)
    require_low_dimension(len(sizes), "The boundary of a hull")
    equations = hull((points - centre) @ axes / sizes).equations
    normals = equations[:, :-1] / sizes
    heights = ((tokens - centre) @ axes @ normals.T + equations[:, -1]) / np.linalg.norm(normals, axis=1)
    # Inside all heights are negative, and the nearest facet is at the largest one.
    return np.where(np.all(heights <= 0, axis=1), -heights.max(axis=1), outside)


def hull_volume(points: np.ndarray) -> float:
    """Volume of the hull in the space of the points: an area in the plane, a length on the line, 0 for flat sets."""
    centre, axes, sizes = span(points)
    if len(sizes) < points.shape[1]:
        return 0.0
    if points.shape[1] == 1:
        return float(np.ptp(points))
    return float(hull((points - centre) @ axes / sizes).volume * np.prod(sizes))


def _vertices_of_full(points: np.ndarray) -> np.ndarray:
    """Vertices of distinct points that span their space."""
    n, r = points.shape
    if r <= 1:
        return np.unique([points.argmin(), points.argmax()]) if r else np.array([0])
    if n == r + 1:
        return np.arange(n)
    return hull(points).vertices if r <= LARGEST_QHULL_DIMENSION else _vertices_by_programmes(points)


def hull(points: np.ndarray) -> Hull:
    """The hull of distinct points that span their space, of dimension 2 to LARGEST_QHULL_DIMENSION.

    Qhull fails where many facets are nearly coplanar. Then linear programmes find the vertices, and Qhull the hull of
    these, moved by up to 1e-10 of their size (its option QJ).
    """
    try:
        found = ConvexHull(points)
        return Hull(found.vertices, found.simplices, found.equations, float(found.volume))
    except QhullError:
        kept = _vertices_by_programmes(points)
        found = ConvexHull(points[kept], qhull_options="QJ")
        return Hull(kept, kept[found.simplices], found.equations, float(found.volume))


def require_low_dimension(d: int, quantity: str, advice: str = "Project the points onto fewer coordinates.") -> None:
    """Refuse a quantity that needs all facets of a hull in more than LARGEST_QHULL_DIMENSION dimensions."""
    if d > LARGEST_QHULL_DIMENSION:
        raise InputError(
            f"{quantity} is computed in at most {LARGEST_QHULL_DIMENSION} dimensions, but this one has {d}. {advice}"
        )


def _vertices_by_programmes(points: np.ndarray) -> np.ndarray:
    """Vertices of distinct points by one linear programme each."""
    kept = np.arange(len(points))
    for index in range(len(points)):
        others = kept[kept != index]
        # A point that is no vertex can be left out, since the hull stays the same.
        if len(others) and _is_convex_combination(points[others], points[index], INSIDE_TOLERANCE):
            kept = others
    return kept


def _is_convex_combination(corners: np.ndarray, token: np.ndarray, tolerance: float) -> bool:
    """Whether some weights w >= 0, sum w = 1, give the token within `tolerance` in every coordinate."""
    if not np.all(np.isfinite(token)):
        return False
    from scipy.optimize import linprog  # 0.1 s to import, and few runs need it

    programme = linprog(
        np.zeros(len(corners)),
        A_ub=np.vstack([corners.T, -corners.T]),
        b_ub=np.concatenate([token, -token]) + tolerance,
        A_eq=np.ones((1, len(corners))),
        b_eq=[1.0],
        method="highs",
        options={"primal_feasibility_tolerance": PROGRAMME_TOLERANCE},
    )
    return programme.status == 0


def _distance(offsets: np.ndarray) -> float:
    """Distance of 0 to the hull of the rows."""
    if not np.all(np.isfinite(offsets)):
        return np.nan
    size = np.linalg.norm(offsets, axis=1).max()
    if size == 0:
        return 0.0
    from scipy.optimize import nnls  # 0.1 s to import, and few runs need it

    matrix = np.vstack([offsets.T / size, np.ones(len(offsets))])
    weights, _ = nnls(matrix, np.r_[np.zeros(offsets.shape[1]), 1.0], maxiter=30 * max(matrix.shape))
    return float(np.linalg.norm(weights @ offsets) / weights.sum())


def span(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centre, orthonormal directions (d, r) and lengths (r) of the affine space that points span."""
    centre = points.mean(axis=0)
    _, lengths, directions = np.linalg.svd(points - centre, full_matrices=False)
    # A set is flat where it is thinner than INSIDE_TOLERANCE of its length, or than the rounding of its coordinates.
    rounding = 8 * np.finfo(float).eps * np.sqrt(len(points)) * np.abs(points).max()
    is_wide = lengths > max(INSIDE_TOLERANCE * lengths[0], rounding)
    return centre, directions[is_wide].T, lengths[is_wide]


def coordinates_in_span(points: np.ndarray) -> np.ndarray:
    """Points in coordinates of their span, scaled to unit size: the faces are the same, and well conditioned."""
    centre, axes, sizes = span(points)
    return (points - centre) @ axes / sizes


def checked_points(points: Any) -> np.ndarray:
    """The points as a finite array (points, d), or InputError."""
    array = np.asarray(points, dtype=float)
    if array.ndim != 2 or 0 in array.shape or not np.all(np.isfinite(array)):
        found = f"the shape is {array.shape}" if array.ndim != 2 or 0 in array.shape else "some are not"
        raise InputError(f"Points of a hull must be finite and have shape (points, d), but {found}.")
    return array


def require_same_dimension(points: np.ndarray, tokens: np.ndarray) -> None:
    """Refuse tokens that have another number of coordinates than the points."""
    if tokens.ndim == 0 or tokens.shape[-1] != points.shape[1]:
        raise InputError(f"Tokens must have {points.shape[1]} coordinates like the points, not shape {tokens.shape}.")
