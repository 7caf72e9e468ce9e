"""Frozen attention: its linear prediction, its error, and which starts it stays right for."""

import numpy as np
import pytest
import xarray as xr
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import attnflow as af
from attnflow.analyse import frozen_attention

TIMES = np.linspace(0.0, 2.0, 21)


def stochastic(n, seed=0):
    weights = np.random.default_rng(seed).exponential(size=(n, n))
    return weights / weights.sum(axis=1, keepdims=True)


def test_prediction_solves_the_linear_equation():
    matrix, tokens = stochastic(6), np.random.default_rng(1).normal(size=(6, 2))
    field = lambda _, z: ((matrix - np.eye(6)) @ z.reshape(6, 2)).ravel()
    solved = solve_ivp(field, (0, 2), tokens.ravel(), t_eval=TIMES, rtol=1e-11, atol=1e-12).y.T.reshape(-1, 6, 2)
    np.testing.assert_allclose(frozen_attention.predict(matrix, tokens, TIMES), solved, atol=1e-9)


@pytest.mark.parametrize("size", [0.0, 1e-12, 1e-7, 1e-5, 1e-3])
def test_defective_and_nearly_defective_weights_give_the_same_numbers(size):
    matrix = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5 - size, 0.5 + size]])
    tokens = np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]])
    exact = np.stack([expm(t * (matrix - np.eye(3))) @ tokens for t in TIMES])
    # eigenvectors of condition up to 1e6 lose that many roundings
    np.testing.assert_allclose(frozen_attention.predict(matrix, tokens, TIMES), exact, atol=1e-9)


def test_rates_are_one_minus_eigenvalues():
    rates = frozen_attention.rates(stochastic(5))
    assert rates[0] == 0
    assert np.all(np.real(rates[1:]) > 0)
    np.testing.assert_allclose(np.sum(rates), 5 - np.trace(stochastic(5)), atol=1e-12)
    turning = frozen_attention.rates(np.roll(np.eye(3), 1, axis=1))
    np.testing.assert_allclose(np.sort(turning.imag), [-np.sqrt(0.75), 0, np.sqrt(0.75)], atol=1e-12)


def valid_for(tokens, beta=1.0, tolerance=0.05):
    flow = af.RescaledAttention(af.Head.identity(2), af.Softmax(beta))
    run = af.simulate(flow, tokens, np.linspace(0.0, 5.0, 101), progress=False)
    errors = frozen_attention.error(af.attention_matrix(flow, tokens), run)
    assert errors[0] < 1e-12
    return float(frozen_attention.valid_until(errors, tolerance))


def test_the_prediction_holds_longer_for_small_tokens_small_beta_and_tight_clusters():
    tokens = af.initial.gaussian(12, 2, rng=0)
    plain = valid_for(tokens)
    triangle = 3.0 * np.repeat(np.array([[1.0, 0.0], [-0.6, 0.8], [-0.6, -0.8]]), 4, axis=0)
    assert 0.05 < plain < 0.5
    assert plain < valid_for(0.5 * tokens) < valid_for(0.3 * tokens) < valid_for(0.2 * tokens) < np.inf
    assert plain < valid_for(tokens, beta=0.3) < valid_for(tokens, beta=0.1) < np.inf
    assert plain < valid_for(triangle + tokens) < valid_for(triangle + 0.2 * tokens) == np.inf


def test_only_beta_times_the_squared_size_matters():
    tokens = af.initial.gaussian(12, 2, rng=0)
    # scores are the same, z a factor smaller; solver tolerances are not scaled along
    np.testing.assert_allclose(valid_for(0.3 * tokens), valid_for(tokens, beta=0.09), rtol=1e-5)


def test_errors_of_an_ensemble_equal_those_of_its_runs():
    flow = af.RescaledAttention(af.Head.identity(2))
    starts = af.initial.gaussian(5, 2, rng=0, runs=3)
    run = af.simulate(flow, starts, TIMES, progress=False)
    matrices = np.stack([af.attention_matrix(flow, start) for start in starts])
    tokens = run.tokens.copy()
    tokens.values[1] = np.nan
    errors = frozen_attention.error(matrices, tokens)
    assert errors.dims == ("run", "time")
    for place in (0, 2):
        alone = frozen_attention.error(matrices[place], run.isel(run=place))
        np.testing.assert_array_equal(errors[place], alone)
    assert np.all(np.isnan(errors[1]))
    assert np.isnan(frozen_attention.valid_until(errors)[1])


@pytest.mark.parametrize(
    ("row", "expected"),
    [([0, 0.1, 0.3], 1.5), ([0.5, 0.6, 0.7], 0.0), ([0, 0.1, 0.1], np.inf), ([0, np.inf, np.inf], 1.0)],
)
def test_first_time_above_a_tolerance(row, expected):
    errors = xr.DataArray(row, {"time": [0.0, 1.0, 2.0]}, ("time",))
    assert frozen_attention.valid_until(errors, 0.2) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: frozen_attention.rates([[0.5, 0.6], [0.5, 0.5]]), "add up to one"),
        (lambda: frozen_attention.rates(np.ones(3)), "n x n"),
        (lambda: frozen_attention.predict(np.eye(3), np.eye(2), [0.0, 1.0]), "3 rows"),
        (lambda: frozen_attention.error(np.eye(2), np.ones((3, 2, 2))), "time"),
    ],
)
def test_bad_input_is_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_errors_of_rates_bound_the_effect_of_rounding():
    """Random stochastic matrices, rounded anew by relative errors of 1e-16: rates move by less than their errors."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        matrix = rng.random((8, 8)) ** 8
        matrix /= matrix.sum(axis=1, keepdims=True)
        moved = matrix * (1 + 1.1e-16 * rng.choice([-1, 1], matrix.shape))
        change = np.abs(np.sort_complex(np.linalg.eigvals(matrix)) - np.sort_complex(np.linalg.eigvals(moved)))
        errors = frozen_attention.rate_errors(matrix)
        assert change.max() <= errors.max() < 1e-10


def test_a_defective_matrix_has_rates_of_a_large_error():
    defective = [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]

    errors = frozen_attention.rate_errors(defective)

    assert errors[0] < 1e-14
    assert errors[1:].max() > 1e-9
