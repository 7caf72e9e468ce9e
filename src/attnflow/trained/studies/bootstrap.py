"""Intervals of means over prompts by the bootstrap: prompts are drawn again with replacement."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.stats import norm, t

from attnflow.analyse.rate_intervals import CONFIDENCE

RESAMPLES = 2000  # the ends of a 95 % interval then vary by about a fortieth of its length
LEAST_PROMPTS = 5  # with fewer the resamples are too few different ones for an interval


def intervals_in_words(prompts: int) -> str:
    """What the intervals of means over so many prompts are, or why there are none.

    Examples
    --------
    >>> intervals_in_words(64), intervals_in_words(3)
    ('95 % bootstrap intervals over prompts', 'no intervals, which need 5 prompts')
    """
    if prompts < LEAST_PROMPTS:
        return f"no intervals, which need {LEAST_PROMPTS} prompts"
    return f"{100 * CONFIDENCE:.0f} % bootstrap intervals over prompts"


@dataclass(frozen=True)
class MeanInterval:
    """Mean, standard deviation and interval of the mean over prompts; NaN where there are too few."""

    mean: np.ndarray
    deviation: np.ndarray
    low: np.ndarray
    high: np.ndarray
    prompts: np.ndarray
    """Number of prompts that have a value."""


def mean_interval(values: np.ndarray, seed: int = 0, within: tuple[float, float] = (-np.inf, np.inf)) -> MeanInterval:
    """The mean over the first axis, prompts, with its 95 % percentile interval; prompts without a value are left out.

    Arrays of one number of prompts and one seed are resampled alike, so that intervals of differences are paired.
    The percentile interval of a mean of few values is too short: resamples have the variance (n - 1) / n, and quantiles
    of the normal law stand for those of Student's. It is lengthened around the mean by (n / (n - 1))^{1/2} times the
    ratio of the two quantiles (Hesterberg 2015, section 4.2): 1.58 for n = 5, 1.22 for n = 10, 1.02 for n = 64.
    It ends at the bounds `within` which values can be, such as (0, 1) for shares.

    Examples
    --------
    >>> found = mean_interval(np.arange(20.0))
    >>> float(found.mean), bool(found.low < 9.5 < found.high)
    (9.5, True)
    >>> float(mean_interval(np.array([0, 1, 1, 1, 1]), within=(0, 1)).high)
    1.0
    """
    values = np.asarray(values, dtype=float)
    count = len(values)
    flat = values.reshape(count, -1)
    is_known = np.isfinite(flat)
    known = np.where(is_known, flat, 0.0)
    number = is_known.sum(axis=0)
    mean = _ratio(known.sum(axis=0), number)
    squares = np.where(is_known, (flat - mean) ** 2, 0.0).sum(axis=0)
    deviation = np.sqrt(_ratio(squares, number - 1))
    weights = _resamples(count, seed)
    means = _ratio(weights @ known, weights @ is_known)
    tail = (1 - CONFIDENCE) / 2
    low, high = _quantiles(means, (tail, 1 - tail))
    student = t.ppf(1 - tail, np.maximum(number - 1, 1)) / norm.ppf(1 - tail)
    stretch = student * np.sqrt(_ratio(number, number - 1))
    is_enough = number >= LEAST_PROMPTS
    shape = values.shape[1:]
    lengthened = [np.clip(mean + stretch * (end - mean), *within) for end in (low, high)]
    ends = [np.where(is_enough, end, np.nan) for end in lengthened]
    return MeanInterval(*(array.reshape(shape) for array in (mean, deviation, *ends, number)))


@lru_cache(maxsize=1)  # the intervals of all measures of a study use the same, and drawing them takes most of the time
def _resamples(count: int, seed: int) -> np.ndarray:
    """How often each prompt is in each resample, (resamples, prompts)."""
    weights = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=RESAMPLES).astype(float)
    weights.flags.writeable = False
    return weights


def _quantiles(means: np.ndarray, shares: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles over resamples, of which those without any value are left out; NaN where all are."""
    found = np.full((2, means.shape[1]), np.nan)
    is_finite = np.isfinite(means)
    every = is_finite.all(axis=0)
    some = is_finite.any(axis=0) & ~every
    found[:, every] = np.quantile(means[:, every], shares, axis=0)
    found[:, some] = np.nanquantile(means[:, some], shares, axis=0)  # ten times slower
    return found[0], found[1]


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """The quotient, NaN where the denominator is not positive."""
    is_positive = denominator > 0
    return np.where(is_positive, numerator / np.where(is_positive, denominator, 1), np.nan)
