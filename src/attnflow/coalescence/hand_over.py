"""The start of `coalesce` from a finished run of `simulate`: its clusters as tokens of their mass.

Tokens of a cluster of radius r are replaced by their centre of mass. With a = beta |Q^T K| r the attention output of
any token changes by at most (e^a - 1 - a) + (e^a - 1) r relative to |V|, of the second order in r (as in
`model.fast_sums.heavy_tokens`), while forces between clusters keep all their digits.
"""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_positive_number
from attnflow.analyse import clusters
from attnflow.model.dynamics import AbstractDynamics
from attnflow.results.provenance import ResultKind, flow_of, kind_of

USUAL_DISTANCE = 1e-3  # between tokens of one cluster: far below the distance of clusters, which is about beta^-1/2
LARGEST_CHANGE = 0.01  # of an attention output by the replacement, relative to |V|


@dataclasses.dataclass(frozen=True)
class HandOver:
    """Clusters of the last tokens of a run."""

    flow: AbstractDynamics
    """The flow of the run, with the masses of the clusters."""
    positions: np.ndarray
    leaves: np.ndarray
    """The cluster of every token of the run."""
    log_time: float
    """The logarithm of the time since the start of the run."""
    radius: float
    """The largest distance of a token from the centre of its cluster."""
    change: float
    """The bound on the relative change of an attention output."""

    @classmethod
    def of(cls, run: Any, distance: float | None) -> "HandOver":
        """The clusters of the last tokens; tokens in a chain of gaps of at most `distance` are one cluster."""
        distance = USUAL_DISTANCE if distance is None else distance
        require_positive_number(distance, "gather", "Use 1e-3.")
        flow, tokens, time = _last_state(run)
        leaves = clusters.labels(tokens, distance)
        masses = np.ones(len(tokens)) if flow.masses is None else np.asarray(flow.masses, float)
        total = np.bincount(leaves, masses)
        centres = np.stack([np.bincount(leaves, masses * column) / total for column in tokens.T], axis=1)
        positions = centres / np.linalg.norm(centres, axis=1, keepdims=True)
        radius = float(np.linalg.norm(tokens - positions[leaves], axis=1).max())
        change = _change(flow, radius)
        if not change <= LARGEST_CHANGE:
            raise InputError(
                f"`coalesce` starts from tokens that have gathered, but at t = {time:g} a cluster has the radius "
                f"{radius:.2g}, which changes velocities by up to {change:.2g}. Simulate to a later time."
            )
        massive = dataclasses.replace(flow, masses=total, summation=None)
        return cls(massive, positions, leaves, float(np.log(time)), radius, change)


def _last_state(run: Any) -> tuple[AbstractDynamics, np.ndarray, float]:
    """The flow, the last tokens, and the time since the start of one run of `simulate`."""
    if not isinstance(run, xr.Dataset) or kind_of(run) is not ResultKind.TRAJECTORY:
        raise InputError("`coalesce` takes a flow and tokens, or a run of `simulate`. Pass one of these.")
    if "run" in run.dims:
        raise InputError(f"`coalesce` takes one run, but there are {run.sizes['run']}. Use `run.isel(run=0)`.")
    time = float(run.final_time) - float(run.time[0])
    if not time > 0 or bool(run.failed):
        raise InputError("`coalesce` needs a run that made steps and did not fail. Simulate it again.")
    return flow_of(run), np.asarray(run.final_tokens.values, float), time


def _change(flow: AbstractDynamics, radius: float) -> float:
    head: Any = flow.heads[0]
    steepness = abs(flow.beta or 0.0) * float(np.linalg.norm(np.asarray(head.query_key), 2)) * radius
    with np.errstate(over="ignore"):
        slope = float(np.expm1(steepness))
    return slope - steepness + slope * radius
