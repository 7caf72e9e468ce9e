"""Fast tokens: their selection, their interacting groups, and their integration along given paths of slow tokens.

While one pair closes in within a dozen units of time, other tokens take hundreds to become as fast. Tokens that are
about to merge are *fast*: they are integrated with small steps of their own by native code
(`model.native.subcycling`), group by group, while the slow tokens follow cubic paths in time.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from attnflow.coalescence.cluster_state import Clusters
from attnflow.coalescence.log_field import LogField
from attnflow.model.native import subcycling as native
from attnflow.model.native.library import is_built
from attnflow.model.native.subcycling import StopRule

MAX_FAST = 24  # tokens chosen for their own speed: more cost more than the longer macro steps save
NEIGHBOUR_DISTANCE = 0.01  # tokens so close to a fast one are fast with it; also used by `relaxation`
MAX_STEPS = 20_000  # of one subcycled integration: beyond, the macro step is done without fast tokens
# Cut-offs of forces, as differences of exponents. Fast tokens with a mutual force below e^-18 of the largest are
# integrated apart from each other; each still moves the other, on the path assumed for it. Tokens outside the neighbour
# list have no effect at all, and there may be hundreds of them: their cut-off is smaller by a factor of 20.
GROUP_CUTOFF = 18.0
NEIGHBOUR_CUTOFF = GROUP_CUTOFF + 3.0


class SubcyclingFailedError(ArithmeticError):
    """Subcycling of a step fails: too many steps, two pairs that merge at one time, or no slow token left.

    The step is then done without fast tokens (`integrator`).
    """


class Tolerances(NamedTuple):
    """A step's error is at most rtol * max(nearest gap, gap_floor); two tokens merge at the distance `merge`."""

    rtol: float
    gap_floor: float
    merge: float


class Subcycle(NamedTuple):
    """Fast tokens along one macro step, whose duration is the unit of time."""

    rows: np.ndarray
    paths: np.ndarray
    """Positions (times, fast, d)."""
    velocities: np.ndarray
    """Velocities (fast, d) at the end of the step."""
    merge_time: float
    """Time at which two tokens came within the merging distance; above one if none did."""
    pair: np.ndarray
    """Rows of the two tokens that merged."""

    @classmethod
    def empty(cls, coordinates: int) -> "Subcycle":
        """A macro step without fast tokens."""
        return cls(np.empty(0, int), np.empty((1, 0, coordinates)), np.empty((0, coordinates)), 2.0, np.empty(0, int))

    @classmethod
    def of_groups(cls, groups: list["Subcycle"]) -> "Subcycle":
        """Several groups as one, in the order of rows, with the first merge of all."""
        rows = np.concatenate([group.rows for group in groups])
        order, first = np.argsort(rows), min(groups, key=lambda group: group.merge_time)
        paths = np.concatenate([group.paths for group in groups], axis=1)[:, order]
        velocities = np.concatenate([group.velocities for group in groups])[order]
        return cls(rows[order], paths, velocities, first.merge_time, first.pair)


@dataclasses.dataclass(frozen=True)
class CubicPaths:
    """Paths x(s) = x(0) + s velocity + s^2 quadratic + s^3 cubic of all tokens."""

    velocity: np.ndarray
    quadratic: np.ndarray
    cubic: np.ndarray

    @classmethod
    def straight(cls, velocity: np.ndarray) -> "CubicPaths":
        """Uniform motion."""
        return cls(velocity, np.zeros_like(velocity), np.zeros_like(velocity))

    @classmethod
    def hermite(cls, displacement: np.ndarray, velocity: np.ndarray, last_velocity: np.ndarray) -> "CubicPaths":
        """The cubic Hermite interpolants on [0, 1] with given displacements, first and last velocities."""
        quadratic = 3 * displacement - 2 * velocity - last_velocity
        return cls(velocity, quadratic, velocity + last_velocity - 2 * displacement)

    @property
    def are_straight(self) -> bool:
        """Whether all motion is uniform."""
        return not self.quadratic.any()

    def in_units_of(self, duration: float) -> "CubicPaths":
        """The same paths with another unit of time."""
        if self.are_straight:  # the square of a long duration may overflow
            return CubicPaths(duration * self.velocity, self.quadratic, self.cubic)
        return CubicPaths(duration * self.velocity, duration**2 * self.quadratic, duration**3 * self.cubic)

    def take(self, rows: np.ndarray) -> "CubicPaths":
        """The paths of the given rows."""
        return CubicPaths(self.velocity[rows], self.quadratic[rows], self.cubic[rows])

    def with_fixed(self, rows: np.ndarray) -> "CubicPaths":
        """A copy in which the given rows do not move."""
        arrays = [self.velocity.copy(), self.quadratic.copy(), self.cubic.copy()]
        for array in arrays:
            array[rows] = 0.0
        return CubicPaths(*arrays)

    def positions(self, start: np.ndarray, time: float) -> np.ndarray:
        """Positions at `time` of tokens that begin at `start`."""
        return start + time * (self.velocity + time * (self.quadratic + time * self.cubic))


