"""What one multirate step is about: the frozen records of the problem, the partition and the paths of slow tokens."""

import dataclasses

import numpy as np

from attnflow.coalescence.cluster_state import Clusters
from attnflow.coalescence.log_field import LogField, ScaledVelocity
from attnflow.coalescence.macro_step import StepResult, stage_times
from attnflow.coalescence.subcycling import CubicPaths, Tolerances, interacting_groups
from attnflow.coalescence.time_change import TimeChange


@dataclasses.dataclass(frozen=True)
class Partition:
    """Fast tokens as interacting groups, the first to merge first, and the mask of all other tokens, the slow ones."""

    fast_groups: tuple[np.ndarray, ...]
    slow: np.ndarray

    @classmethod
    def of(cls, field: LogField, clusters: Clusters, relative_rates: np.ndarray, fast: np.ndarray) -> "Partition":
        """The partition with the given fast rows; groups are sorted by their relative rates."""
        slow = np.ones(len(clusters), bool)
        slow[fast] = False
        groups = interacting_groups(field, clusters, fast) if len(fast) else []
        return cls(tuple(sorted(groups, key=lambda group: -float(relative_rates[group].max()))), slow)

    @property
    def fast(self) -> np.ndarray:
        """Rows of the fast tokens."""
        return np.flatnonzero(~self.slow)


@dataclasses.dataclass(frozen=True)
class StepProblem:
    """The clusters at the start of a step, and the time change of the step."""

    field: LogField
    clusters: Clusters
    velocity: ScaledVelocity
    tolerances: Tolerances
    relative_rates: np.ndarray
    """Relative rate of each nearest gap: |v_i - v_j| / |x_i - x_j|, in units e^log_scale of the velocity."""
    rate: float
    """sigma, the largest relative rate of slow tokens: steps are in units of 1 / sigma."""
    time_change: TimeChange
    longest: float
    """Largest step that the time change and the nearest merge allow."""

    @classmethod
    def of(
        cls,
        field: LogField,
        clusters: Clusters,
        velocity: ScaledVelocity,
        closing: np.ndarray,
        fast: np.ndarray,
        tolerances: Tolerances,
    ) -> tuple["StepProblem", Partition]:
        """The problem of the next step with the given fast rows, and their partition."""
        gaps = clusters.nearest.distances
        relative_rates = closing / gaps
        partition = Partition.of(field, clusters, relative_rates, fast)
        slow = partition.slow
        leader = int(np.argmax(np.where(slow, relative_rates, -1.0)))
        speed = float(np.abs(velocity.mantissa[slow]).max())
        rate = max(float(relative_rates[leader]), speed / np.pi)
        time_change = _time_change(field, clusters, velocity, rate, slow)
        # The leading gap shrinks by e^-step: to the merging distance and half a factor of e beyond.
        to_merge = float(np.log(gaps[leader] / tolerances.merge)) + 0.5
        longest = min(2.0, time_change.longest_step(), to_merge)  # beyond two units no step is accepted
        return cls(field, clusters, velocity, tolerances, relative_rates, rate, time_change, longest), partition

    @property
    def log_unit(self) -> float:
        """Logarithm of the time 1 / sigma."""
        return -self.velocity.log_scale - float(np.log(self.rate))

    def log_duration(self, step: float) -> float:
        """Logarithm of the time that a step takes."""
        return self.log_unit + float(np.log(self.time_change.duration(step)))

    def stage_times(self, step: float) -> np.ndarray:
        """Times of the nodes at which fast tokens are known, as shares of the duration."""
        return stage_times(self.time_change, step)

    def repartitioned(self, fast: np.ndarray) -> Partition:
        """The partition with other fast rows; the time change stays."""
        return Partition.of(self.field, self.clusters, self.relative_rates, fast)


def _time_change(
    field: LogField, clusters: Clusters, velocity: ScaledVelocity, rate: float, slow: np.ndarray
) -> TimeChange:
    """Growth and curvature of the log speed of the fastest slow token on its straight path, by central differences."""
    slope = np.where(slow[:, None], velocity.mantissa / rate, 0.0)
    sizes = np.abs(slope).max(axis=1)
    fastest = np.array([int(np.argmax(sizes))])
    with np.errstate(divide="ignore"):  # slow tokens may be slower than the smallest float
        now = velocity.log_scale + float(np.log(rate * sizes[fastest[0]]))
    probe = 1e-3  # of a unit step: differences of 1e-6 are far above rounding
    before, after = (
        field.velocity(clusters.positions + reach * slope, clusters.masses, fastest).log_speed - now
        for reach in (-probe, probe)
    )
    growth, curvature = (after - before) / (2 * probe), (after + before) / probe**2
    return TimeChange(float(growth), float(curvature)) if np.isfinite(growth + curvature) else TimeChange()


@dataclasses.dataclass(frozen=True)
class SlowPaths:
    """Paths of the slow tokens, with a unit of time that is `duration` times 1 / sigma."""

    paths: CubicPaths
    duration: float

    @classmethod
    def predicted(cls, problem: StepProblem) -> "SlowPaths":
        """Uniform motion at the velocity of the start, before a step has been tried."""
        return cls(CubicPaths.straight(problem.velocity.mantissa / problem.rate), 1.0)

    @property
    def are_predicted(self) -> bool:
        """Whether no step has been tried yet."""
        return self.paths.are_straight

    def over(self, problem: StepProblem, step: float) -> CubicPaths:
        """The paths with the duration of `step` as the unit of time."""
        return self.paths.in_units_of(problem.time_change.duration(step) / self.duration)

    def computed(self, problem: StepProblem, step: float, result: StepResult) -> "SlowPaths":
        """Hermite paths through the positions and velocities at both ends of a step."""
        last_velocity = result.velocity.displacement(problem.log_duration(step))
        displacement = result.positions - problem.clusters.positions
        paths = CubicPaths.hermite(displacement, self.over(problem, step).velocity, last_velocity)
        return SlowPaths(paths, problem.time_change.duration(step))
