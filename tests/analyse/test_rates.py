"""Fitted rates against curves whose rates are known."""

import numpy as np
import pytest

from attnflow.analyse import rates

TIMES = np.linspace(1, 20, 60)


def noisy(curve, seed=0, size=0.05):
    return curve * np.exp(size * np.random.default_rng(seed).normal(size=len(curve)))


def test_exact_curves_give_their_rates():
    found = rates.exponential(TIMES, 3 * np.exp(-0.7 * TIMES))
    assert found.law == "exponential"
    np.testing.assert_allclose([found.rate, found.prefactor, found.r_squared], [0.7, 3.0, 1.0], rtol=1e-10)

    found = rates.algebraic(TIMES, 3 * TIMES**-1.5)
    assert found.law == "algebraic"
    np.testing.assert_allclose([found.rate, found.prefactor], [1.5, 3.0], rtol=1e-10)


def test_growth_is_a_negative_rate():
    assert rates.exponential(TIMES, np.exp(0.3 * TIMES)).rate == pytest.approx(-0.3)


def test_the_interval_contains_the_rate_in_95_of_100_cases():
    """200 fits to noisy curves: between 175 and 200 hold it, which a binomial of .95 leaves once in 10^5."""
    fits = [rates.exponential(TIMES, noisy(np.exp(-TIMES), seed)) for seed in range(200)]

    assert 175 <= sum(fit.low < 1 < fit.high for fit in fits) < 200


@pytest.mark.parametrize(("curve", "law"), [(np.exp(-0.4 * TIMES), "exponential"), (TIMES**-2.0, "algebraic")])
def test_the_better_law_is_found(curve, law):
    assert rates.best(TIMES, noisy(curve)).law == law


def test_points_that_have_no_logarithm_are_left_out():
    distances = np.exp(-TIMES)
    distances[[3, 7, 9]] = [0.0, np.nan, -1.0]

    found = rates.exponential(np.r_[TIMES[:-1], np.inf], distances)

    assert found.points == len(TIMES) - 4
    assert found.rate == pytest.approx(1.0)


def test_time_zero_has_no_logarithm_either():
    times = np.arange(10.0)

    assert rates.algebraic(times, (times + 1) ** -2.0).points == 9
    assert rates.exponential(times, np.exp(-times)).points == 10


def test_tiny_distances_at_late_times_do_not_overflow():
    found = rates.algebraic(np.geomspace(1e3, 1e4, 20), np.geomspace(1e300, 1e-300, 20))

    assert found.rate == pytest.approx(600)
    assert np.isfinite(found.prefactor)


def test_bad_input_is_a_sentence():
    with pytest.raises(ValueError, match="at least 5 times"):
        rates.exponential([1, 2, 3], [1, 1, 1])
    with pytest.raises(ValueError, match="one length"):
        rates.exponential([1, 2, 3], [1, 1])
    with pytest.raises(ValueError, match="one length"):
        rates.exponential(np.ones((6, 2)), np.ones((6, 2)))
    with pytest.raises(ValueError, match="different times"):
        rates.exponential([1.0] * 6, [1.0] * 6)
