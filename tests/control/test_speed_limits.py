"""Speed limits: never exceeded, attained by a rotation, and exceeded once a factor is left out."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError

TURN = np.array([[0.0, -1.0], [1.0, 0.0]])


@pytest.mark.parametrize("attention", [af.Softmax(3.0), af.Unnormalised(2.0, 0.3), af.Hardmax(), af.Sinkhorn(1.0, 3)])
@pytest.mark.parametrize("activation", [None, "relu", "tanh", "hat"])
def test_no_token_is_faster(attention, activation):
    rng = np.random.default_rng(0)
    heads = [af.Head(*rng.normal(size=(3, 3, 3))) for _ in range(2)]
    drift = None
    if activation:
        drift = af.Perceptron(rng.normal(size=(3, 2)), rng.normal(size=(2, 3)), rng.normal(size=2), activation)
    flow = af.SphereAttention(heads, attention, perceptron=drift)
    tokens = af.initial.sphere(20, 3, rng=1)
    limit = af.control.speed_limit(flow, tokens, tokens[::-1])
    assert np.linalg.norm(af.velocity(flow, tokens), axis=1).max() <= limit.speed


def test_unnormalised_attention_is_faster_than_the_sum_of_the_norms():
    """The control: without the factor e^beta the bound is |V| = 1, which two close tokens exceed."""
    tokens = af.initial.on_circle(np.array([0.0, 1.0]))
    flow = af.SphereAttention(af.Head(value=TURN), af.Unnormalised(2.0))
    fastest = np.linalg.norm(af.velocity(flow, tokens), axis=1).max()
    assert 1.0 < fastest <= af.control.speed_limit(flow, tokens, tokens[::-1]).speed == pytest.approx(np.exp(2.0))


def test_one_token_attains_the_limit():
    """|V| <= 1: the time is the angle, and the rotation generator needs no more: the gap is 1.00."""
    flow = af.SphereAttention(af.Head(value=TURN))
    limit = af.control.speed_limit(flow, [[1.0, 0.0]], [[np.cos(2.0), np.sin(2.0)]])
    run = af.simulate(flow, [[1.0, 0.0]], [0.0, 2.0])
    np.testing.assert_allclose(run.final_tokens, [[np.cos(2.0), np.sin(2.0)]], atol=1e-7)
    assert limit.time == pytest.approx(2.0, abs=1e-12)
    assert limit.gap(2.0) == pytest.approx(1.0, abs=1e-12)


def test_the_limit_in_space_is_that_of_growth():
    """x' = v x attains (R + c/L)(e^{LT} - 1) with c = 0."""
    flow = af.EuclideanAttention(af.Head(value=[[0.5]]))
    limit = af.control.speed_limit(flow, [[2.0]], [[2.0 * np.e]])
    assert limit.time == pytest.approx(2.0)


def test_the_limit_in_space_with_a_constant_drift():
    """x' = L x + c attains it: x(T) = (R + c/L) e^{LT} - c/L."""
    drift = af.Perceptron(outer=[[1.0]], inner=[[0.0]], bias=[0.4], activation="relu")
    flow = af.EuclideanAttention(af.Head(value=[[0.7]]), perceptron=drift)
    last = (1 + 0.4 / 0.7) * np.exp(0.7 * 2.0) - 0.4 / 0.7
    np.testing.assert_allclose(af.simulate(flow, [[1.0]], [0.0, 2.0], progress=False).final_tokens, [[last]], rtol=1e-6)
    assert af.control.speed_limit(flow, [[1.0]], [[last]]).time == pytest.approx(2.0)


def test_a_budget_below_the_limit_is_refused_with_the_bound():
    tokens, targets = np.eye(3)[:1], np.eye(3)[1:2]
    with pytest.raises(InputError, match=r"The time must be at least 1\.5708, since token 0 has speed at most 1"):
        af.control.steer(tokens, targets, time=1.0, norm=1.0)
    with pytest.raises(InputError, match=r"takes the time 1\.76275, but 1\.6 is allowed"):
        af.control.steer(tokens, targets, time=1.6, norm=1.0)
    assert af.control.steer(tokens, targets, time=1.0).gap == pytest.approx(1.12, abs=0.01)
    with pytest.raises(InputError, match="The speed limit is known for"):
        af.control.speed_limit(af.SphereAttention(af.Head.identity(3), normalisation=af.Pre()), tokens, targets)
