"""Clusters of tokens: connected components within a distance, and the counts used in published figures.

`run` is a dataset with tokens or an array of shape ([runs,] [times,] n, d). Tokens closer than `distance` belong to one
cluster, where `distance` is straight, or with `geodesic` an angle on the sphere: see `labels`.
"""

from typing import Any

import numpy as np
import xarray as xr
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from attnflow._common.checks import InputError, require_finite_number, require_on_sphere, require_positive_number
from attnflow.analyse.snapshots import over_snapshots, tokens_of

__all__ = [
    "angle",
    "angles_between",
    "chord",
    "circle_gaps",
    "count",
    "gram_rank",
    "labels",
    "over_time",
    "share_of_close_pairs",
    "sizes",
]

MAX_LISTED_NEIGHBOURS = 64  # a token, on average; with more, close tokens are grouped before pairs are listed
ROUNDING_MARGIN = 1e-12  # relative; rounding must not group tokens that the definition separates
MAX_TREE_DIMENSION = 10  # above it a k-d tree compares every pair, and matrix products do so much faster
MANY_TOKENS = 20_000  # from here on sorting tokens into cells is faster than a tree of them all
MAX_DENSE_TOKENS = 4096  # whose pairs are held as one Boolean matrix
LARGEST_COORDINATE = 2.0**500  # above it squares would overflow


def labels(tokens: Any, distance: float = 1e-2, *, geodesic: bool = False) -> np.ndarray:
    """Cluster of every token: 0, 1, ... in the order of their first members; -1 where a token is not finite.

    Tokens closer than `distance` (straight, which for unit vectors is the chord) belong
    to one cluster, and so do chains of them.

    Parameters
    ----------
    tokens
        One configuration, shape (n, d).
    distance
        Straight distance, or an angle when `geodesic`.
    geodesic
        Measure along the unit sphere: an angle a is a chord of 2 sin(a/2).

    Examples
    --------
    >>> labels([[0.0, 0.0], [5.0, 0.0], [0.0, 0.001]])
    array([0, 1, 0])
    """
    require_positive_number(distance, "distance")
    tokens = np.asarray(tokens, dtype=float)
    if tokens.ndim != 2:
        raise InputError(f"`tokens` must have shape (n, d) here, but the shape is {tokens.shape}. Take one snapshot.")
    if not np.all(np.isfinite(tokens)):
        return np.full(len(tokens), -1)
    if geodesic:
        require_on_sphere(tokens, "tokens")
        distance = chord(distance)
    if np.abs(tokens).max() > LARGEST_COORDINATE:
        tokens, distance = tokens / LARGEST_COORDINATE, distance / LARGEST_COORDINATE
    return _in_order_of_first_members(_components(tokens, distance))


def chord(angle: Any) -> Any:
    """Straight distance between unit vectors at an angle; an angle of pi or more reaches all points.

    Examples
    --------
    >>> round(float(chord(np.pi / 3)), 12)
    1.0
    """
    # At pi rounding must not leave out an antipode.
    return np.where(np.asarray(angle) >= np.pi, 2 + 1e-6, 2 * np.sin(np.minimum(angle, np.pi) / 2))[()]


def angle(distance: Any) -> Any:
    """Angle between unit vectors at a straight distance, accurate also where arccos loses half the digits.

    Examples
    --------
    >>> round(float(angle(np.sqrt(2.0))), 6)
    1.570796
    """
    return 2 * np.arcsin(np.minimum(np.asarray(distance) / 2, 1.0))[()]


