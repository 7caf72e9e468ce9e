"""The convex hull of the tokens, the polytope it becomes, and the finite set S where tokens end (arXiv:2305.05465).

Degenerate sets (few tokens, tokens on a line, all equal) are treated in the affine space that they span.
Vertices are found by Qhull up to dimension six, by linear programmes above.
"""

import itertools
from typing import Any

import numpy as np
import xarray as xr
from scipy.spatial import ConvexHull, QhullError
from scipy.spatial.distance import cdist

from attnflow._common.checks import InputError, require_positive_number, require_square
from attnflow.analyse import clusters
from attnflow.analyse.snapshots import over_snapshots, tokens_of

__all__ = [
    "contains",
    "distance_to_boundary",
    "distance_to_hull",
    "distance_to_s",
    "is_vertex",
    "limit_vertices",
    "points_of_s",
    "residual_of_s",
    "vertices",
    "volume",
]

LARGEST_QHULL_DIMENSION = 6  # the number of facets of a hull grows like n^(d/2)
INSIDE_TOLERANCE = 1e-9  # relative to the size of the set; ten times the tolerance of the linear programmes


def vertices(points: Any) -> np.ndarray:
    """Increasing indices of the points that are vertices of their hull; of equal points the first.

    Examples
    --------
    >>> vertices([[0.0, 0.0], [1.0, 0.0], [0.5, 0.0], [0.0, 1.0]])
    array([0, 1, 3])
    """
    points = _points(points)
    _, first = np.unique(points, axis=0, return_index=True)
    flat = _coordinates_in_span(points[first])
    return np.sort(first[_vertices_of_full(flat)])


def is_vertex(run: Any) -> xr.DataArray:
    """True for tokens that are vertices of the hull, over time (and runs); False where tokens are not finite."""

    def one(tokens):
        return np.isin(np.arange(len(tokens)), vertices(tokens))

    return over_snapshots(one, run, "is_vertex", np.zeros(tokens_of(run).sizes["token"], bool), ("token",))


def volume(run: Any) -> xr.DataArray:
    """Volume of the hull over time (and runs): an area in the plane, a length on the line, 0 for flat sets.

    Examples
    --------
    >>> volume([[[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]]]).values
    array([1.])
    """
    d = tokens_of(run).sizes["coordinate"]
    if d > LARGEST_QHULL_DIMENSION:
        raise InputError(
            f"The volume of a hull is computed for d <= {LARGEST_QHULL_DIMENSION}, but the tokens have d = {d}. "
            "Project them onto fewer coordinates."
        )
    return over_snapshots(_volume, run, "volume", dimension=d)


def contains(points: Any, tokens: Any, tolerance: float = INSIDE_TOLERANCE) -> np.ndarray | bool:
    """Whether each token lies in the hull of `points`, by linear programming in any dimension.

    A token outside by less than `tolerance` times the size of the set counts as inside.

    Examples
    --------
    >>> contains([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[0.2, 0.2], [0.6, 0.6]])
    array([ True, False])
    """
    require_positive_number(tolerance, "tolerance")
    points, tokens = _points(points), np.asarray(tokens, dtype=float)
    _require_same_dimension(points, tokens)
    centre = points.mean(axis=0)
    size = max(np.abs(points - centre).max(), np.abs(centre).max() * np.finfo(float).eps, np.finfo(float).tiny)
    corners = (points - centre) / size
    is_inside = [_is_convex_combination(corners, (token - centre) / size, tolerance) for token in np.atleast_2d(tokens)]
    return is_inside[0] if tokens.ndim == 1 else np.array(is_inside)


def distance_to_hull(points: Any, tokens: Any) -> np.ndarray | float:
    """Distance of each token to the hull of `points`, 0 inside; accurate to rounding in any dimension.

    With the token at 0, the nearest point sum_j w_j p_j is found by non-negative least squares: the minimiser of
    |sum_j u_j p_j|^2 + (1 - sum_j u_j)^2 over u >= 0 is a multiple of w.
    """
    points, tokens = _points(points), np.asarray(tokens, dtype=float)
    _require_same_dimension(points, tokens)
    distances = np.array([_distance(points - token) for token in np.atleast_2d(tokens)])
    return float(distances[0]) if tokens.ndim == 1 else distances


def distance_to_boundary(points: Any, tokens: Any) -> np.ndarray:
    """Distance of each token (n, d) to the boundary of the hull, from either side.

    A hull of lower dimension than d is its own boundary.
    """
    points, tokens = _points(points), np.atleast_2d(np.asarray(tokens, dtype=float))
    outside = np.asarray(distance_to_hull(points, tokens))
    centre, axes, sizes = _span(points)
    if len(sizes) < points.shape[1]:
        return outside
    if len(sizes) == 1:
        return np.abs(tokens - np.array([[points.min(), points.max()]])).min(axis=1)
    hull = _hull((points - centre) @ axes / sizes, "The boundary of a hull")
    normals = hull.equations[:, :-1] / sizes
    heights = ((tokens - centre) @ axes @ normals.T + hull.equations[:, -1]) / np.linalg.norm(normals, axis=1)
    # Inside all heights are negative, and the nearest facet is at the largest one.
    return np.where(np.all(heights <= 0, axis=1), -heights.max(axis=1), outside)


