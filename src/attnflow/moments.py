"""Times finer than a float: a fast event at t = 1e30 lasts a unit of time, which 1e30 + 1 does not tell.

A moment is an exact fraction, kept in arrays as a sum of a few floats, each the rounding of what those before it leave.
"""

from fractions import Fraction

import numpy as np

PARTS = 4  # 212 bits: a billionth of a unit of time at t = 1e55


def parts_of(moment: Fraction) -> np.ndarray:
    """The floats that add up to a moment.

    Examples
    --------
    >>> later, earlier = parts_of(Fraction(10**30) + 1), parts_of(Fraction(10**30))
    >>> float(elapsed(earlier, later))
    1.0
    """
    parts = []
    for _ in range(PARTS):
        parts.append(float(moment))
        moment -= Fraction(parts[-1])
    return np.array(parts)


def moment_of(parts: np.ndarray) -> Fraction:
    """The exact sum of its parts."""
    return sum((Fraction(float(part)) for part in parts), start=Fraction(0))


def elapsed(since: np.ndarray, now: np.ndarray) -> np.ndarray:
    """now - since, in floats, for parts along the last axis; leading parts cancel exactly where moments are close."""
    total = now[..., 0] - since[..., 0]
    for part in range(1, PARTS):
        total = total + (now[..., part] - since[..., part])
    return total
