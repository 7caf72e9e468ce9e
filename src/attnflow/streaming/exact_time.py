"""Exact times as sums of floats: t = 1e30 + 1 is (1e30, remainder, ...).

A time is an exact fraction. In arrays it is a sum of floats, each the rounding of what the floats before it leave.
"""

import math
from fractions import Fraction

import numpy as np

SHORTEST_STEP = 2.0**-64  # units of time; the last component resolves it at every time


def component_count(end: float) -> int:
    """The number of floats that represent all times up to `end` to within `SHORTEST_STEP`.

    Examples
    --------
    >>> component_count(1.0), component_count(1e55), component_count(1.7e308)
    (2, 5, 21)
    """
    bits_before_point, bits_after_point, bits_of_a_float = max(math.frexp(end)[1], 0), 64, 53
    return -(-(bits_before_point + bits_after_point) // bits_of_a_float)  # rounded up


def components_of(time: Fraction, count: int) -> np.ndarray:
    """The first `count` floats whose sum is `time`.

    Examples
    --------
    >>> later, earlier = components_of(Fraction(10**30) + 1, 4), components_of(Fraction(10**30), 4)
    >>> float(elapsed(earlier, later))
    1.0
    """
    components = []
    for _ in range(count):
        components.append(float(time))
        time -= Fraction(components[-1])
    return np.array(components)


def elapsed(since: np.ndarray, now: np.ndarray) -> np.ndarray:
    """now - since in floats, with components along the last axis; equal leading components cancel exactly."""
    total = now[..., 0] - since[..., 0]
    for index in range(1, now.shape[-1]):
        total = total + (now[..., index] - since[..., index])
    return total