def limit_vertices(run: Any, merge: float = 1e-4) -> np.ndarray:
    """Vertices (m, d) of the limit polytope of one run: that of its last tokens, those within `merge` counted as one.

    Rescaled tokens approach the vertices like e^{-t} only: at t = 5 many are still well away
    from theirs, at t = 20 they are within 1e-8.
    """
    tokens = _last_snapshot(run)
    labels = clusters.labels(tokens, merge)
    centres = np.stack([tokens[labels == label].mean(axis=0) for label in range(labels.max() + 1)])
    return centres[vertices(centres)]


def residual_of_s(run: Any, corners: Any = None, query_key: Any = None) -> xr.DataArray:
    """Residual of every token in the equation that defines S: | |Ax|^2 - max_v <Ax, Av> |, over time.

    Parameters
    ----------
    run
        Rescaled tokens.
    corners
        Vertices v of the polytope. None: at each time those of the hull of the tokens.
    query_key
        A^T A = Q^T K (times beta), symmetric. None: the identity.

    Examples
    --------
    The midpoint of this edge, the nearest to the origin, is in S; another point of the edge is not.

    >>> corners = np.array([[-1.0, 1.0], [1.0, 1.0]])
    >>> residual_of_s([[0.0, 1.0], [0.5, 1.0]], corners).values
    array([0.  , 0.25])
    """
    scores = _score_matrix(query_key, tokens_of(run).sizes["coordinate"])
    fixed = None if corners is None else _points(corners)

    def one(tokens):
        own = np.einsum("ni,ij,nj->n", tokens, scores, tokens)
        best = (tokens @ scores @ (tokens if fixed is None else fixed).T).max(axis=1)
        return np.abs(own - best)

    return over_snapshots(one, run, "residual_of_S", _missing(run), ("token",))


def points_of_s(corners: Any, query_key: Any = None, tolerance: float = INSIDE_TOLERANCE) -> np.ndarray:
    """The finite set S = {x in K: |Ax|^2 = max_v <Ax, Av>} of a polytope K given by its vertices, shape (points, d).

    A point of S is the point of least |Ax| of the face in whose relative interior it lies (a vertex is a face; for
    K of full dimension that point is 0). Hence one candidate a face is tested against the definition, with the faces
    of a triangulation of the boundary.
    """
    corners = _points(corners)
    corners = corners[vertices(corners)]
    scores = _score_matrix(query_key, corners.shape[1])
    if np.linalg.eigvalsh(scores).min() <= 0:
        raise InputError("`query_key` must be positive definite, since S is finite only then.")
    candidates = np.stack([_least_point(corners[list(face)], scores) for face in _faces(corners)])
    size = np.abs(corners).max() or 1.0
    residuals = residual_of_s(candidates, corners, scores).values
    fits = residuals <= tolerance * max(np.abs(np.einsum("ni,ij,nj->n", corners, scores, corners)).max(), 1e-300)
    fits[fits] = np.asarray(distance_to_hull(corners, candidates[fits])) <= tolerance * size if fits.any() else False
    points = candidates[fits]
    same = clusters.labels(points, max(tolerance * size, 1e-300))
    return points[np.unique(same, return_index=True)[1]]


def distance_to_s(run: Any, points: Any) -> xr.DataArray:
    """Distance of every token to the nearest of the `points` of S, over time (and runs)."""
    points = _points(points)
    _require_same_dimension(points, tokens_of(run).values)
    one = lambda tokens: cdist(tokens, points).min(axis=1)
    return over_snapshots(one, run, "distance_to_S", _missing(run), ("token",))


def _missing(run: Any) -> np.ndarray:
    return np.full(tokens_of(run).sizes["token"], np.nan)


def _points(points: Any) -> np.ndarray:
    array = np.asarray(points, dtype=float)
    if array.ndim != 2 or 0 in array.shape or not np.all(np.isfinite(array)):
        found = f"the shape is {array.shape}" if array.ndim != 2 or 0 in array.shape else "some are not"
        raise InputError(f"Points of a hull must be finite and have shape (points, d), but {found}.")
    return array


def _require_same_dimension(points: np.ndarray, tokens: np.ndarray) -> None:
    if tokens.ndim == 0 or tokens.shape[-1] != points.shape[1]:
        raise InputError(f"Tokens must have {points.shape[1]} coordinates like the points, not shape {tokens.shape}.")


