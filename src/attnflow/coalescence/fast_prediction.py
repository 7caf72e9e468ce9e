"""Fast groups subcycled along given paths of the slow tokens: over a step that is cut at their first merge."""

from typing import NamedTuple

import numpy as np

from attnflow.coalescence.step_problem import Partition, SlowPaths, StepProblem
from attnflow.coalescence.subcycling import StopRule, Subcycle, SubcyclingFailedError, subcycle


class FastPrediction(NamedTuple):
    """Fast tokens predicted for a step of length `wanted`, which was cut to `step` at their first merge."""

    wanted: float
    step: float
    subcycle: Subcycle


def predict(problem: StepProblem, partition: Partition, slow_paths: SlowPaths, wanted: float) -> FastPrediction:
    """Subcycle all fast groups over a step, which is cut at their first merge."""
    step, pair, done = wanted, np.empty(0, int), []
    for group in partition.fast_groups:  # the first to merge comes first: it mostly decides where the step ends
        result = subcycled(problem, partition, slow_paths, step, group, StopRule.AT_FIRST_MERGE)
        if result.merge_time > 1:
            done.append(result)
            continue
        log_time = float(np.log(result.merge_time * problem.time_change.duration(step)))
        step, pair = problem.time_change.step_for(step, log_time), result.pair
        done = [
            subcycled(problem, partition, slow_paths, step, earlier, stop_rule(earlier, pair))
            for earlier in partition.fast_groups[: len(done) + 1]
        ]
        if has_other_merge(done, pair):
            raise SubcyclingFailedError("two merges at one time")
    fast = Subcycle.of_groups(done) if done else Subcycle.empty(problem.clusters.positions.shape[1])
    return FastPrediction(wanted, step, fast._replace(pair=pair))


def subcycled(
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


def stop_rule(group: np.ndarray, pair: np.ndarray) -> StopRule:
    """The rule for a group in a step that ends with the merge of `pair`."""
    return StopRule.WITH_MERGE if np.isin(pair, group).any() else StopRule.AT_FIRST_MERGE


def is_merge_of(result: Subcycle, pair: np.ndarray) -> bool:
    """Whether a group ended with the merge of `pair`."""
    return len(pair) > 0 and set(result.pair) == set(pair)


def has_other_merge(groups: list[Subcycle], pair: np.ndarray) -> bool:
    """Whether tokens merge within the step that are not `pair`, with whose merge it ends."""
    return any(group.merge_time <= 1 and not is_merge_of(group, pair) for group in groups)
