"""Sums of single rows over all tokens, relative to terms of each row."""

import numpy as np

from attnflow.model.fast_sums.problem import SumProblem
from attnflow.model.native.attention_sums import MAX_COORDINATES, sums_of_others, sums_within_reach

BLOCK_ENTRIES = 2**20  # weights formed at a time: 8 MB


def row_sums(problem: SumProblem, log_weights: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """e^{-b_i} sum_j e^{f <q_i, k_j> + c_j} p_ij (v_j, 1) of the rows i, and b_i, for which no sum vanishes."""
    positions = problem.positions
    is_native = problem.keys.shape[1] <= MAX_COORDINATES and problem.values.shape[1] <= MAX_COORDINATES
    if positions.is_full and is_native:
        return _native_sums(problem, log_weights, rows, positions.itself)
    parts = [_block_sums(problem, log_weights, block) for block in _blocks(rows, len(problem.keys))]
    return np.concatenate([sums for sums, _ in parts]), np.concatenate([best for _, best in parts])


def all_sums(
    queries: np.ndarray, keys: np.ndarray, values: np.ndarray, log_weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """e^{-b_i} sum_j e^{<q_i, k_j> + c_j} (v_j, 1) of all rows i, and b_i, for which no sum overflows or vanishes."""
    if keys.shape[1] <= MAX_COORDINATES and values.shape[1] <= MAX_COORDINATES:
        return sums_within_reach(queries, keys, values, log_weights)
    parts = []
    for rows in _blocks(np.arange(len(queries)), len(keys)):
        exponents = queries[rows] @ keys.T + log_weights
        parts.append(_relative_sums(exponents, values))
    return np.concatenate([sums for sums, _ in parts]), np.concatenate([best for _, best in parts])


def _native_sums(problem, log_weights, rows, sees_itself):
    queries = problem.factor * problem.queries[rows]
    if sees_itself:
        return all_sums(queries, problem.keys, problem.values, log_weights)
    return sums_of_others(queries, problem.keys, problem.values, log_weights, rows)


def _block_sums(problem, log_weights, rows):
    exponents = problem.factor * (problem.queries[rows] @ problem.keys.T) + log_weights
    return _relative_sums(exponents + problem.positions.log_factors(rows, np.arange(len(problem.keys))), problem.values)


def _relative_sums(exponents, values):
    best = exponents.max(axis=1)
    best = np.where(np.isfinite(best), best, 0)
    weights = np.exp(exponents - best[:, None])
    return np.column_stack([weights @ values, weights.sum(axis=1)]), best


def _blocks(rows: np.ndarray, columns: int) -> list[np.ndarray]:
    return np.array_split(rows, max(1, -(-len(rows) * columns // BLOCK_ENTRIES)))
