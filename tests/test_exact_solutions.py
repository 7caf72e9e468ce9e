"""Exact solutions, with negative controls. Their mathematics is in README.md beside this file."""

import attnflow as af
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

TIGHT = af.Adaptive(rtol=1e-11, atol=1e-13, order=8)
TIMES = np.linspace(0, 3, 7)
CLOSE = 1e-9  # a hundred times the tolerance, for errors that add up over three units of time

VALUES = [
    np.diag([1.0, -0.5, 0.3]),
    af.values.jordan_block(0.5, 3),
    af.values.from_spectrum([0.2, 0.1 + 2j, 0.1 - 2j], "random", rng=0),
]


def tokens_of(flow, start, times=TIMES, solver=TIGHT):
    return af.simulate(flow, start, times, solver=solver).tokens.values


def with_value(value):
    return af.Head.bilinear(np.eye(len(value)), value)


def exponentials(value, start):
    return np.stack([start @ expm(t * value).T for t in TIMES])


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def cosine(tokens):
    return np.sum(tokens[:, 0] * tokens[:, 1], axis=-1)


@pytest.mark.parametrize("value", VALUES)
def test_one_token_follows_the_exponential(value):
    start = np.array([[1.0, -2.0, 0.5]])

    found = tokens_of(af.EuclideanAttention(with_value(value), af.Softmax(3.0)), start)

    np.testing.assert_allclose(found, exponentials(value, start), rtol=CLOSE, atol=CLOSE)


def test_two_tokens_do_not_follow_the_exponential():
    start = np.array([[1.0, -2.0, 0.5], [0.3, 0.1, -1.0]])

    found = tokens_of(af.EuclideanAttention(with_value(VALUES[0])), start)

    assert np.max(np.abs(found - exponentials(VALUES[0], start))) > 0.1


@pytest.mark.parametrize("value", VALUES)
def test_one_token_on_the_sphere_follows_the_normalised_exponential(value):
    start = unit(np.array([[1.0, -2.0, 0.5]]))

    found = tokens_of(af.SphereAttention(with_value(value), af.Softmax(3.0)), start)

    np.testing.assert_allclose(found, unit(exponentials(value, start)), atol=CLOSE)


def test_unnormalised_attention_speeds_a_single_token_up():
    start = unit(np.array([[1.0, -2.0, 0.5]]))

    found = tokens_of(af.SphereAttention(with_value(VALUES[0]), af.Unnormalised(1.0)), start)

    assert np.max(np.abs(found - unit(exponentials(VALUES[0], start)))) > 0.1


@pytest.mark.parametrize(("value", "rate"), [(af.values.jordan_block(1.0, 2), 1.0), (np.diag([1.0, 0.9]), 0.0)])
def test_a_jordan_block_sends_the_token_to_its_axis_like_one_over_time(value, rate):
    """The second matrix is the control: two eigenvalues, and t times the distance tends to 0."""
    times = np.array([0.0, 10.0, 100.0, 1000.0])
    start = unit(np.array([[0.0, 1.0]]) if rate else np.array([[1.0, 1.0]]))

    found = tokens_of(af.SphereAttention(with_value(value)), start, times)[:, 0]

    distance = np.linalg.norm(found - [1.0, 0.0], axis=-1)
    assert abs(times[-1] * distance[-1] - rate) < 1e-3  # the next term is of order 1/t^2
    if rate:
        exact = unit(np.stack([times, np.ones(4)], axis=1))
        np.testing.assert_allclose(found, exact, atol=CLOSE)


def test_two_tokens_at_beta_zero_keep_their_difference():
    start, value = np.array([[1.0, 0.0, 2.0], [0.5, -1.0, 0.0]]), VALUES[1]
    mean = start.mean(axis=0, keepdims=True)

    found = tokens_of(af.EuclideanAttention(with_value(value), af.Softmax(0.0)), start)

    np.testing.assert_allclose(found, exponentials(value, mean) + start - mean, atol=CLOSE, rtol=CLOSE)


def test_two_tokens_at_beta_one_do_not_keep_their_difference():
    start = np.array([[1.0, 0.0, 2.0], [0.5, -1.0, 0.0]])

    found = tokens_of(af.EuclideanAttention(af.Head.identity(3), af.Softmax(1.0)), start)

    assert np.linalg.norm(found[-1, 0] - found[-1, 1]) > 1.1 * np.linalg.norm(start[0] - start[1])


@pytest.mark.parametrize("rho", [0.0, -0.6, 0.9])
@pytest.mark.parametrize("attention", [af.Softmax(0.0), af.Unnormalised(0.0)])
def test_the_cosine_of_two_tokens_at_beta_zero_is_a_hyperbolic_tangent(rho, attention):
    start = af.initial.equiangular(2, 3, rho)

    found = cosine(tokens_of(af.SphereAttention(af.Head.identity(3), attention), start))

    np.testing.assert_allclose(found, np.tanh(TIMES + np.arctanh(rho)), atol=CLOSE)


def test_the_cosine_of_two_tokens_at_beta_two_is_not():
    found = cosine(tokens_of(af.SphereAttention(af.Head.identity(2), af.Softmax(2.0)), np.eye(2)))

    assert np.max(np.abs(found - np.tanh(TIMES))) > 0.1


def common_cosine(n, beta, divisor):
    """The cosine at each of TIMES, from the scalar equation alone."""

    def rate(_, c):
        weight = np.exp(beta * c)
        total = np.exp(beta) + (n - 1) * weight if divisor == "sum" else n
        return 2 * weight * (1 - c) * (1 + (n - 1) * c) / total

    return solve_ivp(rate, TIMES[[0, -1]], [0.0], t_eval=TIMES, method="DOP853", rtol=1e-12, atol=1e-14).y[0]


