"""One step of all clusters with one step size: Dormand and Prince's DP5(4), or the trapezoidal rule for slow tokens.

Slow tokens are advanced in one of two ways. *Staged* tokens have the six stages of DP5(4); their error is the embedded
estimate. *Trapezoidal* tokens move along straight lines through the stages and at the mean of their first and last
velocity over the step; their error is half the change of velocity times the duration, which is the difference of the
trapezoidal and the Euler step. Fast tokens are at positions that subcycling has computed before (`subcycling`).
"""

import functools
from typing import NamedTuple

import numpy as np
from scipy.integrate import RK45

from attnflow.coalescence.cluster_state import Clusters
from attnflow.coalescence.log_field import LogField, ScaledVelocity
from attnflow.coalescence.subcycling import Subcycle
from attnflow.coalescence.time_change import TimeChange

# The tableau. The last stage is the end of the step, whose velocity is the first one of the next step.
STAGES = (*(RK45.A[stage, :stage] for stage in range(1, 6)), RK45.B)
NODES = (*RK45.C[1:].tolist(), 1.0)
ERROR_WEIGHTS = RK45.E

# Positions of fast tokens are computed at the distinct nodes and at one more, near the middle of the widest interval
# without a stage, from 0.3 to 0.8.
EXTRA_NODE = 0.55
PATH_NODES = (*NODES[:2], EXTRA_NODE, *NODES[2:5])
PATH_NODE_OF_STAGE = (0, 1, 3, 4, 5, 5)


@functools.cache
def quadrature_weights() -> np.ndarray:
    """Weights of the interpolatory quadrature with the nodes 0 and PATH_NODES on [0, 1]."""
    nodes = np.array([0.0, *PATH_NODES])
    return np.linalg.solve(np.vander(nodes, increasing=True).T, 1 / np.arange(1, len(nodes) + 1))


@functools.cache
def defect_weights() -> np.ndarray:
    """Quadrature weights on all nodes minus those of the DP5 stages."""
    return quadrature_weights() - np.insert(STAGES[-1], 1 + PATH_NODES.index(EXTRA_NODE), 0.0)


@functools.lru_cache(maxsize=8)
def stage_times(time_change: TimeChange, step: float) -> np.ndarray:
    """Times of PATH_NODES as shares of the duration of a step."""
    return np.array([time_change.duration(node * step) for node in PATH_NODES]) / time_change.duration(step)


def error_norm(errors: np.ndarray) -> np.ndarray:
    """The norm of the position error of each token, which is compared with its tolerance: the largest coordinate."""
    return np.abs(errors).max(axis=1, initial=0.0)


class StepResult(NamedTuple):
    """Positions after a step, before projection to the sphere; the errors of slow tokens; the velocity there."""

    positions: np.ndarray
    errors: np.ndarray
    velocity: ScaledVelocity


def dormand_prince(
    field: LogField,
    clusters: Clusters,
    velocity: ScaledVelocity,
    rate: float,
    time_change: TimeChange,
    step: float,
    staged: np.ndarray,
    subcycle: Subcycle,
) -> StepResult:
    """Advance all clusters by `step`, in units of 1 / rate under the time change.

    `staged` marks the tokens with all stages; fast tokens are on the paths of `subcycle`.
    """
    # Equations of a step: dx/du = (v / rate) e^{-g(u)} with e^log_scale of the first velocity taken out of v.
    rows, start = np.flatnonzero(staged), clusters.positions
    slope = velocity.mantissa / rate
    slope[subcycle.rows] = 0.0
    slopes = np.empty((len(STAGES) + 1, len(rows), start.shape[1]))
    slopes[0] = slope[rows]
    current, positions, growth = velocity, start, 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # a step far too long is rejected for its error
        for stage, (node, weights) in enumerate(zip(NODES, STAGES, strict=True)):
            positions = start + time_change.duration(node * step) * slope
            positions[rows] = start[rows] + step * np.tensordot(weights, slopes[: len(weights)], 1)
            if len(subcycle.rows):
                positions[subcycle.rows] = subcycle.paths[PATH_NODE_OF_STAGE[stage]]
            is_last = stage == len(STAGES) - 1
            current = field.velocity(positions, clusters.masses, None if is_last else rows)
            growth = current.log_scale - velocity.log_scale
            mantissa = current.mantissa[rows] if is_last else current.mantissa
            slopes[stage + 1] = mantissa * (np.exp(growth - time_change.log_growth(node * step)) / rate)
        # Trapezoidal minus Euler step: (v_end - v_start) duration / 2.
        change = (np.exp(growth) / rate * current.mantissa - slope) * (time_change.duration(step) / 2)
        errors = error_norm(change)
        errors[rows] = error_norm(step * np.tensordot(ERROR_WEIGHTS, slopes, 1))
        change[rows] = change[subcycle.rows] = 0.0
    return StepResult(positions + change, errors, current)
