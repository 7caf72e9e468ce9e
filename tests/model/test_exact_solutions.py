"""Exact solutions, derived in tests/README.md under the names of the tests; each with a negative control.

A control leaves the hypotheses and shows that the formula then fails, by a stated margin:
otherwise the formula might hold for a reason of its own.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import attnflow as af

TIMES = np.linspace(0.0, 3.0, 7)
TIGHT = af.Adaptive(rtol=1e-10, atol=1e-12)
EXACT = 1e-9  # ten times the tolerance of a step, over three units of time
ROUNDING = 1e-13  # some hundred roundings of numbers of size about one

VALUE = np.array([[0.3, -0.8, 0.1], [0.5, 0.2, 0.4], [0.0, -0.3, -0.6]])
QUERY = np.array([[1.0, 0.4, -0.2], [0.0, 0.7, 0.9]])
KEY = np.array([[0.5, -1.0, 0.3], [0.2, 0.8, -0.6]])
GENERAL = af.Head(query=QUERY, key=KEY, value=VALUE)
FIRST, SECOND = np.array([0.6, 0.0, 0.8]), np.array([0.0, 1.0, 0.0])


def path(flow, tokens, times=TIMES, solver=TIGHT):
    return af.simulate(flow, tokens, times, solver=solver).tokens.values


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def grown(token, value=VALUE, times=TIMES):
    """e^{tV} x at every time."""
    return np.array([expm(t * value) @ token for t in times])


def circle(*angles):
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def angles(tokens):
    return np.arctan2(tokens[..., 1], tokens[..., 0])


def cosines(tokens):
    """Of every pair of different tokens, at every time."""
    gram = np.einsum("tid,tjd->tij", tokens, tokens)
    return gram[:, ~np.eye(tokens.shape[1], dtype=bool)]


# -- one token


def test_one_token_grows_with_the_exponential():
    """x = e^{tV} x0 in R^d, whatever the scores. Hypothesis: one token."""
    tokens = path(af.EuclideanAttention(GENERAL), FIRST[None])
    np.testing.assert_allclose(tokens[:, 0], grown(FIRST), rtol=0, atol=EXACT)


def test_one_token_on_the_sphere_follows_the_direction_of_the_exponential():
    """x = e^{tV} x0 / |e^{tV} x0|; unnormalised attention of a token to itself only changes the clock."""
    tokens = path(af.SphereAttention(GENERAL), FIRST[None])
    np.testing.assert_allclose(tokens[:, 0], unit(grown(FIRST)), rtol=0, atol=EXACT)

    head, beta = af.Head(np.eye(3), np.eye(3), VALUE), 0.7
    tokens = path(af.SphereAttention(head, af.Unnormalised(beta)), FIRST[None])
    np.testing.assert_allclose(tokens[:, 0], unit(grown(FIRST, np.exp(beta) * VALUE)), rtol=0, atol=EXACT)


def test_one_token_rests_in_the_rescaled_flow():
    """z = e^{-tV} x does not move. Hypothesis: one token."""
    tokens = path(af.RescaledAttention(GENERAL), FIRST[None])
    np.testing.assert_allclose(tokens, np.broadcast_to(FIRST, tokens.shape), rtol=0, atol=EXACT)


@pytest.mark.parametrize("kind", [af.EuclideanAttention, af.SphereAttention, af.RescaledAttention])
def test_a_second_token_breaks_the_formula_for_one(kind):
    """Negative control: the same first token in company is elsewhere at the end."""
    tokens = path(kind(GENERAL), np.stack([FIRST, SECOND]))
    alone = {
        af.EuclideanAttention: grown(FIRST),
        af.SphereAttention: unit(grown(FIRST)),
        af.RescaledAttention: FIRST[None],
    }
    assert np.abs(tokens[-1, 0] - alone[kind][-1]).max() > 0.1


SOLVERS = [af.Euler(0.1), af.Heun(0.1), af.RK4(0.1), TIGHT, af.Layers(0.1)]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_a_turning_token_stays_on_the_sphere(solver):
    """V turns about the third axis, which the velocity never touches: every step still ends on the sphere."""
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    tokens = path(af.SphereAttention(af.Head(np.eye(3), np.eye(3), turn)), FIRST[None], solver=solver)
    np.testing.assert_allclose(np.linalg.norm(tokens, axis=-1), 1.0, rtol=0, atol=ROUNDING)


def test_a_jordan_block_is_approached_like_one_over_time():
    """V = [[1, 1], [0, 1]]: the angle to e1 is arctan(b / (a + t b)), so that t times it tends to one."""
    times = np.array([0.0, 1.0, 10.0, 100.0, 1000.0])
    flow = af.SphereAttention(af.Head(np.eye(2), np.eye(2), af.values.jordan_block(1.0, 2)))

    found = angles(path(flow, circle(1.2), times)[:, 0])

    a, b = np.cos(1.2), np.sin(1.2)
    np.testing.assert_allclose(found, np.arctan2(b, a + times * b), rtol=0, atol=EXACT)
    assert abs(times[-1] * found[-1] - 1) < 1e-3  # the next term is a / (b t), here 4e-4


def test_without_a_jordan_block_the_approach_is_exponential():
    """Negative control: V = diag(1, 1/2) has the angle arctan(e^{-t/2} b / a), far below 1/t."""
    times = np.array([0.0, 40.0])
    flow = af.SphereAttention(af.Head(np.eye(2), np.eye(2), np.diag([1.0, 0.5])))
    found = angles(path(flow, circle(1.2), times)[-1, 0])
    assert times[-1] * found < 1e-6


# -- equal attention: beta = 0


def test_at_beta_zero_the_mean_grows_and_differences_rest():
    """R^d: mean e^{tV} m0, every difference constant. Hypothesis: beta = 0, no mask."""
    start = np.stack([FIRST, SECOND])
    tokens = path(af.EuclideanAttention(GENERAL, af.Softmax(0.0)), start)
    np.testing.assert_allclose(tokens.mean(axis=1), grown(start.mean(axis=0)), rtol=0, atol=EXACT)
    np.testing.assert_allclose(tokens[:, 0] - tokens[:, 1], FIRST - SECOND + 0 * tokens[:, 0], rtol=0, atol=EXACT)


def test_above_beta_zero_differences_grow():
    """Negative control: at beta = 1 with V = I the two tokens part."""
    tokens = path(af.EuclideanAttention(af.Head.identity(3), af.Softmax(1.0)), np.stack([FIRST, SECOND]))
    apart = np.linalg.norm(tokens[:, 0] - tokens[:, 1], axis=-1)
    assert apart[-1] > apart[0] + 1


@pytest.mark.parametrize("cosine", [0.0, 0.5, -0.9])
def test_the_cosine_of_two_tokens_is_a_hyperbolic_tangent(cosine):
    """n = 2, beta = 0 on the sphere, V = I: rho = tanh(t + artanh rho0)."""
    start = circle(0.0, np.arccos(cosine))
    tokens = path(af.SphereAttention(af.Head.identity(2), af.Softmax(0.0)), start)
    expected = np.tanh(TIMES + np.arctanh(cosine))
    np.testing.assert_allclose(cosines(tokens)[:, 0], expected, rtol=0, atol=EXACT)


def test_the_cosine_of_two_tokens_is_slower_above_beta_zero():
    """Negative control: at beta = 1 attention to the other token is weaker, and so is the attraction."""
    tokens = path(af.SphereAttention(af.Head.identity(2), af.Softmax(1.0)), np.eye(2))
    assert np.max(np.tanh(TIMES) - cosines(tokens)[:, 0]) > 0.1


def cross_ratio(tokens):
    """|x1 - x2| |x3 - x4| / (|x1 - x3| |x2 - x4|) at every time."""
    apart = lambda i, j: np.linalg.norm(tokens[:, i] - tokens[:, j], axis=-1)
    return apart(0, 1) * apart(2, 3) / (apart(0, 2) * apart(1, 3))


def test_at_beta_zero_cross_ratios_rest():
    """On any sphere with V = I: the common attention output moves all tokens by one conformal map. Masses may differ."""
    start = af.initial.sphere(6, 4, rng=0)
    flow = af.SphereAttention(af.Head.identity(4), af.Softmax(0.0), masses=np.arange(1.0, 7.0))
    ratio = cross_ratio(path(flow, start, np.linspace(0.0, 1.5, 4)))
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-7, atol=0)  # small differences magnify the error of the run


def test_above_beta_zero_cross_ratios_change():
    """Negative control: at beta = 1 the attention outputs differ from token to token."""
    start = af.initial.sphere(6, 4, rng=0)
    ratio = cross_ratio(path(af.SphereAttention(af.Head.identity(4), af.Softmax(1.0)), start, np.linspace(0.0, 1.5, 4)))
    assert np.abs(ratio / ratio[0] - 1).max() > 0.05


# -- one common angle


def common_cosine(n, beta, divisor):
    """The cosine at every time, from the scalar equation alone."""

    def rate(_, c):
        return 2 * np.exp(beta * c) * (1 - c) * (1 + (n - 1) * c) / divisor(c)

    span = (TIMES[0], TIMES[-1])
    return solve_ivp(rate, span, [0.0], t_eval=TIMES, method="DOP853", rtol=1e-12, atol=1e-13).y[0]


@pytest.mark.parametrize("beta", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("n", [2, 8])
@pytest.mark.parametrize("rule", [af.Softmax, af.Unnormalised])
def test_orthonormal_tokens_keep_one_common_angle(rule, n, beta):
    """The cosine obeys a scalar equation. Hypotheses: Q = K = V = I, no mask. arXiv:2312.10794, section 6."""
    tokens = path(af.SphereAttention(af.Head.identity(n), rule(beta)), np.eye(n))

    softmax = lambda c: np.exp(beta) + (n - 1) * np.exp(beta * c)
    expected = common_cosine(n, beta, softmax if rule is af.Softmax else lambda c: n)
    np.testing.assert_allclose(cosines(tokens), expected[:, None] + 0 * cosines(tokens), rtol=0, atol=EXACT)


def test_the_common_angle_is_lost_for_another_value_matrix():
    """Negative control: V = diag(1, 1/2, -1/2), and the angles part."""
    head = af.Head(np.eye(3), np.eye(3), np.diag([1.0, 0.5, -0.5]))
    assert np.ptp(cosines(path(af.SphereAttention(head), np.eye(3))), axis=1).max() > 0.1


# -- attracted by what rests


@pytest.mark.parametrize("rule", [af.Softmax(3.0), af.Hardmax(), af.Sinkhorn(3.0)])
def test_a_token_falls_towards_a_frozen_one(rule):
    """tan(phi / 2) = e^{-t} tan(phi0 / 2) on the circle. Hypothesis: it sees the frozen token alone."""
    seen = af.masks.boolean(np.array([[False, True], [False, True]]))
    flow = af.SphereAttention(af.Head.identity(2), rule, seen, frozen=[False, True])

    found = angles(path(flow, circle(2.5, 0.0)))

    expected = 2 * np.arctan(np.exp(-TIMES) * np.tan(2.5 / 2))
    np.testing.assert_allclose(found[:, 0], expected, rtol=0, atol=EXACT)
    np.testing.assert_array_equal(found[:, 1], 0.0)


def test_a_token_that_also_sees_itself_falls_at_half_speed():
    """Negative control: at beta = 0 half of its attention is its own, and the clock runs at half speed."""
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(0.0), frozen=[False, True])
    found = angles(path(flow, circle(2.5, 0.0)))[:, 0]
    falls = lambda speed: 2 * np.arctan(np.exp(-speed * TIMES) * np.tan(2.5 / 2))
    np.testing.assert_allclose(found, falls(0.5), rtol=0, atol=EXACT)
    assert np.abs(found - falls(1.0)).max() > 0.5


CORNERS = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
INSIDE = np.array([[0.3, 0.2], [-0.1, 0.4], [-0.5, -0.05], [0.02, -0.7], [0.6, 0.5]])
OWNERS = CORNERS[[0, 1, 2, 3, 0]]


def test_hardmax_moves_straight_to_the_best_vertex():
    """Rescaled, V = I: z = e^{-t} z0 + (1 - e^{-t}) v. Hypothesis: v keeps the largest score of every token."""
    flow = af.RescaledAttention(af.Head.identity(2), af.Hardmax())
    tokens = path(flow, np.concatenate([CORNERS, INSIDE]))
    left = np.exp(-TIMES)[:, None, None]
    np.testing.assert_allclose(tokens[:, 4:], left * INSIDE + (1 - left) * OWNERS, rtol=0, atol=EXACT)
    np.testing.assert_allclose(tokens[:, :4], CORNERS + 0 * tokens[:, :4], rtol=0, atol=ROUNDING)


def test_frank_wolfe_steps_move_straight_to_the_best_vertex():
    """Layers with residual 1 - h: x = (1 - h)^k x0 + (1 - (1 - h)^k) v, up to rounding."""
    flow, h, steps = af.EuclideanAttention(af.Head.identity(2), af.Hardmax()), 0.125, np.arange(9)
    start = np.concatenate([CORNERS, INSIDE])
    tokens = path(flow, start, h * steps, af.Layers(step=h, residual=1 - h))
    left = ((1 - h) ** steps)[:, None, None]
    np.testing.assert_allclose(tokens[:, 4:], left * INSIDE + (1 - left) * OWNERS, rtol=0, atol=ROUNDING)


def test_soft_attention_does_not_move_straight_to_the_vertex():
    """Negative control: at beta = 1 all other tokens attract, too."""
    flow = af.RescaledAttention(af.Head.identity(2), af.Softmax(1.0))
    tokens = path(flow, np.concatenate([CORNERS, INSIDE]))
    left = np.exp(-TIMES)[:, None, None]
    assert np.abs(tokens[:, 4:] - left * INSIDE - (1 - left) * OWNERS).max() > 0.1


# -- layers and normalisation of one token


def test_layers_of_one_token_multiply():
    """V = I: k layers are (residual + h)^k in R^d, and nothing on the sphere or rescaled."""
    h, steps, solver = 0.25, np.arange(7), af.Layers(step=0.25, residual=0.9)
    follow = lambda kind: path(kind(af.Head.identity(3)), FIRST[None], h * steps, solver)[:, 0]
    powers = ((0.9 + h) ** steps)[:, None]
    np.testing.assert_allclose(follow(af.EuclideanAttention), powers * FIRST, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(follow(af.SphereAttention), FIRST + 0 * powers, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(follow(af.RescaledAttention), FIRST + 0 * powers, rtol=0, atol=ROUNDING)
    # Negative control: the flow itself is e^t, which six layers of a quarter miss by more than a quarter.
    assert np.abs(powers[-1] - np.exp(h * steps[-1])) > 0.25


R0, SPEED = 1.7, 2.0
SCHEMES = {
    "post": (af.Post(), lambda t: SPEED * t, None),
    "pre": (af.Pre(), lambda t: SPEED * t / R0, lambda t: R0 + SPEED * t),
    "mix": (
        af.Mix(switch=1.0),
        lambda t: SPEED * np.minimum(t, 1) + SPEED * np.maximum(t - 1, 0) / R0,
        lambda t: R0 + SPEED * np.maximum(t - 1, 0),
    ),
    "peri": (af.Peri(), lambda t: t / R0, lambda t: R0 + t),
    "nGPT": (af.NGPT(alpha=0.2), lambda t: 0.2 * t, None),
    "sqrt": (af.Sqrt(), lambda t: SPEED * 2 * (np.sqrt(t + 1) - 1), None),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_a_normalised_token_grows_along_itself_and_turns_across(name):
    """V = c I: the length grows as the scheme says, V = c J: the angle does, J the quarter turn.

    Post, nGPT and sqrt have no length.
    """
    scheme, angle, length = SCHEMES[name]
    start = R0 * circle(0.3) if length else circle(0.3)
    follow = lambda value: af.simulate(
        af.SphereAttention(af.Head(np.eye(2), np.eye(2), value), normalisation=scheme), start, TIMES, solver=TIGHT
    )

    growing, turning = follow(SPEED * np.eye(2)), follow(SPEED * np.array([[0.0, -1.0], [1.0, 0.0]]))

    np.testing.assert_allclose(growing.tokens[:, 0], circle(0.3) + 0 * growing.tokens[:, 0], rtol=0, atol=EXACT)
    np.testing.assert_allclose(turning.tokens[:, 0], circle(*(0.3 + angle(TIMES))), rtol=0, atol=EXACT)
    assert ("radius" in growing) == (length is not None)
    if length:
        np.testing.assert_allclose(growing.radius[:, 0], length(TIMES), rtol=0, atol=EXACT)
        np.testing.assert_allclose(turning.radius[:, 0], R0 + 0 * TIMES, rtol=0, atol=EXACT)


def test_no_two_normalisations_turn_a_token_alike():
    """At t = 3 any two of the angles differ by more than 0.3: no scheme passes for another above."""
    ends = np.sort([angle(3.0) for _, angle, _ in SCHEMES.values()])
    assert np.diff(ends).min() > 0.3


@pytest.mark.parametrize("scheme", [af.Pre(), af.Peri()])
def test_a_token_among_others_grows_more_slowly(scheme):
    """Negative control: V = I, but half of the attention is across, at beta = 0."""
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(0.0), normalisation=scheme)
    run = af.simulate(flow, R0 * np.eye(2), TIMES, solver=TIGHT)
    assert (R0 + TIMES - run.radius[:, 0]).max() > 0.3
