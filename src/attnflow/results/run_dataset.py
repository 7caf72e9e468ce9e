"""The result of a simulation: a labelled dataset that says how it was made, and its files."""

import json
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.results import records
from attnflow.results.outcome import failed
from attnflow.results.run_arrays import RunArrays

KIND, STREAM = "attnflow trajectory", "attnflow stream"
COALESCENCE, PROMPT = "attnflow coalescence", "attnflow prompt"
NEEDED = {  # attributes of each kind of result
    KIND: {"flow", "solver", "stop", "observables", "keep_tokens", "seed", "dtype", "requested_times"},
    STREAM: {"flow", "solver", "requested_times"},
    COALESCENCE: {"flow", "merge", "rtol", "limits"},
    PROMPT: {"model", "origin", "config", "dtype"},
}
AGAIN = {  # how the other kinds are made again
    PROMPT: "A prompt's way through a model is repeated by `models.load(run.origin).trajectory(run.id.values)`.",
}


@dataclass(frozen=True)
class Making:
    """How a dataset was made: what `rerun` needs besides tokens and times."""

    flow: Any
    solver: Any
    stop: tuple
    observables: dict
    keep_tokens: bool
    seed: np.random.SeedSequence
    dtype: str
    memory: float


def assemble(results: RunArrays, lines: list[str], times: np.ndarray, tokens: np.ndarray, made: Making) -> xr.Dataset:
    """The dataset of a run of `simulate`; `tokens` is what the user passed, (n, d) or (runs, n, d)."""
    return labelled(results, times, tokens).assign_attrs(_attributes(lines, times, made))


def labelled(results: RunArrays, times: np.ndarray, tokens: np.ndarray) -> xr.Dataset:
    """The arrays of finished runs with names and dimensions, without attributes."""
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
        "failed": (run, pick(failed(results.status))),
    }
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


def _attributes(lines: list[str], times: np.ndarray, made: Making) -> dict[str, Any]:
    return {
        "kind": KIND,
        "attnflow_version": version("attnflow"),
        "outcome": "",
        "outcomes": json.dumps(lines),
        "flow": json.dumps(records.record(made.flow)),
        "solver": json.dumps(records.record(made.solver)),
        "stop": json.dumps(records.record(made.stop)),
        "observables": json.dumps(records.record(made.observables)),
        "keep_tokens": int(made.keep_tokens),
        "seed": json.dumps({"entropy": _entropy(made.seed), "spawn_key": list(made.seed.spawn_key)}),
        "dtype": made.dtype,
        "memory": float(made.memory),
        "requested_times": json.dumps(times.tolist()),
    }


def _entropy(seed: np.random.SeedSequence) -> Any:
    words = [int(word) for word in np.atleast_1d(np.asarray(seed.entropy, dtype=object))]
    return words[0] if len(words) == 1 else words


def request(run: xr.Dataset, changes: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `simulate` that made a dataset, with some changed."""
    require_ours(run, "the dataset")
    if run.attrs["kind"] != KIND:
        raise InputError(AGAIN[run.attrs["kind"]])
    attributes = run.attrs
    asked = {"keep_tokens": bool(attributes["keep_tokens"]), "dtype": attributes["dtype"]}
    asked |= {"memory": attributes["memory"], "times": np.array(json.loads(attributes["requested_times"]))}
    asked |= {"tokens": run.initial_tokens.values, "rng": _seed(run)}
    for name in ("flow", "solver", "stop", "observables"):
        if name not in changes:
            asked[name] = records.restore(json.loads(attributes[name]), name)
    return asked | changes


def _seed(run: xr.Dataset) -> np.random.SeedSequence:
    """The recorded seed; one run taken out of an ensemble has the one spawned for it."""
    entry = json.loads(run.attrs["seed"])
    is_member = "run" in run.coords and "run" not in run.dims
    own = (int(run.run),) if is_member else ()
    return np.random.SeedSequence(entry["entropy"], spawn_key=(*entry["spawn_key"], *own))


def flow_of(run: xr.Dataset) -> Any:
    """The model recorded in a dataset."""
    return _restored(run, "flow")


def solver_of(run: xr.Dataset) -> Any:
    """The solver recorded in a dataset."""
    return _restored(run, "solver")


def _restored(run: xr.Dataset, name: str) -> Any:
    require_ours(run, "the dataset")
    if name not in run.attrs:
        again = AGAIN.get(run.attrs["kind"], "`rerun` repeats it.")
        raise InputError(f"The dataset was not made by `simulate`, so it has no {name}. {again}")
    return records.restore(json.loads(run.attrs[name]), name)


def require_ours(run: xr.Dataset, name: str) -> None:
    """Raise ValueError unless a dataset was made by attnflow: by a run or by a trained model."""
    is_ours = (
        isinstance(run, xr.Dataset)
        and run.attrs.get("kind") in NEEDED
        and NEEDED[run.attrs["kind"]] <= set(run.attrs)
        and "initial_tokens" in run
    )
    if not is_ours:
        raise InputError(
            f"{name} is not a whole result of attnflow: it lacks what `simulate` records. "
            "Pass a dataset made by `simulate` or written by `save`."
        )
