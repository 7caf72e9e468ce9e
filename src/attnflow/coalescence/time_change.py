"""A clock that slows down within a step as speeds grow, so that the motion is nearly uniform."""

import dataclasses
import functools
from typing import Any

import numpy as np
from scipy.optimize import brentq

GAUSS_NODES, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(48)
MOST_GROWTH = 30.0  # of the logarithm of the speed within a step; beyond, two derivatives do not foresee it
SHORT = 1e-12  # of a step: so early in it the rate is the first one


@dataclasses.dataclass(frozen=True)
class Clock:
    """Runs at the rate e^{-exponent} within a step, in units of its first rate.

    Examples
    --------
    >>> round(Clock(2.0, 0.0).duration(1.0), 6), round(float(1 - np.exp(-2.0)) / 2, 6)
    (0.432332, 0.432332)
    """

    first: float = 0.0
    second: float = 0.0

    def exponent(self, reach: Any) -> Any:
        """Growth of the logarithm of the speed, as far as its two derivatives foresee it."""
        return reach * (self.first + reach * self.second / 2)

    def longest_step(self) -> float:
        """Within which the speed changes by no more than the clock can follow."""
        first, second = abs(self.first), abs(self.second)
        return float(2 * MOST_GROWTH / (first + np.sqrt(first**2 + 2 * second * MOST_GROWTH) + 1e-300))

    def duration(self, step: float) -> float:
        """The integral of the rate over a step."""
        return _duration(self, step)

    def cut(self, step: float, log_left: float) -> float:
        """The step, or a shorter one that takes the time that is left."""
        if log_left >= np.log(self.duration(step)):
            return step
        if log_left < np.log(self.duration(SHORT * step)):
            return float(np.exp(log_left))  # the clock has not slowed down yet
        found: Any = brentq(lambda part: np.log(self.duration(part)) - log_left, SHORT * step, step, xtol=1e-15)
        return float(found)


@functools.lru_cache(maxsize=64)
def _duration(clock: Clock, step: float) -> float:
    places = step * (GAUSS_NODES + 1) / 2
    return float(step / 2 * GAUSS_WEIGHTS @ np.exp(-clock.exponent(places)))
