"""Attention outputs from an expansion of the kernel: softmax, unnormalised and Sinkhorn, with certified rows."""

from collections.abc import Callable

import numpy as np

from attnflow.model.fast_sums.direct_sums import row_sums
from attnflow.model.fast_sums.problem import SumProblem
from attnflow.model.fast_sums.triangles import Kernel, masked_sums

KernelOf = Callable[[np.ndarray, np.ndarray, float], Kernel]


def outputs(problem: SumProblem, kernel_of: KernelOf, tolerance: float) -> np.ndarray:
    """The attention output of every token; `kernel_of(queries, keys, factor)` makes the expansion."""
    kernel = kernel_of(problem.queries, problem.keys, problem.factor)
    log_weights = np.log(problem.masses)
    if problem.sweeps:
        log_weights = log_weights + _potentials(problem, kernel, kernel_of, tolerance)
    totals, log_scales = certified_totals(problem, kernel, log_weights, tolerance)
    return problem.outputs(totals, log_scales)


def certified_totals(
    problem: SumProblem, kernel: Kernel, log_weights: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """T_i = e^{-l_i} sum_j e^{c_j + f <q_i, k_j>} p_ij (v_j, 1) and l_i, with an error of at most `tolerance` in T / W.

    The sums N of the values and D of the weights have errors of at most e max |v| and e, e = unit_error * gross. The
    quotient N / D is then off by at most 2 e max |v| / (D - e): rows in which that exceeds the tolerance are summed
    directly.
    """
    shift = log_weights.max()
    weights = np.exp(log_weights - shift)
    columns = np.empty((len(weights), problem.values.shape[1] + 1))
    np.multiply(problem.values, weights[:, None], out=columns[:, :-1])
    columns[:, -1] = weights
    totals = masked_sums(kernel, problem, columns)
    with np.errstate(invalid="ignore"):  # an infinite error times terms that underflow: the row is summed directly
        error = kernel.unit_error * problem.positions.gross(weights * kernel.column_factors)
    log_scales = kernel.row_shifts + shift
    # A sum of zero may have lost its terms to underflow.
    row_weights = np.ascontiguousarray(totals[:, -1])
    is_sure = (row_weights > 0) & (2 * error <= tolerance * (row_weights - error))
    unsure = np.flatnonzero(~is_sure)
    if len(unsure):
        totals[unsure], log_scales[unsure] = row_sums(kernel.adapted(problem), log_weights, unsure)
    return totals, log_scales


def _potentials(problem: SumProblem, kernel: Kernel, kernel_of: KernelOf, tolerance: float) -> np.ndarray:
    """Sinkhorn's column potentials g_j: after each normalisation of rows, g_j += log(m_j / sum_i m_i w_ij)."""
    no_values = np.empty((len(problem.keys), 0))
    rows = SumProblem(problem.queries, problem.keys, no_values, problem.masses, problem.factor, problem.positions)
    columns = rows.transposed()
    transposed_kernel = kernel_of(columns.queries, columns.keys, columns.factor)
    log_masses, potentials = np.log(problem.masses), np.zeros(len(problem.keys))
    for _ in range(problem.sweeps):
        log_given = _log_totals(rows, kernel, log_masses + potentials, tolerance)
        # sum_i m_i w_ij = m_j e^{g_j} sum_i (m_i / row sum i) e^{f <q_i, k_j>}
        log_received = _log_totals(columns, transposed_kernel, log_masses - log_given, tolerance)
        potentials = -np.where(np.isfinite(log_received), log_received, 0)
    return potentials


def _log_totals(problem: SumProblem, kernel: Kernel, log_weights: np.ndarray, tolerance: float) -> np.ndarray:
    """The logarithms of the sums of the rows; infinity for a row that sees no token, so that its weights vanish."""
    totals, log_scales = certified_totals(problem, kernel, log_weights, tolerance)
    sums = totals[:, -1]
    return np.where(sums > 0, np.log(np.maximum(sums, np.finfo(float).tiny)) + log_scales, np.inf)
