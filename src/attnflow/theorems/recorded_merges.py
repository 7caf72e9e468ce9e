"""Whether the saved states of a run of `coalesce` follow its flow: each is compared with the run from the one before.

A token that is displaced by a hundredth of the radius at one saved state is found, whatever the size of its cluster.
Intervals are left out where no tokens merge in the next one: a token that is displaced at the end of the first is
displaced at the end of the second. The repetition of the others begins with short steps; it takes about three times the
steps of the run, and ends at four times and a hundred more. Intervals left then are counted as undecided.
"""

import dataclasses
import json

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.coalescence.coalesce import coalesce
from attnflow.model.dynamics import AbstractDynamics
from attnflow.theorems.hypotheses import beta_of
from attnflow.theorems.interval_integration import attempts_of
from attnflow.theorems.verdict import Agreement, at_most, is_true

LARGEST_DISTANCE = 1e-3  # of a token from its place when the interval is repeated; places are 1e-6 or less apart


def merges_follow(flow: AbstractDynamics, run: xr.Dataset) -> Agreement:
    """Whether every saved state is reached from the one before, with the merges in between at their times."""
    states, log_times = run.tokens.values.astype(float), run.log_time.values
    apart = float(np.abs(states[0] - run.initial_tokens.values).max()) if np.isneginf(log_times[0]) else 0.0
    start = at_most("the first tokens are those of the first state", apart, 1e-9)
    if not start.holds:
        return Agreement(start)
    if not np.all(np.diff(log_times) >= 0) or not np.all(np.diff(run.merge_log_time.values) >= 0):
        return Agreement(is_true("increasing saved times", False))
    places = np.array([len(np.unique(state, axis=0)) for state in states])
    if not np.array_equal(places, run.clusters.values):
        wrong = int(np.argmax(places != run.clusters.values))
        return Agreement(is_true(f"as many places of tokens as clusters (not in state {wrong})", False))
    return _compared(flow, run)


def _compared(flow: AbstractDynamics, run: xr.Dataset) -> Agreement:
    """The worst agreement of the chosen intervals, up to the first that does not agree or the last step allowed."""
    chosen, shares, left = _chosen(run.clusters.values), [], 4 * attempts_of(run) + 100
    for index in chosen:
        if left <= 0 or max(shares, default=0.0) > 1:
            break
        share, attempts = _share_of_tolerance(flow, run, index)
        shares, left = [*shares, share], left - attempts
    says, undecided = "the merges follow the flow", len(chosen) - len(shares)
    says += f" ({undecided} of {len(chosen)} intervals undecided)" if left <= 0 and undecided else ""
    return Agreement(at_most(says, max(shares, default=0.0), 1.0, "times the tolerance of the comparison"))


def _chosen(clusters: np.ndarray) -> list[int]:
    """Every other interval, the intervals before one with merges, and the last: every state is an end of one."""
    last = len(clusters) - 2
    return [k for k in range(last + 1) if k % 2 == 0 or k == last or clusters[k + 2] < clusters[k + 1]]


def _share_of_tolerance(flow: AbstractDynamics, run: xr.Dataset, index: int) -> tuple[float, int]:
    """The largest difference at the end of an interval between saved states over its tolerance, and attempted steps.

    Tokens are compared at the recorded time. Where they differ and tokens merge, they are compared at both ends of the
    error of the time of a merge as well, and may differ by as much as they move in between.
    """
    saved, (start, end) = run.tokens.values[index + 1].astype(float), run.log_time.values[index : index + 2]
    error, merges = _log_time_error(flow, run, end), run.merge_log_time.values
    merges = merges[(merges > start) & (merges <= end)]
    try:
        exact = _repeated(flow, run, index, end)
        near = np.linalg.norm(exact.tokens - saved, axis=1)
        if near.max() <= LARGEST_DISTANCE and len(exact.merges) == len(merges):
            return max(near.max() / LARGEST_DISTANCE, _largest(exact.merges - merges) / error), exact.attempts
        early, late = (_repeated(flow, run, index, end + shift) for shift in (-error, error))
    except InputError:  # no run can begin at the saved tokens, such as off the sphere
        return np.inf, 0
    attempts = exact.attempts + early.attempts + late.attempts
    if len(late.merges) < len(merges):
        return np.inf, attempts
    if not len(late.merges):
        return float(near.max()) / LARGEST_DISTANCE, attempts
    nearest = np.min([np.linalg.norm(one.tokens - saved, axis=1) for one in (early, exact, late)], axis=0)
    allowed = LARGEST_DISTANCE + np.linalg.norm(late.tokens - early.tokens, axis=1)
    return max(float((nearest / allowed).max()), _largest(late.merges[: len(merges)] - merges) / error), attempts


def _largest(differences: np.ndarray) -> float:
    return float(np.abs(differences).max()) if len(differences) else 0.0


def _log_time_error(flow: AbstractDynamics, run: xr.Dataset, end: float) -> float:
    """Ten times the error that `coalesce` states: beta (rtol + merge) in log t, and 1e4 rtol in t for fast merges."""
    distance, rtol = float(run.attrs["merge"]), float(run.attrs["rtol"])
    return 10 * (max(abs(beta_of(flow)), 1.0) * (rtol + distance) + 1e4 * rtol * np.exp(-max(end, 0.0)))


@dataclasses.dataclass(frozen=True)
class _Repeated:
    """All tokens at the end of a repeated interval, log t of the merges in it, and the attempted steps."""

    tokens: np.ndarray
    merges: np.ndarray
    attempts: int


def _repeated(flow: AbstractDynamics, run: xr.Dataset, index: int, end: float) -> _Repeated:
    """The run from a saved state to a log time."""
    tokens, start = run.tokens.values[index].astype(float), float(run.log_time[index])
    places, members = np.unique(tokens, axis=0, return_inverse=True)
    if end <= start or len(places) == 1:  # nothing moves
        return _Repeated(tokens, np.empty(0), 0)
    masses = np.ones(len(tokens)) if flow.masses is None else np.asarray(flow.masses, dtype=float)
    limits = json.loads(run.attrs["limits"])
    again = coalesce(
        dataclasses.replace(flow, masses=np.bincount(members.ravel(), masses)),
        places,
        log_end=end + np.log1p(-np.exp(start - end)),  # log(e^end - e^start)
        merge=float(run.attrs["merge"]),
        rtol=float(run.attrs["rtol"]),
        shortcuts=bool(limits["shortcuts"]),
        max_steps=limits["max_steps"],
        progress=False,
    )
    merges = np.logaddexp(start, again.merge_log_time.values)
    return _Repeated(again.tokens.values[-1][members.ravel()], merges, attempts_of(again))
