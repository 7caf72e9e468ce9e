"""Forecasts: which two clusters will meet next, after how long, and how wrong that may be, known as a plateau begins.

Two clusters alone at an angle th meet after e^{beta (1 - cos th)} / (beta (r + 1/r) sin^2 th), r the ratio of their
masses, to leading order for large beta. Of many the soonest pair should meet as if alone where all others are later.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import pdist

from attnflow.analyse.clusters import angle
from attnflow.coalescence.cluster_state import FEW, HeavyTokens, Pull

LARGEST_CORRECTION = 0.25  # relative, of the leading order in 1/beta: beyond, as near antipodes, it says nothing


class Forecast(NamedTuple):
    """Logarithms of the times in which the soonest pair and the next one would meet alone; the error of the first."""

    log_duration: float = np.nan
    runner_up: float = np.nan
    error: float = np.nan


def log_wait(pull: Pull, angles: Any, first: Any, second: Any) -> np.ndarray:
    """Logarithm of the time in which two isolated clusters of these masses meet, to leading order for large beta."""
    if pull.offset is None:
        strength, delay = first / second + second / first, pull.beta * (1 - np.cos(angles))
    else:
        strength, delay = (first + second) / pull.total_mass, pull.offset - pull.beta * np.cos(angles)
    with np.errstate(divide="ignore"):
        return np.asarray(delay - np.log(pull.beta * strength * pull.value[0, 0] * np.sin(angles) ** 2))


def next_order(angles: Any, beta: float) -> np.ndarray:
    """What the leading order leaves out, relative: two more terms of the expansion in 1/beta."""
    sines, cosines = np.sin(angles) ** 2, np.cos(angles)
    with np.errstate(divide="ignore"):
        return np.asarray(2 * np.abs(cosines) / (beta * sines) + (2 * sines + 8 * cosines**2) / (beta * sines) ** 2)


def forecast(pull: Pull, heavy: HeavyTokens, merge: float) -> Forecast:
    """Of all pairs the soonest; NaN for flows the formula does not speak of, and too many clusters to compare."""
    if np.isnan(pull.beta) or not 2 <= len(heavy) <= FEW:
        return Forecast()
    rows, columns = np.triu_indices(len(heavy), 1)
    angles = angle(pdist(heavy.places))
    corrections = next_order(angles, pull.beta)
    waits = log_wait(pull, angles, heavy.masses[rows], heavy.masses[columns])
    # Of two that are near the formula knows nothing, but that they will meet before anybody waits.
    waits[(corrections > LARGEST_CORRECTION) & (angles < np.pi / 2)] = -np.inf
    soonest, *others = np.argsort(waits)[:2]
    rival = float(waits[others[0]]) if others else np.inf
    wait = float(waits[soonest])
    if np.isneginf(wait):
        return Forecast(wait, rival, np.inf)
    one, other = heavy.masses[rows[soonest]], heavy.masses[columns[soonest]]
    closing = _log_closing_time(pull, float(one + other), float(np.log(angles[soonest] / merge)))
    # Twice what the expansion and the closing are, and what a rival of one e^gap-th of the speed can add on both sides.
    error = 2 * (float(corrections[soonest]) + np.exp(closing - wait) + np.exp(wait - rival))
    return Forecast(wait, rival, float(error))


def _log_closing_time(pull: Pull, mass: float, factors: float) -> float:
    """Of two that are close already: the gap shrinks by e^factors at the rate of two in nearly one place."""
    rate = np.log(pull.value[0, 0])
    if pull.offset is not None:
        rate += np.log(mass / pull.total_mass) + pull.beta - pull.offset
    return float(np.log(max(factors, 1e-300)) - rate)
