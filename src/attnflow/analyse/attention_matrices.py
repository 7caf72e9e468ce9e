"""Attention matrices P (..., n, n): distance to Boolean ones, entropy of rows, and the rate of their convergence.

The rank is `attention_rank.rank`. Where 1 - P matters it is formed from scores: next to one, float64 has
steps of 1e-16, and 1 - P falls below that within a few units of time.

`matrices` is one matrix or a stack of them.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr, logsumexp

from attnflow._common.checks import InputError, require_positive_number
from attnflow.analyse import rates
from attnflow.analyse.attention_rank import rank as rank

__all__ = [
    "Growth",
    "distance_to_boolean",
    "doubly_exponential_rate",
    "leader_columns",
    "log_of_missing_weight",
    "rank",
    "row_entropy",
]

DRAWN_WEIGHT = 1e-4  # the weight above which the figures of arXiv:2305.05465 draw an arrow


class Growth(NamedTuple):
    """The slope of log(-log(1 - P)) against time: 1 - P ~ exp(-c e^{slope t}).

    Examples
    --------
    >>> times = np.linspace(1, 8, 15)
    >>> growth = doubly_exponential_rate(times, -3 * np.exp(times))
    >>> round(growth.slope, 6), round(growth.constant, 6)
    (1.0, 3.0)
    """

    slope: float
    low: float
    """Lower end of the 95 % confidence interval of the slope."""
    high: float
    """Upper end of that interval."""
    constant: float
    """c."""
    r_squared: float
    """Share of the variance of log(-log(1 - P)) that the line explains."""
    points: int
    """Number of times used."""


def distance_to_boolean(matrices: Any) -> np.ndarray:
    """Largest entry of the difference to the nearest matrix whose rows are unit vectors.

    A row's nearest unit vector is that of its largest entry, and the difference is the sum of the other
    entries, which is exact also where it is far below the rounding of one.

    Examples
    --------
    >>> float(distance_to_boolean([[1.0, 0.0], [0.25, 0.75]]))
    0.25
    """
    ordered = np.sort(_matrices(matrices), axis=-1)
    return ordered[..., :-1].sum(axis=-1).max(axis=-1)


def row_entropy(matrices: Any) -> np.ndarray:
    """Entropy of every row, in nats: 0 for a unit vector, log n for equal weights.

    Examples
    --------
    >>> row_entropy([[1.0, 0.0], [0.5, 0.5]]).round(4)
    array([0.    , 0.6931])
    """
    return entr(_matrices(matrices)).sum(axis=-1)


def leader_columns(matrices: Any, threshold: float = DRAWN_WEIGHT) -> np.ndarray:
    """True for columns with an entry above `threshold`: tokens that receive attention.

    Examples
    --------
    >>> leader_columns(np.array([[1.0, 0.0], [1.0, 0.0]]))
    array([ True, False])
    """
    require_positive_number(threshold, "threshold")
    return np.asarray(np.any(_matrices(matrices) > threshold, axis=-2))


def log_of_missing_weight(scores: Any) -> np.ndarray:
    """log(1 - P_ij) of softmax rows, from the scores (beta included): the logarithm of the other columns' weights.

    Accurate for any size, also where 1 - P is far below the smallest float.

    Examples
    --------
    >>> float(log_of_missing_weight([[0.0, 1000.0], [0.0, 0.0]])[0, 1])
    -1000.0
    """
    scores = _matrices(scores)
    best = np.argmax(scores, axis=-1)[..., None]
    others = scores.copy()
    np.put_along_axis(others, best, -np.inf, axis=-1)
    total = logsumexp(scores, axis=-1, keepdims=True)
    # All weights but the largest are at most 1/2, so that log1p loses no digits.
    missing = np.log1p(-np.exp(others - total))
    with np.errstate(divide="ignore"):
        np.put_along_axis(missing, best, logsumexp(others, axis=-1, keepdims=True) - total, axis=-1)
    return missing


def doubly_exponential_rate(times: Any, log_missing: Any) -> Growth:
    """Slope of log(-log(1 - P)) against time, from log(1 - P) at these times (`log_of_missing_weight`).

    Times at which log(1 - P) is not below zero are left out.

    Parameters
    ----------
    times
        Times, increasing.
    log_missing
        log(1 - P) at these times, below zero.

    Examples
    --------
    >>> times = np.linspace(1, 8, 15)
    >>> round(doubly_exponential_rate(times, -3 * np.exp(times)).slope, 6)
    1.0
    """
    line = rates.exponential(times, -np.asarray(log_missing, dtype=float))
    return Growth(-line.rate, -line.high, -line.low, line.prefactor, line.r_squared, line.points)


def _matrices(matrices: Any) -> np.ndarray:
    array = np.asarray(matrices, dtype=float)
    if array.ndim < 2 or array.shape[-1] == 0 or array.shape[-2] == 0:
        raise InputError(f"Attention matrices must have shape (..., n, n), but the shape is {array.shape}.")
    return array
