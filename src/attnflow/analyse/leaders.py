"""Leaders: tokens that attend to themselves, that others attend to, or that come first in their cluster.

`run` is a dataset with tokens or an array of shape ([runs,] [times,] n, d), `matrix` an attention matrix, shape (n, n);
`labels` and `distance` are those of `clusters.labels`.
"""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_positive_number, require_square
from attnflow.analyse import attention_matrices, clusters
from attnflow.analyse.snapshots import over_snapshots, tokens_of

__all__ = ["attended", "causal_leaders", "extremes", "first_of_groups", "is_leader"]

TIE_TOLERANCE = 1e-9  # relative to the largest score of the row; the default of `Hardmax`


def extremes(run: Any) -> xr.DataArray:
    """Indices of the least and the greatest token on the line (d = 1), over time; -1 where tokens are not finite.

    Of equal tokens the first counts.

    Examples
    --------
    >>> extremes([[0.5], [-1.0], [2.0]]).values
    array([1, 2])
    """
    d = tokens_of(run).sizes["coordinate"]
    if d != 1:
        raise InputError(f"Only tokens on the line have a least and a greatest one, but these have d = {d}.")
    one = lambda tokens: np.array([tokens.argmin(), tokens.argmax()])
    indices = over_snapshots(one, run, "extremes", np.array([-1, -1]), ("extreme",))
    return indices.assign_coords(extreme=["least", "greatest"])


def is_leader(
    run: Any, query_key: Any = None, tolerance: float = TIE_TOLERANCE, *, alone: bool = False
) -> xr.DataArray:
    """True for tokens that are their own best match under hardmax: <Q x_i, K x_i> = max_j <Q x_i, K x_j>.

    Followers converge onto their leader and tie with it in float64. A token therefore leads
    if its own score is within `tolerance` (relative to the row's largest score in size) of the best one; a
    follower that has reached its leader is then a leader too. False where tokens are not finite.

    Parameters
    ----------
    run
        Tokens.
    query_key
        Q^T K. None: the identity.
    tolerance
        As in `Hardmax`.
    alone
        True leaves out tokens that tie with another one, which may still move.

    Examples
    --------
    >>> is_leader(np.array([[1.0], [2.0], [-1.0]])).values
    array([False,  True,  True])
    """
    require_positive_number(tolerance, "tolerance")
    tokens = tokens_of(run)
    scores = _score_matrix(query_key, tokens.sizes["coordinate"])

    def one(snapshot):
        gram = snapshot @ scores @ snapshot.T
        ties = gram >= gram.max(axis=1, keepdims=True) - tolerance * np.abs(gram).max(axis=1, keepdims=True)
        return np.diag(ties) & (ties.sum(axis=1) == 1) if alone else np.diag(ties)

    return over_snapshots(one, run, "is_leader", np.zeros(tokens.sizes["token"], bool), ("token",))


def attended(matrix: Any, threshold: float = attention_matrices.DRAWN_WEIGHT) -> np.ndarray:
    """Indices of the tokens that receive more than `threshold` of some token's attention.

    Examples
    --------
    >>> attended([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    array([0, 2])
    """
    columns = attention_matrices.leader_columns(matrix, threshold)
    if columns.ndim != 1:
        raise InputError("`matrix` must be one attention matrix. For many use `attention_matrices.leader_columns`.")
    return np.flatnonzero(columns)


def causal_leaders(run: Any, distance: float = 1e-2) -> xr.DataArray:
    """True for the token of smallest index in each cluster, over time (and runs); False where tokens are not finite.

    Under a causal mask no token acts on an earlier one, so that the first of a cluster leads it.

    Examples
    --------
    >>> causal_leaders(np.array([[0.0], [1.0], [0.0]])).values
    array([ True,  True, False])
    """

    def one(tokens):
        labels = clusters.labels(tokens, distance)
        return np.isin(np.arange(len(tokens)), first_of_groups(labels))

    missing = np.zeros(tokens_of(run).sizes["token"], bool)
    return over_snapshots(one, run, "is_causal_leader", missing, ("token",), distance=distance)


def first_of_groups(labels: Any) -> np.ndarray:
    """The smallest index of every group, increasing; tokens with label -1 have no group.

    Examples
    --------
    >>> first_of_groups([0, 1, 0, 2, 1])
    array([0, 1, 3])
    """
    labels = np.asarray(labels)
    groups, first = np.unique(labels, return_index=True)
    return np.sort(first[groups >= 0])


def _score_matrix(query_key: Any, d: int) -> np.ndarray:
    if query_key is None:
        return np.eye(d)
    require_square(query_key, "query_key")
    if len(query_key) != d:
        raise InputError(f"`query_key` must be {d} x {d} like the tokens, but it is {np.shape(query_key)}.")
    return np.asarray(query_key, dtype=float)
