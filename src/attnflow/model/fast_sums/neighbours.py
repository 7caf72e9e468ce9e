"""Only the tokens whose weights count, found by range search in a k-d tree, in any dimension.

With R = max |k_j| the vectors (k_j, sqrt(R^2 - |k_j|^2)) have one length, and their squared distance from (q, 0) is
|q|^2 + R^2 - 2 <q, k_j>: large scores are small distances. If r_i is the distance of the nearest, a token beyond
sqrt(r_i^2 + 2 c / f) has a weight below e^{-c} times that of the best. All that are left out weigh at most
M e^{-c} / m_min relative to the row, M being the sum of all masses and m_min the least; c is chosen so that twice that
is the tolerance.
"""

from collections.abc import Iterator

import numpy as np
from scipy.spatial import KDTree

from attnflow.model.fast_sums.problem import SumProblem

ROWS_PER_BLOCK = 4096  # whose neighbours are listed at once
ROUNDING_MARGIN = 1e-12  # relative to the squared radius: rounding must leave out no token that counts


def outputs(problem: SumProblem, tolerance: float) -> np.ndarray:
    """The attention output of every token, under a full mask and without column potentials."""
    keys = problem.keys if problem.factor >= 0 else -problem.keys
    factor, log_masses = abs(problem.factor), np.log(problem.masses)
    totals = np.empty((len(problem.queries), problem.values.shape[1] + 1))
    log_scales = np.empty(len(problem.queries))
    for rows, starts, columns in _neighbours(problem.queries, keys, _squared_excess(problem, tolerance)):
        row_of_pair = np.repeat(rows, np.diff(np.append(starts, len(columns))))
        scores = np.einsum("pk,pk->p", problem.queries[row_of_pair], keys[columns])
        exponents = factor * scores + log_masses[columns]
        best = np.maximum.reduceat(exponents, starts)
        weights = np.exp(exponents - best[row_of_pair - rows[0]])
        terms = np.column_stack([weights[:, None] * problem.values[columns], weights])
        totals[rows], log_scales[rows] = np.add.reduceat(terms, starts), best
    return problem.outputs(totals, log_scales)


def mean_count(problem: SumProblem, tolerance: float, samples: int = 64) -> float:
    """The mean number of tokens that count for a row, estimated from some rows."""
    rows = np.linspace(0, len(problem.queries) - 1, min(samples, len(problem.queries))).astype(int)
    keys = problem.keys if problem.factor >= 0 else -problem.keys
    blocks = _neighbours(problem.queries[rows], keys, _squared_excess(problem, tolerance))
    return sum(len(columns) for _, _, columns in blocks) / len(rows)


def _squared_excess(problem: SumProblem, tolerance: float) -> float:
    """2 c / f, by which squared distances of tokens that count exceed that of the nearest."""
    cut = np.log(2 * problem.masses.sum() / (problem.masses.min() * tolerance))
    return float(2 * cut / max(abs(problem.factor), 1e-300))


def _neighbours(
    queries: np.ndarray, keys: np.ndarray, squared_excess: float
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Blocks of rows; for each the places where the neighbours of a row begin, and the neighbours of all rows."""
    squares = np.einsum("nk,nk->n", keys, keys)
    largest = squares.max()
    lifted = np.column_stack([keys, np.sqrt(largest - squares)])
    tree, points = KDTree(lifted), np.column_stack([queries, np.zeros(len(queries))])
    for rows in np.array_split(np.arange(len(points)), -(-len(points) // ROWS_PER_BLOCK)):
        nearest = np.asarray(tree.query(points[rows], workers=-1)[0])
        radii = np.sqrt((nearest**2 + squared_excess) * (1 + ROUNDING_MARGIN))
        found = tree.query_ball_point(points[rows], radii, workers=-1)
        counts = np.array([len(one) for one in found])
        yield rows, np.cumsum(counts) - counts, np.concatenate([np.asarray(one, int) for one in found])