def is_available(field: LogField) -> bool:
    """Whether the native code is built and supports this field."""
    return field.is_plain_attraction and is_built()


def fast_tokens(field: LogField, clusters: Clusters, closing: np.ndarray, merge: float) -> np.ndarray:
    """Rows of tokens that will merge long before the others move appreciably; empty if that saves nothing.

    `closing` is the speed at which each nearest gap changes.
    """
    gaps, nearest = clusters.nearest
    most = min(MAX_FAST, len(clusters) // 4)
    if most < 2:
        return np.empty(0, int)
    with np.errstate(divide="ignore"):
        # Time in which the speed of a gap changes by a factor: over the distance min(gap, 1 / (beta gap)).
        change_times = np.minimum(gaps, 1 / (field.beta * gaps)) / closing
    # In the last part of an approach, beta gap^2 < 1, the gap shrinks exponentially: log(gap / merge) times as long.
    merge_times = change_times * np.where(field.beta * gaps**2 < 1, np.log(gaps / merge), 1.0)
    # Up to six times that of the first merge: later merges are left to the next macro steps.
    soon = np.flatnonzero(change_times <= min(6.0 * merge_times.min(), np.partition(change_times, most)[most]))
    rows = np.union1d(soon, nearest[soon])
    limit = min(2 * MAX_FAST, len(clusters) // 2)
    if len(rows) > limit:  # many are equally fast, as in a symmetric start
        return np.empty(0, int)
    rows = _with_neighbours(clusters, rows, limit)
    if not len(rows):
        return rows
    slower = np.delete(change_times, rows).min()
    # Macro steps must become twice as long to be worth it, and e^500 times is near the end of the range of floats.
    return rows if 2.0 * change_times.min() < slower < np.exp(500.0) * change_times.min() else np.empty(0, int)


def _with_neighbours(clusters: Clusters, rows: np.ndarray, most: int) -> np.ndarray:
    """Add all tokens within NEIGHBOUR_DISTANCE; if these are more than `most`, keep rows that need no token outside."""
    extended = clusters.rows_near(rows, NEIGHBOUR_DISTANCE)
    if len(extended) <= most:
        return extended
    is_near = clusters.positions @ clusters.positions[rows].T > 1 - NEIGHBOUR_DISTANCE**2 / 2
    needs = is_near | (np.arange(len(clusters))[:, None] == clusters.nearest.indices[rows])
    while True:
        outside = np.setdiff1d(np.arange(len(clusters)), rows)
        is_closed = ~needs[outside].any(axis=0)
        if is_closed.all():
            return rows
        rows, needs = rows[is_closed], needs[:, is_closed]


def interacting_groups(field: LogField, clusters: Clusters, rows: np.ndarray) -> list[np.ndarray]:
    """Fast tokens connected by forces above e^-GROUP_CUTOFF of the largest on one of them."""
    positions = clusters.positions[rows]
    exponents = field.beta * (positions @ positions.T) + np.log(clusters.masses[rows])
    np.fill_diagonal(exponents, -np.inf)
    interacts = exponents > exponents.max(axis=1, keepdims=True) - GROUP_CUTOFF
    labels = np.asarray(connected_components(csr_array(interacts), directed=False)[1])
    return [rows[labels == label] for label in range(labels.max() + 1)]


def subcycle(
    field: LogField,
    clusters: Clusters,
    paths: CubicPaths,
    rows: np.ndarray,
    log_duration: float,
    tolerances: Tolerances,
    times: np.ndarray,
    stop_rule: StopRule,
) -> Subcycle:
    """Integrate the group `rows` to `times`, shares of the duration; all other tokens follow `paths`.

    Positions after an early merge are zero. SubcyclingFailedError is raised beyond MAX_STEPS steps.
    """
    fixed = np.nan if field.fixed_log_divisor is None else field.fixed_log_divisor
    first_step = 1e-4  # of the duration: the first error estimate corrects it
    arrays = native.integrate(
        clusters.positions,
        (paths.velocity, paths.quadratic, paths.cubic),
        np.log(clusters.masses),
        rows,
        times,
        (field.beta, np.log(field.value_scale) + log_duration, fixed, NEIGHBOUR_CUTOFF, *tolerances, first_step),
        MAX_STEPS,
        stop_rule,
    )
    if arrays is None:
        raise SubcyclingFailedError(f"more than {MAX_STEPS} steps")
    return Subcycle(np.ascontiguousarray(rows), *arrays)
