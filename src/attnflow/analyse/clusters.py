"""Clusters of tokens: connected components within a distance, and the counts that papers have published."""

from typing import Any

import numpy as np
import xarray as xr
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from attnflow._common.checks import InputError, require_finite_number, require_on_sphere, require_positive_number
from attnflow.analyse.snapshots import over_snapshots, tokens_of

MOST_NEIGHBOURS = 64  # on average; above it close tokens are lumped together before pairs are listed
SLACK = 1e-12  # relative; keeps rounding from lumping what the definition keeps apart
MOST_TREE = 10  # dimensions; beyond, a tree looks at every pair, and matrix products do so much faster
MOST_DENSE = 4096  # tokens whose pairs may be held as one matrix of truth values
ROWS, PAIRS = 256, 4096  # of that matrix at once; pairs measured exactly at once
HUGE = 2.0**500


def labels(tokens: Any, distance: float = 1e-2, *, geodesic: bool = False) -> np.ndarray:
    """Cluster of every token: 0, 1, ... in the order of their first members; -1 where a number is missing.

    Tokens closer than `distance` (straight, which for unit vectors is the chord) belong
    together, and so do chains of them.

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
    if np.abs(tokens).max() > HUGE:  # whose squares would overflow
        tokens, distance = tokens / HUGE, distance / HUGE
    return _in_order_of_first_members(_components(tokens, distance))


def chord(angle: Any) -> Any:
    """Straight distance between unit vectors at an angle; angles beyond pi reach everything.

    Examples
    --------
    >>> round(float(chord(np.pi / 3)), 12)
    1.0
    """
    # At pi itself rounding must not leave out an antipode.
    return np.where(np.asarray(angle) >= np.pi, 2 + 1e-6, 2 * np.sin(np.minimum(angle, np.pi) / 2))[()]


def angle(distance: Any) -> Any:
    """Angle between unit vectors at a straight distance, exact also where arccos loses half the digits."""
    return 2 * np.arcsin(np.minimum(np.asarray(distance) / 2, 1.0))[()]


def angles_between(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Angles between unit vectors along the last axis; leading axes broadcast."""
    return angle(np.linalg.norm(first - second, axis=-1))


def over_time(run: Any, distance: float = 1e-2, *, geodesic: bool = False) -> xr.DataArray:
    """Labels of every snapshot, axes ([run,] [time,] token); each snapshot is labelled for itself."""
    n = tokens_of(run).sizes["token"]
    one = lambda tokens: labels(tokens, distance, geodesic=geodesic)
    attributes = {"distance": distance, "geodesic": int(geodesic)}
    return over_snapshots(one, run, "cluster_labels", np.full(n, -1), ("token",), **attributes)


def count(run: Any, distance: float = 1e-2, *, geodesic: bool = False) -> xr.DataArray:
    """Number of clusters over time (and runs); -1 where a run has no tokens any more.

    Examples
    --------
    >>> path = np.array([[[0.0, 0.0], [5.0, 0.0]], [[0.0, 0.0], [0.0, 0.001]]])
    >>> count(path).values
    array([2, 1])
    """
    found = over_time(run, distance, geodesic=geodesic)
    counted = found.max("token") + 1
    return counted.where(counted > 0, -1).rename("clusters").assign_attrs(found.attrs)


def sizes(run: Any, distance: float = 1e-2, *, geodesic: bool = False) -> xr.DataArray:
    """Sizes of the clusters, largest first, over time (and runs).

    The last axis, `cluster`, has n entries: zeros after the last cluster, -1 throughout
    where a run has no tokens any more.
    """
    found = over_time(run, distance, geodesic=geodesic)
    counted = xr.apply_ufunc(
        _sorted_sizes,
        found,
        input_core_dims=[["token"]],
        output_core_dims=[["cluster"]],
        vectorize=True,
        output_dtypes=[int],
    )
    return counted.rename("cluster_sizes").assign_attrs(found.attrs)


