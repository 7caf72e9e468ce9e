"""The integrator loop: take a step or a pair merge, accept it, merge clusters, record, stop."""

import dataclasses
import time
from typing import NamedTuple

import numpy as np
import xarray as xr

from attnflow._common.progress import Report
from attnflow.coalescence import multirate, outcomes
from attnflow.coalescence.cluster_state import Clusters
from attnflow.coalescence.log_field import LogField, ScaledVelocity
from attnflow.coalescence.merge_events import MergeEvent, merge_events
from attnflow.coalescence.pair_quadrature import PairMerge, pair_merge
from attnflow.coalescence.recorder import Counters, RecordedState, Recorder
from attnflow.coalescence.request import Accelerations, CoalescingRequest
from attnflow.coalescence.step_problem import SlowPaths, StepProblem
from attnflow.coalescence.subcycling import SubcyclingFailedError, Tolerances, fast_tokens, is_available
from attnflow.coalescence.time_change import log_difference
from attnflow.solvers.status import Status

# Errors are relative to the nearest gap, but not below the smaller of 1e4 merging distances, where tokens merge anyway,
# and 0.01.
GAP_FLOOR_IN_MERGES, MAX_GAP_FLOOR = 1e4, 0.01
# At a stable equilibrium error estimates allow steps that move clusters back and forth by a few tolerances: clusters
# that move by no more than 10 tolerances are at rest.
REST_IN_TOLERANCES = 10.0
# States are recorded so densely that lines between them show no corners in a plot over log t: a coordinate changes by
# at most 5 % of the diameter, log t by 0.05.
RECORDED_DISPLACEMENT, RECORDED_LOG_INTERVAL = 0.1, 0.05
NO_ROWS = np.empty(0, int)


@dataclasses.dataclass(frozen=True)
class Control:
    """What controls the next step."""

    promoted: np.ndarray
    """Mask of tokens for which the trapezoidal rule was not accurate enough: they are staged until a
    merge after which all velocities are computed again."""
    step: float = 0.02
    """The length of the next step in units of 1 / sigma; the first moves a token by about 2 % of a gap."""
    pair_backoff: float = 1.0
    """Factor of the drift allowed for a pair by quadrature; it falls with every pair that was tried too early."""


class StepTooSmallError(ArithmeticError):
    """The length of the next step is lost in rounding."""


class LastMotion(NamedTuple):
    """The last state in which clusters had merged, or moved by more than REST_IN_TOLERANCES."""

    log_time: float
    steps: int
    clusters: Clusters