@pytest.mark.parametrize("beta", [0.0, 1.0, 4.0, -1.0])
@pytest.mark.parametrize("n", [2, 8])
@pytest.mark.parametrize(("rule", "divisor"), [(af.Softmax, "sum"), (af.Unnormalised, "n")])
def test_orthonormal_tokens_keep_one_common_cosine(rule, divisor, n, beta):
    """Hypotheses: B = V = identity, d >= n, no mask. arXiv:2312.10794, section 6."""
    tokens = tokens_of(af.SphereAttention(af.Head.identity(n), rule(beta)), np.eye(n))

    gram = np.einsum("tic,tjc->tij", tokens, tokens)
    expected = common_cosine(n, beta, divisor)[:, None, None]
    np.testing.assert_allclose(gram, expected + (1 - expected) * np.eye(n), atol=CLOSE)


def test_the_common_cosine_is_lost_when_v_is_not_the_identity():
    tokens = tokens_of(af.SphereAttention(with_value(np.diag([1.0, 0.5, -0.5]))), np.eye(3))

    gram = np.einsum("tic,tjc->tij", tokens, tokens)[:, ~np.eye(3, dtype=bool)]
    assert np.ptp(gram, axis=1).max() > 0.1


SEES_THE_FROZEN_ONE_ONLY = af.masks.boolean(np.array([[True, False], [True, False]]))


def angle(tokens):
    return np.arctan2(tokens[:, 1, 1], tokens[:, 1, 0])


@pytest.mark.parametrize("beta", [0.0, 5.0])
def test_a_token_is_attracted_by_a_frozen_one(beta):
    flow = af.SphereAttention(
        af.Head.identity(2), af.Softmax(beta), SEES_THE_FROZEN_ONE_ONLY, frozen=np.array([True, False])
    )

    found = angle(tokens_of(flow, af.initial.on_circle([0.0, 2.5])))

    np.testing.assert_allclose(found, 2 * np.arctan(np.exp(-TIMES) * np.tan(1.25)), atol=CLOSE)


def test_the_mass_of_the_frozen_token_sets_the_pace():
    flow = af.SphereAttention(
        af.Head.identity(2), af.Softmax(0.0), frozen=np.array([True, False]), masses=np.array([4.0, 1.0])
    )

    found = angle(tokens_of(flow, af.initial.on_circle([0.0, 2.5])))

    np.testing.assert_allclose(found, 2 * np.arctan(np.exp(-0.8 * TIMES) * np.tan(1.25)), atol=CLOSE)


def test_a_token_that_is_not_frozen_comes_closer_itself():
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(0.0))

    tokens = tokens_of(flow, af.initial.on_circle([0.0, 2.5]))

    expected = 2 * np.arctan(np.exp(-0.5 * TIMES) * np.tan(1.25))
    assert np.max(np.abs(np.arccos(cosine(tokens)) - expected)) > 0.1


LEADER_AND_FOLLOWERS = np.array([[3.0, 0.0], [0.5, 0.1], [0.2, 0.3]])


def test_hardmax_sends_tokens_straight_to_their_leader():
    found = tokens_of(af.RescaledAttention(af.Head.identity(2), af.Hardmax()), LEADER_AND_FOLLOWERS)

    decay = np.exp(-TIMES)[:, None, None]
    np.testing.assert_allclose(found, decay * LEADER_AND_FOLLOWERS + (1 - decay) * LEADER_AND_FOLLOWERS[0], atol=CLOSE)


def test_softmax_sends_tokens_to_a_mixture():
    found = tokens_of(af.RescaledAttention(af.Head.identity(2), af.Softmax(1.0)), LEADER_AND_FOLLOWERS)

    decay = np.exp(-TIMES)[:, None, None]
    expected = decay * LEADER_AND_FOLLOWERS + (1 - decay) * LEADER_AND_FOLLOWERS[0]
    assert np.max(np.abs(found - expected)) > 0.1


@pytest.mark.parametrize(
    ("scheme", "factor", "growth"), [(af.Pre(), 1, 1), (af.Peri(), 1, 1), (af.Pre(), 2, 2), (af.Peri(), 2, 1)]
)
def test_lengths_grow_linearly(scheme, factor, growth):
    """Doubling V doubles the growth under Pre-LN, but not under Peri-LN."""
    flow = af.SphereAttention(with_value(factor * np.eye(2)), normalisation=scheme)

    run = af.simulate(flow, [[3.0, 4.0]], TIMES, solver=TIGHT)

    np.testing.assert_allclose(run.radius[:, 0], 5 + growth * TIMES, rtol=CLOSE)
    np.testing.assert_allclose(run.tokens[:, 0], np.tile([0.6, 0.8], (7, 1)), atol=CLOSE)


def test_beta_zero_is_kuramoto_with_identical_frequencies():
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, 6)
    rate = lambda _, theta: np.mean(np.sin(theta[None, :] - theta[:, None]), axis=1)
    expected = solve_ivp(rate, TIMES[[0, -1]], angles, t_eval=TIMES, method="DOP853", rtol=1e-11, atol=1e-13).y.T

    found = tokens_of(af.SphereAttention(af.Head.identity(2), af.Unnormalised(0.0)), af.initial.on_circle(angles))

    np.testing.assert_allclose(found, af.initial.on_circle(expected), atol=CLOSE)


def test_layers_of_one_token_are_powers():
    value, start, step, residual = VALUES[1], np.array([[1.0, -2.0, 0.5]]), 0.1, 0.9
    layers = np.arange(11) * step

    found = tokens_of(af.EuclideanAttention(with_value(value)), start, layers, af.Layers(step, residual))

    matrix = residual * np.eye(3) + step * value
    expected = np.stack([start @ np.linalg.matrix_power(matrix, k).T for k in range(11)])
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)
