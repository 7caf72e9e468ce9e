"""The result of a simulation: a labelled dataset that says how it was made, and its files."""

import hashlib
import json
import os
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from attnflow import records
from attnflow._checks import InputError
from attnflow._files import require_free, written_beside
from attnflow.ensemble import Results
from attnflow.outcome import failed

KIND, COALESCENCE, PROMPT = "attnflow trajectory", "attnflow coalescence", "attnflow prompt"
NEEDED = {  # attributes of each kind of result
    KIND: {"flow", "solver", "stop", "observables", "keep_tokens", "seed", "dtype", "requested_times"},
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


def assemble(results: Results, lines: list[str], times: np.ndarray, tokens: np.ndarray, made: Making) -> xr.Dataset:
    """The dataset of some results; `tokens` is what the user passed, (n, d) or (runs, n, d)."""
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
    return xr.Dataset(variables, coordinates, _attributes(lines, times, made))


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


def save(run: xr.Dataset, path: str | os.PathLike, *, overwrite: bool = False) -> Path:
    """Write a dataset: Zarr, or netCDF if the name ends in ``.nc``. Returns the path.

    The file is written beside its final name and moved into place when it is whole.
    """
    path = require_free_result(path, overwrite=overwrite)
    require_ours(run, "`run`")
    stamped = run.assign_attrs(digest=_digest(run))
    try:
        with written_beside(path) as beside:
            if path.suffix == ".nc":
                stamped.to_netcdf(beside, engine="scipy")
            else:
                stamped.to_zarr(beside, mode="w", consolidated=False)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error}.") from error
    return path


def load(path: str | os.PathLike) -> xr.Dataset:
    """Read a dataset written by `save`, whole, into memory."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"There is no result file at {path}.")
    try:
        is_netcdf = path.is_file()
        opened = xr.open_dataset(path, engine="scipy") if is_netcdf else xr.open_zarr(path, consolidated=False)
        with opened:
            run = opened.load()
    except Exception as error:
        raise InputError(
            f"{path} cannot be read as a result file: it is damaged, or of another program ({type(error).__name__}). "
            "Make it again with `attnflow run`."
        ) from error
    require_ours(run, str(path))
    # A Zarr directory with a part missing reads as if zeros had been written there.
    if run.attrs.pop("digest", None) != _digest(run):
        raise InputError(
            f"{path} is damaged: its numbers are not those that were written. Make it again with `attnflow run`."
        )
    return run


def _digest(run: xr.Dataset) -> str:
    """A fingerprint of all numbers, whatever type a file format keeps them in."""
    fingerprint = hashlib.sha256()
    for name in sorted(map(str, run.variables)):
        values = run[name].values
        is_text = values.dtype.kind in "OSUT"
        content = json.dumps(values.tolist()).encode() if is_text else np.ascontiguousarray(values, "<f8").tobytes()
        fingerprint.update(f"{name} {values.shape}".encode() + content)
    return fingerprint.hexdigest()


def require_free_result(path: str | os.PathLike, *, overwrite: bool = False) -> Path:
    """A path that a result can be written to; a directory is replaced only if it is one."""
    path = Path(path)
    if path.suffix not in ("", ".zarr", ".nc"):
        raise InputError(
            f"A result is written as `.zarr` or `.nc`, but the path is {path}. Use {path.with_suffix('.zarr')}."
        )
    is_foreign = (path.is_dir() and not (path / "zarr.json").is_file()) or (path.is_file() and path.suffix != ".nc")
    if overwrite and is_foreign:
        raise InputError(f"{path} is not a result, and will not be overwritten. Choose another name.")
    return require_free(path, overwrite=overwrite)


def require_ours(run: xr.Dataset, name: str) -> None:
    """Raise ValueError unless a dataset was made by attnflow: by `simulate`, `coalesce` or a trained model."""
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
