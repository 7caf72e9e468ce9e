"""The convex hull of the tokens, the polytope it becomes, and the finite set S where tokens end (arXiv:2305.05465).

Functions of a run are here; hulls of points are in `hulls`.
"""

import itertools
from typing import Any

import numpy as np
import xarray as xr
from scipy.spatial.distance import cdist

from attnflow._common.checks import InputError, require_square
from attnflow.analyse import clusters
from attnflow.analyse.hulls import (
    INSIDE_TOLERANCE,
    checked_points,
    contains,
    coordinates_in_span,
    distance_to_boundary,
    distance_to_hull,
    hull,
    hull_volume,
    require_low_dimension,
    require_same_dimension,
    span,
    vertices,
)
from attnflow.analyse.hulls import LARGEST_QHULL_DIMENSION as LARGEST_QHULL_DIMENSION
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


def is_vertex(run: Any) -> xr.DataArray:
    """True for tokens that are vertices of the hull, over time (and runs); False where tokens are not finite.

    Examples
    --------
    >>> is_vertex(np.array([[0.0], [0.5], [1.0]])).values
    array([ True, False,  True])
    """

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
    require_low_dimension(d, "The volume of a hull")
    return over_snapshots(hull_volume, run, "volume", dimension=d)


def limit_vertices(run: Any, merge: float = 1e-4) -> np.ndarray:
    """Vertices (m, d) of the limit polytope of one run: that of its last tokens, tokens within `merge` counted as one.

    Rescaled tokens approach the vertices like e^{-t} only: at t = 5 many are still well away from theirs, at t = 10
    they are within the default of `merge`, at t = 20 within 1e-8.

    Examples
    --------
    >>> limit_vertices(np.array([[0.0], [0.5], [1.0]])).ravel()
    array([0., 1.])
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
    fixed = None if corners is None else checked_points(corners)

    def one(tokens):
        # A linear function is largest at a vertex: without given ones the maximum is that over all tokens.
        rivals = tokens if fixed is None else fixed
        return np.abs(_squares(tokens, scores) - (tokens @ scores @ rivals.T).max(axis=1))

    return over_snapshots(one, run, "residual_of_S", _missing(run), ("token",))


def points_of_s(corners: Any, query_key: Any = None, tolerance: float = INSIDE_TOLERANCE) -> np.ndarray:
    """The finite set S = {x in K: |Ax|^2 = max_v <Ax, Av>} of a polytope K given by its vertices, shape (points, d).

    A point of S is the point of least |Ax| of the face in whose relative interior it lies (a vertex is a face; for
    K of full dimension that point is 0). Hence one candidate a face is tested against the definition, with the faces
    of a triangulation of the boundary.

    Parameters
    ----------
    corners
        Points whose convex hull is K, shape (m, d).
    query_key
        A^T A = Q^T K, symmetric and positive definite. None: the identity.
    tolerance
        Relative distance at which the equation counts as satisfied.

    Examples
    --------
    >>> np.sort(points_of_s(np.array([[-1.0], [2.0]])).ravel()).round(12)
    array([-1.,  0.,  2.])
    """
    corners = checked_points(corners)
    corners = corners[vertices(corners)]
    scores = _score_matrix(query_key, corners.shape[1])
    if np.linalg.eigvalsh(scores).min() <= 0:
        raise InputError("`query_key` must be positive definite, since S is finite only then.")
    candidates = np.stack([_least_point(corners[list(face)], scores) for face in _faces(corners)])
    # Tolerances of lengths and of squared lengths; those of the polytope {0} are not zero.
    length = tolerance * (np.abs(corners).max() or 1.0)
    square = tolerance * max(_squares(corners, scores).max(), 1e-300)
    candidates = candidates[residual_of_s(candidates, corners, scores).values <= square]
    points = candidates[np.asarray(distance_to_hull(corners, candidates)) <= length]
    same = clusters.labels(points, max(length, 1e-300))
    return points[np.unique(same, return_index=True)[1]]


def distance_to_s(run: Any, points: Any) -> xr.DataArray:
    """Distance of every token to the nearest of the `points` of S, over time (and runs).

    Examples
    --------
    >>> distance_to_s(np.array([[0.0], [0.75]]), points=[[0.0], [1.0]]).values
    array([0.  , 0.25])
    """
    points = checked_points(points)
    require_same_dimension(points, tokens_of(run).values)
    one = lambda tokens: cdist(tokens, points).min(axis=1)
    return over_snapshots(one, run, "distance_to_S", _missing(run), ("token",))


def _missing(run: Any) -> np.ndarray:
    """The value of all tokens of a snapshot that is not finite."""
    return np.full(tokens_of(run).sizes["token"], np.nan)


def _squares(points: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """|Ax|^2 = x^T B x of every point x."""
    return np.einsum("ni,ij,nj->n", points, scores, points)


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


def _faces(corners: np.ndarray) -> set[tuple[int, ...]]:
    """Faces of the triangulated boundary as tuples of vertices, and the polytope itself."""
    flat = coordinates_in_span(corners)
    whole = tuple(range(len(corners)))
    faces = {whole, *((index,) for index in whole)}
    if flat.shape[1] > 1:
        advice = "Use `residual_of_s`, which works in any dimension."
        require_low_dimension(flat.shape[1], "The set S of a polytope", advice)
        simplices = hull(flat).simplices
        sizes = range(2, flat.shape[1] + 1)
        faces |= {face for one in simplices for size in sizes for face in itertools.combinations(sorted(one), size)}
    return faces


def _least_point(corners: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The point of least x^T B x of the affine space that the corners span."""
    _, axes, sizes = span(corners)
    if len(sizes) == 0:
        return corners[0]
    if len(sizes) == corners.shape[1]:
        return np.zeros(corners.shape[1])
    base = corners[0]
    return base - axes @ np.linalg.solve(axes.T @ scores @ axes, axes.T @ scores @ base)
