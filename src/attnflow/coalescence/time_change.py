"""The time change within one step: dt = e^{-g(u)} du / sigma, with g the predicted growth of the log speed.

While two clusters close in, their speed grows exponentially. With u as the independent variable instead of t the motion
is nearly uniform. Times here are in units of 1 / sigma.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
from scipy.optimize import brentq

# 48 nodes integrate e^{-g} to rounding for |g| up to MAX_LOG_GROWTH.
GAUSS_NODES, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(48)
MAX_LOG_GROWTH = 30.0  # of the log speed within a step: beyond, two derivatives do not predict it


@dataclasses.dataclass(frozen=True)
class TimeChange:
    """The quadratic g(u) = growth * u + curvature * u^2 / 2.

    Examples
    --------
    >>> round(TimeChange(2.0, 0.0).duration(1.0), 6), round(float(1 - np.exp(-2.0)) / 2, 6)
    (0.432332, 0.432332)
    """

    growth: float = 0.0
    curvature: float = 0.0

    def log_growth(self, step: Any) -> Any:
        """g(u): predicted growth of the log speed after a step u."""
        return step * (self.growth + step * self.curvature / 2)

    def longest_step(self) -> float:
        """Largest step u with |growth| u + |curvature| u^2 / 2 <= MAX_LOG_GROWTH."""
        growth, curvature = abs(self.growth), abs(self.curvature)
        return float(2 * MAX_LOG_GROWTH / (growth + np.sqrt(growth**2 + 2 * curvature * MAX_LOG_GROWTH) + 1e-300))

    def duration(self, step: float) -> float:
        """Time that a step takes: the integral of e^{-g} from 0 to `step`."""
        return _duration(self, step)

    def step_for(self, longest: float, log_time: float) -> float:
        """The step that takes the time e^log_time, or `longest` if that takes no longer."""
        log_longest = np.log(self.duration(longest))
        if np.isnan(log_longest) or np.isnan(log_time):  # `integrator.run` ends with the status NOT_FINITE
            raise FloatingPointError("the growth of the speed or the time of a step is not a number")
        if log_time >= log_longest:
            return longest
        shortest = 1e-12 * longest
        if log_time < np.log(self.duration(shortest)):
            return float(np.exp(log_time))  # g vanishes to rounding
        step: Any = brentq(lambda part: np.log(self.duration(part)) - log_time, shortest, longest, xtol=1e-15)
        return float(step)


@functools.lru_cache(maxsize=64)
def _duration(time_change: TimeChange, step: float) -> float:
    nodes = step * (GAUSS_NODES + 1) / 2
    return float(step / 2 * GAUSS_WEIGHTS @ np.exp(-time_change.log_growth(nodes)))


def log_difference(later: float, earlier: float) -> float:
    """log(e^later - e^earlier), for logarithms of times; equal ones are taken to differ by the rounding of float64.

    Examples
    --------
    >>> round(float(np.exp(log_difference(np.log(5.0), np.log(3.0)))), 12)
    2.0
    """
    return later if np.isneginf(earlier) else later + float(np.log(-np.expm1(min(earlier - later, -1e-16))))