def _score_matrix(query_key: Any, d: int) -> np.ndarray:
    if query_key is None:
        return np.eye(d)
    require_square(query_key, "query_key")
    matrix = np.asarray(query_key, dtype=float)
    if len(matrix) != d:
        raise InputError(f"`query_key` must be {d} x {d} like the tokens, but it is {len(matrix)} x {len(matrix)}.")
    asymmetry = np.abs(matrix - matrix.T).max()
    if asymmetry > 1e-9 * np.abs(matrix).max():
        raise InputError(
            f"`query_key` must be symmetric, since |Ax| is a length, but entries differ from their mirror images by "
            f"up to {asymmetry:.3g}."
        )
    return matrix


def _last_snapshot(run: Any) -> np.ndarray:
    tokens = tokens_of(run)
    if "run" in tokens.dims:
        raise InputError("A limit polytope belongs to one run. Take one with `run.isel(run=0)`.")
    snapshots = tokens.values.reshape(-1, *tokens.shape[-2:])
    whole = np.flatnonzero(np.all(np.isfinite(snapshots), axis=(1, 2)))
    if len(whole) == 0:
        raise InputError("`run` holds no finite tokens, so it has no limit polytope.")
    return snapshots[whole[-1]]


def _span(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centre, orthonormal directions (d, r) and lengths (r) of the affine space that points span."""
    centre = points.mean(axis=0)
    _, lengths, directions = np.linalg.svd(points - centre, full_matrices=False)
    # A set is flat where it is thinner than 1e-9 of its length, or than the rounding of its coordinates.
    rounding = 8 * np.finfo(float).eps * np.sqrt(len(points)) * np.abs(points).max()
    is_wide = lengths > max(1e-9 * lengths[0], rounding)
    return centre, directions[is_wide].T, lengths[is_wide]


def _coordinates_in_span(points: np.ndarray) -> np.ndarray:
    """Points in coordinates of their span, scaled to unit size: the faces are the same, and well conditioned."""
    centre, axes, sizes = _span(points)
    return (points - centre) @ axes / sizes


def _vertices_of_full(points: np.ndarray) -> np.ndarray:
    """Vertices of distinct points that span their space."""
    n, r = points.shape
    if r <= 1:
        return np.unique([points.argmin(), points.argmax()]) if r else np.array([0])
    if n == r + 1:
        return np.arange(n)
    if r <= LARGEST_QHULL_DIMENSION:
        try:
            return ConvexHull(points).vertices
        except QhullError:  # many nearly coplanar facets
            pass
    return _vertices_by_programmes(points)


def _vertices_by_programmes(points: np.ndarray) -> np.ndarray:
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
        options={"primal_feasibility_tolerance": 1e-10},
    )
    return programme.status == 0


def _distance(offsets: np.ndarray) -> float:
    """Distance of 0 to the hull of the rows."""
    if not np.all(np.isfinite(offsets)):
        return np.nan
    size = np.linalg.norm(offsets, axis=1).max()
    if size == 0:
        return 0.0
    matrix = np.vstack([offsets.T / size, np.ones(len(offsets))])
    from scipy.optimize import nnls  # as above

    weights, _ = nnls(matrix, np.r_[np.zeros(offsets.shape[1]), 1.0], maxiter=30 * max(matrix.shape))
    return float(np.linalg.norm(weights @ offsets) / weights.sum())


def _hull(points: np.ndarray, quantity: str) -> ConvexHull:
    if points.shape[1] > LARGEST_QHULL_DIMENSION:
        raise InputError(
            f"{quantity} is computed in at most {LARGEST_QHULL_DIMENSION} dimensions, but this one has "
            f"{points.shape[1]}. Use `residual_of_s`, which works in any."
        )
    return ConvexHull(points)


def _volume(tokens: np.ndarray) -> float:
    centre, axes, sizes = _span(tokens)
    if len(sizes) < tokens.shape[1]:
        return 0.0
    if tokens.shape[1] == 1:
        return float(np.ptp(tokens))
    return float(ConvexHull((tokens - centre) @ axes / sizes).volume * np.prod(sizes))


def _faces(corners: np.ndarray) -> set[tuple[int, ...]]:
    """Faces of the triangulated boundary as tuples of vertices, and the polytope itself."""
    flat = _coordinates_in_span(corners)
    whole = tuple(range(len(corners)))
    faces = {whole, *((index,) for index in whole)}
    if flat.shape[1] > 1:
        simplices = _hull(flat, "The set S of a polytope").simplices
        sizes = range(2, flat.shape[1] + 1)
        faces |= {face for one in simplices for size in sizes for face in itertools.combinations(sorted(one), size)}
    return faces


def _least_point(corners: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The point of least x^T B x of the affine space that the corners span."""
    _, axes, sizes = _span(corners)
    if len(sizes) == 0:
        return corners[0]
    if len(sizes) == corners.shape[1]:
        return np.zeros(corners.shape[1])
    base = corners[0]
    return base - axes @ np.linalg.solve(axes.T @ scores @ axes, axes.T @ scores @ base)
