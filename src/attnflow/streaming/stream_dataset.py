"""The dataset of a run of `stream`: tokens at the saved times and their paths; reading paths and arguments back."""

import dataclasses
import json
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.model.attention import Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.results import outcome, provenance, run_dataset
from attnflow.results.provenance import ResultKind, kind_of
from attnflow.results.run_arrays import RunArrays
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.status import Status
from attnflow.solvers.token_by_token import TokenByToken
from attnflow.streaming.token_paths import TokenPaths

PIECES = ("piece_start", "piece_length", "piece_log_compression", "piece_series", "pieces")


@dataclasses.dataclass(frozen=True)
class StreamEnding:
    """Why a run ended, its number of rejected steps, and its tolerance."""

    status: Status
    rejected: int
    tolerance: float


def dataset(
    flow: AbstractDynamics, tokens: np.ndarray, times: np.ndarray, paths: TokenPaths, ending: StreamEnding
) -> xr.Dataset:
    """The dataset of the tokens that have paths, which may be fewer than `tokens`."""
    given, count = len(tokens), len(paths)
    flow, tokens = _restricted(flow, count, given, ending), tokens[:count]
    saved, drift = paths.at(times), 0.0
    if flow.is_on_sphere:
        norms = np.linalg.norm(saved, axis=-1, keepdims=True)
        saved, drift = saved / norms, float(np.abs(norms - 1).max())
    results = RunArrays(
        saved={"tokens": saved[None]},
        status=np.array([ending.status]),
        time=times[-1:],
        tokens=saved[None, -1],
        accepted=np.array([len(paths.lengths)]),
        rejected=np.array([ending.rejected]),
        drift=np.array([drift]),
    )
    is_whole = ending.status == Status.REACHED
    lines = outcome.sentences(results, ()) if is_whole else [_shortened_sentence(flow, ending, count, given)]
    run = run_dataset.labelled(results, times, tokens).assign(_variables(paths))
    return run.assign_attrs(_attributes(flow, times, ending.tolerance, lines))


def _attributes(flow: AbstractDynamics, times: np.ndarray, tolerance: float, lines: list[str]) -> dict[str, Any]:
    """Package version, outcome, and the arguments of `stream` that `append` and `rerun` need."""
    return provenance.stamp(
        ResultKind.STREAM,
        lines[0],
        outcomes=lines,
        flow=flow,
        solver=TokenByToken(tolerance),
        dtype="float64",
        requested_times=times,
    )


def is_streamed(run: Any) -> bool:
    """Whether a dataset was made by `stream`."""
    return kind_of(run) is ResultKind.STREAM


def arguments(run: xr.Dataset) -> dict[str, Any]:
    """Tokens, times and tolerance of the recorded run; the flow is `provenance.flow_of`.

    Version 0.1.0 recorded the tolerance as that of an adaptive solver.
    """
    times = np.array(json.loads(run.attrs["requested_times"]))
    solver = provenance.solver_of(run)
    if not isinstance(solver, TokenByToken | Adaptive):
        found = type(solver).__name__
        raise InputError(f"The solver of a streamed run must be TokenByToken, but the dataset records {found}.")
    return {"tokens": run.initial_tokens.values, "times": times, "tolerance": float(solver.rtol)}


def paths_of(run: Any) -> TokenPaths:
    """The paths in a dataset made by `stream`."""
    if not is_streamed(run) or not all(name in run for name in PIECES):
        found = "it has none" if isinstance(run, xr.Dataset) else f"it is of type {type(run).__name__}"
        raise InputError(f"`run` must be a dataset made by `stream`, with the pieces of its paths, but {found}.")
    first = np.concatenate([[0], np.cumsum(run.pieces.values.astype(int))])
    return TokenPaths(*(np.ascontiguousarray(run[name].values, dtype=float) for name in PIECES[:-1]), first=first)


def extended(flow: AbstractDynamics, n: int) -> AbstractDynamics:
    """The flow with more tokens, of mass one and not frozen."""
    changes = {}
    for name, filler in (("masses", 1.0), ("frozen", False)):
        values = getattr(flow, name)
        if values is not None:
            values = np.asarray(values)
            changes[name] = np.concatenate([values, np.full(n - len(values), filler, values.dtype)])
    return dataclasses.replace(flow, **changes)


def _restricted(flow: AbstractDynamics, count: int, given: int, ending: StreamEnding) -> AbstractDynamics:
    """The flow of the first `count` tokens; raises where it is defined for all tokens only."""
    if count == given:
        return flow
    needs_all = isinstance(flow.attention, Unnormalised) or flow.mask.size() is not None
    if count == 0 or needs_all:
        raise InputError(
            f"`stream` solved for {count} of {given} tokens only: "
            f"{outcome.CAUSES[ResultKind.STREAM][ending.status]}{_divergence(flow, ending)}. "
            + ("The flow is defined for all of them, so that there is no run of a part. " if count else "")
            + "Use a larger budget, an earlier end or a larger tolerance."
        )
    values = {name: getattr(flow, name) for name in ("masses", "frozen")}
    return dataclasses.replace(
        flow, **{name: np.asarray(value)[:count] for name, value in values.items() if value is not None}
    )


def _divergence(flow: AbstractDynamics, ending: StreamEnding) -> str:
    """The reason for short steps that only tokens in R^d can have, as a clause."""
    may_diverge = ending.status == Status.STEP_TOO_SMALL and not flow.is_on_sphere
    return ", as they do when it reaches infinity in finite time or leaves the range of floats" if may_diverge else ""


def _shortened_sentence(flow: AbstractDynamics, ending: StreamEnding, count: int, given: int) -> str:
    """The outcome of a run with fewer tokens than were given."""
    can_continue = ending.status in (Status.OUT_OF_TIME, Status.INTERRUPTED)
    advice = f"`append(run, tokens[{count}:])` adds the others" if can_continue else "use an earlier end"
    place, further = (
        f"after {count} of {given} tokens, which have reached the end",
        f"{_divergence(flow, ending)}; {advice}",
    )
    return outcome.early_ending(ResultKind.STREAM, ending.status, place, further)


def _variables(paths: TokenPaths) -> dict[str, Any]:
    return {
        "piece_start": (("piece", "component"), paths.starts),
        "piece_length": (("piece",), paths.lengths),
        "piece_log_compression": (("piece",), paths.log_compressions),
        "piece_series": (("piece", "degree", "coordinate"), paths.series),
        "pieces": (("token",), np.diff(paths.first)),
    }
