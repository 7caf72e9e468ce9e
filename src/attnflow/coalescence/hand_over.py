"""The start of `coalesce` from a finished run of `simulate`: its clusters as tokens of their mass.

Tokens of a group of radius r are replaced by their centre of mass. With a = beta |Q^T K| r the weight of a group in
any row is its mass times e^{beta <q, k>} at its centre times a factor between 1 and 1 + (e^a - 1 - a), since the terms
of first order cancel, and an attention output at a given place changes by at most (e^a - 1 - a) + (e^a - 1) r relative
to |V|, of the second order in r (as in `model.fast_sums.heavy_tokens`). Two more terms of the second order are not in
this bound: on the sphere the centre is moved by at most r^2 / 2 to length one, and the tokens of a group, which feel
different outputs, move with the one at their centre.

A chain of close tokens can be wide: tokens between two clusters, near an unstable equilibrium, connect them for a time
of order log n. A chain for which the bound exceeds `LARGEST_CHANGE` is divided into groups for which it does not:
clusters of many tokens, and of few or one where tokens are still on their way. All are leaves of the merge tree.
"""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import brentq

from attnflow._common.checks import InputError, require_positive_number
from attnflow.analyse import clusters
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.fast_sums.heavy_tokens import cells
from attnflow.results.provenance import ResultKind, flow_of, kind_of

USUAL_DISTANCE = 1e-3  # between tokens of one cluster: far below the distance of clusters, which is about beta^-1/2
LARGEST_CHANGE = 0.01  # of an attention output by the replacement, relative to |V|
MOST_LEAVES = 4000  # `coalesce` has n^2 terms a step: with more, simulate to a later time, at which there are fewer


@dataclasses.dataclass(frozen=True)
class HandOver:
    """Groups of the last tokens of a run."""

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
        """The clusters of the last tokens: chains of gaps of at most `distance`, divided where they are too wide."""
        distance = USUAL_DISTANCE if distance is None else distance
        require_positive_number(distance, "gather", "Use 1e-3.")
        flow, tokens, time = _last_state(run)
        leaves = _divided(tokens, clusters.labels(tokens, distance), _largest_radius(flow))
        masses = np.ones(len(tokens)) if flow.masses is None else np.asarray(flow.masses, float)
        if (count := int(leaves.max()) + 1) > MOST_LEAVES:
            raise InputError(
                f"`coalesce` starts from tokens that have gathered, at most {MOST_LEAVES} groups, but at t = {time:g} "
                f"there are {count} of them. Simulate to a later time."
            )
        total, positions = np.bincount(leaves, masses), _centres(tokens, leaves, masses)
        radius = float(np.linalg.norm(tokens - positions[leaves], axis=1).max())
        change = _change(flow, radius)
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


def _centres(tokens: np.ndarray, labels: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """The centre of mass of every group, on the sphere."""
    sums = np.stack([np.bincount(labels, masses * column) for column in tokens.T], axis=1)
    return sums / np.linalg.norm(sums, axis=1, keepdims=True)


def _largest_radius(flow: AbstractDynamics) -> float:
    """The radius of a group at which the bound on the change is `LARGEST_CHANGE`."""
    if _change(flow, 1.0) <= LARGEST_CHANGE:
        return 1.0
    above = 1.0
    while _change(flow, above / 2) > LARGEST_CHANGE:  # so that no exponential overflows at the end of the bracket
        above /= 2
    root: Any = brentq(lambda radius: _change(flow, radius) - LARGEST_CHANGE, 0.0, above)
    return float(root)


def _divided(tokens: np.ndarray, labels: np.ndarray, radius: float) -> np.ndarray:
    """Labels with every cluster that reaches farther than `radius` from its centre divided into smaller groups."""
    centres = _centres(tokens, labels, np.ones(len(tokens)))
    is_far = np.linalg.norm(tokens - centres[labels], axis=1) > radius
    is_wide = (np.bincount(labels, is_far) > 0)[labels]
    if not np.any(is_wide):
        return labels
    parts = _arcs(tokens[is_wide], radius) if tokens.shape[1] == 2 else cells(tokens[is_wide], radius / 2)
    # A part of one chain must not join a part of another: pairs of chain and part are numbered in their order.
    pairs = np.column_stack([labels, np.zeros(len(labels), int)])
    pairs[is_wide, 1] = parts
    return np.unique(pairs, axis=0, return_inverse=True)[1].ravel()


def _arcs(tokens: np.ndarray, length: float) -> np.ndarray:
    """The arc of every token on the circle: each begins at the first token after the one before, the first one after
    the widest gap.
    """
    angles = np.arctan2(tokens[:, 1], tokens[:, 0])
    order = np.argsort(angles)
    widest = int(np.argmax(np.diff(angles[order], append=angles[order[0]] + 2 * np.pi)))
    order = np.roll(order, -(widest + 1))
    turned = (angles[order] - angles[order[0]]) % (2 * np.pi)
    starts = [0]
    while (end := int(np.searchsorted(turned, turned[starts[-1]] + length, side="right"))) < len(turned):
        starts.append(end)
    arcs = np.empty(len(tokens), int)
    arcs[order] = np.searchsorted(starts, np.arange(len(tokens)), side="right") - 1
    return arcs


def _change(flow: AbstractDynamics, radius: float) -> float:
    head: Any = flow.heads[0]
    steepness = abs(flow.beta or 0.0) * float(np.linalg.norm(np.asarray(head.query_key), 2)) * radius
    with np.errstate(over="ignore"):
        slope = float(np.expm1(steepness))
    return slope - steepness + slope * radius
