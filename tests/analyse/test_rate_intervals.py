"""Intervals of fitted rates hold the true rate: for independent and correlated noise, and for curves with a next term.

Frequencies of 300 fits with a true coverage of .95 lie above 272 (.907) in all but one of 1000 cases. The control is the
interval of Student for independent residuals.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.stats import linregress, t

from attnflow.analyse import rate_intervals, rates
from attnflow.analyse.rate_intervals import half_width

SEEDS = range(300)


def autoregressive(points, correlation, seed):
    """Stationary noise of variance one, u_i = correlation u_{i-1} + e_i."""
    shocks = np.random.default_rng(seed).normal(size=points)
    noise = shocks.copy()
    for i in range(1, points):
        noise[i] = correlation * noise[i - 1] + np.sqrt(1 - correlation**2) * shocks[i]
    return noise


def student_half_width(abscissae, ordinates):
    return t.ppf(0.975, len(abscissae) - 2) * linregress(abscissae, ordinates).stderr


def coverages(points, correlation):
    """Shares of noisy curves e^{-t} whose interval holds the rate: of this package, and of Student."""
    times = np.linspace(1, 20, points)
    held = []
    for seed in SEEDS:
        distances = np.exp(-times + 0.05 * autoregressive(points, correlation, seed))
        fit = rates.exponential(times, distances)
        naive = student_half_width(times, np.log(distances))
        held.append((fit.low < 1 < fit.high, abs(fit.rate - 1) < naive))
    return np.mean(held, axis=0)


@pytest.mark.parametrize("points", [20, 60])
def test_independent_noise_is_covered_in_95_of_100_cases(points):
    held, naive = coverages(points, 0.0)

    assert 0.92 < held < 0.985
    assert 0.92 < naive < 0.985


@pytest.mark.parametrize("points", [20, 60, 200])
def test_correlated_noise_is_covered_and_the_interval_for_independent_noise_fails(points):
    held, naive = coverages(points, 0.9)

    assert held > 0.92
    assert naive < 0.75


def test_independent_noise_costs_little_width():
    """The median width is within 10 % of Student's, which knows that the residuals are independent."""
    times, wider = np.linspace(1, 20, 60), []
    for seed in SEEDS:
        noise = autoregressive(60, 0.0, seed)
        wider.append(half_width(times, noise, linregress(times, noise).slope) / student_half_width(times, noise))

    assert 0.95 < np.median(wider) < 1.1


@pytest.mark.parametrize("points", [8, 20, 200])
@pytest.mark.parametrize("size", [1.0, 0.1, -0.5, 5.0])
@pytest.mark.parametrize("decay", [0.5, 1.0, 2.0])
def test_curves_with_a_next_term_are_held(points, size, decay):
    """e^{-2t} (1 + c e^{-kt}) and t^{-2} (1 + c t^{-k}); Student's interval misses them."""
    times = np.linspace(0, 5, points)
    fit = rates.exponential(times, np.exp(-2 * times) * (1 + size * np.exp(-decay * times)))
    assert fit.low < 2 < fit.high

    times = np.geomspace(10, 1000, points)
    fit = rates.algebraic(times, times**-2.0 * (1 + size * times**-decay))
    assert fit.low < 2 < fit.high


def test_the_interval_for_independent_noise_misses_a_curve_with_a_next_term():
    times = np.linspace(0, 5, 60)
    logs = -2 * times + np.log1p(np.exp(-times))

    assert abs(linregress(times, logs).slope + 2) > 5 * student_half_width(times, logs)


def test_a_curve_without_a_next_term_has_an_interval_of_rounding_errors():
    times = np.linspace(0, 5, 60)
    fit = rates.exponential(times, 3 * np.exp(-0.7 * times))

    assert fit.low <= 0.7 <= fit.high
    assert fit.high - fit.low < 1e-13


