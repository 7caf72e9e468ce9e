"""Sprints: a few heavy tokens far faster than the rest, in short steps of their own within one step of the others.

While a pair falls together in a dozen units of time, others take hundreds to be nearly as fast. Whoever is about to
fall runs: runners that feel each other are followed by the native kernel of `sprint.cpp`, while the others go along
given ways, to the end of a step or to the first meeting.
"""

import ctypes
import dataclasses
import enum
import functools
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from attnflow.coalescence.cluster_state import HeavyTokens, Pull
from attnflow.model.native.library import is_built, library

MOST_RUNNERS = 24
AHEAD = 6.0  # who waits less than so many times the first fall runs too
NEAR = 0.01  # who is so near a runner runs with it
WORTH = 2.0  # so many times longer must the steps of the others be
FELT = 18.0  # a pull that is e^-18 of the largest moves nobody by more than 1e-8
MOST_STEPS = 20_000
FIRST_STEP = 1e-4  # of the whole: the first error corrects it
FASTEST = 500.0  # logarithm of a way in the time of a step: well beyond, floats end


class Sprint(NamedTuple):
    """Where runners are at the moments asked for."""

    rows: np.ndarray
    paths: np.ndarray
    """(moments, runners, d)."""
    velocities: np.ndarray
    """At the end, in ways a step."""
    met: float
    """When two came within the merging distance, as a share of the step; above one where nobody did."""
    pair: np.ndarray
    """Who did."""

    @classmethod
    def of_nobody(cls, coordinates: int) -> "Sprint":
        """Without runners."""
        return cls(np.empty(0, int), np.empty((1, 0, coordinates)), np.empty((0, coordinates)), 2.0, np.empty(0, int))

    @classmethod
    def of_all(cls, sprints: list["Sprint"]) -> "Sprint":
        """Of several groups together, in order of rows."""
        rows = np.concatenate([one.rows for one in sprints])
        order, first = np.argsort(rows), min(sprints, key=lambda one: one.met)
        paths = np.concatenate([one.paths for one in sprints], axis=1)[:, order]
        return cls(rows[order], paths, np.concatenate([one.velocities for one in sprints])[order], *first[3:])


@dataclasses.dataclass(frozen=True)
class Walks:
    """Ways of those who do not run: after some time at place + time (way + time (bend + time twist))."""

    ways: np.ndarray
    bends: np.ndarray
    twists: np.ndarray

    @classmethod
    def straight(cls, ways: np.ndarray) -> "Walks":
        """On as they are."""
        return cls(ways, np.zeros_like(ways), np.zeros_like(ways))

    @classmethod
    def between(cls, moved: np.ndarray, ways: np.ndarray, last_ways: np.ndarray) -> "Walks":
        """So far in one unit of time, with these velocities at its beginning and end."""
        return cls(ways, 3 * moved - 2 * ways - last_ways, ways + last_ways - 2 * moved)

    def in_units_of(self, time: float) -> "Walks":
        """The same ways."""
        if not self.bends.any():  # of long times floats have no squares
            return Walks(time * self.ways, self.bends, self.twists)
        return Walks(time * self.ways, time**2 * self.bends, time**3 * self.twists)

    def of(self, rows: np.ndarray) -> "Walks":
        """Of some rows."""
        return Walks(self.ways[rows], self.bends[rows], self.twists[rows])

    def without(self, rows: np.ndarray) -> "Walks":
        """Where some rows stand."""
        arrays = [self.ways.copy(), self.bends.copy(), self.twists.copy()]
        for array in arrays:
            array[rows] = 0.0
        return Walks(*arrays)

    def places(self, first: np.ndarray, time: float) -> np.ndarray:
        """Where they are then who were at `first`."""
        return first + time * (self.ways + time * (self.bends + time * self.twists))


def is_possible(pull: Pull) -> bool:
    """Whether the native kernel is there and serves this pull."""
    return bool(np.isfinite(pull.beta)) and is_built()


