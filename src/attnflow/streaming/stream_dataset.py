"""The dataset of a run of `stream`: that of `simulate`, with the paths; and the paths out of it."""

import dataclasses
import json
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.model.attention import Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.results import outcome, records, run_dataset
from attnflow.results.run_arrays import RunArrays
from attnflow.solvers.status import Status
from attnflow.solvers.token_by_token import TokenByToken
from attnflow.streaming.token_paths import Paths

PIECES = ("piece_start", "piece_length", "piece_bend", "piece_series", "pieces")
WHY = {
    Status.OUT_OF_TIME: "the time budget was spent",
    Status.INTERRUPTED: "interrupted",
    Status.STEP_TOO_SMALL: "the next one's steps became too short",
    Status.OUT_OF_STEPS: "the next one takes too many steps",
    Status.NOT_FINITE: "the next one's scores have grown so large that their rounding decides whom it follows",
}
GOES_ON = (Status.OUT_OF_TIME, Status.INTERRUPTED)  # what is not the token's own doing


@dataclasses.dataclass(frozen=True)
class Ending:
    """How a run ended, and how exact it is."""

    status: Status
    rejected: int
    tolerance: float


def dataset(flow: AbstractDynamics, tokens: np.ndarray, times: np.ndarray, paths: Paths, ending: Ending) -> xr.Dataset:
    """The run of as many tokens as have paths."""
    asked, count = len(tokens), len(paths)
    flow, tokens = _shortened(flow, count, asked, ending), tokens[:count]
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
    lines = (
        outcome.sentences(results, ()) if ending.status == Status.REACHED else [_why_short(flow, ending, count, asked)]
    )
    run = run_dataset.labelled(results, times, tokens).assign(_variables(paths))
    return run.assign_attrs(_attributes(flow, times, ending.tolerance, lines))


def _attributes(flow: AbstractDynamics, times: np.ndarray, tolerance: float, lines: list[str]) -> dict[str, Any]:
    """Package version, outcome, and the arguments of `stream` from which `append` and `rerun` go on."""
    return {
        "kind": run_dataset.STREAM,
        "attnflow_version": version("attnflow"),
        "outcome": lines[0],
        "outcomes": json.dumps(lines),
        "flow": json.dumps(records.record(flow)),
        "solver": json.dumps(records.record(TokenByToken(tolerance))),
        "dtype": "float64",
        "requested_times": json.dumps(times.tolist()),
    }


def is_streamed(run: Any) -> bool:
    """Whether a dataset was made by `stream`; version 0.1.0 recorded it as one of `simulate` with pieces of paths."""
    kind = run.attrs.get("kind") if isinstance(run, xr.Dataset) else None
    return kind == run_dataset.STREAM or (kind == run_dataset.KIND and "piece_series" in run)


def arguments(run: xr.Dataset) -> dict[str, Any]:
    """Tokens, times and tolerance of the recorded run; the flow is `run_dataset.flow_of`.

    Version 0.1.0 recorded the tolerance as that of an adaptive solver.
    """
    times = np.array(json.loads(run.attrs["requested_times"]))
    tolerance = float(run_dataset.solver_of(run).rtol)
    return {"tokens": run.initial_tokens.values, "times": times, "tolerance": tolerance}


def paths_of(run: Any) -> Paths:
    """The paths in a dataset made by `stream`."""
    if not is_streamed(run) or not all(name in run for name in PIECES):
        found = "it has none" if isinstance(run, xr.Dataset) else f"it is of type {type(run).__name__}"
        raise InputError(f"`run` must be a dataset made by `stream`, with the pieces of its paths, but {found}.")
    first = np.concatenate([[0], np.cumsum(run.pieces.values.astype(int))])
    starts, lengths, bends, series = (np.ascontiguousarray(run[name].values, dtype=float) for name in PIECES[:-1])
    return Paths(starts, lengths, bends, series, first)


def extended(flow: AbstractDynamics, n: int) -> AbstractDynamics:
    """The flow with more tokens, of mass one and not frozen."""
    changes = {}
    for name, filler in (("masses", 1.0), ("frozen", False)):
        values = getattr(flow, name)
        if values is not None:
            values = np.asarray(values)
            changes[name] = np.concatenate([values, np.full(n - len(values), filler, values.dtype)])
    return dataclasses.replace(flow, **changes)


def _shortened(flow: AbstractDynamics, count: int, asked: int, ending: Ending) -> AbstractDynamics:
    """The flow of the first tokens alone."""
    if count == asked:
        return flow
    is_whole = isinstance(flow.attention, Unnormalised) or flow.mask.size() is not None
    if count == 0 or is_whole:
        raise InputError(
            f"`stream` came no farther than {count} of {asked} tokens: {_why(flow, ending)}. "
            + ("Their flow is made for all of them, so that there is no run of a part. " if count else "")
            + "Give it more time, an earlier end or a larger tolerance."
        )
    values = {name: getattr(flow, name) for name in ("masses", "frozen")}
    return dataclasses.replace(
        flow, **{name: np.asarray(one)[:count] for name, one in values.items() if one is not None}
    )


def _why(flow: AbstractDynamics, ending: Ending) -> str:
    can_run_away = ending.status == Status.STEP_TOO_SMALL and not flow.is_on_sphere
    return WHY[ending.status] + (
        ", as they do when it runs to infinity in finite time or beyond all floats" if can_run_away else ""
    )


def _why_short(flow: AbstractDynamics, ending: Ending, count: int, asked: int) -> str:
    goes_on = f"`append(run, tokens[{count}:])` goes on" if ending.status in GOES_ON else "use an earlier end"
    return f"Stopped after {count} of {asked} tokens: {_why(flow, ending)}. These have reached the end; {goes_on}."


def _variables(paths: Paths) -> dict:
    return {
        "piece_start": (("piece", "part"), paths.starts),
        "piece_length": (("piece",), paths.lengths),
        "piece_bend": (("piece",), paths.bends),
        "piece_series": (("piece", "degree", "coordinate"), paths.series),
        "pieces": (("token",), np.diff(paths.first)),
    }
