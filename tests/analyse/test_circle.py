"""Predictions on the circle against integrals, Jacobians and random draws."""

from math import comb

import numpy as np
import pytest
from scipy.integrate import quad

import attnflow as af
from attnflow.analyse import circle, energy


def bessel(order, beta):
    """I_k(beta) by its integral."""
    return quad(lambda t: np.exp(beta * np.cos(t)) * np.cos(order * t) / np.pi, 0, np.pi, epsabs=1e-13)[0]


@pytest.mark.parametrize("beta", [0.3, 2.0, 7.0])
def test_growth_rates_are_the_integrals(beta):
    expected = np.array([k**2 * bessel(k, beta) / beta for k in range(1, 6)])

    np.testing.assert_allclose(circle.growth_rates(beta, 5), expected, rtol=1e-9)
    np.testing.assert_allclose(circle.growth_rates(beta, 5, softmax=True), expected / bessel(0, beta), rtol=1e-9)


@pytest.mark.parametrize(("softmax", "field"), [(True, energy.softmax_velocity), (False, energy.unnormalised_velocity)])
def test_growth_rates_are_eigenvalues_of_the_particles(softmax, field):
    """The Jacobian of the angles' velocities at 40 equally spaced tokens, by central differences."""
    n, beta, step = 40, 3.0, 1e-5
    grid = 2 * np.pi * np.arange(n) / n

    def speed(angles):
        tokens = np.c_[np.cos(angles), np.sin(angles)]
        return np.sum(field(tokens, beta) * np.c_[-np.sin(angles), np.cos(angles)], axis=1)

    jacobian = np.stack([(speed(grid + step * e) - speed(grid - step * e)) / (2 * step) for e in np.eye(n)], axis=1)
    for mode, rate in enumerate(circle.growth_rates(beta, 5, softmax=softmax), start=1):
        wave = np.sin(mode * grid)
        np.testing.assert_allclose(jacobian @ wave, rate * wave, atol=1e-7)


def test_growth_rates_at_zero_are_the_limit():
    np.testing.assert_allclose(circle.growth_rates(1e-6, 3), circle.growth_rates(0.0, 3), atol=1e-6)


def test_large_beta_does_not_overflow():
    assert np.isfinite(circle.growth_rates(2000.0, 80, softmax=True)).all()
    assert circle.predicted_clusters(2000.0) == pytest.approx(np.sqrt(4000), rel=0.02)
    assert circle.critical_kappa(2000.0) == 0.0


@pytest.mark.parametrize(("beta", "expected"), [(0.1, 1), (1.0, 1), (5.0, 3), (7.0, 4)])
def test_number_of_clusters(beta, expected):
    rates = [k**2 * bessel(k, beta) for k in range(1, 12)]

    assert circle.predicted_clusters(beta) == expected == int(np.argmax(rates)) + 1


def test_positions_are_the_crests_of_the_mode():
    """Tokens drawn from the density 1 + cos(3 (theta - .4)) have their third mode's crests at .4 + 2 pi j / 3."""
    grid = 2 * np.pi * (np.arange(4000) + 0.5) / 4000
    weights = np.round(50 * (1 + np.cos(3 * (grid - 0.4)))).astype(int)
    angles = np.repeat(grid, weights)

    found = circle.predicted_positions(np.c_[np.cos(angles), np.sin(angles)], 3)

    np.testing.assert_allclose(found, 0.4 + 2 * np.pi * np.arange(3) / 3, atol=1e-3)


def test_critical_noise():
    """Where the growth of a mode, k^2 I_k / beta, equals the damping k^2 / kappa."""
    np.testing.assert_allclose(
        [circle.critical_kappa(b) for b in (0.0, 1.0, 2.0, 4.0)], [2, 1.7694, 1.2574, 0.4099], atol=5e-5
    )
    kappa = circle.critical_kappa(3.0, 2)
    np.testing.assert_allclose(circle.growth_rates(3.0, 2)[1], 4 / kappa, rtol=1e-12)


def test_hemispheres_of_few_points():
    """n <= d points always share a hemisphere; on the circle n points do with probability n / 2^(n-1)."""
    assert circle.hemisphere_probability(3, 3) == 1.0
    np.testing.assert_allclose([circle.hemisphere_probability(n, 2) for n in (3, 4, 7)], [3 / 4, 4 / 8, 7 / 64])
    by_hand = sum(comb(9, k) for k in range(4)) / 2**9
    np.testing.assert_allclose(circle.hemisphere_probability(10, 4), by_hand)


def test_hemispheres_by_drawing():
    """On the circle points share a half when their largest gap exceeds half a turn."""
    angles = np.sort(np.random.default_rng(0).uniform(0, 2 * np.pi, size=(20000, 6)), axis=1)
    gaps = np.diff(angles, axis=1, append=angles[:, :1] + 2 * np.pi)
    expected = circle.hemisphere_probability(6, 2)
    error = np.sqrt(expected * (1 - expected) / 20000)

    assert abs(np.mean(gaps.max(axis=1) > np.pi) - expected) < 4 * error


@pytest.mark.parametrize("softmax", [True, False])
def test_equiangular_rate_is_that_of_the_tokens(softmax):
    n, beta, cosine = 5, 2.0, 0.3
    tokens = af.initial.equiangular(n, n, cosine)
    field = energy.softmax_velocity if softmax else energy.unnormalised_velocity
    turning = field(tokens, beta) @ tokens.T

    expected = (turning + turning.T)[np.triu_indices(n, 1)]

    np.testing.assert_allclose(circle.equiangular_rate(cosine, n, beta, softmax=softmax), expected, rtol=1e-12)


def test_two_tokens_at_beta_zero_follow_the_hyperbolic_tangent():
    """rho = tanh t has rho' = 1 - rho^2."""
    rho = np.array([0.0, 0.2, 0.9])

    np.testing.assert_allclose(circle.equiangular_rate(rho, 2, 0.0), 1 - rho**2, rtol=1e-13)


def test_bad_input_is_a_sentence():
    with pytest.raises(ValueError, match="at least 0"):
        circle.predicted_clusters(-1.0)
    with pytest.raises(ValueError, match="finite"):
        circle.growth_rates(np.inf)


def test_the_ripple_grows_as_fourier_series_say():
    """Independent of the threshold's formula: k^2 (I_k(beta)/beta - 1/kappa), at noises far from critical."""
    from scipy.special import iv

    from attnflow.theorems.statements.circle import _growth_of_ripple

    for beta, mode, kappa in ((1.0, 1, 5.0), (4.0, 2, 0.3), (4.0, 3, 50.0)):
        expected = mode**2 * (iv(mode, beta) / beta - 1 / kappa)
        assert abs(_growth_of_ripple(beta, mode, kappa) - expected) < 1e-6 * max(1, abs(expected))


def test_away_from_the_critical_noise_the_ripple_grows_or_decays():
    from attnflow.theorems.statements.circle import _growth_of_ripple

    critical = circle.critical_kappa(2.0)
    assert _growth_of_ripple(2.0, 1, 1.2 * critical) > 0.05
    assert _growth_of_ripple(2.0, 1, 0.8 * critical) < -0.05
