"""`extend`: a finished run of `simulate`, continued to later times."""

import json
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_times
from attnflow._common.progress import Progress
from attnflow.integrate.simulate import simulate
from attnflow.results import outcome
from attnflow.results.contents import require_contents
from attnflow.results.files import dataset_of
from attnflow.results.provenance import ResultKind, flow_of, how_to_repeat_a_prompt, kind_of
from attnflow.results.run_dataset import recorded_arguments
from attnflow.solvers.status import Status


def extend(source: Any, times: Any, *, progress: Progress = None) -> xr.Dataset:
    """Continue a finished run of `simulate` from its last state to later times.

    The result equals the run that goes through at once: to the tolerance for adaptive solvers, which choose their first
    step anew; bit for bit for fixed steps and layers, unless tokens have lengths (`Pre`, `Mix`, `Peri`), which are
    joined with their directions and taken apart again.

    Parameters
    ----------
    source
        A dataset made by `simulate`, or the path of a saved one.
    times
        Increasing times after the last one of the run.
    progress
        As for `simulate`.

    Returns
    -------
    The dataset of the whole run, with steps of both parts counted.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2))
    >>> run = af.simulate(flow, np.eye(2), [0.0, 1.0], solver=af.RK4(0.1))
    >>> longer = af.extend(run, [2.0, 3.0])
    >>> longer.equals(af.simulate(flow, np.eye(2), [0.0, 1.0, 2.0, 3.0], solver=af.RK4(0.1)))
    True
    """
    run = dataset_of(source)
    require_contents(run, "the dataset")
    require_finished(run)
    arguments = recorded_arguments(run, {})
    end = float(arguments["times"][-1])
    later = np.atleast_1d(np.asarray(times, dtype=np.float64))
    require_later(later, end)
    every = require_times(np.concatenate([arguments["times"], later]))
    tokens = run.final_tokens.values
    if "final_radius" in run:
        tokens = tokens * run.final_radius.values[..., None]
    rest = simulate(
        **arguments | {"tokens": tokens, "times": every[len(arguments["times"]) - 1 :], "progress": progress}
    )
    return _joined(run, rest, every, arguments["stop"])


def require_later(times: np.ndarray, end: float) -> None:
    """Raise InputError unless there are times and the first of them is after the end of a run."""
    if not len(times) or not times[0] > end:
        found = f"the first is {times[0]:g}" if len(times) else "there are none"
        raise InputError(f"`times` must begin after the end of the run, t = {end:g}, but {found}.")


def require_finished(run: xr.Dataset) -> None:
    """Raise InputError unless every run has reached its last time, and its continuation follows from its last state."""
    if kind_of(run) is ResultKind.PROMPT:
        raise InputError(f"A prompt ends with the last layer and cannot be extended. {how_to_repeat_a_prompt(run)}")
    if kind_of(run) is not ResultKind.TRAJECTORY:
        raise InputError("Only runs of `simulate` are extended. `rerun` repeats the others to another end.")
    if flow_of(run).noise is not None:
        raise InputError(
            "A run with noise cannot be extended, since its increments are counted from its start. Compute it again "
            "with `rerun(run, times=...)`: the part up to here is the same."
        )
    unfinished = np.ravel(run.status.values) != Status.REACHED
    if unfinished.any():
        raise InputError(
            f"Only runs that have reached their last time are extended, but {int(unfinished.sum())} of "
            f"{unfinished.size} ended before: {run.attrs['outcome']}"
        )


def _joined(run: xr.Dataset, rest: xr.Dataset, times: np.ndarray, stops: tuple) -> xr.Dataset:
    """One dataset of both parts; the first time of `rest` is the last one of `run`."""
    over_time = [name for name in rest.data_vars if "time" in rest[name].dims]
    both = {name: xr.concat([run[name], rest[name].isel(time=slice(1, None))], "time") for name in over_time}
    counts = {name: run[name] + rest[name] for name in ("steps", "rejected_steps")}
    kept = {"initial_tokens": run.initial_tokens, "drift": np.maximum(run.drift, rest.drift)}
    whole = rest.drop_dims("time").assign({name: values.transpose(*rest[name].dims) for name, values in both.items()})
    whole = whole.assign(counts | kept)
    status = np.ravel(whole.status.values)
    lengths = whole.final_radius.values if "final_radius" in whole else None
    radii = [None] * len(status) if lengths is None else list(lengths.reshape(len(status), -1))
    numbers = zip(status, np.ravel(whole.final_time.values), np.ravel(whole.steps.values), radii, strict=True)
    sentences = [outcome.simulation_sentence(int(s), float(t), int(k), stops, r) for s, t, k, r in numbers]
    attributes = {
        "outcome": outcome.summary(sentences, status),
        "outcomes": json.dumps(sentences),
        "requested_times": json.dumps(times.tolist()),
        "seed": run.attrs["seed"],
    }
    return whole.assign_attrs(rest.attrs | attributes)[[str(name) for name in rest.data_vars]]
