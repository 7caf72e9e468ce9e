"""Newton updates for the values at the nodes of a piece."""

import numpy as np

import attnflow as af
from attnflow.streaming import token_solver
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


def test_nodes_are_solved_far_below_the_tolerance(monkeypatch):
    """With 30 coordinates updates of the simplified method shrink slowly, so that the last one is an error that shows."""
    tolerance, errors, solve = 1e-8, [], token_solver.solve_nodes

    def compared(*given):
        found, closer = solve(*given), solve(*given[:-1], 1e-6 * given[-1])
        if found and closer:
            errors.append(np.abs(found.points - closer.points).max())
        return found

    monkeypatch.setattr(token_solver, "solve_nodes", compared)
    flow = af.SphereAttention(af.Head.identity(30), af.Softmax(4.0), af.masks.causal)
    af.stream(flow, af.initial.sphere(3, 30, rng=0), [0.0, 1.0, 20.0], tolerance=tolerance, progress=False)
    assert 0 < max(errors) < 1e-3 * tolerance  # as the last update is of 1 % of it or less