@pytest.mark.parametrize("beta", [1.0, 4.0])
@pytest.mark.parametrize("n", [2, 16])
def test_the_common_cosine_of_equiangular_tokens_has_rate_two(n, beta):
    """c' = 2 (1 - c) (1 + (n - 1) c) / (e^{beta (1 - c)} + n - 1): 1 - c decays like e^{-2t}."""
    speed = lambda _, c: 2 * (1 - c) * (1 + (n - 1) * c) / (np.exp(beta * (1 - c)) + n - 1)
    times = np.linspace(0, 60, 1201)
    apart = 1 - solve_ivp(speed, (0, 60), [0.0], t_eval=times, rtol=1e-11, atol=1e-13).y[0]

    is_late = (apart < 0.3) & (apart > 1e-3)
    fit = rates.exponential(times[is_late], apart[is_late])

    assert fit.low < 2 < fit.high
    assert fit.high - fit.low < 1.5


def test_lengths_that_grow_from_a_constant_have_power_two():
    """(t + c)^{-2} over the last decade of time, as under Pre-LN, where r = t + c."""
    times = np.geomspace(1e3, 1e4, 80)
    for constant in (-50.0, 3.0, 20.0):
        fit = rates.algebraic(times, (times + constant) ** -2.0)
        assert fit.low < 2 < fit.high
        assert fit.high - fit.low < 0.2


@pytest.mark.parametrize("points", [8, 20, 200])
@pytest.mark.parametrize("share", [0.5, 1.0, 3.0])
def test_factors_that_grow_with_time_or_its_logarithm_are_held(points, share):
    """e^{-2t} (1 + c t), as of a defective eigenvalue, and t^{-2} (1 + c log t); neither slope is at its limit."""
    times = np.linspace(1, 10, points)
    fit = rates.exponential(times, np.exp(-2 * times) * (1 + share * times))
    assert fit.low < 2 < fit.high < 2.5

    times = np.geomspace(10, 1e5, points)
    fit = rates.algebraic(times, times**-2.0 * (1 + share * np.log(times)))
    assert fit.low < 2 < fit.high < 2.5


@pytest.mark.parametrize("frequency", [3.0, 10.0])
def test_rotating_decay_is_held(frequency):
    """e^{-t} (2 + cos(omega t)), as of a complex pair of eigenvalues."""
    times = np.linspace(0, 12, 121)
    fit = rates.exponential(times, np.exp(-times) * (2 + np.cos(frequency * times)))

    assert fit.low < 1 < fit.high


def test_the_order_of_the_points_does_not_matter():
    times = np.linspace(0, 5, 40)
    distances = np.exp(-2 * times) * (1 + np.exp(-times))
    order = np.random.default_rng(0).permutation(40)

    mixed, sorted_ = rates.exponential(times[order], distances[order]), rates.exponential(times, distances)

    np.testing.assert_allclose([mixed.low, mixed.high], [sorted_.low, sorted_.high], rtol=1e-6)


@pytest.mark.parametrize("times", [[1, 1, 1, 1, 2], [1, 2, 2, 2, 2], [1, 1, 2, 2, 3, 3], [1, 2, 3, 4, 1000]])
def test_repeated_and_uneven_times_give_finite_intervals(times):
    distances = np.exp(-(np.asarray(times, dtype=float) ** 1.2) / 10)
    fit = rates.exponential(times, distances)

    assert np.isfinite([fit.low, fit.high]).all()
    assert fit.low < fit.rate < fit.high


def test_correlations_are_weighted_as_with_dense_matrices():
    """p(phi) = |R|^(-1/2) |X^T R^-1 X|^(-1/2) S^(-(n - k) / 2), with R_ij = phi^|i - j| and S the weighted squares."""
    design = np.column_stack([np.ones(7), np.arange(7.0), np.arange(7.0) ** 1.5])
    ordinates = np.random.default_rng(0).normal(size=7)
    logs = []
    for phi in rate_intervals.CORRELATIONS:
        correlations = phi ** np.abs(np.subtract.outer(np.arange(7), np.arange(7)))
        inverse = np.linalg.inv(correlations)
        gram = design.T @ inverse @ design
        left = ordinates - design @ np.linalg.solve(gram, design.T @ inverse @ ordinates)
        determinants = np.linalg.slogdet(correlations)[1] + np.linalg.slogdet(gram)[1]
        logs.append(-determinants / 2 - 2 * np.log(left @ inverse @ left))
    weights, _, _ = rate_intervals._last_coefficient(design, ordinates, 0.0)
    np.testing.assert_allclose(weights, np.exp(logs) / np.exp(logs).sum(), rtol=1e-6)
