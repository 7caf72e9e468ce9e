"""How errors fall with the step, and that noise has the right strength."""

import numpy as np
import pytest

import attnflow as af

EXACT = af.Adaptive(rtol=1e-13, atol=1e-14, order=8)
HEAD = af.Head.bilinear(af.values.gaussian(3, rng=1), af.values.gaussian(3, rng=2))
FLOWS = {
    "plain": af.EuclideanAttention(HEAD),
    "rescaled": af.RescaledAttention(HEAD),
    "sphere": af.SphereAttention(HEAD, af.Softmax(2.0)),
    "pre": af.SphereAttention(HEAD, normalisation=af.Pre()),
}
ORDERS = [(af.Euler, 1), (af.Heun, 2), (af.RK4, 4)]


def errors(flow, solver, steps, end=1.0):
    tokens = af.initial.sphere(5, 3, rng=3)
    exact = af.simulate(flow, tokens, [0.0, end], solver=EXACT).final_tokens.values
    ends = [af.simulate(flow, tokens, [0.0, end], solver=solver(step)).final_tokens.values for step in steps]
    return np.array([np.max(np.abs(found - exact)) for found in ends])


@pytest.mark.parametrize("name", FLOWS)
@pytest.mark.parametrize(("solver", "order"), ORDERS)
def test_fixed_steps_have_their_nominal_order(solver, order, name):
    steps = 0.1 / 2 ** np.arange(2, 5) if order < 4 else 0.1 / 2 ** np.arange(1, 4)

    found = errors(FLOWS[name], solver, steps)

    slope = np.polyfit(np.log(steps), np.log(found), 1)[0]
    assert abs(slope - order) < 0.15


@pytest.mark.parametrize("name", FLOWS)
def test_stochastic_heun_has_order_two_without_noise(name):
    """kappa = 1e26 makes the noise 1e-13, below the errors looked at."""
    flow = FLOWS[name]
    parts = {"normalisation": flow.normalisation} if name in ("sphere", "pre") else {}
    noisy = type(flow)(flow.heads, flow.attention, noise=af.Noise(1e26), **parts)
    tokens = af.initial.sphere(5, 3, rng=3)
    exact = af.simulate(flow, tokens, [0.0, 1.0], solver=EXACT).final_tokens.values
    steps = 0.1 / 2 ** np.arange(2, 5)

    found = [
        np.max(np.abs(af.simulate(noisy, tokens, [0.0, 1.0], solver=af.StochasticHeun(step)).final_tokens - exact))
        for step in steps
    ]

    assert abs(np.polyfit(np.log(steps), np.log(np.array(found)), 1)[0] - 2) < 0.15


@pytest.mark.parametrize("name", ["plain", "sphere", "pre"])
def test_layers_tend_to_the_continuous_flow_to_first_order(name):
    steps = 0.1 / 2 ** np.arange(2, 6)

    found = errors(FLOWS[name], af.Layers, steps)

    assert abs(np.polyfit(np.log(steps), np.log(found), 1)[0] - 1) < 0.15


def test_fixed_steps_keep_their_order_across_a_jump_of_the_weights():
    """Steps land on the switch, though it is no multiple of the step."""
    other = af.Head.bilinear(-np.eye(3), np.eye(3))
    flow = af.SphereAttention(af.PiecewiseHead([0.37], [HEAD, other]), af.Softmax(2.0))
    steps = 0.1 / 2 ** np.arange(1, 4)

    found = errors(flow, af.RK4, steps)

    assert abs(np.polyfit(np.log(steps), np.log(found), 1)[0] - 4) < 0.25  # the two pieces have steps of their own


@pytest.mark.parametrize("order", [5, 8])
def test_the_error_follows_the_tolerance(order):
    tolerances = 10.0 ** -np.arange(4, 10)

    found = errors(FLOWS["sphere"], lambda rtol: af.Adaptive(rtol=rtol, atol=rtol, order=order), tolerances)

    assert np.all(found < 20 * tolerances)
    assert found[-1] < 1e-3 * found[0]


NOTHING = af.Head.bilinear(np.eye(3), np.zeros((3, 3)))


def test_noise_in_r_d_has_variance_two_t_over_kappa():
    """20,000 x 3 normal draws: the sample variance is right to 5 sqrt(2 / 60000) = 3 %."""
    flow = af.EuclideanAttention(NOTHING, noise=af.Noise(kappa=4.0))

    run = af.simulate(flow, np.zeros((200, 100, 3)), [0.0, 0.5, 2.0], solver=af.StochasticHeun(0.25), rng=1)

    np.testing.assert_allclose(run.tokens.var(["run", "token", "coordinate"])[1:], [0.25, 1.0], rtol=0.03)


def test_common_noise_moves_all_tokens_alike():
    flow = af.EuclideanAttention(NOTHING, noise=af.Noise(kappa=4.0, common=True))

    run = af.simulate(flow, np.zeros((5, 3)), [0.0, 1.0], rng=1)

    np.testing.assert_array_equal(run.final_tokens, np.tile(run.final_tokens[0], (5, 1)))
    assert np.abs(run.final_tokens).max() > 0.01


@pytest.mark.parametrize("d", [2, 3])
def test_noise_on_the_sphere_is_its_brownian_motion(d):
    """E<x(t), x(0)> = e^{-(d-1)t/kappa}; 20,000 draws of deviation below 1 give an error below 5 / sqrt(20000)."""
    head = af.Head.bilinear(np.eye(d), np.zeros((d, d)))
    flow = af.SphereAttention(head, noise=af.Noise(kappa=2.0))
    start = np.tile(np.eye(d)[0], (200, 100, 1))

    run = af.simulate(flow, start, [0.0, 0.5, 2.0], solver=af.StochasticHeun(0.02), rng=2)

    expected = np.exp(-(d - 1) * np.array([0.5, 2.0]) / 2.0)
    np.testing.assert_allclose(run.tokens[:, 1:, :, 0].mean(["run", "token"]), expected, atol=0.036)
    np.testing.assert_allclose(np.linalg.norm(run.final_tokens, axis=-1), 1, atol=1e-12)
