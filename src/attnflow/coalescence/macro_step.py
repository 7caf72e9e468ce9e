"""A stride: one step of all heavy tokens, in which only those that move much are looked at closely.

Dormand and Prince's method of order 5 with its companion of order 4 serves the fast ones. Slow ones move at the mean of
their velocities at both ends; the difference of that to the first velocity is their error. Runners have had short
steps of their own (`sprint`).
"""

import functools
from typing import NamedTuple

import numpy as np

from attnflow.coalescence.cluster_state import HeavyTokens, Pull, Velocity
from attnflow.coalescence.subcycling import Sprint
from attnflow.coalescence.time_change import Clock

STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
NODES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
BETWEEN = 0.55  # where no stage looks for half a step
SEEN = (*NODES[:2], BETWEEN, *NODES[2:5])
OF_STAGES = (0, 1, 3, 4, 5, 5)  # in SEEN
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


@functools.cache
def integral() -> np.ndarray:
    """Weights of the values at the first moment of a step and those of `SEEN` in their integral."""
    nodes = np.array([0.0, *SEEN])
    return np.linalg.solve(np.vander(nodes, increasing=True).T, 1 / np.arange(1, len(nodes) + 1))


@functools.cache
def unseen() -> np.ndarray:
    """Weights of what all moments find of an integral and the stages miss."""
    return integral() - np.insert(STAGES[-1], 1 + SEEN.index(BETWEEN), 0.0)


class Stride(NamedTuple):
    """Where everybody is one step later, the error of every walker, and the velocity there."""

    places: np.ndarray
    errors: np.ndarray
    velocity: Velocity


@functools.lru_cache(maxsize=8)
def moments(clock: Clock, step: float) -> np.ndarray:
    """When runners are looked at in a step, in its stages and between, as shares of its duration."""
    return np.array([clock.duration(node * step) for node in SEEN]) / clock.duration(step)


def stride(
    pull: Pull,
    heavy: HeavyTokens,
    velocity: Velocity,
    rate: float,
    clock: Clock,
    step: float,
    fast: np.ndarray,
    ahead: Sprint,
) -> Stride:
    """One step of length `step` in units of 1 / rate on `clock`.

    `fast` says who is looked at closely; runners are where `ahead` has them at the `moments` of a step.
    """
    rows, start = np.flatnonzero(fast), heavy.places
    way = velocity.directions / rate
    way[ahead.rows] = 0.0
    slopes = np.empty((len(STAGES) + 1, len(rows), start.shape[1]))
    slopes[0] = way[rows]
    there, places, growth = velocity, start, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for stage, (node, row) in enumerate(zip(NODES, STAGES, strict=True)):
            places = start + clock.duration(node * step) * way
            places[rows] = start[rows] + step * np.tensordot(row, slopes[: len(row)], 1)
            if len(ahead.rows):
                places[ahead.rows] = ahead.paths[OF_STAGES[stage]]
            is_last = stage == len(STAGES) - 1
            there = pull.velocity(places, heavy.masses, None if is_last else rows)
            growth = there.logarithm - velocity.logarithm
            moving = there.directions[rows] if is_last else there.directions
            slopes[stage + 1] = moving * (np.exp(growth - clock.exponent(node * step)) / rate)
        change = (np.exp(growth) / rate * there.directions - way) * (clock.duration(step) / 2)
        errors = np.abs(change).max(axis=1)
        errors[rows] = np.abs(step * np.tensordot(ERROR, slopes, 1)).max(axis=1)
        change[rows] = change[ahead.rows] = 0.0
    return Stride(places + change, errors, there)
