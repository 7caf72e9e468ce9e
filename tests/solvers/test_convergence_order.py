"""How fast solvers converge, and what noise does on average.

Orders are measured from two steps, h and h / 2, against the oracle: log2 of the ratio of errors.
"""

import numpy as np
import pytest
from tests.helpers import oracle

import attnflow as af

END = 1.0
N, D, BETA = 5, 3, 1.5
RNG = np.random.default_rng(0)
QUERY, KEY, VALUE = 0.6 * RNG.normal(size=(3, D, D))
TOKENS = RNG.normal(size=(N, D))
KINDS = {
    "R^d": (af.EuclideanAttention, oracle.Euclidean),
    "rescaled": (af.RescaledAttention, oracle.Rescaled),
    "sphere": (af.SphereAttention, oracle.Sphere),
}
# Steps at which the next term of the error is below a tenth, and rounding below a thousandth.
STEPS = {af.Euler: 1 / 256, af.Heun: 1 / 64, af.RK4: 1 / 16}
STILL = af.Head(np.eye(D), np.eye(D), np.zeros((D, D)))


def start(kind):
    return TOKENS / np.linalg.norm(TOKENS, axis=1, keepdims=True) if kind == "sphere" else TOKENS


def flow_of(kind, **options):
    return KINDS[kind][0](af.Head(QUERY, KEY, VALUE), af.Softmax(BETA), **options)


@pytest.fixture(scope="module")
def references():
    """Where the oracle ends, on every space."""
    heads, rule = [oracle.Weights(QUERY, KEY, VALUE)], oracle.softmax(BETA)
    models = {kind: model(heads, rule, oracle.mask(N)) for kind, (_, model) in KINDS.items()}
    return {kind: oracle.solve(model, start(kind), [0.0, END])[0][-1] for kind, model in models.items()}


def error(flow, tokens, solver, reference):
    run = af.simulate(flow, tokens, [0.0, END], solver=solver, rng=0)
    return np.abs(run.tokens.values[-1] - reference).max()


def measured_order(flow, tokens, solver, step, reference):
    errors = [error(flow, tokens, solver(length), reference) for length in (step, step / 2)]
    return np.log2(errors[0] / errors[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("solver", "order"), [(af.Euler, 1), (af.Heun, 2), (af.RK4, 4)])
def test_equal_steps_have_their_order(kind, solver, order, references):
    """Halving the step divides the error by two to the order."""
    found = measured_order(flow_of(kind), start(kind), solver, STEPS[solver], references[kind])
    assert abs(found - order) < 0.15


@pytest.mark.parametrize("kind", KINDS)
def test_stochastic_heun_has_order_two_where_noise_vanishes(kind, references):
    """kappa = 1e30 moves tokens by 1e-15: what remains is Heun's method."""
    flow = flow_of(kind, noise=af.Noise(kappa=1e30))
    found = measured_order(flow, start(kind), af.StochasticHeun, 1 / 64, references[kind])
    assert abs(found - 2) < 0.15


@pytest.mark.parametrize("kind", KINDS)
def test_layers_approach_the_flow_with_order_one(kind, references):
    """Layers of depth h are an Euler scheme; rescaled ones are seen through (I + h V)^{-k} instead of e^{-tV}."""
    found = measured_order(flow_of(kind), start(kind), af.Layers, 1 / 256, references[kind])
    assert abs(found - 1) < 0.15


def test_layers_that_forget_do_not_approach_the_flow(references):
    """Negative control: with residual 0.99 the error does not fall with the step, but grows to that of x = 0."""
    forgetful = lambda step: af.Layers(step, residual=0.99)
    found = measured_order(flow_of("R^d"), start("R^d"), forgetful, 1 / 256, references["R^d"])
    assert found < 0.15


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"order": 8}, {"stiff": True}], ids=["Tsit5", "Dopri8", "Kvaerno5"])
def test_the_error_of_adaptive_steps_falls_with_the_tolerance(options, kind, references):
    """A tolerance ten thousand times smaller gives an error smaller in proportion, within a factor of ten.

    The error of a whole run stays below a hundred times the tolerance of a step.
    """
    flow, tolerances = flow_of(kind), np.array([1e-5, 1e-9])
    solve = lambda rtol: error(flow, start(kind), af.Adaptive(rtol, rtol / 100, **options), references[kind])
    errors = np.array([solve(rtol) for rtol in tolerances])
    assert 1e3 < errors[0] / errors[1] < 1e5
    assert np.all(errors < 100 * tolerances)


# -- noise


def displacements(flow, tokens, times, runs, step=0.05, **options):
    """Tokens of many runs at every time but the first."""
    ensemble = np.broadcast_to(tokens, (runs, *tokens.shape))
    run = af.simulate(flow, ensemble, times, solver=af.StochasticHeun(step, **options), rng=1)
    return run.tokens.values[:, 1:]


