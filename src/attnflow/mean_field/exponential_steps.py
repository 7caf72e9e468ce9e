"""One step of c' = L c + N(c) with a diagonal L <= 0, by the exponential Runge-Kutta method of Cox and Matthews (2002).

With phi_1(z) = (e^z - 1)/z, phi_2(z) = (e^z - 1 - z)/z^2, phi_3(z) = (e^z - 1 - z - z^2/2)/z^3 and z = h L,

    a = e^{z/2} c + (h/2) phi_1(z/2) N(c)
    b = e^{z/2} c + (h/2) phi_1(z/2) N(a)
    d = e^{z/2} a + (h/2) phi_1(z/2) (2 N(b) - N(c))
    c(h) = e^z c + h [ (phi_1 - 3 phi_2 + 4 phi_3) N(c) + 2 (phi_2 - 2 phi_3) (N(a) + N(b)) + (4 phi_3 - phi_2) N(d) ],

which is the classical Runge-Kutta method for L = 0 and exact for constant N.
"""

import math
from collections.abc import Callable

import numpy as np

Rate = Callable[[np.ndarray], np.ndarray]

SERIES_BELOW = 1.0  # |z| below which phi is summed as a series, since the closed form cancels there
SERIES_TERMS = 20  # 1/20! is below the rounding error of float64


def phi(order: int, z: np.ndarray) -> np.ndarray:
    """phi_order(z) = sum_k z^k / (k + order)! for real z <= 0."""
    powers = [z**k / math.factorial(k + order) for k in range(SERIES_TERMS)]
    series = np.sum(powers, axis=0)
    far = np.where(np.abs(z) < SERIES_BELOW, -SERIES_BELOW, z)
    remainder = np.exp(far) - sum(far**k / math.factorial(k) for k in range(order))
    return np.where(np.abs(z) < SERIES_BELOW, series, remainder / far**order)


def step(rate: Rate, linear: np.ndarray, state: np.ndarray, first_rate: np.ndarray, length: float) -> np.ndarray:
    """The state after one step; `rate` is N, `linear` the diagonal of L, and `first_rate` N of the state."""
    whole, half = linear * length, linear * length / 2
    decay, gain = np.exp(half), length / 2 * phi(1, half)
    second = decay * state + gain * first_rate
    second_rate = rate(second)
    third_rate = rate(decay * state + gain * second_rate)
    fourth_rate = rate(decay * second + gain * (2 * third_rate - first_rate))
    one, two, three = (phi(order, whole) for order in (1, 2, 3))
    increments = (
        (one - 3 * two + 4 * three) * first_rate
        + 2 * (two - 2 * three) * (second_rate + third_rate)
        + (4 * three - two) * fourth_rate
    )
    return np.exp(whole) * state + length * increments


def compared_steps(rate: Rate, linear: np.ndarray, state: np.ndarray, length: float) -> tuple[np.ndarray, np.ndarray]:
    """The state after two half steps, and its difference from that after one step."""
    first_rate = rate(state)
    coarse = step(rate, linear, state, first_rate, length)
    middle = step(rate, linear, state, first_rate, length / 2)
    fine = step(rate, linear, middle, rate(middle), length / 2)
    return fine, fine - coarse
