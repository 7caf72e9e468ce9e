"""One multirate step: fast groups are subcycled along predicted paths of the slow tokens, then both are corrected.

With x the slow and y the fast tokens, x' = f(x, y) and y' = g(x, y), a step is

    1. predict   y by subcycling along the paths assumed for x: straight ones, or those of the last attempt;
    2. advance   x by one macro step with y on these paths (`macro_step`);
    3. estimate  the errors of x: embedded or trapezoidal, growth defect, quadrature defect (`step_errors`);
    4. relax     y by subcycling again along the computed paths of x, and add to x the change of the force from y:
                 one sweep of waveform relaxation. What a second sweep would change in y is the coupling error
                 (`fast_prediction` has 1, `relaxation` has 4).

A step ends where two fast tokens merge. All functions are pure: the next attempt is given `StepAttempt.carry`.
"""

from typing import NamedTuple

import numpy as np

from attnflow.coalescence.fast_prediction import FastPrediction, predict
from attnflow.coalescence.macro_step import StepResult, dormand_prince, error_norm
from attnflow.coalescence.relaxation import Relaxation, relax, with_merged_pair
from attnflow.coalescence.step_errors import growth_defect, quadrature_defect
from attnflow.coalescence.step_problem import Partition, SlowPaths, StepProblem
from attnflow.coalescence.subcycling import MAX_FAST


class Carry(NamedTuple):
    """What an attempt hands to the next one: partition, slow paths, and the prediction if that stays valid."""

    partition: Partition
    slow_paths: SlowPaths
    prediction: FastPrediction | None = None


class StepAttempt(NamedTuple):
    """A step that was tried; errors are over the tolerance."""

    step: float
    wanted: float
    log_duration: float
    result: StepResult
    error: float
    """The largest error of a staged token, or the growth defect of the step if that is larger."""
    misclassified: np.ndarray
    """Trapezoidal tokens whose error is too large."""
    coupling_error: float
    """The largest error of a fast token; infinite where a pair merges that was not predicted to merge."""
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
        # With computed slow paths the merge may come a little later; otherwise the coupling requires a shorter step.
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
        with_merged_pair(problem, relaxed.result, fast.pair),
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
    speeds = np.where(partition.slow, error_norm(problem.velocity.mantissa) / problem.rate, -1.0)
    is_beyond = speeds * problem.time_change.duration(step) > slow_limits
    return (promoted | is_beyond | (speeds == speeds.max())) & partition.slow


def relative_errors(result: StepResult, scales: np.ndarray) -> np.ndarray:
    """Error estimates of the macro step over the tolerances; infinity for NaN."""
    with np.errstate(over="ignore"):  # errors of a step far too long
        return np.nan_to_num(result.errors / scales, nan=np.inf)
