"""Times finer than a float: a fast event at t = 1e30 lasts a unit of time, which 1e30 + 1 does not tell.

A moment is an exact fraction, kept in arrays as a sum of a few floats, each the rounding of what those before it leave.
"""

import math
from fractions import Fraction

import numpy as np

BITS = 53  # of one part
FINEST = 64  # bits after the point
SHORTEST = 2.0**-FINEST  # step that can be told at all times


def parts_until(end: float) -> int:
    """How many floats tell all moments up to `end`.

    Examples
    --------
    >>> parts_until(1.0), parts_until(1e55), parts_until(1.7e308)
    (2, 5, 21)
    """
    return -(-(max(math.frexp(end)[1], 0) + FINEST) // BITS)


def parts_of(moment: Fraction, count: int) -> np.ndarray:
    """The `count` floats that add up to a moment.

    Examples
    --------
    >>> later, earlier = parts_of(Fraction(10**30) + 1, 4), parts_of(Fraction(10**30), 4)
    >>> float(elapsed(earlier, later))
    1.0
    """
    parts = []
    for _ in range(count):
        parts.append(float(moment))
        moment -= Fraction(parts[-1])
    return np.array(parts)


def elapsed(since: np.ndarray, now: np.ndarray) -> np.ndarray:
    """now - since, in floats, for parts along the last axis; leading parts cancel exactly where moments are close."""
    total = now[..., 0] - since[..., 0]
    for part in range(1, now.shape[-1]):
        total = total + (now[..., part] - since[..., part])
    return total
