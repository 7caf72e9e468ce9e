"""The relaxation sweep of a multirate step: fast tokens follow the computed slow paths, slow tokens are corrected."""

from typing import NamedTuple

import numpy as np

from attnflow.coalescence.fast_prediction import has_other_merge, is_merge_of, stop_rule, subcycled
from attnflow.coalescence.macro_step import StepResult, error_norm
from attnflow.coalescence.step_errors import coupling_errors, slow_correction, velocity_mismatch
from attnflow.coalescence.step_problem import Partition, SlowPaths, StepProblem
from attnflow.coalescence.subcycling import NEIGHBOUR_DISTANCE, Subcycle, SubcyclingFailedError

NEGLIGIBLE_SHARE = 0.1  # of a tolerance: smaller changes are not followed up
MAX_SHIFT = 0.01  # of the duration: a merge that moves by more shows that slow paths are not known well enough
SMALL_SHIFT = 1e-4  # of the duration: a merge that moves by less changes the velocities of close pairs only


class Relaxation(NamedTuple):
    """A relaxed step, the share of its duration at which it ends, its coupling error, and the partition to use next."""

    result: StepResult
    end: float
    error: float
    partition: Partition


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
        subcycled(problem, partition, slow_paths, step, group, stop_rule(group, predicted.pair))
        for group in extended.fast_groups
        if np.isin(group, predicted.pair).any() or not np.isin(group, settled).all()
    ]
    if not groups:
        return Relaxation(result, 1.0, 0.0, partition)
    if has_other_merge(groups, predicted.pair):
        if len(fast) == len(problem.clusters):
            raise SubcyclingFailedError("no slow token is left")
        return Relaxation(result, 1.0, np.inf, problem.repartitioned(fast))
    corrected = Subcycle.of_groups(groups)._replace(pair=predicted.pair)
    relaxed = _corrected(problem, slow_paths, step, result, predicted, corrected, staged, scales)
    errors = coupling_errors(problem, partition, step, relaxed, corrected, result.positions, scales)
    merging = [group for group in groups if is_merge_of(group, predicted.pair)]
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


def with_merged_pair(problem: StepProblem, result: StepResult, pair: np.ndarray) -> StepResult:
    """The step with a pair at the merging distance, to its error, put at its centre of mass."""
    if not len(pair):
        return result
    positions = result.positions.copy()
    positions[pair] = np.average(positions[pair], axis=0, weights=problem.clusters.masses[pair])
    return result._replace(positions=positions)