def angles_between(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Angles between unit vectors along the last axis; leading axes broadcast.

    Parameters
    ----------
    first, second
        Unit vectors, shapes (..., d).

    Examples
    --------
    >>> angles_between(np.array([1.0, 0.0]), np.array([[0.0, 1.0], [-1.0, 0.0]])).round(6)
    array([1.570796, 3.141593])
    """
    return angle(np.linalg.norm(first - second, axis=-1))


def over_time(run: Any, distance: float = 1e-2, *, geodesic: bool = False) -> xr.DataArray:
    """Labels of every snapshot, axes ([run,] [time,] token); each snapshot is labelled on its own.

    Examples
    --------
    >>> over_time(np.array([[[0.0], [1.0]], [[0.5], [0.5]]])).values
    array([[0, 1],
           [0, 0]])
    """
    n = tokens_of(run).sizes["token"]
    one = lambda tokens: labels(tokens, distance, geodesic=geodesic)
    attributes = {"distance": distance, "geodesic": int(geodesic)}
    return over_snapshots(one, run, "cluster_labels", np.full(n, -1), ("token",), **attributes)


def count(run: Any, distance: float = 1e-2, *, geodesic: bool = False) -> xr.DataArray:
    """Number of clusters over time (and runs); -1 where tokens are not finite.

    Examples
    --------
    >>> path = np.array([[[0.0, 0.0], [5.0, 0.0]], [[0.0, 0.0], [0.0, 0.001]]])
    >>> count(path).values
    array([2, 1])
    """
    labelled = over_time(run, distance, geodesic=geodesic)
    counted = labelled.max("token") + 1
    return counted.where(counted > 0, -1).rename("clusters").assign_attrs(labelled.attrs)


def sizes(run: Any, distance: float = 1e-2, *, geodesic: bool = False) -> xr.DataArray:
    """Sizes of the clusters, largest first, over time (and runs).

    The last axis, `cluster`, has n entries: zeros after the last cluster, -1 throughout
    where tokens are not finite.

    Examples
    --------
    >>> sizes(np.array([[0.0], [1.0], [1.0]])).values
    array([2, 1, 0])
    """
    labelled = over_time(run, distance, geodesic=geodesic)
    counted = xr.apply_ufunc(
        _sorted_sizes,
        labelled,
        input_core_dims=[["token"]],
        output_core_dims=[["cluster"]],
        vectorize=True,
        output_dtypes=[int],
    )
    return counted.rename("cluster_sizes").assign_attrs(labelled.attrs)


def share_of_close_pairs(run: Any, cosine: float = 0.999) -> xr.DataArray:
    """Share of the pairs i != j with <x_i, x_j> > `cosine`, as in published phase diagrams.

    Not a count of clusters and not transitive: a chain of close tokens counts only its
    neighbouring pairs, k equal clusters give about 1/k, and one token apart from n - 1
    others lowers the share by 2/n. A single token has no pairs: NaN.

    Examples
    --------
    >>> share_of_close_pairs([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]).values.round(3)
    array([0.333])
    """
    require_finite_number(cosine, "cosine")

    def share(tokens):
        n = len(tokens)
        close = tokens @ tokens.T > cosine
        return (close.sum() - np.trace(close)) / (n * (n - 1)) if n > 1 else np.nan

    return over_snapshots(share, run, "share_of_close_pairs", cosine=cosine)


def gram_rank(run: Any, cosine: float = 0.9999) -> xr.DataArray:
    """Rank of the matrix of ones where <x_i, x_j> > `cosine`; -1 where tokens are missing.

    Equals `count` only when closeness is transitive, that is, when the clusters are much
    narrower than their distances: a chain a ~ b ~ c without a ~ c is one cluster of rank 3.
    So it is never below the number of components at the same threshold. It costs n^3.

    Examples
    --------
    >>> gram_rank([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]).values
    array([2])
    """
    require_finite_number(cosine, "cosine")
    rank = lambda tokens: np.linalg.matrix_rank((tokens @ tokens.T > cosine).astype(float))
    return over_snapshots(rank, run, "gram_rank", -1, cosine=cosine)


def circle_gaps(run: Any, gap: float = 0.07) -> xr.DataArray:
    """Number of gaps wider than `gap` (an angle) between neighbours on the circle; -1 where tokens are missing.

    With at least one gap this is `count(run, gap, geodesic=True)`. Tokens all around the circle
    without a gap give 0, not 1.

    Examples
    --------
    >>> circle_gaps([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]).values
    array([2])
    """
    require_positive_number(gap, "gap")
    if tokens_of(run).sizes["coordinate"] != 2:
        d = tokens_of(run).sizes["coordinate"]
        raise InputError(f"Gaps are counted on the circle, d = 2, but these tokens have d = {d}. Use `clusters.count`.")

    def gaps(tokens):
        angles = np.sort(np.arctan2(tokens[:, 1], tokens[:, 0]))
        return np.sum(np.diff(angles, append=angles[0] + 2 * np.pi) > gap)

    return over_snapshots(gaps, run, "circle_gaps", -1, gap=gap)


def _components(tokens: np.ndarray, distance: float) -> np.ndarray:
    if tokens.shape[1] > MAX_TREE_DIMENSION and len(tokens) <= MAX_DENSE_TOKENS:
        return _dense_components(tokens, distance)
    if len(tokens) >= MANY_TOKENS and (found := _cell_groups(tokens, distance)) is not None:
        return _group_components(tokens, *found, distance)[found[0]]
    tree = KDTree(tokens)
    if tree.count_neighbors(tree, distance) <= MAX_LISTED_NEIGHBOURS * len(tokens):
        return _connected(tree.query_pairs(distance, output_type="ndarray"), len(tokens))
    groups, leaders = _close_groups(tree, distance)
    return _group_components(tokens, groups, leaders, distance)[groups]


def _dense_components(tokens: np.ndarray, distance: float) -> np.ndarray:
    """Components from |x|^2 + |y|^2 - 2 <x, y> of all pairs, or from |x - y| where rounding could decide."""
    close, unsure = _dense_pairs(tokens - tokens.mean(axis=0), distance)
    component = connected_components(csr_array(close), directed=False)[1]
    unsure = unsure[component[unsure[:, 0]] != component[unsure[:, 1]]]
    if not len(unsure):
        return component
    for pairs in np.array_split(unsure, -(-len(unsure) // 4096)):  # at most 4096 pairs at once
        apart = tokens[pairs[:, 0]] - tokens[pairs[:, 1]]
        close[pairs[:, 0], pairs[:, 1]] = np.einsum("pk,pk->p", apart, apart) <= distance**2
    return connected_components(csr_array(close), directed=False)[1]


def _dense_pairs(centred: np.ndarray, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """The matrix (n, n) of pairs i < j that are close, and the list of pairs that rounding leaves undecided."""
    n, d = centred.shape
    squares = np.einsum("nk,nk->n", centred, centred)
    margin = 4 * (d + 8) * np.finfo(float).eps * squares.max()  # a sum of d products is off by d eps |x| |y| at most
    close, unsure = np.zeros((n, n), bool), []
    block = 256  # rows at once
    for first in range(0, n, block):
        rows = slice(first, first + block)
        excess = squares[rows, None] + squares - 2 * centred[rows] @ centred.T - distance**2
        later = np.arange(n) > np.arange(n)[rows, None]
        close[rows] = (excess < -margin) & later
        one, other = np.nonzero((np.abs(excess) <= margin) & later)
        unsure.append(np.stack([one + first, other], axis=1))
    return close, np.concatenate(unsure)


def _close_groups(tree: KDTree, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """Groups of tokens within distance/2 of a leader, which are all close to each other, and the leaders."""
    tokens = np.asarray(tree.data)
    groups, leaders = np.full(len(tokens), -1), []
    for token in range(len(tokens)):
        if groups[token] >= 0:
            continue
        near = np.asarray(tree.query_ball_point(tokens[token], distance / 2 * (1 - ROUNDING_MARGIN)))
        groups[near[groups[near] < 0]] = len(leaders)
        leaders.append(token)
    return groups, np.array(leaders)


def _cell_groups(tokens: np.ndarray, distance: float) -> tuple[np.ndarray, np.ndarray] | None:
    """Groups of tokens in cells of diameter distance/2, and the first token of each; None unless groups are few."""
    n, d = tokens.shape
    cells = np.floor((tokens - tokens.min(axis=0)) / (distance / 2 / np.sqrt(d) * (1 - ROUNDING_MARGIN)))
    spans = cells.max(axis=0) + 1
    if np.prod(spans) >= 2.0**62:  # more cells than whole numbers
        return None
    numbers = np.ravel_multi_index(cells.astype(int).T, spans.astype(int))
    _, leaders, groups = np.unique(numbers, return_index=True, return_inverse=True)
    return (groups, leaders) if len(leaders) <= n / 8 else None


def _group_components(tokens: np.ndarray, groups: np.ndarray, leaders: np.ndarray, distance: float) -> np.ndarray:
    """Component of every group. The leaders of groups with close tokens are within twice the distance."""
    tree = KDTree(tokens[leaders])
    component = _connected(tree.query_pairs(distance, output_type="ndarray"), len(leaders))
    candidates = tree.query_pairs(2 * distance * (1 + ROUNDING_MARGIN), output_type="ndarray")
    is_single = np.bincount(groups) == 1  # two single tokens were already compared through their leaders
    apart = (component[candidates[:, 0]] != component[candidates[:, 1]]) & ~is_single[candidates].all(axis=1)
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1])
    for one, other in candidates[apart]:
        if component[one] == component[other]:
            continue
        if KDTree(tokens[members[one]]).count_neighbors(KDTree(tokens[members[other]]), distance):
            component[component == component[other]] = component[one]
    return component


def _connected(pairs: np.ndarray, n: int) -> np.ndarray:
    graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    return connected_components(graph, directed=False)[1]


def _in_order_of_first_members(components: np.ndarray) -> np.ndarray:
    _, first, inverse = np.unique(components, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _sorted_sizes(labels: np.ndarray) -> np.ndarray:
    if labels[0] < 0:
        return np.full(len(labels), -1)
    return -np.sort(-np.bincount(labels, minlength=len(labels)))
