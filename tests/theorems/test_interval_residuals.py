"""Residuals of saved states: small for a solution, in units of the tokens, and infinite where lengths are missing."""

import numpy as np
import pytest

import attnflow as af
from attnflow.theorems.interval_residuals import doubts

TIMES = np.linspace(0, 0.2, 5)


@pytest.mark.parametrize("kind", [af.SphereAttention, af.EuclideanAttention])
def test_a_solution_has_small_residuals_and_a_displaced_token_its_displacement(kind):
    flow = kind(af.Head.identity(2))
    tokens = af.initial.circle(5, rng=0) * (1 if flow.is_on_sphere else 3)
    states = af.simulate(flow, tokens, TIMES, progress=False).tokens.values
    residuals, excesses = doubts(flow, TIMES, states)
    assert residuals.max() < 1e-7
    assert excesses.max() < 1e-3
    displaced = states.copy()
    displaced[2, 1] += 1e-3 * np.array([-displaced[2, 1, 1], displaced[2, 1, 0]])
    found, _ = doubts(flow, TIMES, displaced)
    size, length = np.abs(states[1:4]).max(), np.linalg.norm(states[2, 1])
    np.testing.assert_allclose(found[1:3], 1e-3 * length / size, rtol=0.1)
    assert found[[0, 3]].max() < 1e-7


def test_tokens_at_zero_have_no_doubt():
    residuals, excesses = doubts(af.EuclideanAttention(af.Head.identity(2)), TIMES, np.zeros((5, 3, 2)))
    np.testing.assert_array_equal([residuals, excesses], 0.0)
