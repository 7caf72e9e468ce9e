"""Forecasts: which two clusters merge next, after which time and with which error, known as a plateau begins.

Two isolated clusters at the angle theta with the ratio r of masses merge after the time

    e^{beta (1 - cos theta)} / (beta (r + 1/r) sin^2 theta)

to leading order for large beta. The pair for which this is least merges as if isolated if all others need far longer.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import pdist

from attnflow.analyse.clusters import angle as angle_of
from attnflow.coalescence.cluster_state import MAX_DENSE_CLUSTERS, Clusters
from attnflow.coalescence.log_field import LogField

LARGEST_CORRECTION = 0.25  # relative, to the leading order in 1/beta: beyond, as near antipodes, it does not apply


class Forecast(NamedTuple):
    """Logarithms of the two shortest merge times of isolated pairs, and the error of the shortest; NaN: no forecast."""

    log_duration: float = np.nan
    runner_up: float = np.nan
    error: float = np.nan


def log_merge_duration(field: LogField, angles: Any, first: Any, second: Any) -> np.ndarray:
    """Logarithm of the time in which isolated pairs of these masses merge, to leading order for large beta.

    The divisor of a row is its own weight, m e^beta, for softmax, and M e^offset for unnormalised attention with total
    mass M.
    """
    if field.offset is None:
        return softmax_log_merge_duration(angles, field.beta, first, second, field.value_scale)
    strength, delay = (first + second) / field.total_mass, field.offset - field.beta * np.cos(angles)
    return _log_duration(delay, field.beta * strength * field.value_scale * np.sin(angles) ** 2)


def softmax_log_merge_duration(
    angles: Any, beta: float, first: Any, second: Any, value_scale: float = 1.0
) -> np.ndarray:
    """Logarithm of e^{beta (1 - cos theta)} / (c beta (r + 1/r) sin^2 theta), r the ratio of masses, V = c I."""
    strength = first / second + second / first
    return _log_duration(beta * (1 - np.cos(angles)), beta * strength * value_scale * np.sin(angles) ** 2)


def _log_duration(delay: Any, rate: Any) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.asarray(delay - np.log(rate))


def next_order(angles: Any, beta: float) -> np.ndarray:
    """Relative size of the next two terms of the expansion of the merge time in 1/beta."""
    sines, cosines = np.sin(angles) ** 2, np.cos(angles)
    with np.errstate(divide="ignore"):
        return np.asarray(2 * np.abs(cosines) / (beta * sines) + (2 * sines + 8 * cosines**2) / (beta * sines) ** 2)


def forecast(field: LogField, clusters: Clusters, merge: float) -> Forecast:
    """The next merge; NaN for fields other than plain attraction and for more than MAX_DENSE_CLUSTERS clusters."""
    if not field.is_plain_attraction or not 2 <= len(clusters) <= MAX_DENSE_CLUSTERS:
        return Forecast()
    rows, columns = np.triu_indices(len(clusters), 1)
    angles = angle_of(pdist(clusters.positions))
    corrections = next_order(angles, field.beta)
    log_durations = log_merge_duration(field, angles, clusters.masses[rows], clusters.masses[columns])
    # The formula does not apply to close pairs, except that they merge before any plateau.
    log_durations[(corrections > LARGEST_CORRECTION) & (angles < np.pi / 2)] = -np.inf
    shortest, *others = np.argsort(log_durations)[:2]
    runner_up = float(log_durations[others[0]]) if others else np.inf
    log_duration = float(log_durations[shortest])
    if np.isneginf(log_duration):
        return Forecast(log_duration, runner_up, np.inf)
    mass = clusters.masses[rows[shortest]] + clusters.masses[columns[shortest]]
    closing = _log_closing_time(field, float(mass), float(np.log(angles[shortest] / merge)))
    # Twice the sum of the next terms of the expansion, the share of the last approach, and the relative speed of the
    # runner-up, which can act on both clusters.
    terms = float(corrections[shortest]) + np.exp(closing - log_duration) + np.exp(log_duration - runner_up)
    return Forecast(log_duration, runner_up, float(2 * terms))


def _log_closing_time(field: LogField, mass: float, factors: float) -> float:
    """Logarithm of the time in which the gap of a close pair shrinks by e^factors.

    Its rate is c (V = c I) for softmax, and c (m / M) e^{beta - offset} for unnormalised attention.
    """
    rate = np.log(field.value_scale)
    if field.offset is not None:
        rate += np.log(mass / field.total_mass) + field.beta - field.offset
    return float(np.log(max(factors, 1e-300)) - rate)
