"""Fits of exponential and algebraic decay, e^{-rate t} and t^{-rate}, with confidence intervals.

The rate is minus the slope of the least-squares line through the logarithms of the distances, y = log d, against x = t
or x = log t. Its 95 % interval is  rate -+ (noise + drift):

- noise: the half-width for residuals u_i = phi u_{i-1} + e_i, with phi integrated over its probability given the
  residuals. For independent residuals it is that of Student; for correlated residuals, as the fit of a smooth curve
  leaves them, it is wider.
- drift: where the logarithms are curved, the fitted slope depends on the window. With the slopes b_1, b_2, b_3 of the
  leading, middle and trailing half of the window and q = (b_3 - b_2) / (b_2 - b_1) it is the largest of |b - b_1|,
  |b - b_3| and |b - limit|, where limit = b_3 + (b_3 - b_2) (1 + q) / (1 - q). Without curvature it is zero.

The interval is meant to hold the rate of the limit: that of e^{-2t} (1 + e^{-t}) and of t e^{-2t} is 2.
Details: `rate_intervals`.
"""

from typing import Any, NamedTuple

import numpy as np

from attnflow._common.checks import InputError
from attnflow.analyse.rate_intervals import half_width

__all__ = ["Fit", "algebraic", "best", "exponential"]

MIN_POINTS = 5  # of a fit; a confidence interval needs three or more


class Fit(NamedTuple):
    """A straight line fitted to logarithms.

    Examples
    --------
    >>> times = np.linspace(0, 5, 20)
    >>> fit = exponential(times, 3 * np.exp(-2 * times))
    >>> round(fit.rate, 6), round(fit.prefactor, 6)
    (2.0, 3.0)
    """

    law: str
    """"exponential": e^{-rate t}; "algebraic": t^{-rate}."""
    rate: float
    """Minus the slope of the line."""
    low: float
    """Lower end of the 95 % confidence interval of the final rate, for correlated residuals and a curved logarithm."""
    high: float
    """Upper end of that interval."""
    prefactor: float
    """The value of the fit at t = 0, or at t = 1 where the law is algebraic."""
    r_squared: float
    """Share of the variance of the logarithms that the line explains."""
    points: int
    """Number of points used."""


def exponential(times: Any, distances: Any) -> Fit:
    """The fit of prefactor * e^{-rate t}; points that are not above zero are left out.

    Parameters
    ----------
    times
        Times, increasing.
    distances
        A distance at each of them; five or more above zero are needed.

    Examples
    --------
    >>> round(exponential(np.arange(9), 3 * np.exp(-2.0 * np.arange(9))).rate, 6)
    2.0

    A term of the next order changes the rate of the line, and the interval holds that of the limit.

    >>> times = np.linspace(1, 6, 51)
    >>> fit = exponential(times, np.exp(-2 * times) * (1 + np.exp(-times)))
    >>> [round(number, 2) for number in (fit.low, fit.rate, fit.high)]
    [1.94, 2.05, 2.16]
    """
    times, distances = _usable(times, distances, least_time=-np.inf)
    return _line("exponential", times, distances)


def algebraic(times: Any, distances: Any) -> Fit:
    """The fit of prefactor * t^{-rate}; points at t <= 0 or not above zero are left out.

    Parameters
    ----------
    times, distances
        As in `exponential`.

    Examples
    --------
    >>> round(algebraic(np.arange(9), np.arange(9.0) ** 2).rate, 6)
    -2.0
    """
    times, distances = _usable(times, distances, least_time=0.0)
    return _line("algebraic", np.log(times), distances)


def best(times: Any, distances: Any) -> Fit:
    """The better of the two fits to the points at t > 0, by the explained variance of the logarithms.

    Parameters
    ----------
    times, distances
        As in `exponential`.

    Examples
    --------
    >>> best(np.arange(1, 9), 3 / np.arange(1, 9.0)).law
    'algebraic'
    """
    times, distances = _usable(times, distances, least_time=0.0)
    laws = (_line("exponential", times, distances), _line("algebraic", np.log(times), distances))
    return max(laws, key=lambda fit: fit.r_squared)


def _usable(times, distances, least_time):
    times, distances = np.asarray(times, dtype=float), np.asarray(distances, dtype=float)
    if times.shape != distances.shape or times.ndim != 1:
        raise InputError(
            f"`times` and `distances` must be lists of one length, not {times.shape} and {distances.shape}."
        )
    good = np.isfinite(distances) & (distances > 0) & np.isfinite(times) & (times > least_time)
    if good.sum() < MIN_POINTS:
        raise InputError(
            f"A rate needs at least {MIN_POINTS} times with a distance above zero, but there are {good.sum()}. "
            "Save more times, or end before the distance vanishes."
        )
    if np.ptp(times[good]) == 0:
        raise InputError(f"A rate needs different times, but all of them are {times[good][0]:g}.")
    return times[good], distances[good]


def _line(law, abscissae, distances):
    from scipy.stats import linregress  # 0.5 s to import, and few commands fit rates

    largest_log = float(np.log(np.finfo(float).max))
    logarithms = np.log(distances)
    line: Any = linregress(abscissae, logarithms)
    half = half_width(abscissae, logarithms, float(line.slope))
    rate = -float(line.slope)
    return Fit(
        law,
        rate,
        rate - half,
        rate + half,
        float(np.exp(min(line.intercept, largest_log))),
        float(line.rvalue**2),
        len(distances),
    )
