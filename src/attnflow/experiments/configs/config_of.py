"""`config_of`: the settings from which a result can be computed again."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.experiments import scenarios
from attnflow.experiments.configs.config_files import parse_config
from attnflow.experiments.configs.prepared_run import PreparedRun, prepare
from attnflow.experiments.configs.run_config import RunConfig
from attnflow.experiments.configs.words_of_parts import model_values, observable_words, solver_values, stop_values
from attnflow.experiments.settings import Settings
from attnflow.integrate.request import DEFAULT_MEMORY
from attnflow.results import provenance, records, run_dataset
from attnflow.results.contents import require_contents
from attnflow.results.files import dataset_of
from attnflow.results.provenance import ResultKind
from attnflow.solvers.token_by_token import TokenByToken
from attnflow.streaming import stream_dataset

# Attributes of a run of `simulate` that hold its arguments, besides flow and seed.
SIMULATING = {"solver", "stop", "observables", "keep_tokens", "dtype", "memory", "requested_times"}


def config_of(run: xr.Dataset | str | os.PathLike) -> RunConfig:
    """The settings of the run in a dataset made by `simulate`, `coalesce` or `stream`, or in the file of one.

    A run of `RunConfig.run` or of the command line records its settings in words; they are given back if they describe
    the recorded model, tokens and times. Any other run is described by its matrices and tokens. What Python functions
    define, such as a `TimeDependentHead`, has no words and is refused.

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.simulate(af.EuclideanAttention(af.Head.identity(2)), np.eye(2), [0.0, 1.0])
    >>> config_of(run).values["start"]
    array([[1., 0.],
           [0., 1.]])
    >>> bool((config_of(run).run().tokens == run.tokens).all())
    True
    """
    found = dataset_of(run)
    require_contents(found, "the dataset")
    kind = provenance.kind_of(found)
    if kind is ResultKind.PROMPT:
        repeat = provenance.how_to_repeat_a_prompt(found)
        raise InputError(f"A prompt in a trained model has no file of settings. {repeat}")
    in_words = _in_words(found)
    if in_words is not None:
        return in_words
    of_kind: dict[Any, Callable[[xr.Dataset], dict[str, Any]]] = {
        ResultKind.COALESCENCE: _of_coalescence,
        ResultKind.STREAM: _of_stream,
    }
    flow = provenance.flow_of(found)
    values = model_values(flow) | of_kind.get(kind, _of_trajectory)(found)
    return RunConfig({"start": np.asarray(found.initial_tokens.values, dtype=np.float64)} | values)


def _in_words(run: xr.Dataset) -> RunConfig | None:
    """The recorded settings in words, or None if there are none or they describe another run."""
    text = run.attrs.get("settings")
    if text is None:
        return None
    try:
        config = parse_config(text)
        is_same = _describes(prepare(config), run)
    except InputError:  # a file of tokens may have been removed
        return None
    return config if is_same else None


def _describes(prepared: PreparedRun, run: xr.Dataset) -> bool:
    """Whether a prepared run has the recorded model, tokens and arguments."""
    if prepared.method == "simulate":
        request = prepared.simulating_request()
        made, names = run_dataset.attributes(request, "", [], ""), set(SIMULATING)
        names |= set() if request.flow.noise is None else {"seed"}  # nothing else is random
        tokens = request.tokens
    elif prepared.method == "coalesce":
        request = prepared.coalescing_request()
        limits = {name: prepared.arguments[name] for name in ("log_end", "shortcuts", "max_steps")}
        made = {"merge": request.merge, "rtol": request.rtol, "limits": json.dumps(limits)}
        names, tokens = set(made), request.tokens
    else:
        arguments = prepared.arguments
        times, solver = json.dumps(arguments["times"].tolist()), TokenByToken(arguments["tolerance"])
        made = {"requested_times": times, "solver": json.dumps(records.record(solver))}
        names, tokens = set(made), arguments["tokens"]
    made["flow"] = json.dumps(records.record(prepared.arguments["flow"]))
    is_same = all(made[name] == run.attrs[name] for name in {"flow", *names})
    return is_same and np.array_equal(tokens, run.initial_tokens.values)


def _of_trajectory(run: xr.Dataset) -> dict[str, Any]:
    arguments = run_dataset.recorded_arguments(run, {})
    values = _times(arguments["times"]) | solver_values(arguments["solver"]) | stop_values(arguments["stop"])
    if arguments["flow"].noise is not None:
        values["noise_seed"] = _seed(arguments["rng"])
    if arguments["observables"]:
        values["observables"] = observable_words(arguments["observables"])
    if not arguments["keep_tokens"]:
        values["keep_tokens"] = False
    if arguments["dtype"] == "float32":
        values["float32"] = True
    if arguments["memory"] != DEFAULT_MEMORY:
        values["memory"] = arguments["memory"]
    return values


def _times(times: np.ndarray) -> dict[str, Any]:
    """The end, number and spacing of the times, or all of them if no known spacing gives the same bits."""
    for spacing in scenarios.SPACINGS:
        if times[0] == 0 and times[-1] > 0:
            settings = replace(Settings(), end=float(times[-1]), saves=len(times), spacing=spacing)
            if np.array_equal(scenarios.times_of(settings), times):
                return {"end": settings.end, "saves": settings.saves, "spacing": spacing}
    return {"times": times}


def _seed(seed: np.random.SeedSequence) -> dict[str, Any]:
    """The seed as a table; entropy as text, since it may have more digits than an integer of TOML."""
    entropy: Any = seed.entropy
    words = [str(word) for word in entropy] if isinstance(entropy, list | tuple) else str(entropy)
    return {"entropy": words, "spawn_key": list(seed.spawn_key)}


def _of_coalescence(run: xr.Dataset) -> dict[str, Any]:
    limits: Mapping[str, Any] = json.loads(run.attrs["limits"])
    values = {"method": "coalesce", "merge": float(run.attrs["merge"]), "rtol": float(run.attrs["rtol"])}
    values |= {"shortcuts": limits["shortcuts"], "max_steps": limits["max_steps"]}
    return values | ({"log_end": limits["log_end"]} if np.isfinite(limits["log_end"]) else {})


def _of_stream(run: xr.Dataset) -> dict[str, Any]:
    arguments = stream_dataset.arguments(run)
    return {"method": "stream", "times": arguments["times"], "tolerance": arguments["tolerance"]}