def test_noise_in_space_spreads_like_brownian_motion():
    """V = 0 in R^d: every coordinate is Gaussian with variance 2 t / kappa.

    The variance of N samples has relative standard deviation sqrt(2 / N).
    """
    kappa, times, runs, n = 3.0, [0.0, 0.5, 2.0], 64, 40
    flow = af.EuclideanAttention(STILL, noise=af.Noise(kappa))
    moved = displacements(flow, np.zeros((n, D)), times, runs)

    samples = runs * n * D
    expected = 2 * np.array(times[1:]) / kappa
    variance = (moved**2).mean(axis=(0, 2, 3))
    np.testing.assert_allclose(variance, expected, rtol=4 * np.sqrt(2 / samples))  # four deviations: 6.5 %
    assert np.all(np.abs(moved.mean(axis=(0, 2, 3))) < 4 * np.sqrt(expected / samples))
    # Negative control: with variance t / kappa the test would have failed, by many deviations.
    assert np.all(np.abs(variance / (expected / 2) - 1) > 0.5)


def test_common_noise_moves_all_tokens_alike():
    """V = 0 in R^d: with common noise differences rest, with noise of their own they do not."""
    tokens = TOKENS[:3]
    spread = {}
    for common in (True, False):
        flow = af.EuclideanAttention(STILL, noise=af.Noise(3.0, common=common))
        moved = displacements(flow, tokens, [0.0, 1.0], runs=2)[:, 0] - tokens
        spread[common] = np.ptp(moved, axis=1).max()
    assert spread[True] < 1e-13  # roundings of twenty steps
    assert spread[False] > 0.1


def test_noise_with_linear_attraction_is_an_ornstein_uhlenbeck_process():
    """V = -I, every token sees only itself: Ornstein-Uhlenbeck, variance (1 - e^{-2t}) / kappa, mean e^{-t} x0."""
    kappa, runs, n, time = 2.0, 64, 40, 1.0
    head = af.Head(np.eye(D), np.eye(D), -np.eye(D))
    flow = af.EuclideanAttention(head, mask=af.masks.window(0), noise=af.Noise(kappa))
    moved = displacements(flow, np.full((n, D), 2.0), [0.0, time], runs, step=0.02)

    expected = (1 - np.exp(-2 * time)) / kappa
    samples = runs * n * D
    # Four deviations of the samples, and 0.02^2 for the step.
    np.testing.assert_allclose(moved.var(), expected, rtol=4 * np.sqrt(2 / samples) + 4e-4)
    np.testing.assert_allclose(moved.mean(), 2 * np.exp(-time), atol=4 * np.sqrt(expected / samples) + 4e-4)
    # Negative control: without the attraction the variance would be 2 t / kappa, more than twice as large.
    assert 2 * time / kappa > 2 * moved.var()


@pytest.mark.parametrize("d", [2, 3, 5])
def test_noise_on_the_sphere_forgets_the_start_at_the_rate_of_its_laplacian(d):
    """V = 0: E <x(t), x(0)> = e^{-(d - 1) t / kappa}, for coordinates have the eigenvalue -(d - 1).

    <x(t), x(0)> lies in [-1, 1]: the mean of N independent samples has deviation at most 1 / sqrt(N).
    """
    kappa, times, runs, n = 4.0, [0.0, 0.5, 1.5], 64, 40
    head = af.Head(np.eye(d), np.eye(d), np.zeros((d, d)))
    tokens = af.initial.sphere(n, d, rng=2)
    moved = displacements(af.SphereAttention(head, noise=af.Noise(kappa)), tokens, times, runs, step=0.02)

    found = np.einsum("rtid,id->t", moved, tokens) / (runs * n)
    expected = lambda rate: np.exp(-rate * np.array(times[1:]) / kappa)
    allowed = 3 / np.sqrt(runs * n)  # 6 %: three deviations at most
    assert np.all(np.abs(found - expected(d - 1)) < allowed)
    # Negative control: noise in the sense of Ito, or not made tangent, would decay at the rate d or d - 2.
    assert np.abs(found - expected(d)).max() > allowed
    assert np.abs(found - expected(d - 2)).max() > allowed


def test_noise_on_the_circle_is_exact_at_any_step():
    """V = 0: a great circle of normal length is Brownian motion. Straight steps, retracted, are not (control)."""
    kappa, times, runs, n = 2.0, [0.0, 1.0], 64, 400
    flow = af.SphereAttention(af.Head(value=np.zeros((2, 2))), noise=af.Noise(kappa))
    tokens = af.initial.circle(n, rng=2)
    mean = {}
    for geodesic in (True, False):
        moved = displacements(flow, tokens, times, runs, step=0.5, geodesic=geodesic)
        mean[geodesic] = np.einsum("rtid,id->t", moved, tokens)[0] / (runs * n)

    deviation = np.sqrt((1 + np.exp(-4 / kappa)) / 2 - np.exp(-2 / kappa)) / np.sqrt(runs * n)
    assert abs(mean[True] - np.exp(-1 / kappa)) < 3.5 * deviation  # 0.01
    assert abs(mean[False] - np.exp(-1 / kappa)) > 10 * deviation
