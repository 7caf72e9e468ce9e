"""The rescaled flow: far times, and agreement with the plain flow."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

import attnflow as af
from attnflow._common import matrix_exponential
from attnflow._common.precision import double

TIGHT = af.Adaptive(rtol=1e-10, atol=1e-12)


def test_nothing_overflows_up_to_time_300():
    tokens = af.initial.box(20, 2, rng=0)

    run = af.simulate(af.RescaledAttention(af.Head.identity(2)), tokens, np.linspace(0, 300, 31))

    assert run.outcome.startswith("Reached t = 300")
    assert np.all(np.isfinite(run.tokens))
    # The hull never grows, and all tokens are by now at a vertex of the limit polygon or near the end of an edge.
    assert np.abs(run.final_tokens).max() <= np.abs(tokens).max()
    assert int(af.clusters.count(run, 1e-6)[-1]) < 10


def test_the_outcome_says_from_when_on_rounding_decides():
    """Rounding of the scores is e^{2t} |z|^2 eps; it is one near t = 16 for |z| of about five."""
    tokens = af.initial.box(20, 2, rng=0)
    flow = af.RescaledAttention(af.Head.identity(2))

    late = af.simulate(flow, tokens, np.linspace(0, 30, 31))
    early = af.simulate(flow, tokens, np.linspace(0, 10, 31))

    since = float(late.outcome.split("From about t = ")[1].split(" on float64 cannot separate scores")[0])
    assert 15.5 < since < 16.5
    assert "float64" not in early.outcome


def test_a_model_whose_scores_stay_resolved_has_no_such_sentence():
    """Negative control: hardmax compares scores of any size, and V = -I makes them smaller."""
    tokens = af.initial.box(8, 2, rng=0)

    hardmax = af.simulate(af.RescaledAttention(af.Head.identity(2), af.Hardmax()), tokens, [0.0, 30.0])
    shrinking = af.simulate(af.RescaledAttention(af.Head.bilinear(np.eye(2), -np.eye(2))), tokens, [0.0, 5.0])

    assert "float64" not in hardmax.outcome
    assert "float64" not in shrinking.outcome


NOISE_VALUE = np.array([[0.5, 0.4], [0.0, -0.3]])


@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize("frozen", [None, np.array([False, True, False, False])])
def test_noise_is_that_of_the_plain_flow_on_every_path(common, frozen):
    """The same increments act in both frames, so that x = e^{tV} z holds path by path, up to the error of the steps."""
    head, tokens, end = af.Head(np.eye(2), np.eye(2), NOISE_VALUE), af.initial.box(4, 2, rng=0), 2.0
    parts = {"noise": af.Noise(kappa=0.5, common=common), "frozen": frozen}

    def difference(step):
        solver = af.StochasticHeun(step)
        x = af.simulate(af.EuclideanAttention(head, **parts), tokens, [0.0, end], solver=solver, rng=3)
        z = af.simulate(af.RescaledAttention(head, **parts), tokens, [0.0, end], solver=solver, rng=3)
        return np.abs(z.final_tokens.values @ expm(end * NOISE_VALUE).T - x.final_tokens.values).max()

    moved = af.simulate(af.EuclideanAttention(head, frozen=frozen), tokens, [0.0, end]).final_tokens.values
    noisy = af.simulate(af.EuclideanAttention(head, **parts), tokens, [0.0, end], rng=3).final_tokens.values
    assert np.abs(noisy - moved).max() > 0.5
    assert difference(1e-3) < 5e-3


def test_noise_of_single_tokens_has_its_covariance():
    """Tokens that see only themselves: z = z(0) + sqrt(2 / kappa) int_0^t e^{-sV} dW.

    The covariance is (2 / kappa) int_0^t e^{-sV} e^{-sV^T} ds, here by quadrature; 20,000 tokens leave an error of 1 %.
    """
    flow = af.RescaledAttention(
        af.Head(np.eye(2), np.eye(2), NOISE_VALUE), mask=af.masks.window(0), noise=af.Noise(kappa=4.0)
    )

    run = af.simulate(flow, np.ones((20_000, 2)), [0.0, 2.0], solver=af.StochasticHeun(0.05), rng=0)

    nodes, weights = np.polynomial.legendre.leggauss(20)
    frames = [expm(-(node + 1) * NOISE_VALUE) for node in nodes]
    expected = 2 / 4.0 * sum(weight * frame @ frame.T for weight, frame in zip(weights, frames, strict=True))
    np.testing.assert_allclose(np.cov(run.final_tokens.values.T), expected, rtol=0.04, atol=0.01)
    np.testing.assert_allclose(run.final_tokens.mean("token"), 1.0, atol=0.03)


VALUES = [
    af.values.identity(3),
    af.values.minus_identity(3) / 2,
    af.values.perron_frobenius(3, rng=0),
    af.values.jordan_block(0.5, 3),
    af.values.from_spectrum([0.5, 0.3 + 2j, 0.3 - 2j], rng=1),
    af.values.gaussian(3, rng=2),
]


@pytest.mark.parametrize("value", VALUES)
def test_it_is_the_plain_flow_in_rescaled_variables(value):
    tokens = af.initial.gaussian(6, 3, rng=5)
    head = af.Head.bilinear(af.values.gaussian(3, rng=6), value)
    times = np.linspace(0, 2, 5)

    plain = af.simulate(af.EuclideanAttention(head), tokens, times, solver=TIGHT).tokens.values
    rescaled = af.simulate(af.RescaledAttention(head), tokens, times, solver=TIGHT).tokens.values

    seen = np.stack([x @ expm(-t * value).T for t, x in zip(times, plain, strict=True)])
    np.testing.assert_allclose(rescaled, seen, atol=1e-7, rtol=1e-7)  # errors grow by about e^2 over the run


def in_double(function, matrix, number):
    with double():
        result, log_scale = function(jnp.asarray(matrix), jnp.asarray(number))
        return np.asarray(result), float(log_scale)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("time", [0.0, 0.3, -1.7, 20.0])
def test_the_scaled_exponential_is_the_exponential(value, time):
    matrix, log_scale = in_double(matrix_exponential.scaled_exponential, value, time)

    expected = expm(time * value)
    np.testing.assert_allclose(np.exp(log_scale) * matrix, expected, rtol=1e-11, atol=1e-13 * np.abs(expected).max())


def test_the_scaled_exponential_goes_where_the_exponential_overflows():
    matrix, log_scale = in_double(matrix_exponential.scaled_exponential, np.diag([1.0, 2.0]), 1000.0)

    np.testing.assert_allclose(log_scale + np.log(matrix[1, 1]), 2000.0, rtol=1e-12)
    assert log_scale > 709  # above this e^x overflows


@pytest.mark.parametrize("power", [0, 1, 7, 40])
def test_the_scaled_power_is_the_power(power):
    value = af.values.gaussian(3, rng=4)
    matrix, log_scale = in_double(matrix_exponential.scaled_power, value, float(power))

    expected = np.linalg.matrix_power(value, power)
    np.testing.assert_allclose(np.exp(log_scale) * matrix, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())
