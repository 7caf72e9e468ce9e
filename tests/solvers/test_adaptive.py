"""Steps of `Adaptive` where the field overflows inside a step that is tried, and where weights jump."""

import numpy as np
import pytest

import attnflow as af

BEFORE, AFTER = (af.Head(np.eye(2), np.eye(2), value) for value in (np.diag([1.0, 0.5]), [[0.0, -5.0], [5.0, 0.0]]))


@pytest.mark.parametrize("distance", [1e-15, 1e-13])
def test_an_overflow_of_the_error_estimate_alone_shortens_the_step(distance):
    """Tokens within rounding errors of one point hardly move, so that the first step is far too long for e^18.

    The result of some tried step is finite, and its error estimate, of one stage more, is not.
    """
    flow = af.SphereAttention(af.Head.identity(3), af.Unnormalised(18.0))
    tokens = np.array([0.3, 0.5, 0.81]) + distance * np.random.default_rng(0).normal(size=(8, 3))
    tokens /= np.linalg.norm(tokens, axis=-1, keepdims=True)

    run = af.simulate(flow, tokens, [0.0, 1e-4], progress=False)

    assert run.attrs["outcome"].startswith("Reached")
    np.testing.assert_allclose(run.tokens.values[-1], tokens, atol=1e-9)


@pytest.mark.parametrize("beta", [690.0, 692.0])
def test_an_overflow_in_the_trial_step_of_the_controller_gives_a_short_first_step(beta):
    """The controller tries a step of a hundredth of the tokens' size, in which e^(beta |x|^2) overflows."""
    flow = af.SphereAttention(af.Head.identity(2), af.Unnormalised(beta))
    tokens = np.array([[1.0, 0.0], [np.cos(0.3), np.sin(0.3)]])

    run = af.simulate(flow, tokens, [0.0, np.exp(-beta)], progress=False)

    assert run.attrs["outcome"].startswith("Reached")


@pytest.mark.parametrize("order", [5, 8])
def test_a_jump_of_the_weights_costs_no_more_than_a_start(order):
    """Velocities from before the jump are not used after it: with them steps are rejected until they are tiny."""

    def solved(heads, tokens, end):
        return af.simulate(
            af.EuclideanAttention(heads), tokens, [0.0, end], solver=af.Adaptive(order=order), progress=False
        )

    tokens = af.initial.gaussian(5, 2, rng=0)
    whole = solved(af.PiecewiseHead([1.0], [BEFORE, AFTER]), tokens, 2.0)
    first = solved(BEFORE, tokens, 1.0)
    second = solved(AFTER, first.final_tokens.values, 1.0)
    np.testing.assert_allclose(whole.final_tokens, second.final_tokens, atol=1e-6)
    assert int(whole.rejected_steps) <= int(first.rejected_steps) + int(second.rejected_steps) + 5
