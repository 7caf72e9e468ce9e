"""The result of `simulate` as a labelled dataset, and the arguments of `simulate` back out of it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.model.dynamics import AbstractDynamics
from attnflow.results.outcome import status_variables
from attnflow.results.provenance import (
    ResultKind,
    how_to_repeat_a_prompt,
    recorded,
    require_result,
    seed_of,
    stamp,
)
from attnflow.results.run_arrays import RunArrays
from attnflow.solvers.base import AbstractSolver
from attnflow.solvers.stopping import AbstractStop


@dataclass(frozen=True)
class Request:
    """The checked arguments of one call of `simulate`: what is computed, saved and recorded."""

    flow: AbstractDynamics
    tokens: np.ndarray
    """First tokens, (n, d) or (runs, n, d)."""
    times: np.ndarray
    solver: AbstractSolver
    stops: tuple[AbstractStop, ...]
    observables: Mapping[str, Callable]
    keep_tokens: bool
    seed: np.random.SeedSequence
    dtype: str
    memory: float
    """Bytes that the computation may use besides its result."""
    first_run: int = 0
    """The number of the first run, where these runs are a part of a larger ensemble with the same seed."""
    runs_per_call: int | None = None
    """Runs that are computed together, where memory allows it; None: as suits their number."""

    @property
    def is_ensemble(self) -> bool:
        """Whether the tokens have an axis of runs, possibly of length one."""
        return self.tokens.ndim == 3


def attributes(request: Request, outcome: str, outcomes: list[str], computed_by: str) -> dict[str, Any]:
    """The provenance of a run of `simulate`; `outcome` is one sentence for all runs, `outcomes` has one for each.

    `computed_by` names the path taken: native runs, or programs compiled by XLA, and why.
    """
    return stamp(
        ResultKind.TRAJECTORY,
        outcome,
        outcomes=outcomes,
        flow=request.flow,
        solver=request.solver,
        stop=request.stops,
        observables=dict(request.observables),
        keep_tokens=request.keep_tokens,
        seed=request.seed,
        dtype=request.dtype,
        memory=float(request.memory),
        requested_times=request.times,
        computed_by=computed_by,
    )


def labelled(results: RunArrays, times: np.ndarray, tokens: np.ndarray) -> xr.Dataset:
    """The arrays of finished runs with names and dimensions, without attributes.

    `tokens` are the first tokens: shape (n, d) gives a dataset of one run, (runs, n, d) an ensemble.
    """
    run = ("run",) if tokens.ndim == 3 else ()
    pick = (lambda values: values) if run else (lambda values: values[0])
    count = int(np.searchsorted(times, np.max(results.time), side="right"))
    per_token = (*run, "token", "coordinate")
    variables: dict[str, Any] = {
        name: (_dimensions(name, values, run), pick(values[:, :count])) for name, values in results.saved.items()
    }
    variables |= {
        "initial_tokens": (per_token, tokens),
        "final_tokens": (per_token, pick(results.tokens)),
        "final_time": (run, pick(results.time)),
        "steps": (run, pick(results.accepted)),
        "rejected_steps": (run, pick(results.rejected)),
        "drift": (run, pick(results.drift)),
    } | status_variables(np.asarray(pick(results.status)), run)
    if results.radii is not None:
        variables["final_radius"] = ((*run, "token"), pick(results.radii))
    coordinates: dict[str, Any] = {"time": times[:count]}
    if run:
        coordinates["run"] = np.arange(len(tokens))
    return xr.Dataset(variables, coordinates)


def _dimensions(name: str, values: np.ndarray, run: tuple) -> tuple[str, ...]:
    known = {"tokens": ("token", "coordinate"), "radius": ("token",)}
    own = known.get(name, tuple(f"{name}_{axis}" for axis in range(values.ndim - 2)))
    return (*run, "time", *own)


def recorded_arguments(run: xr.Dataset, changes: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `simulate` that made a dataset, with some changed."""
    kind = require_result(run, "the dataset")
    if kind is ResultKind.PROMPT:
        raise InputError(how_to_repeat_a_prompt(run))
    arguments = {
        "tokens": run.initial_tokens.values,
        "times": np.array(json.loads(run.attrs["requested_times"])),
        "keep_tokens": bool(run.attrs["keep_tokens"]),
        "dtype": run.attrs["dtype"],
        "memory": run.attrs["memory"],
        "rng": seed_of(run),
    }
    kept = [name for name in ("flow", "solver", "stop", "observables") if name not in changes]
    return arguments | {name: recorded(run, name) for name in kept} | changes
