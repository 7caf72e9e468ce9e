"""Sums under masks that depend on positions, from sums over blocks of tokens.

The pairs j < i of n tokens are those of the right half with the left half, and the pairs within each half, which are
halved again: log2(n / leaf) levels of blocks in which all pairs are visible, and leaves whose pairs are summed one by
one by the native library. ALiBi's factor is a product in such a block: with m the first position of the right half,

    e^{-slope (i - j)} = e^{-slope (i - m)} e^{-slope (m - j)},

both at most one, so that nothing overflows at any distance.
"""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import numpy as np

from attnflow.model.fast_sums.problem import SumProblem
from attnflow.model.native.attention_sums import MAX_COORDINATES, sums_within_reach


@runtime_checkable
class Kernel(Protocol):
    """Sums of e^{f <q_i, k_j> - b_i} over blocks of tokens, with an absolute error."""

    row_shifts: np.ndarray
    """b_i, so that e^{f <q_i, k_j> - b_i} is at most the column factor of j."""
    column_factors: np.ndarray
    """A bound on e^{f <q_i, k_j> - b_i} over all rows i."""
    unit_error: float
    """The error of a sum over sum_j |column_j| column_factors_j."""
    leaf: int
    """The number of tokens below which pairs are summed faster one by one."""

    def sums(self, targets: slice, sources: slice, columns: np.ndarray) -> np.ndarray:
        """sum_j e^{f <q_i, k_j> - b_i} columns_j for targets i over sources j; `columns` has one row a source."""
        ...

    def diagonal(self) -> np.ndarray:
        """e^{f <q_i, k_i> - b_i}."""
        ...

    def adapted(self, problem: SumProblem) -> SumProblem:
        """The problem with the queries and keys that the kernel stands for.

        Stages of a step leave the sphere a little, and there an expansion extends the field by directions.
        """
        ...


def masked_sums(kernel: Kernel, problem: SumProblem, columns: np.ndarray) -> np.ndarray:
    """sum_j p_ij e^{f <q_i, k_j> - b_i} columns_j for every token i."""
    everything, positions = slice(0, len(columns)), problem.positions
    if positions.is_full:
        sums = kernel.sums(everything, everything, columns)
        return sums if positions.itself else sums - kernel.diagonal()[:, None] * columns
    sums = np.zeros_like(columns)
    for start, middle, end in _halves(0, len(columns), kernel.leaf):
        left, right = slice(start, middle), slice(middle, end)
        # Decay from the middle to the tokens of each half.
        after = np.exp(-positions.slope * np.arange(end - middle))[:, None]
        before = np.exp(-positions.slope * np.arange(middle - start, 0, -1))[:, None]
        if positions.earlier:
            sums[right] += after * kernel.sums(right, left, before * columns[left])
        if positions.later:
            sums[left] += before * kernel.sums(left, right, after * columns[right])
    adapted = kernel.adapted(problem)
    for leaf in _leaves(0, len(columns), kernel.leaf):
        sums[leaf] += _leaf_sums(adapted, leaf, columns[leaf], kernel.row_shifts[leaf])
    return sums


def _leaf_sums(problem: SumProblem, leaf: slice, columns: np.ndarray, row_shifts: np.ndarray) -> np.ndarray:
    """The sums of the rows of a leaf over its tokens, in one or two directions."""
    positions, sums = problem.positions, np.zeros_like(columns)
    queries, keys = problem.factor * problem.queries[leaf], problem.keys[leaf]
    for is_later in [False] * positions.earlier + [True] * positions.later:
        # Where both directions are seen, the token itself belongs to the first.
        apart = int(not positions.itself or (is_later and positions.earlier))
        lower, upper = slice(0, len(keys) - apart), slice(apart, len(keys))
        rows, seen = (lower, upper) if is_later else (upper, lower)
        # e^{-slope |i - j|} is a factor of the column over that of the row.
        decay = positions.slope * np.arange(len(keys)) * (-1 if is_later else 1)
        reach = (0, None) if is_later else (None, 0)
        for part in np.array_split(np.arange(columns.shape[1]), -(-columns.shape[1] // MAX_COORDINATES)):
            found, shifts = sums_within_reach(queries[rows], keys[seen], columns[seen][:, part], decay[seen], *reach)
            scales = np.exp(shifts - decay[rows] - row_shifts[rows])
            sums[rows, part[0] : part[-1] + 1] += scales[:, None] * found[:, :-1]
    return sums


def _halves(start: int, end: int, leaf: int) -> Iterator[tuple[int, int, int]]:
    """Start, middle and end of every block that is halved."""
    if end - start <= leaf:
        return
    middle = (start + end) // 2
    yield start, middle, end
    yield from _halves(start, middle, leaf)
    yield from _halves(middle, end, leaf)


def _leaves(start: int, end: int, leaf: int) -> Iterator[slice]:
    """The blocks that are not halved."""
    if end - start <= leaf:
        yield slice(start, end)
        return
    middle = (start + end) // 2
    yield from _leaves(start, middle, leaf)
    yield from _leaves(middle, end, leaf)
