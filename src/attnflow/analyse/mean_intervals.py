"""Means over the runs of an ensemble, with confidence intervals."""

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from attnflow._common.plain import interval_texts
from attnflow.analyse.rate_intervals import CONFIDENCE


def mean_with_interval(values: Sequence[float] | np.ndarray) -> str:
    """The mean of values and its 95 % interval of Student's t; the value alone where all are equal.

    Examples
    --------
    >>> mean_with_interval([3, 4, 5, 4])
    'mean 4, 95 % interval 2.7 to 5.3'
    """
    values = np.asarray(values, dtype=float)
    if np.ptp(values) == 0:
        return f"{values[0]:.3g} in each run"
    half = stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2) * values.std(ddof=1) / np.sqrt(len(values))
    mean, low, high = interval_texts(values.mean(), values.mean() - half, values.mean() + half)
    return f"mean {mean}, {100 * CONFIDENCE:g} % interval {low} to {high}"
