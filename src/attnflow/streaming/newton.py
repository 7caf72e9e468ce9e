"""Newton's method for the values of one token at the Radau nodes of a piece.

With D the differentiation matrix, r_i = dt/ds at node i and f the velocity in the chart, the equations are

    F_i(y) = sum_j (D_ij / r_i) y_j - f(y_i) = 0.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_sylvester

from attnflow.streaming.radau import DERIVATIVE, STAGES
from attnflow.streaming.token_field import Chart, KeysAndValues, TokenField

MAX_DENSE_UNKNOWNS = 20  # per node: with more of them the full Newton matrix costs more than further iterations
CONVERGED_CHANGE = 1e-14  # relative change of an iterate below which it is converged


class NodeValues(NamedTuple):
    """A token at the nodes of a piece, and the growth of perturbations over it."""

    points: np.ndarray
    """Shape (STAGES, d)."""
    log_growth: float
    """Largest real part of an eigenvalue of r_i df/dy: the logarithmic growth of perturbations over the piece."""


def solve_nodes(
    field: TokenField, start: np.ndarray, seen: list[KeysAndValues], time_rates: np.ndarray, accuracy: float
) -> NodeValues | None:
    """Solve for the token at the nodes in the chart around `start`; None if the iteration does not converge.

    `seen` holds the keys and values of the earlier tokens at the nodes, `time_rates` the values of dt/ds there, and
    `accuracy` is the size of the last Newton update.
    """
    chart = Chart.around(start, field.is_on_sphere)
    # On the sphere |y| = 1 is an angle of pi/4 from the start, beyond which the scale of the chart changes too much.
    chart_radius = 1.0 if field.is_on_sphere else np.inf
    y, rates = np.zeros((STAGES, len(start) - field.is_on_sphere)), DERIVATIVE / time_rates[:, None]
    is_full, size = y.shape[1] <= MAX_DENSE_UNKNOWNS, np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(12):  # iterations; a step that needs more is shortened
            velocity, jacobians = field.velocity(chart, y, seen)
            update = (full_update if is_full else simplified_update)(rates, jacobians, velocity - rates @ y)
            y, previous, size = y + update, size, float(np.abs(update).max(initial=0.0))
            # Where simplified updates shrink by less than 0.3 the mean Jacobian is too inexact.
            is_full = is_full or not size <= 0.3 * previous
            if not size <= 2 * previous or np.abs(y).max(initial=0.0) > chart_radius:
                return None
            if size <= accuracy:
                largest = np.linalg.eigvals(jacobians).real.max(axis=1, initial=-np.inf)
                return NodeValues(chart.points(y), float((time_rates * largest).max()))
    return None


def full_update(rates: np.ndarray, jacobians: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """The Newton update u:  (rates u)_i - J_i u_i = residual_i, with the Jacobian J_i of every node."""
    m = residual.shape[1]
    matrix = np.zeros((STAGES, m, STAGES, m))
    nodes, unknowns = np.arange(STAGES), np.arange(m)
    matrix[:, unknowns, :, unknowns] = rates
    matrix[nodes, :, nodes, :] -= jacobians
    try:
        return np.linalg.solve(matrix.reshape(STAGES * m, -1), residual.reshape(-1)).reshape(residual.shape)
    except np.linalg.LinAlgError:
        return np.full_like(residual, np.nan)


def simplified_update(rates: np.ndarray, jacobians: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """The update with the mean Jacobian J at all nodes: the Sylvester equation rates u - u J^T = residual."""
    if not np.isfinite(jacobians).all() or not np.isfinite(residual).all():
        return np.full_like(residual, np.nan)
    return solve_sylvester(rates, -jacobians.mean(axis=0).T, residual)