class Integrator:
    """The state of a run: log time, clusters, velocity, control and counters, each replaced as the run goes on."""

    def __init__(self, request: CoalescingRequest):
        self.request = request
        clusters = Clusters.singletons(request.tokens, request.flow.masses)
        self.field = LogField.of(request.flow, float(clusters.masses.sum()))
        self.accelerations = _available(request.accelerations, self.field)
        gap_floor = min(GAP_FLOOR_IN_MERGES * request.merge, MAX_GAP_FLOOR)
        self.tolerances = Tolerances(request.rtol, gap_floor, request.merge)
        self.recorder = Recorder(request, self.field)
        self.log_time, self.counters = request.log_start, Counters()
        clusters = clusters.merge_duplicates()  # tokens at one position are one cluster from the start
        self._set_state(clusters, Control(np.zeros(len(clusters), bool)), None)
        self.plateau = self._record_state()
        self.last_motion = LastMotion(self.log_time, 0, clusters)

    def run(self, budget: float | None, report: Report) -> xr.Dataset:
        """Integrate until one cluster is left or a limit is reached; returns the dataset."""
        began, first_count = time.monotonic(), max(len(self.clusters) - 1, 1)
        try:
            while (status := self._status(budget is not None and time.monotonic() - began > budget)) == Status.RUNNING:
                self._advance()
                count = len(self.clusters)
                report(1 - (count - 1) / first_count, f"{count} clusters, log t = {self.log_time:.4g}")
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        except StepTooSmallError:
            status = Status.STEP_TOO_SMALL
        except ArithmeticError:
            status = Status.NOT_FINITE
        return self._dataset(status)

    def _status(self, is_out_of_time: bool) -> Status:
        """RUNNING, or the reason to end the run here."""
        counters = self.counters
        if len(self.clusters) == 1:
            return Status.ONE_CLUSTER
        if self.velocity.is_equilibrium or self._is_at_rest():
            return Status.AT_REST
        if self._has_reached_end():
            return Status.REACHED
        if counters.steps + counters.rejected_steps >= self.request.max_steps:
            return Status.OUT_OF_STEPS
        return Status.OUT_OF_TIME if is_out_of_time else Status.RUNNING

    def _outcome(self, status: Status) -> str:
        """The sentence of a run that ended with `status`."""
        if status == Status.ONE_CLUSTER:
            last_merge = self.recorder.merges[-1].merge_log_time if self.recorder.merges else None
            return outcomes.one_cluster(self.field, self.clusters, last_merge, self.counters.steps)
        if status == Status.AT_REST:
            largest_share = REST_IN_TOLERANCES * self.request.rtol
            return outcomes.at_rest(self.field, self.clusters, self.velocity, self.log_time, largest_share)
        return outcomes.of_several_clusters(status, self.log_time, len(self.clusters), self.counters.steps)

    def _has_reached_end(self) -> bool:
        return self.log_time >= self.request.log_end - 1e-12  # rounding of log t

    def _log_time_left(self) -> float:
        """Logarithm of the time to the end: log(e^log_end - e^log_time)."""
        log_end = self.request.log_end
        return log_end if np.isinf(log_end) else log_difference(log_end, self.log_time)

    def _is_at_rest(self) -> bool:
        """Whether no cluster has moved beyond REST_IN_TOLERANCES while time doubled, in ten steps or more.

        Plain attraction has no stable equilibrium of several clusters; on its plateaus one step more than doubles time.
        """
        has_doubled = self.log_time - self.last_motion.log_time >= np.log(2)
        return has_doubled and self.counters.steps - self.last_motion.steps >= 10 and not self.field.is_plain_attraction

    def _note_motion(self) -> None:
        """Remember this state if clusters have merged or moved beyond REST_IN_TOLERANCES."""
        before = self.last_motion.clusters
        if len(before) == len(self.clusters):
            moved = np.linalg.norm(self.clusters.positions - before.positions, axis=1)
            if np.all(moved <= REST_IN_TOLERANCES * self._scales()):
                return
        self.last_motion = LastMotion(self.log_time, self.counters.steps, self.clusters)

    def _scales(self) -> np.ndarray:
        """Error that a step may make in the position of each cluster."""
        return self.tolerances.rtol * np.maximum(self.clusters.nearest.distances, self.tolerances.gap_floor)

    def _set_state(self, clusters: Clusters, control: Control, velocity: ScaledVelocity | None) -> None:
        """Set the current clusters; recompute the velocity unless it is given."""
        self.clusters, self.control = clusters, control
        if len(clusters) > 1:
            self.velocity = velocity or self.field.velocity(clusters.positions, clusters.masses)

    def _record_state(self) -> RecordedState:
        sums = self.velocity.sums if len(self.clusters) > 1 else None
        return self.recorder.add_state(self.log_time, self.clusters, sums)

    def _count(self, **counts: float) -> None:
        self.counters = dataclasses.replace(self.counters, **counts)

    def _advance(self) -> None:
        """One merge of an isolated pair, or one accepted step."""
        gaps, nearest = self.clusters.nearest
        closing = np.linalg.norm(self.velocity.mantissa - self.velocity.mantissa[nearest], axis=1)
        leader = int(np.argmax(closing / gaps))
        merged = None
        if self.accelerations.pair_quadrature:
            merged = self._pair_merge(np.array([leader, nearest[leader]]), float(closing[leader] / gaps[leader]))
        if merged is None:
            self._step(closing)
            return
        error = max(self.counters.quadrature_error, merged.error)
        self._count(quadrature_merges=self.counters.quadrature_merges + 1, quadrature_error=error)
        self._accept(merged.positions, merged.log_duration, None)

    def _pair_merge(self, pair: np.ndarray, relative_rate: float) -> PairMerge | None:
        """The merge of the pair with the largest relative rate, if its error and duration are small enough."""
        gaps, beta = self.clusters.nearest.distances, self.field.beta
        gap = float(gaps[pair[0]])
        if relative_rate == 0:  # close to an equilibrium no gap changes
            return None
        # The pair's speed changes by a factor over the distance min(gap, 1 / (beta gap)), in the time e^log_duration.
        distance = min(gap, 1 / (beta * gap))
        other_speed = float(np.delete(np.linalg.norm(self.velocity.mantissa, axis=1), pair).max(initial=0.0))
        drift, log_duration = other_speed * distance / (relative_rate * gap), np.log(distance / (relative_rate * gap))
        tolerance = self.tolerances.rtol * max(float(np.delete(gaps, pair).min(initial=1.0)), self.tolerances.gap_floor)
        # It must take less than a hundredth of the time so far, so that recorded states stay dense in log t.
        latest = min(self.log_time + np.log(0.01), self._log_time_left())
        # A test before the quadrature, whose own error decides: where it is too lenient, only a quadrature is wasted.
        is_isolated = 2 * beta * (drift / self.control.pair_backoff) ** 2 <= tolerance
        if not is_isolated or log_duration - self.velocity.log_scale > latest:
            return None
        merged = pair_merge(self.field, self.clusters, pair, self.velocity.sums, self.tolerances.merge)
        if merged.error <= tolerance and merged.log_duration <= latest:
            return merged
        self.control = dataclasses.replace(self.control, pair_backoff=self.control.pair_backoff / 4)
        return None

    def _step(self, closing: np.ndarray) -> None:
        """One accepted multirate step; without fast tokens where subcycling fails."""
        fast, merge = NO_ROWS, self.tolerances.merge
        if self.accelerations.subcycling:
            fast = fast_tokens(self.field, self.clusters, closing, merge)
        try:
            accepted = self._accepted_step(closing, fast)
        except SubcyclingFailedError:
            fast = NO_ROWS
            accepted = self._accepted_step(closing, fast)
        self._count(steps=self.counters.steps + 1, subcycled_steps=self.counters.subcycled_steps + int(len(fast) > 0))
        self._accept(accepted.result.positions, accepted.log_duration, accepted.result.velocity)

    def _accepted_step(self, closing: np.ndarray, fast: np.ndarray) -> multirate.StepAttempt:
        """Attempts until all errors are within the tolerance; SubcyclingFailedError where subcycling fails."""
        problem, partition = StepProblem.of(self.field, self.clusters, self.velocity, closing, fast, self.tolerances)
        carry, scales = multirate.Carry(partition, SlowPaths.predicted(problem)), self._scales()
        slow_limits = self._slow_limits(scales)
        while True:
            longest = min(self.control.step, problem.longest)
            wanted = problem.time_change.step_for(longest, self._log_time_left() - problem.log_unit)
            attempt = multirate.attempt(problem, carry, wanted, slow_limits, self.control.promoted, scales)
            self.control = dataclasses.replace(self.control, step=attempt.next_step)
            if attempt.is_accepted:
                return attempt
            carry, promoted = attempt.carry, self.control.promoted | attempt.misclassified
            self.control = dataclasses.replace(self.control, promoted=promoted)
            self._count(rejected_steps=self.counters.rejected_steps + 1)
            if self.control.step < 1e-12:
                raise StepTooSmallError

    def _slow_limits(self, scales: np.ndarray) -> np.ndarray:
        """Displacements up to which a token is advanced by the trapezoidal rule.

        A displacement D changes the velocity by a share |B| D, and so the displacement by |B| D^2: a ninth of the
        tolerance.
        """
        if not self.accelerations.slow_partition:
            return np.full_like(scales, -1.0)
        return np.sqrt(scales / max(self.field.score_norm, 1.0)) / 3

    def _accept(self, positions: np.ndarray, log_duration: float, velocity: ScaledVelocity | None) -> None:
        """Set the state after a step: merge clusters that have come within the merging distance, and record."""
        began, before = self.log_time, self.clusters
        moved = before.moved_to(positions)
        self.log_time = float(np.logaddexp(began, log_duration))
        events = merge_events(before.positions, moved, self.tolerances.merge)
        merged = moved.merge((event.first, event.second) for event in events) if events else moved
        control = self.control
        if events:
            kept = np.delete(control.promoted, [event.second for event in events])
            control = dataclasses.replace(control, promoted=kept, pair_backoff=1.0)
            velocity = None if velocity is None else self._velocity_after(events, merged, velocity)
        if velocity is None:
            control = dataclasses.replace(control, promoted=np.zeros(len(merged), bool))
        self._set_state(merged, control, velocity)
        self._note_motion()
        if events:
            plateau, self.plateau = self.plateau, self._record_state()
            with np.errstate(divide="ignore"):  # a merge at the start of the step
                log_times = np.logaddexp(began, log_duration + np.log([event.share for event in events]))
            self.recorder.add_merges(moved, events, log_times, plateau, self.plateau)
        elif self._has_changed() or self._has_reached_end():
            self._record_state()

    def _velocity_after(
        self, events: list[MergeEvent], merged: Clusters, velocity: ScaledVelocity
    ) -> ScaledVelocity | None:
        """The velocity after merges, with new attention sums only for clusters near the merged ones.

        The sums of distant clusters change by |B| times the merging distance, squared. None if that is not below 1e-6.
        """
        if self.field.score_norm * self.tolerances.merge > 1e-3 or len(merged) == 1:
            return None
        absorbed = [event.second for event in events]
        kept = np.delete(np.arange(len(self.clusters)), absorbed)
        centres = np.searchsorted(kept, np.setdiff1d([event.first for event in events], absorbed))
        rows = merged.rows_near(centres, 0.01)  # seen from there, the centre is in another direction than its parts
        new = self.field.sums(merged.positions, merged.masses, rows)
        return self.field.velocity_from(velocity.sums.take(kept).replaced(rows, new), merged.positions, merged.masses)

    def _has_changed(self) -> bool:
        """Whether the state differs enough from the last recorded one, which has the same clusters."""
        last = self.recorder.states[-1]
        moved = float(np.abs(self.clusters.positions - last.clusters.positions).max())
        return moved > RECORDED_DISPLACEMENT or self.log_time - last.log_time >= RECORDED_LOG_INTERVAL

    def _dataset(self, status: Status) -> xr.Dataset:
        """The dataset of a run that ended with `status`."""
        if self.recorder.states[-1].log_time < self.log_time:
            self._record_state()
        return self.recorder.dataset(status, self._outcome(status), self.counters, self.accelerations)


def _available(wanted: Accelerations, field: LogField) -> Accelerations:
    """The accelerations that are wanted and available for this field."""
    return dataclasses.replace(
        wanted,
        pair_quadrature=wanted.pair_quadrature and field.is_plain_attraction,
        subcycling=wanted.subcycling and is_available(field),
    )
