"""One multirate step: fast groups are subcycled along predicted paths of the slow tokens, then both are corrected.

With x the slow and y the fast tokens, x' = f(x, y) and y' = g(x, y), a step is

    1. predict   y by subcycling along the paths assumed for x: straight ones, or those of the last attempt;
    2. advance   x by one macro step with y on these paths (`macro_step`);
    3. estimate  the errors of x: embedded or trapezoidal, growth defect, quadrature defect (`step_errors`);
    4. relax     y by subcycling again along the computed paths of x, and add to x the change of the force from y:
                 one sweep of waveform relaxation. What a second sweep would change in y is the coupling error.

A step ends where two fast tokens merge. All functions are pure: the next attempt is given `StepAttempt.carry`.
"""

from typing import NamedTuple

import numpy as np

from attnflow.coalescence.macro_step import StepResult, dormand_prince, error_norm
from attnflow.coalescence.step_errors import (
    coupling_errors,
    growth_defect,
    quadrature_defect,
    slow_correction,
    velocity_mismatch,
)
from attnflow.coalescence.step_problem import Partition, SlowPaths, StepProblem
from attnflow.coalescence.subcycling import (
    MAX_FAST,
    NEIGHBOUR_DISTANCE,
    StopRule,
    Subcycle,
    SubcyclingFailedError,
    subcycle,
)

NEGLIGIBLE_SHARE = 0.1  # of a tolerance: smaller changes are not followed up
MAX_SHIFT = 0.01  # of the duration: a merge that moves by more shows that slow paths are not known well enough
# Of the duration. A merge that moves by less changes the velocities of close pairs only.
SMALL_SHIFT = 1e-4


class FastPrediction(NamedTuple):
    """Fast tokens predicted for a step of length `wanted`, which was cut to `step` at their first merge."""

    wanted: float
    step: float
    subcycle: Subcycle


class Carry(NamedTuple):
    """What an attempt hands to the next one: partition, slow paths, and the prediction if that stays valid."""

    partition: Partition
    slow_paths: SlowPaths
    prediction: FastPrediction | None = None


class Relaxation(NamedTuple):
    """A relaxed step, the share of its duration at which it ends, its coupling error, and the partition to use next."""

    result: StepResult
    end: float
    error: float
    partition: Partition


class StepAttempt(NamedTuple):
    """A step that was tried; errors are over the tolerance."""

    step: float
    wanted: float
    log_duration: float
    result: StepResult
    error: float
    """The largest of staged tokens, or the growth defect of the step if that is larger."""
    misclassified: np.ndarray
    """Trapezoidal tokens whose error is too large."""
    coupling_error: float
    """Of fast tokens; infinite where a pair merges that was not predicted to, which needs another attempt."""
    carry: Carry
    was_predicted: bool
    """Whether fast tokens were integrated along straight paths of the slow ones."""

    @property
    def is_accepted(self) -> bool:
        """Whether all errors are within the tolerance."""
        return self.error <= 1 and self.coupling_error <= 1 and not self.misclassified.any()

    @property
    def next_step(self) -> float:
        """The step to try next; after an accepted step that ended at a merge, at least the length wanted before."""
        # The usual control of an estimate of order five, with a safety factor and limits of the change.
        new = self.step * float(np.clip(0.9 * max(self.error, 1e-10) ** -0.2, 0.2, 4.0))
        if self.is_accepted:
            return max(new, self.wanted) if self.step < self.wanted else new
        if self.error > 1:
            return new
        if self.misclassified.any():
            return self.wanted
        # With computed slow paths the merge may come a little later; otherwise the coupling asks for a shorter step.
        return min(self.wanted, 1.1 * self.step) if self.was_predicted else self.step / 3


def attempt(
    problem: StepProblem, carry: Carry, wanted: float, slow_limits: np.ndarray, promoted: np.ndarray, scales: np.ndarray
) -> StepAttempt:
    """Try one step of length `wanted`, whatever its errors; SubcyclingFailedError where subcycling fails.

    Slow tokens that move by more than `slow_limits`, or are `promoted`, have all stages; `scales` are the tolerances.
    """
    prediction = carry.prediction
    if prediction is None or prediction.wanted != wanted:
        prediction = predict(problem, carry.partition, carry.slow_paths, wanted)
    return _completed(problem, carry, prediction, slow_limits, promoted, scales)


