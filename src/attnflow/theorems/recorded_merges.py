"""Whether the merges of a run of `coalesce` follow its flow, by repeating the plateaus before some of them."""

import dataclasses
import json

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.coalescence.coalesce import coalesce
from attnflow.model.dynamics import AbstractDynamics
from attnflow.theorems.hypotheses import beta_of
from attnflow.theorems.verdict import Agreement, at_most, is_true

MAX_PLATEAUS = 3  # repeated: the first, the last and the one in the middle
SHORTEST_PLATEAU = 0.1  # in log t; of a shorter one the saved logarithms of times do not give the duration


def merges_follow(flow: AbstractDynamics, run: xr.Dataset) -> Agreement:
    """Whether some plateaus, repeated from their first states, end in a merge at the recorded time."""
    says = "the merges follow the flow"
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
    plateaus = _plateaus(run)
    if not plateaus:
        return Agreement(is_true(says, True), "no plateau is long enough to compare merges with the flow")
    chosen = sorted({0, len(plateaus) // 2, len(plateaus) - 1})[:MAX_PLATEAUS]
    shares = [_share_of_tolerance(flow, run, *plateaus[place]) for place in chosen]
    return Agreement(at_most(says, max(shares), 1.0, "times the tolerance of the comparison"))


def _plateaus(run: xr.Dataset) -> list[tuple[int, float]]:
    """For every merge after a plateau: the index of the plateau's first state, and the merge's log t."""
    log_times, clusters, merges = run.log_time.values, run.clusters.values, run.merge_log_time.values
    n = int(clusters[0])
    found = []
    for place, merge in enumerate(merges):
        states = np.flatnonzero((clusters == n - place) & (log_times < merge - SHORTEST_PLATEAU))
        if len(states):
            found.append((int(states[0]), float(merge)))
    return found


def _share_of_tolerance(flow: AbstractDynamics, run: xr.Dataset, state: int, merge: float) -> float:
    """The error of log t of the merge over ten times the error that `coalesce` states; infinity without a merge."""
    tokens, elapsed = run.tokens.values[state].astype(float), float(run.log_time[state])
    duration = merge + np.log1p(-np.exp(elapsed - merge))  # log(e^merge - e^elapsed)
    distance, rtol = float(run.attrs["merge"]), float(run.attrs["rtol"])
    # `coalesce` states an error of beta (rtol + merge) in log t, and of 1e4 rtol in t for fast merges.
    tolerance = 10 * (max(abs(beta_of(flow)), 1.0) * (rtol + distance) + 1e4 * rtol * np.exp(-max(duration, 0.0)))
    places, members = np.unique(tokens, axis=0, return_inverse=True)
    masses = np.ones(len(tokens)) if flow.masses is None else np.asarray(flow.masses, dtype=float)
    clusters = dataclasses.replace(flow, masses=np.bincount(members.ravel(), masses))
    limits = json.loads(run.attrs["limits"])
    try:
        again = coalesce(
            clusters,
            places,
            log_end=duration + 2 * tolerance,
            merge=distance,
            rtol=rtol,
            shortcuts=bool(limits["shortcuts"]),
            max_steps=limits["max_steps"],
            progress=False,
        )
    except InputError:  # such as tokens off the sphere
        return np.inf
    if not again.sizes["merge"]:
        return np.inf
    return abs(float(again.merge_log_time[0]) - duration) / tolerance
