"""Attention of one head with close keys merged into one of their mass, beside the sum over all keys.

A group g of keys k_j is replaced by its mean c_g with the mass m_g and the mean value u_g, which adds log m_g to its
score. Distances of keys are measured by the change of scores that they cause: with C = mean_i q_i q_i^T over the
queries,

    |k - k'|_C = s |C^{1/2} (k - k')| = (mean_i (s <q_i, k - k'>)^2)^{1/2},      s the scale of the scores.

Keys within the tolerance of the first key of a group join it, so that |k_j - c_g|_C <= 2 tolerance. The score of query
i then changes by at most a_i = 2 tolerance |C^{-1/2} q_i|, and with p_ij, p'_ij the weights before and after,

    sum_j |p'_ij - p_ij| <= 2 tanh(a_i / 2),    |o'_i - o_i| <= 2 tanh(a_i / 2) max_j |v_j - v|    for every vector v.

(Two weights with the scores changed by a and -a are the worst case: their logit moves by 2 a.)

Under a causal mask queries are taken in blocks of positions: a query sees the groups of the tokens before its block,
and those of its block one by one.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

BLOCK = 128  # queries of a block: long enough for products of matrices, short beside prompts of thousands of tokens
TINY = 1e-30  # so that queries of zero divide by no zero
LEAST_EIGENVALUE = 1e-6  # of C over the largest: directions in which queries vary less do not divide by zero


class MergedOutputs(NamedTuple):
    """Mean values of one head, (n, k), with the pairs of query and key or group that were summed."""

    outputs: np.ndarray
    pairs: int
    groups: int


def merged_outputs(
    queries: np.ndarray, keys: np.ndarray, values: np.ndarray, labels: np.ndarray, is_causal: bool
) -> MergedOutputs:
    """The mean values that every query attends to, with keys merged by label; queries have the scale of the scores.

    Labels are numbered in the order of the first token of each group.
    """
    n, count = len(queries), int(labels.max()) + 1
    outputs, pairs = np.empty_like(values), 0
    sums = np.zeros((count, 1 + keys.shape[1] + values.shape[1]), keys.dtype)
    columns = np.column_stack([np.ones(n, keys.dtype), keys, values])
    if not is_causal:
        _add(sums, labels, columns)
    for start in range(0, n, BLOCK):
        rows = slice(start, min(start + BLOCK, n))
        seen = sums[: int(labels[:start].max(initial=-1)) + 1] if is_causal else sums
        weights, centres, means = _split(seen, keys.shape[1])
        scores = queries[rows] @ centres.T + np.log(weights)
        if is_causal:
            own = queries[rows] @ keys[rows].T
            own[np.triu_indices(len(own), 1)] = -np.inf
            scores, means = np.column_stack([scores, own]), np.concatenate([means, values[rows]])
            _add(sums, labels[rows], columns[rows])
        outputs[rows] = _softmax(scores) @ means
        pairs += len(seen) * (rows.stop - start) + (_triangle(rows.stop - start) if is_causal else 0)
    return MergedOutputs(outputs, pairs, count)


def all_pairs_outputs(queries: np.ndarray, keys: np.ndarray, values: np.ndarray, is_causal: bool) -> MergedOutputs:
    """The outputs of attention to all keys, without merging, in the blocks of queries of `merged_outputs`."""
    n = len(queries)
    outputs = np.empty_like(values)
    for start in range(0, n, BLOCK):
        rows = slice(start, min(start + BLOCK, n))
        stop = rows.stop if is_causal else n
        scores = queries[rows] @ keys[:stop].T
        if is_causal:
            scores[:, start:][np.triu_indices(stop - start, 1)] = -np.inf
        outputs[rows] = _softmax(scores) @ values[:stop]
    return MergedOutputs(outputs, _triangle(n) if is_causal else n * n, n)


def group_labels(queries: np.ndarray, keys: np.ndarray, tolerance: float) -> np.ndarray:
    """The group of every key; queries have the scale of the scores.

    In the order of the tokens a key joins a group whose first key is within the tolerance, the nearest of those before
    its block if there are any, or begins a group of its own.
    """
    points = keys @ _root(queries)[0].astype(keys.dtype)
    first, count = np.empty_like(points), 0
    labels = np.empty(len(keys), int)
    for start in range(0, len(keys), BLOCK):
        block = points[start : start + BLOCK]
        found = np.full(len(block), -1)
        if count:
            squares = _squared_distances(block, first[:count])
            nearest = np.argmin(squares, axis=1)
            found = np.where(squares[np.arange(len(block)), nearest] <= tolerance**2, nearest, -1)
        is_within = _squared_distances(block, block) <= tolerance**2
        for place in np.flatnonzero(found < 0):
            if found[place] < 0:
                first[count] = block[place]
                found[is_within[place] & (found < 0)] = count
                found[place] = count  # rounding may put a key at a distance from itself
                count += 1
        labels[start : start + len(block)] = found
    return labels


def shuffled_labels(labels: np.ndarray, is_causal: bool, rng: np.random.Generator) -> np.ndarray:
    """Random groups of the same sizes: labels permuted, under a causal mask within each block, so that every query
    sees as many groups.
    """
    size = BLOCK if is_causal else len(labels)
    shuffled = labels.copy()
    for start in range(0, len(labels), size):
        shuffled[start : start + size] = rng.permutation(labels[start : start + size])
    return shuffled


def output_bounds(queries: np.ndarray, values: np.ndarray, tolerance: float) -> np.ndarray:
    """The bound 2 tanh(a_i / 2) max_j |v_j - v| on the error of every output, v being the mean value."""
    lengths = np.linalg.norm(queries @ _root(queries)[1], axis=1)
    return 2 * np.tanh(tolerance * lengths) * np.linalg.norm(values - values.mean(axis=0), axis=1).max()


def _root(queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """C^{1/2} and its inverse; eigenvalues too small beside the largest are raised."""
    eigenvalues, vectors = np.linalg.eigh(queries.T @ queries / len(queries))
    raised = np.sqrt(np.maximum(eigenvalues, LEAST_EIGENVALUE * max(eigenvalues[-1], TINY)))
    return (vectors * raised) @ vectors.T, (vectors / raised) @ vectors.T


def _add(sums: np.ndarray, labels: np.ndarray, columns: np.ndarray) -> None:
    members = csr_array((np.ones(len(labels), columns.dtype), (labels, np.arange(len(labels)))))
    sums[: int(labels.max()) + 1] += members @ columns


def _split(sums: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The masses, mean keys and mean values of groups."""
    means = sums[:, 1:] / sums[:, :1]
    return sums[:, 0], means[:, :width], means[:, width:]


def _squared_distances(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    squares = lambda array: np.einsum("nk,nk->n", array, array)
    return squares(points)[:, None] + squares(others) - 2 * points @ others.T


def _softmax(scores: np.ndarray) -> np.ndarray:
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    return scores / scores.sum(axis=1, keepdims=True)


def _triangle(n: int) -> int:
    return n * (n + 1) // 2
