"""Newton updates for the values at the nodes of a piece."""

import numpy as np

from attnflow.streaming.newton import full_update, simplified_update
from attnflow.streaming.radau import DERIVATIVE, NODES

JACOBIAN = np.random.default_rng(1).normal(size=(3, 3))


def test_both_updates_solve_their_linear_equations():
    """With one Jacobian at all nodes they are the same."""
    rates, jacobians, residual = DERIVATIVE / 3, np.tile(JACOBIAN, (len(NODES), 1, 1)), np.ones((len(NODES), 3))
    update = simplified_update(rates, jacobians, residual)
    np.testing.assert_allclose(rates @ update - update @ JACOBIAN.T, residual, atol=1e-10)
    assert np.isnan(simplified_update(rates, np.nan * jacobians, residual)).all()
    np.testing.assert_allclose(full_update(rates, jacobians, residual), update, atol=1e-10)
    assert np.isnan(full_update(0 * rates, 0 * jacobians, residual)).all()  # a singular matrix
