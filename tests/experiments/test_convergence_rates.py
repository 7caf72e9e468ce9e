"""Rates at which tokens meet: fitted from the run, predicted where a theorem applies."""

import numpy as np
import pytest

import attnflow as af
from attnflow.experiments.convergence_rates import meeting


def meeting_of(flow, tokens, times):
    run = af.simulate(flow, tokens, times, progress=False)
    return meeting(flow, np.asarray(tokens), run.time.values, run.tokens.values)


@pytest.mark.parametrize(
    ("attention", "scale", "rate"),
    [(af.Softmax(1.0), 1.0, 2.0), (af.Softmax(1.0), 0.5, 1.0), (af.Unnormalised(0.5), 1.0, 2 * np.exp(0.5)),
     (af.Unnormalised(2.0, 1.0), 1.0, 2.0)],
)  # fmt: skip
def test_the_fitted_rate_is_the_predicted_one(attention, scale, rate):
    flow = af.SphereAttention(af.Head.bilinear(np.eye(3), scale * np.eye(3)), attention)
    found = meeting_of(flow, af.initial.hemisphere(6, 3, rng=0), np.linspace(0, 14 / rate * 2, 101))

    assert found.fit is not None
    np.testing.assert_allclose(found.expected, rate)
    np.testing.assert_allclose(found.fit.rate, rate, rtol=0.01)
    late = np.flatnonzero((found.heights < 1e-4) & (found.heights > 1e-9))
    np.testing.assert_allclose(found.values(rate)[late], found.heights[late], rtol=0.05)


def test_a_power_of_time_is_fitted_where_lengths_grow():
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(2.0), normalisation=af.Pre())
    found = meeting_of(flow, af.initial.hemisphere(6, 3, rng=0), np.r_[0.0, np.geomspace(1, 1e4, 80)])

    assert found.is_algebraic
    assert found.expected == 2.0
    np.testing.assert_allclose(found.fit.rate, 2.0, rtol=0.01)
    assert found.law(2.0) == "$t^{-2}$"


def test_no_rate_is_predicted_outside_of_the_theorems():
    """The control: a causal mask, and a value matrix that is no multiple of I."""
    tokens, times = af.initial.hemisphere(6, 3, rng=0), np.linspace(0, 20, 41)
    causal = af.SphereAttention(af.Head.identity(3), af.Softmax(1.0), af.masks.causal)
    other = af.SphereAttention(af.Head.bilinear(np.eye(3), np.diag([2.0, 1.0, 1.0])))

    assert meeting_of(causal, tokens, times).expected is None
    assert meeting_of(other, tokens, times).expected is None


def test_heights_are_one_minus_the_cosine_of_the_two_tokens_farthest_apart():
    angles = np.array([[0.0, 0.3, 1.0], [0.1, 0.3, 0.5]])
    flow = af.SphereAttention(af.Head.identity(2))

    found = meeting(flow, af.initial.on_circle(angles[0]), np.arange(2.0), af.initial.on_circle(angles))

    np.testing.assert_allclose(found.heights, 1 - np.cos([1.0, 0.4]), rtol=1e-12)


@pytest.mark.parametrize(("step", "residual"), [(0.1, 1.0), (0.5, 1.0), (0.4, 0.6)])
def test_layers_meet_at_the_rate_of_their_linear_part(step, residual):
    """A layer multiplies differences by r / (r + h), which for h = 0.5 is far from e^-h."""
    flow, solver = af.SphereAttention(af.Head.identity(3)), af.Layers(step=step, residual=residual)
    tokens = af.initial.hemisphere(5, 3, rng=0)
    run = af.simulate(flow, tokens, np.arange(round(10 / step) + 1) * step, solver=solver, progress=False)
    found = meeting(flow, np.asarray(tokens), run.time.values, run.tokens.values, layers=solver)
    assert found.is_layered
    assert found.fit.rate == pytest.approx(found.expected, rel=1e-3)
    assert abs(found.expected - 2.0) > 0.05


def test_no_rate_of_layers_is_predicted_for_another_v():
    flow, solver = af.SphereAttention(af.Head(np.eye(3), np.eye(3), np.diag([1.0, 0.5, 0.2]))), af.Layers(step=0.2)
    tokens = af.initial.hemisphere(5, 3, rng=0)
    run = af.simulate(flow, tokens, np.arange(41) * 0.2, solver=solver, progress=False)
    assert meeting(flow, np.asarray(tokens), run.time.values, run.tokens.values, layers=solver).expected is None


def test_errors_of_the_solver_do_not_keep_the_interval_from_the_rate():
    """1 - cosine falls like e^{-2t}; heights near rounding have relative errors that the fit takes for a slope."""
    held = []
    for seed in range(20):
        tokens = af.initial.circle(8, rng=seed)
        flow, times = af.SphereAttention(af.Head.identity(2)), np.linspace(0, 25, 51)
        run = af.simulate(flow, tokens, times, progress=False)
        fit = meeting(flow, tokens, times, run.tokens.values).fit
        held.append(fit is None or fit.low <= 2 <= fit.high)

    assert np.mean(held) > 0.94