def predict(problem: StepProblem, partition: Partition, slow_paths: SlowPaths, wanted: float) -> FastPrediction:
    """Subcycle all fast groups over a step, which is cut at their first merge."""
    step, pair, done = wanted, np.empty(0, int), []
    for group in partition.fast_groups:  # the first to merge comes first: it mostly decides where the step ends
        result = _subcycled(problem, partition, slow_paths, step, group, StopRule.AT_FIRST_MERGE)
        if result.merge_time > 1:
            done.append(result)
            continue
        log_time = float(np.log(result.merge_time * problem.time_change.duration(step)))
        step, pair = problem.time_change.step_for(step, log_time), result.pair
        done = [
            _subcycled(problem, partition, slow_paths, step, earlier, _stop_rule(earlier, pair))
            for earlier in partition.fast_groups[: len(done) + 1]
        ]
        if _has_other_merge(done, pair):
            raise SubcyclingFailedError("two merges at one time")
    fast = Subcycle.of_groups(done) if done else Subcycle.empty(problem.clusters.positions.shape[1])
    return FastPrediction(wanted, step, fast._replace(pair=pair))


def _subcycled(
    problem: StepProblem,
    partition: Partition,
    slow_paths: SlowPaths,
    step: float,
    group: np.ndarray,
    stop_rule: StopRule,
) -> Subcycle:
    """One group over a step; tokens of other groups that are fast in `partition` do not move."""
    paths = slow_paths.over(problem, step).with_fixed(np.union1d(partition.fast, group))
    duration, times = problem.log_duration(step), problem.stage_times(step)
    return subcycle(problem.field, problem.clusters, paths, group, duration, problem.tolerances, times, stop_rule)


def _stop_rule(group: np.ndarray, pair: np.ndarray) -> StopRule:
    """The rule for a group in a step that ends with the merge of `pair`."""
    return StopRule.WITH_MERGE if np.isin(pair, group).any() else StopRule.AT_FIRST_MERGE


def _is_merge_of(result: Subcycle, pair: np.ndarray) -> bool:
    return len(pair) > 0 and set(result.pair) == set(pair)


def _has_other_merge(groups: list[Subcycle], pair: np.ndarray) -> bool:
    """Whether tokens merge within the step that are not `pair`, with whose merge it ends."""
    return any(group.merge_time <= 1 and not _is_merge_of(group, pair) for group in groups)


def _completed(
    problem: StepProblem,
    carry: Carry,
    prediction: FastPrediction,
    slow_limits: np.ndarray,
    promoted: np.ndarray,
    scales: np.ndarray,
) -> StepAttempt:
    """The attempt with predicted fast tokens: macro step, errors and relaxation."""
    partition, slow_paths = carry.partition, carry.slow_paths
    step, fast = prediction.step, prediction.subcycle
    staged = _staged(problem, partition, step, slow_limits, promoted)
    result = dormand_prince(
        problem.field, problem.clusters, problem.velocity, problem.rate, problem.time_change, step, staged, fast
    )
    if len(fast.rows) and np.isfinite(result.positions).all():
        slow_paths = slow_paths.computed(problem, step, result)
    errors = relative_errors(result, scales)
    error = max(float(errors[staged].max(initial=0.0)), growth_defect(problem, step, result, staged, scales))
    misclassified = ~staged & partition.slow & (errors > 1)
    relaxed, next_carry = Relaxation(result, 1.0, 0.0, partition), Carry(partition, slow_paths, prediction)
    if len(fast.rows) and error <= 1 and misclassified.sum() <= MAX_FAST:
        rows = np.flatnonzero(staged)
        defects = quadrature_defect(problem, slow_paths, step, result, rows, fast)
        perturbed = np.union1d(rows[defects > scales[rows]], np.flatnonzero(misclassified))
        relaxed = relax(problem, partition, slow_paths, step, result, fast, rows, perturbed, scales)
        misclassified, next_carry = np.zeros_like(misclassified), Carry(relaxed.partition, slow_paths)
    return StepAttempt(
        step,
        prediction.wanted,
        problem.log_duration(step) + float(np.log(relaxed.end)),
        _with_merged_pair(problem, relaxed.result, fast.pair),
        error,
        misclassified,
        relaxed.error,
        next_carry,
        carry.slow_paths.are_predicted,
    )


def _staged(
    problem: StepProblem, partition: Partition, step: float, slow_limits: np.ndarray, promoted: np.ndarray
) -> np.ndarray:
    """Mask of slow tokens that need all stages: the fastest, promoted ones, and those that move beyond their limit."""
    speeds = np.where(partition.slow, np.abs(problem.velocity.mantissa).max(axis=1) / problem.rate, -1.0)
    is_beyond = speeds * problem.time_change.duration(step) > slow_limits
    return (promoted | is_beyond | (speeds == speeds.max())) & partition.slow


def relative_errors(result: StepResult, scales: np.ndarray) -> np.ndarray:
    """Error estimates of the macro step over the tolerances; infinity for NaN."""
    with np.errstate(over="ignore"):  # errors of a step far too long
        return np.nan_to_num(result.errors / scales, nan=np.inf)


