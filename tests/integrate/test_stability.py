"""Linear stability against finite differences and exact rates; Lyapunov exponents against closed forms."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.precision import cast, double
from attnflow.integrate.stability import linearise, lyapunov_exponents, movable_directions
from attnflow.model.dynamics import State

VALUE = np.diag([2.0, 1.0])
QUERY = np.array([[1.0, 0.4, -0.2], [0.0, 0.7, 0.9]])
KEY = np.array([[0.5, -1.0, 0.3], [0.2, 0.8, -0.6]])
GENERAL = af.Head(QUERY, KEY, np.array([[0.3, -0.8, 0.1], [0.5, 0.2, 0.4], [0.0, -0.3, -0.6]]))


def circle_flow(beta=1.0):
    return af.SphereAttention(af.Head(np.eye(2), np.eye(2), VALUE), af.Softmax(beta), af.masks.causal)


@pytest.mark.parametrize(
    "flow",
    [
        af.SphereAttention(GENERAL, af.Softmax(2.0), af.masks.causal),
        af.SphereAttention(GENERAL, af.Unnormalised(1.0), masses=[1.0, 2.0, 1.0, 0.5]),
        af.SphereAttention(GENERAL, af.Softmax(2.0), af.masks.strictly_causal, frozen=[True, False, False, False]),
        af.SphereAttention([GENERAL] * 5, af.Sinkhorn(1.0, 5), af.masks.alibi(0.3)),
        af.EuclideanAttention(GENERAL),
        af.RescaledAttention(GENERAL),
    ],
    ids=lambda flow: type(flow).__name__,
)
def test_derivative_equals_finite_differences(flow):
    tokens = af.initial.sphere(4, 3, rng=0)
    found = linearise(flow, tokens, time=0.3)
    h = 1e-5
    for place, direction in enumerate(found.basis):
        # the field extends off the sphere, so a straight step is enough; no retraction
        ahead, behind = (_velocity_anywhere(flow, tokens + side * h * direction, 0.3) for side in (1, -1))
        column = np.einsum("and,nd->a", found.basis, (ahead - behind) / (2 * h))
        np.testing.assert_allclose(found.matrix[:, place], column, atol=1e-8)


def plane_flow(value, attention=None, **parts):
    return af.EuclideanAttention(af.Head(np.eye(2), np.eye(2), value), attention or af.Softmax(1.0), **parts)


@pytest.mark.parametrize("attention", [af.Softmax(3.0), af.Softmax(-1.0), af.Sinkhorn(1.0, 3), af.Hardmax()], ids=repr)
@pytest.mark.parametrize("length", [1e-8, 1.0, 1e8, 1e30])
def test_jacobian_of_one_token_is_its_value_matrix(length, attention):
    value = np.array([[0.5, 0.1], [0.0, -0.3]])

    found = linearise(plane_flow(value, attention), [[length, 2 * length]])

    np.testing.assert_allclose(found.matrix, value, rtol=0, atol=1e-15)


@pytest.mark.parametrize("length", [1.0, 1e8])
def test_jacobian_at_beta_zero_is_the_average_of_the_values(length):
    value, tokens = np.array([[0.5, 0.1], [0.0, -0.3]]), length * np.array([[1.0, 0.0], [0.3, -0.5]])

    found = linearise(plane_flow(value, af.Softmax(0.0), masses=[1.0, 3.0]), tokens)

    np.testing.assert_allclose(found.matrix, np.kron([[0.25, 0.75], [0.25, 0.75]], value), rtol=0, atol=1e-15)


@pytest.mark.parametrize("spread", [1.0, 1e-4, 1e-7])
def test_jacobian_of_long_tokens_close_to_each_other(spread):
    """Tokens x_i = 1/spread + spread y_i on the line have scores whose differences are of order one.

    The derivative of o_i = V sum_j A_ij x_j by x_k, in 64 bits of mantissa:
    V (A_ik + beta A_ik x_i (x_k - o_i) + beta delta_ik (sum_j A_ij x_j^2 - o_i^2)), o_i = sum_j A_ij x_j,
    with the variance formed from differences.
    """
    tokens = (1 / spread + spread * np.array([0.0, 0.7, -0.4, 1.1]))[:, None]
    flow = af.EuclideanAttention(af.Head([[1.0]], [[1.0]], [[0.6]]), af.Softmax(1.5))

    found = linearise(flow, tokens)

    x = tokens[:, 0].astype(np.longdouble)
    logits = 1.5 * x[:, None] * (x - x[0])[None, :]
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    offsets = (x - x[0])[None, :] - (weights @ (x - x[0]))[:, None]
    expected = weights * (1 + 1.5 * x[:, None] * offsets) + np.diag(1.5 * np.sum(weights * offsets**2, axis=1))
    np.testing.assert_allclose(found.matrix, 0.6 * expected.astype(float), rtol=0, atol=20 * _error_of_scores(tokens))


def _error_of_scores(tokens):
    """The rounding error of a score, which is that of every weight."""
    return 1.5 * float(np.max(tokens**2)) * np.finfo(float).eps


@pytest.mark.parametrize("duration", [20.0, 40.0, 100.0, 400.0])
def test_exponent_of_a_token_that_grows_without_bound(duration):
    line = af.EuclideanAttention(af.Head([[1.0]], [[1.0]], [[0.5]]))
    np.testing.assert_allclose(lyapunov_exponents(line, [[1.0]], duration, step=0.05), [0.5], rtol=1e-8)


def test_exponents_of_two_tokens_that_grow_without_bound():
    """At beta = 0 the mean of two tokens grows as e^{t/2} and their difference is constant."""
    line = af.EuclideanAttention(af.Head([[1.0]], [[1.0]], [[0.5]]), af.Softmax(0.0))
    found = lyapunov_exponents(line, [[1.0], [-0.2]], 100.0, step=0.05, count=2)
    np.testing.assert_allclose(found.sum(), 0.5, rtol=1e-8)
    np.testing.assert_allclose(found, [0.5, 0.0], atol=0.02)  # the first directions fade as 1/100


def _velocity_anywhere(flow, tokens, time):
    """The field as written, also slightly off the sphere."""
    with double():
        return np.asarray(cast(flow, "float64").velocity(time, State(tokens)).tokens)


def test_directions_are_orthonormal_tangent_and_leave_frozen_tokens_out():
    tokens = af.initial.sphere(5, 3, rng=0)
    flow = af.SphereAttention(af.Head.identity(3), frozen=np.array([True, False, False, True, False]))
    basis = movable_directions(flow, tokens)
    assert basis.shape == (6, 5, 3)
    np.testing.assert_allclose(np.einsum("and,bnd->ab", basis, basis), np.eye(6), atol=1e-12)
    np.testing.assert_allclose(np.einsum("and,nd->an", basis, tokens), 0, atol=1e-12)
    assert not basis[:, [0, 3]].any()


def test_rates_at_a_cluster_are_exact():
    """All tokens at e_1 with V = diag(2, 1), causal, beta = 0: row k averages, so the rates are -2 + 1/k.

    Linearised, y_k' = (1/k) sum_{j<=k} y_j - 2 y_k.
    """
    found = linearise(circle_flow(beta=0.0), np.tile([1.0, 0.0], (4, 1)))
    np.testing.assert_allclose(found.eigenvalues, -2 + 1 / np.arange(1, 5), atol=1e-12)
    assert found.is_stable
    assert found.margin == pytest.approx(1.0)
    assert found.residual_speed < 1e-15


def test_unstable_neutral_and_moving_configurations():
    unstable = linearise(circle_flow(), [[0.0, 1.0]])
    assert unstable.is_unstable
    assert unstable.growth_rate == pytest.approx(1.0)
    identity = af.SphereAttention(af.Head.identity(3))
    neutral = linearise(identity, np.tile([0.0, 0.0, 1.0], (3, 1)))  # rotations move a cluster freely
    assert neutral.is_equilibrium
    assert not neutral.is_stable
    assert not neutral.is_unstable
    moving = linearise(circle_flow(), [[0.6, 0.8]])
    assert not moving.is_equilibrium
    assert not moving.is_stable
    assert moving.residual_speed == pytest.approx(0.48)  # |P_x V x| = (2 - 1) * 0.6 * 0.8


@pytest.mark.parametrize("size", [0.9e-7, 1.1e-7])
@pytest.mark.parametrize("sign", [-1, 1])
def test_rates_below_a_ten_millionth_decide_nothing(sign, size):
    """Under V = diag(1 + gap, 1) the first axis has the rate -gap."""
    flow = af.SphereAttention(af.Head(np.eye(2), np.eye(2), np.diag([1.0 + sign * size, 1.0])))
    found = linearise(flow, [[1.0, 0.0]])

    assert found.margin == pytest.approx(sign * size, rel=1e-6)
    assert found.is_stable is (sign > 0 and size > 1e-7)
    assert found.is_unstable is (sign < 0 and size > 1e-7)


@pytest.mark.parametrize(("speed", "rests"), [(0.9e-8, True), (1.1e-8, False)])
def test_a_speed_of_a_hundred_millionth_is_still_rest(speed, rests):
    """Near the first axis of V = diag(2, 1) the speed is the sine of the angle times its cosine."""
    found = linearise(circle_flow(), af.initial.on_circle(np.array([speed])))

    assert found.residual_speed == pytest.approx(speed, rel=1e-6)
    assert found.is_equilibrium is rests
    assert found.is_stable is rests


def test_a_flow_of_frozen_tokens_has_no_directions():
    flow = af.SphereAttention(af.Head.identity(2), frozen=np.array([True, True]))
    found = linearise(flow, np.eye(2))
    assert found.matrix.shape == (0, 0)
    assert found.growth_rate == -np.inf


def test_exponent_of_one_token_on_the_circle():
    """tan phi(T) = e^{-T} tan phi(0), so the derivative of phi(T) by phi(0) is known."""
    phi, duration = 1.2, 3.0
    derivative = np.exp(-duration) / np.cos(phi) ** 2 / (1 + np.exp(-2 * duration) * np.tan(phi) ** 2)
    found = lyapunov_exponents(circle_flow(), [[np.cos(phi), np.sin(phi)]], duration)
    np.testing.assert_allclose(found, np.log(derivative) / duration, atol=1e-7)


def test_exponents_of_a_linear_flow():
    """One token in R^d moves by e^{tV}: exponents are the eigenvalues of a symmetric V, their sum its trace."""
    value = np.diag([-0.2, -0.7, -1.5])
    flow = af.EuclideanAttention(af.Head(np.eye(3), np.eye(3), value))
    found = lyapunov_exponents(flow, [[0.3, 0.1, -0.2]], 60.0, count=3)
    np.testing.assert_allclose(np.sum(found), np.trace(value), atol=1e-8)
    np.testing.assert_allclose(found, [-0.2, -0.7, -1.5], atol=0.05)  # the first directions fade as 1/60


def test_exponents_at_an_equilibrium_are_its_rates():
    tokens = np.tile([1.0, 0.0], (3, 1))
    rates = linearise(circle_flow(beta=2.0), tokens).eigenvalues.real
    found = lyapunov_exponents(circle_flow(beta=2.0), tokens, 40.0, count=3)
    np.testing.assert_allclose(found.sum(), rates.sum(), atol=1e-6)
    np.testing.assert_allclose(found, rates, atol=0.1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: linearise(circle_flow(), np.eye(2)[None]), "Take one run"),
        (lambda: linearise(circle_flow(), [[2.0, 0.0]]), "unit sphere"),
        (lambda: linearise(af.SphereAttention(af.Head.identity(2), normalisation=af.Pre()), np.eye(2)), "Post"),
        (lambda: lyapunov_exponents(circle_flow(), [[1.0, 0.0]], 1.0, count=2), "at most 1"),
        (lambda: lyapunov_exponents(circle_flow(), [[1.0, 0.0]], -1.0), "duration"),
    ],
)
def test_bad_input_is_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()
