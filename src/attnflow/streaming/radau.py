"""Radau collocation: on each piece of time a path is a polynomial that meets its equation at the Radau nodes.

The method is implicit and damps fast decay whatever the step (L-stable), its end point is of order 2 STAGES - 1,
and the polynomial itself, which other tokens look at, is of order STAGES + 1. Pieces are kept as Legendre
coefficients; the last ones say how well a piece is resolved.
"""

import numpy as np
from numpy.polynomial import legendre
from scipy.linalg import solve_sylvester

STAGES = 12  # long pieces: what a step costs hardly depends on it


def _radau_nodes(stages: int) -> np.ndarray:
    """Zeros of P_s - P_{s-1} on [0, 1], the last of which is 1."""
    series = np.zeros(stages + 1)
    series[-2:] = -1.0, 1.0
    roots = np.sort(np.real(legendre.legroots(series)))
    for _ in range(3):  # Newton takes what the eigenvalues leave of rounding
        roots -= legendre.legval(roots, series) / legendre.legval(roots, legendre.legder(series))
    roots[-1] = 1.0
    return (roots + 1) / 2


NODES = _radau_nodes(STAGES)
WITH_START = np.concatenate([[0.0], NODES])
VALUES_TO_SERIES = np.linalg.inv(legendre.legvander(2 * WITH_START - 1, STAGES))
_SLOPES = np.stack([legendre.legval(2 * NODES - 1, 2 * legendre.legder(unit)) for unit in np.eye(STAGES + 1)], axis=1)
DERIVATIVE = (_SLOPES @ VALUES_TO_SERIES)[:, 1:]
"""Slopes at the nodes, for a step of length one, of the polynomial with given values there and zero at the start."""


_UNITS = np.eye(STAGES + 1)
END_DERIVATIVES = np.stack([
    [2**order * legendre.legval(1.0, legendre.legder(unit, order)) for unit in _UNITS] for order in (1, 2)
])  # fmt: skip
"""First and second derivative at the end of a piece, in shares of it, of a Legendre series."""


def series_of(values: np.ndarray) -> np.ndarray:
    """Legendre coefficients (STAGES + 1, d) of the polynomial with these values at the start and the nodes."""
    return VALUES_TO_SERIES @ values


def unresolved(series: np.ndarray) -> float:
    """Size of the last coefficient, or a tenth of the one before, which tells where a path is even or odd."""
    return float(max(np.abs(series[-1]).max(), np.abs(series[-2]).max() / 10))


def basis_at(share: np.ndarray) -> np.ndarray:
    """Legendre polynomials (..., STAGES + 1) at shares of a piece in [0, 1].

    Examples
    --------
    >>> series = series_of(WITH_START[:, None] ** 2)
    >>> np.round(basis_at(np.array([0.5])) @ series, 12)
    array([[0.25]])
    """
    return legendre.legvander(2 * share - 1, STAGES)


def exact_correction(rates: np.ndarray, slopes: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """Newton's for the values at the nodes: rates @ move - slopes move = residual, with a slope for every node."""
    m = residual.shape[1]
    matrix = np.zeros((STAGES, m, STAGES, m))
    every, own = np.arange(STAGES), np.arange(m)
    matrix[:, own, :, own] = rates
    matrix[every, :, every, :] -= slopes
    try:
        return np.linalg.solve(matrix.reshape(STAGES * m, -1), residual.reshape(-1)).reshape(residual.shape)
    except np.linalg.LinAlgError:
        return np.full_like(residual, np.nan)


def mean_correction(rates: np.ndarray, slopes: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """Nearly the same, with the mean slope at all nodes: a Sylvester equation, far cheaper where unknowns are many."""
    if not np.isfinite(slopes).all() or not np.isfinite(residual).all():
        return np.full_like(residual, np.nan)
    return solve_sylvester(rates, -slopes.mean(axis=0).T, residual)