def runners(pull: Pull, heavy: HeavyTokens, closing: np.ndarray, merge: float) -> np.ndarray:
    """Who will have fallen on somebody long before the rest move much; `closing` is the speed of the nearest gap."""
    gaps, nearest = heavy.gaps
    most = min(MOST_RUNNERS, len(heavy) // 4)
    if most < 2:
        return np.empty(0, int)
    with np.errstate(divide="ignore"):
        waits = np.minimum(gaps, 1 / (pull.beta * gaps)) / closing  # until a gap changes its speed by a factor
    # The last part of a fall is exponential, and takes so many times as long.
    falls = waits * np.where(pull.beta * gaps**2 < 1, np.log(gaps / merge), 1.0)
    soon = np.flatnonzero(waits <= min(AHEAD * falls.min(), np.partition(waits, most)[most]))
    found = np.union1d(soon, nearest[soon])
    most_in_all = min(2 * MOST_RUNNERS, len(heavy) // 2)
    if len(found) > most_in_all:  # many are equally fast, as in a symmetric start
        return np.empty(0, int)
    found = _with_neighbours(heavy, found, most_in_all)
    if not len(found):
        return found
    slower = np.delete(waits, found).min()
    return found if WORTH * waits.min() < slower < np.exp(FASTEST) * waits.min() else np.empty(0, int)


def _with_neighbours(heavy: HeavyTokens, rows: np.ndarray, most: int) -> np.ndarray:
    """With all who are near them; where these are too many, only those who need nobody else."""
    everybody = heavy.near(rows, NEAR)
    if len(everybody) <= most:
        return everybody
    needs = (heavy.places @ heavy.places[rows].T > 1 - NEAR**2 / 2) | (
        np.arange(len(heavy))[:, None] == heavy.gaps[1][rows]
    )
    while True:
        missing = np.setdiff1d(np.arange(len(heavy)), rows)
        alone = ~needs[missing].any(axis=0)
        if alone.all():
            return rows
        rows, needs = rows[alone], needs[:, alone]


def groups(pull: Pull, heavy: HeavyTokens, rows: np.ndarray) -> list[np.ndarray]:
    """Runners that feel each other, together."""
    exponents = pull.beta * (heavy.places[rows] @ heavy.places[rows].T) + np.log(heavy.masses[rows])
    np.fill_diagonal(exponents, -np.inf)
    feels = exponents > exponents.max(axis=1, keepdims=True) - FELT
    labels = np.asarray(connected_components(csr_array(feels), directed=False)[1])
    return [rows[labels == label] for label in range(labels.max() + 1)]


class Ending(enum.IntEnum):
    """Of a sprint: after its time or where two meet; or with a meeting, which floats may put a little later."""

    EARLY = 0
    WITH_MEETING = 1


class Race(ctypes.Structure):
    """The struct of the same name in `sprint.cpp`."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("tokens", "coordinates", "runners")),
        *((name, ctypes.c_void_p) for name in ("places", "ways", "bends", "twists", "log_masses", "rows")),
        *((name, ctypes.c_double) for name in ("beta", "log_scale", "divisor", "rtol", "narrow", "merge")),
        ("first_step", ctypes.c_double),
        *((name, ctypes.c_int64) for name in ("most_steps", "ending", "moments")),
        ("times", ctypes.c_void_p),
    )


class Tolerances(NamedTuple):
    """What a step may get wrong: rtol of the gap to the nearest, or of `narrow`; and where two have met."""

    rtol: float
    narrow: float
    merge: float


def sprint(
    pull: Pull,
    heavy: HeavyTokens,
    walks: Walks,
    rows: np.ndarray,
    log_duration: float,
    tolerances: Tolerances,
    times: np.ndarray,
    ending: Ending,
) -> Sprint | None:
    """Follow the runners `rows`, a group, to `times`, shares of the duration; None where it takes too many steps.

    Where two meet early there are no places after that.
    """
    given = (heavy.places, walks.ways, walks.bends, walks.twists, np.log(heavy.masses), rows, times)
    *arrays, times = (np.ascontiguousarray(array) for array in given)
    places, rows = arrays[0], arrays[-1]
    paths, velocities = np.zeros((len(times), len(rows), places.shape[1])), np.zeros((len(rows), places.shape[1]))
    met, pair = ctypes.c_double(), np.zeros(2, np.int64)
    race = Race(
        *(*places.shape, len(rows)),
        *(array.ctypes.data for array in arrays),
        *(pull.beta, np.log(pull.value[0, 0]) + log_duration),
        np.nan if pull.offset is None else pull.offset + np.log(pull.total_mass),
        *(*tolerances, FIRST_STEP),
        *(MOST_STEPS, ending, len(times), times.ctypes.data),
    )
    found = (paths.ctypes.data, velocities.ctypes.data, ctypes.byref(met), pair.ctypes.data)
    steps = _sprint()(ctypes.byref(race), *found)
    return None if steps < 0 else Sprint(rows, paths, velocities, met.value, pair)


@functools.cache
def _sprint():
    function = library().sprint
    function.argtypes = [ctypes.c_void_p] * 5
    function.restype = ctypes.c_int64
    return function
