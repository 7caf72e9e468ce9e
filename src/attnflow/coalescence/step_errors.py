"""Error estimates of a multirate step beyond the embedded one, and the forces of fast on slow tokens they need."""

import numpy as np

from attnflow.coalescence.macro_step import PATH_NODES, StepResult, defect_weights, error_norm, quadrature_weights
from attnflow.coalescence.step_problem import Partition, SlowPaths, StepProblem
from attnflow.coalescence.subcycling import Subcycle


def growth_defect(
    problem: StepProblem, step: float, result: StepResult, staged: np.ndarray, scales: np.ndarray
) -> float:
    """The defect (|G - g(u)| / 0.1)^5: G is the measured growth of the log speed in the step u, g(u) the predicted one.

    The fifth power makes it shrink with u like an error of order five. Above 1 the embedded estimate is not trusted: it
    may vanish by chance where the speed changes by a factor. The defect is zero where staged tokens move by less than
    100 tolerances, and where the measured and the predicted speed both fall.
    """
    moved = error_norm(result.positions - problem.clusters.positions)
    if np.all(moved[staged] < 100.0 * scales[staged]):
        return 0.0
    with np.errstate(divide="ignore"):  # slow tokens may be slower than the smallest float
        first, last = (
            velocity.log_scale + np.log(np.abs(velocity.mantissa[staged]).max())
            for velocity in (problem.velocity, result.velocity)
        )
    growth, predicted = last - first, problem.time_change.log_growth(step)
    if not np.isfinite(growth) or max(growth, predicted) < 0:
        return 0.0
    # Growth by a factor of e^0.1 may be unpredicted. The ratio is limited to ten: one attempt does not show more.
    return min(abs(float(growth) - predicted) / 0.1, 10.0) ** 5


def quadrature_defect(
    problem: StepProblem, slow_paths: SlowPaths, step: float, result: StepResult, rows: np.ndarray, subcycle: Subcycle
) -> np.ndarray:
    """Errors of slow tokens `rows` because forces of fast tokens change abruptly between the stages.

    The difference of the quadrature on all nodes and that of the DP5 stages, applied to the force from fast tokens.
    """
    forces = _forces(problem, slow_paths, step, result, rows, subcycle.rows, subcycle.paths)
    return error_norm(np.tensordot(_time_weights(problem, step, defect_weights()), forces, 1))


def slow_correction(
    problem: StepProblem,
    slow_paths: SlowPaths,
    step: float,
    result: StepResult,
    rows: np.ndarray,
    old: Subcycle,
    new: Subcycle,
) -> tuple[np.ndarray, np.ndarray]:
    """Change of displacement and of final velocity of slow tokens `rows` due to the corrected fast paths.

    The integral over the step of the force along the `new` paths minus that along the `old` ones. Tokens that are fast
    only in `new` were on their slow paths before.
    """
    paths, times = slow_paths.over(problem, step).take(new.rows), problem.stage_times(step)
    before = np.stack([paths.positions(problem.clusters.positions[new.rows], time) for time in times])
    is_again = np.isin(old.rows, new.rows)
    before[:, np.searchsorted(new.rows, old.rows[is_again])] = old.paths[:, is_again]
    old_forces, new_forces = (
        _forces(problem, slow_paths, step, result, rows, new.rows, fast_paths) for fast_paths in (before, new.paths)
    )
    change = new_forces - old_forces
    return np.tensordot(_time_weights(problem, step, quadrature_weights()), change, 1), change[-1]


def _time_weights(problem: StepProblem, step: float, weights: np.ndarray) -> np.ndarray:
    """Weights of integrals over u as weights of integrals over time, in units of the duration: dt = e^{-g(u)} du."""
    nodes = step * np.array([0.0, *PATH_NODES])
    time_change = problem.time_change
    return weights * np.exp(-time_change.log_growth(nodes)) * step / time_change.duration(step)


def _forces(
    problem: StepProblem,
    slow_paths: SlowPaths,
    step: float,
    result: StepResult,
    rows: np.ndarray,
    sources: np.ndarray,
    source_paths: np.ndarray,
) -> np.ndarray:
    """Velocities (nodes, rows, d) of slow tokens `rows` due to `sources`, times the duration of the step.

    Logarithms of divisors are interpolated linearly in time between the ends of the step.
    """
    clusters, field = problem.clusters, problem.field
    paths, times = slow_paths.over(problem, step).take(rows), [0.0, *problem.stage_times(step)]
    first, last = (
        field.log_divisors(velocity.sums.take(rows), positions[rows], clusters.masses[rows])
        for velocity, positions in ((problem.velocity, clusters.positions), (result.velocity, result.positions))
    )
    forces = []
    for time, source in zip(times, [clusters.positions[sources], *source_paths], strict=True):
        positions = paths.positions(clusters.positions[rows], time)
        log_divisors = (1 - time) * first + time * last - problem.log_duration(step)
        force = field.contribution_of(source, clusters.masses[sources], positions, log_divisors)
        forces.append(force - np.sum(force * positions, axis=1, keepdims=True) * positions)
    return np.stack(forces)


def velocity_mismatch(problem: StepProblem, step: float, result: StepResult, subcycle: Subcycle) -> np.ndarray:
    """Position errors of fast tokens: half the difference of their final velocities in the step and in the subcycle.

    The two differ because slow tokens are not at the positions that the subcycle assumed.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        factor = np.exp(result.velocity.log_scale + problem.log_duration(step))
        velocities = result.velocity.mantissa[subcycle.rows] * factor
        return np.nan_to_num(error_norm(velocities - subcycle.velocities) / 2, nan=np.inf)


def coupling_errors(
    problem: StepProblem,
    partition: Partition,
    step: float,
    result: StepResult,
    subcycle: Subcycle,
    assumed: np.ndarray,
    scales: np.ndarray,
) -> np.ndarray:
    """Errors of fast tokens over their tolerances, because slow tokens are not at the `assumed` positions."""
    errors = velocity_mismatch(problem, step, result, subcycle)
    if len(subcycle.pair):
        is_merged = np.isin(subcycle.rows, subcycle.pair)
        errors[is_merged] = _merged_pair_error(problem, partition, step, result.positions, subcycle.pair, assumed)
    return errors / scales[subcycle.rows]


def _merged_pair_error(
    problem: StepProblem,
    partition: Partition,
    step: float,
    positions: np.ndarray,
    pair: np.ndarray,
    assumed: np.ndarray,
) -> float:
    """Position error of a merged pair as one cluster: the mutual forces of the two would hide those of the others."""
    clusters = problem.clusters
    first, second = pair
    masses, positions = clusters.masses.copy(), positions.copy()
    masses[first] += masses[second]
    positions[first] = np.average(positions[pair], axis=0, weights=clusters.masses[pair])
    assumed = np.where(partition.slow[:, None], assumed, positions)
    rest = np.delete(np.arange(len(positions)), second)
    row = np.array([np.searchsorted(rest, first)])
    displacements = [
        problem.field.velocity(where[rest], masses[rest], row).displacement(problem.log_duration(step))
        for where in (positions, assumed)
    ]
    return float(error_norm(displacements[0] - displacements[1])[0]) / 2
