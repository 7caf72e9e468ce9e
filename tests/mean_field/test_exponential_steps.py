"""Exponential Runge-Kutta steps: the functions phi, exactness for constant rates, order four."""

import math

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

from attnflow.mean_field.exponential_steps import compared_steps, phi, step


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("z", [0.0, -1e-9, -0.3, -0.999, -1.0, -1.001, -40.0, -1e6])
def test_phi_is_its_integral(order, z):
    # phi_j(z) = int_0^1 e^{(1 - s) z} s^{j-1} / (j-1)! ds
    integral, _ = quad(lambda s: np.exp((1 - s) * z) * s ** (order - 1), 0, 1, points=[0.999, 0.9999999], epsabs=1e-14)

    assert float(phi(order, np.array([z]))[0]) == pytest.approx(integral / math.factorial(order - 1), rel=1e-8)


def test_a_step_is_exact_for_a_constant_rate_and_any_stiffness():
    linear, constant = np.array([0.0, -1.0, -1e8]), np.array([1.0, 2.0, 3e8])
    first = np.array([0.5, -1.0, 7.0])

    found = step(lambda state: constant, linear, first, constant, 0.7)

    expected = [0.5 + 0.7, -np.exp(-0.7) + 2 * (1 - np.exp(-0.7)), 3.0]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_order_is_four_and_the_difference_estimates_the_error():
    linear = np.array([-2.0, -0.1])
    rate = lambda state: np.array([np.sin(state[1]), state[0] * state[1]])
    first = np.array([1.0, 0.5])
    exact = solve_ivp(lambda t, y: linear * y + rate(y), (0, 0.4), first, rtol=1e-13, atol=1e-14).y[:, -1]
    errors, estimates = [], []
    for count in (4, 8):
        state, total = first, 0.0
        for _ in range(count):
            state, difference = compared_steps(rate, linear, state, 0.4 / count)
            total += np.abs(difference).max()
        errors.append(np.abs(state - exact).max())
        estimates.append(total)

    assert errors[0] / errors[1] == pytest.approx(16, rel=0.25)
    assert errors[1] < estimates[1] < 100 * errors[1]