def share_of_close_pairs(run: Any, cosine: float = 0.999) -> xr.DataArray:
    """Share of the pairs i != j with <x_i, x_j> > `cosine`: the colour of the published phase diagrams.

    Not a count of clusters and not transitive: a chain of close tokens counts only its
    neighbouring pairs, k equal clusters give about 1/k, and one token away from n - 1
    others costs a share 2/n. A single token has no pairs: NaN.

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
    if tokens.shape[1] > MOST_TREE and len(tokens) <= MOST_DENSE:
        return _dense_components(tokens, distance)
    tree = KDTree(tokens)
    if tree.count_neighbors(tree, distance) <= MOST_NEIGHBOURS * len(tokens):
        return _connected(tree.query_pairs(distance, output_type="ndarray"), len(tokens))
    lumps, leaders = _lumps(tree, distance)
    return _joined(tokens, lumps, leaders, distance)[lumps]


def _dense_components(tokens: np.ndarray, distance: float) -> np.ndarray:
    """|x|^2 + |y|^2 - 2 <x, y> for all pairs; where its rounding could decide, |x - y| itself."""
    close, unsure = _dense_pairs(tokens - tokens.mean(axis=0), distance)
    found = connected_components(csr_array(close), directed=False)[1]
    unsure = unsure[found[unsure[:, 0]] != found[unsure[:, 1]]]
    if not len(unsure):
        return found
    for pairs in np.array_split(unsure, -(-len(unsure) // PAIRS)):
        apart = tokens[pairs[:, 0]] - tokens[pairs[:, 1]]
        close[pairs[:, 0], pairs[:, 1]] = np.einsum("pk,pk->p", apart, apart) <= distance**2
    return connected_components(csr_array(close), directed=False)[1]


def _dense_pairs(centred: np.ndarray, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """Which pairs i < j are surely close, (n, n), and the list of those too near to `distance` to say."""
    n, d = centred.shape
    squares = np.einsum("nk,nk->n", centred, centred)
    margin = 4 * (d + 8) * np.finfo(float).eps * squares.max()  # a sum of d products is off by d eps |x| |y| at most
    close, unsure = np.zeros((n, n), bool), []
    for first in range(0, n, ROWS):
        rows = slice(first, first + ROWS)
        excess = squares[rows, None] + squares - 2 * centred[rows] @ centred.T - distance**2
        later = np.arange(n) > np.arange(n)[rows, None]
        close[rows] = (excess < -margin) & later
        one, other = np.nonzero((np.abs(excess) <= margin) & later)
        unsure.append(np.stack([one + first, other], axis=1))
    return close, np.concatenate(unsure)


def _lumps(tree: KDTree, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """Every token to the first leader within distance/2: tokens of one lump are surely close to each other."""
    tokens = np.asarray(tree.data)
    lumps, leaders = np.full(len(tokens), -1), []
    for token in range(len(tokens)):
        if lumps[token] >= 0:
            continue
        near = np.asarray(tree.query_ball_point(tokens[token], distance / 2 * (1 - SLACK)))
        lumps[near[lumps[near] < 0]] = len(leaders)
        leaders.append(token)
    return lumps, np.array(leaders)


def _joined(tokens: np.ndarray, lumps: np.ndarray, leaders: np.ndarray, distance: float) -> np.ndarray:
    """Component of every lump. Lumps with close tokens have leaders within twice the distance."""
    heads = KDTree(tokens[leaders])
    found = _connected(heads.query_pairs(distance, output_type="ndarray"), len(leaders))
    candidates = heads.query_pairs(2 * distance * (1 + SLACK), output_type="ndarray")
    is_single = np.bincount(lumps) == 1  # two single tokens were already compared through their leaders
    apart = (found[candidates[:, 0]] != found[candidates[:, 1]]) & ~is_single[candidates].all(axis=1)
    members = np.split(np.argsort(lumps, kind="stable"), np.cumsum(np.bincount(lumps))[:-1])
    for one, other in candidates[apart]:
        if found[one] == found[other]:
            continue
        if KDTree(tokens[members[one]]).count_neighbors(KDTree(tokens[members[other]]), distance):
            found[found == found[other]] = found[one]
    return found


def _connected(pairs: np.ndarray, n: int) -> np.ndarray:
    graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    return connected_components(graph, directed=False)[1]


def _in_order_of_first_members(found: np.ndarray) -> np.ndarray:
    _, first, inverse = np.unique(found, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _sorted_sizes(found: np.ndarray) -> np.ndarray:
    if found[0] < 0:
        return np.full(len(found), -1)
    return -np.sort(-np.bincount(found, minlength=len(found)))
