"""Radau IIA collocation: nodes, differentiation matrix, and Legendre series of pieces on [0, 1]."""

import numpy as np
from numpy.polynomial import legendre
from scipy.special import roots_jacobi

STAGES = 12  # the cost of a step hardly depends on it, and a high order allows long pieces
# The Radau nodes are 1 and the zeros of the Jacobi polynomial P^(1,0) of degree STAGES - 1, moved to [0, 1].
NODES = np.append((roots_jacobi(STAGES - 1, 1, 0)[0] + 1) / 2, 1.0)
START_AND_NODES = np.concatenate([[0.0], NODES])
VALUES_TO_SERIES = np.linalg.inv(legendre.legvander(2 * START_AND_NODES - 1, STAGES))


def _derivatives_at(position: np.ndarray, order: int) -> np.ndarray:
    """Derivatives of the Legendre polynomials at positions in [0, 1], shape (positions, STAGES + 1)."""
    units = np.eye(STAGES + 1)
    return np.stack([2**order * legendre.legval(2 * position - 1, legendre.legder(unit, order)) for unit in units], -1)


DERIVATIVE = (_derivatives_at(NODES, 1) @ VALUES_TO_SERIES)[:, 1:]
"""dy/ds at the nodes from the values of y at the nodes, where y is zero at the start."""
END_DERIVATIVES = np.concatenate([_derivatives_at(np.ones(1), order) for order in (1, 2)])
"""First and second derivative in s at the end of a piece from its Legendre series, shape (2, STAGES + 1)."""


def series_of(values: np.ndarray) -> np.ndarray:
    """Legendre coefficients (STAGES + 1, d) of the polynomial with these values at the start and at the nodes."""
    return VALUES_TO_SERIES @ values


def truncation_estimate(series: np.ndarray) -> float:
    """Size of the last coefficient, or a tenth of the one before, since the last vanishes for even or odd paths."""
    return float(max(np.abs(series[-1]).max(), np.abs(series[-2]).max() / 10))


def legendre_basis(position: np.ndarray) -> np.ndarray:
    """Legendre polynomials (..., STAGES + 1) at positions in [0, 1].

    Examples
    --------
    >>> series = series_of(START_AND_NODES[:, None] ** 2)
    >>> np.round(legendre_basis(np.array([0.5])) @ series, 12)
    array([[0.25]])
    """
    return legendre.legvander(2 * position - 1, STAGES)