def relax(
    problem: StepProblem,
    partition: Partition,
    slow_paths: SlowPaths,
    step: float,
    result: StepResult,
    predicted: Subcycle,
    staged: np.ndarray,
    perturbed: np.ndarray,
    scales: np.ndarray,
) -> Relaxation:
    """One relaxation sweep: re-integrate fast groups along the computed slow paths, then correct the slow tokens.

    Slow tokens that are `perturbed` by fast ones are subcycled with them. The step ends at the merge time found. If
    another pair merges before, the coupling error is infinite and perturbed tokens are fast in the next attempt;
    SubcyclingFailedError is raised if no slow token were left then.
    """
    fast = np.union1d(partition.fast, perturbed)
    extended = problem.repartitioned(fast) if len(fast) > len(partition.fast) else partition
    # Groups for which slow tokens were where they were assumed to be need no second integration.
    is_settled = velocity_mismatch(problem, step, result, predicted) <= NEGLIGIBLE_SHARE * scales[predicted.rows]
    settled = predicted.rows[is_settled]
    # Perturbed tokens of other groups follow the slow paths that the step computed for them: hence `partition`, where
    # they are slow, and not `extended`, where they would be at rest.
    groups = [
        _subcycled(problem, partition, slow_paths, step, group, _stop_rule(group, predicted.pair))
        for group in extended.fast_groups
        if np.isin(group, predicted.pair).any() or not np.isin(group, settled).all()
    ]
    if not groups:
        return Relaxation(result, 1.0, 0.0, partition)
    if _has_other_merge(groups, predicted.pair):
        if len(fast) == len(problem.clusters):
            raise SubcyclingFailedError("no slow token is left")
        return Relaxation(result, 1.0, np.inf, problem.repartitioned(fast))
    corrected = Subcycle.of_groups(groups)._replace(pair=predicted.pair)
    relaxed = _corrected(problem, slow_paths, step, result, predicted, corrected, staged, scales)
    errors = coupling_errors(problem, partition, step, relaxed, corrected, result.positions, scales)
    merging = [group for group in groups if _is_merge_of(group, predicted.pair)]
    end = merging[0].merge_time if merging else 1.0
    merged_rows = np.concatenate([np.empty(0, int), *(group.rows for group in merging)])
    shifted = _shifted(problem, relaxed, merged_rows, problem.log_duration(step), end)
    return Relaxation(shifted, end, max(float(errors.max()), abs(end - 1) / MAX_SHIFT), partition)


def _corrected(
    problem: StepProblem,
    slow_paths: SlowPaths,
    step: float,
    result: StepResult,
    predicted: Subcycle,
    corrected: Subcycle,
    staged: np.ndarray,
    scales: np.ndarray,
) -> StepResult:
    """The step with corrected fast tokens and the change of the force from them on staged ones."""
    positions = result.positions.copy()
    positions[corrected.rows] = corrected.paths[-1]
    rows = np.setdiff1d(staged, corrected.rows)
    displacements, changes = slow_correction(problem, slow_paths, step, result, rows, predicted, corrected)
    positions[rows] += displacements
    is_changed = error_norm(changes) > NEGLIGIBLE_SHARE * scales[rows]
    return _with_sums_at(problem, result, positions, np.union1d(corrected.rows, rows[is_changed]))


def _shifted(
    problem: StepProblem, result: StepResult, merged_rows: np.ndarray, log_duration: float, end: float
) -> StepResult:
    """The step ended at the share `end` of its duration, to first order; `merged_rows` are at that time already."""
    displacements = result.velocity.displacement(log_duration)
    displacements[merged_rows] = 0.0
    positions = result.positions + (end - 1) * displacements
    is_close = problem.clusters.nearest.distances < NEIGHBOUR_DISTANCE
    rows = np.arange(len(positions)) if abs(end - 1) > SMALL_SHIFT else np.flatnonzero(is_close)
    return _with_sums_at(problem, result, positions, rows)


def _with_sums_at(problem: StepProblem, result: StepResult, positions: np.ndarray, rows: np.ndarray) -> StepResult:
    """The step with other positions, and the attention sums of `rows` computed there."""
    field, masses = problem.field, problem.clusters.masses
    sums = result.velocity.sums.replaced(rows, field.sums(positions, masses, rows))
    return StepResult(positions, result.errors, field.velocity_from(sums, positions, masses))


def _with_merged_pair(problem: StepProblem, result: StepResult, pair: np.ndarray) -> StepResult:
    """The step with a pair at the merging distance, to its error, put at its centre of mass."""
    if not len(pair):
        return result
    positions = result.positions.copy()
    positions[pair] = np.average(positions[pair], axis=0, weights=problem.clusters.masses[pair])
    return result._replace(positions=positions)
