"""What a result records of its making: its kind, the package version, the outcome, the model and the settings."""

import enum
import json
import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.model.dynamics import AbstractDynamics
from attnflow.results import records
from attnflow.solvers.base import AbstractSolver
from attnflow.solvers.stopping import AbstractStop
from attnflow.solvers.token_by_token import TokenByToken


class ResultKind(enum.StrEnum):
    """The function that makes a dataset; the value is the text of the attribute `kind` in files."""

    TRAJECTORY = "attnflow trajectory"
    """`simulate`"""
    STREAM = "attnflow stream"
    """`stream` and `append`"""
    COALESCENCE = "attnflow coalescence"
    """`coalesce`"""
    PROMPT = "attnflow prompt"
    """`trajectory` of a trained model"""
    DENSITY = "attnflow density"
    """`mean_field.evolve`"""


REQUIRED_ATTRIBUTES = {
    ResultKind.TRAJECTORY: {
        *("flow", "solver", "stop", "observables", "keep_tokens", "seed", "dtype", "requested_times")
    },
    ResultKind.STREAM: {"flow", "solver", "requested_times"},
    ResultKind.COALESCENCE: {"flow", "merge", "rtol", "limits"},
    ResultKind.PROMPT: {"model", "origin", "config", "dtype"},
    ResultKind.DENSITY: {"flow", "requested_times", "rtol", "modes", "max_modes"},
}
FIRST_STATES = dict.fromkeys(ResultKind, "initial_tokens") | {ResultKind.DENSITY: "density"}
"""The variable that holds the first state, by kind."""

STUDY = "attnflow study"
"""The kind of the dataset of `trained.study`, which is no result of one run."""

IN_MEMORY = "model in memory"
"""The origin of a model that `models.from_arrays` made."""


def stamp(kind: ResultKind, outcome: str, **settings: Any) -> dict[str, Any]:
    """The attributes of a result: kind, package version, outcome in a sentence, and every setting that acted.

    Numbers and text stay as they are, since every file format holds them; models, arrays and seeds become JSON.
    """
    origin = {"kind": kind.value, "attnflow_version": version("attnflow"), "outcome": outcome}
    return origin | {name: _as_attribute(value) for name, value in settings.items()}


def kind_of(run: Any) -> ResultKind | None:
    """The kind of a dataset, or None if attnflow did not make it.

    Version 0.1.0 recorded a streamed run as a trajectory with the pieces of its paths.
    """
    text = run.attrs.get("kind") if isinstance(run, xr.Dataset) else None
    kind = next((kind for kind in ResultKind if isinstance(text, str) and kind.value == text), None)
    return ResultKind.STREAM if kind is ResultKind.TRAJECTORY and "piece_series" in run else kind


def require_result(run: Any, name: str) -> ResultKind:
    """The kind of a dataset that is a complete result with tokens; any other raises ValueError."""
    kind = require_complete(run, name)
    if kind is ResultKind.DENSITY:
        raise InputError(
            f"{name} holds a density made by `mean_field.evolve`, but tokens are needed here. `attnflow show` and "
            "`show.density` draw it."
        )
    require_known_axes(run.initial_tokens, name)
    return kind


def require_known_axes(tokens: xr.DataArray, name: str) -> None:
    """Require tokens without axes that no result has, such as one along which a user has joined results."""
    unknown = [str(axis) for axis in tokens.dims if axis not in ("run", "time", "state", "token", "coordinate")]
    if unknown and {"token", "coordinate"} <= set(tokens.dims):
        chosen = ", ".join(f"{axis}=0" for axis in unknown)
        raise InputError(
            f"{name} has the axis {unknown[0]!r} beside those of a result ('run', 'time', 'token', 'coordinate'). Take "
            f"one entry of it, as in run.isel({chosen}); if flows differ along it, pass the run as `simulate` made it."
        )


def require_complete(run: Any, name: str) -> ResultKind:
    """The kind of a dataset that is a complete result of attnflow, of tokens or of a density."""
    kind = kind_of(run)
    if kind is None and isinstance(run, xr.Dataset) and run.attrs.get("kind") == STUDY:
        raise InputError(
            f"{name} is a study of many prompts, not one run. `trained.load_study` reads its file, and `show.study` "
            "draws it."
        )
    if kind is None or not REQUIRED_ATTRIBUTES[kind] <= set(run.attrs) or FIRST_STATES[kind] not in run:
        raise InputError(
            f"{name} is not a whole result of attnflow: it lacks what `simulate` records. "
            "Pass a dataset made by `simulate` or written by `save`."
        )
    return kind


def flow_of(run: xr.Dataset | str | os.PathLike) -> Any:
    """The model recorded in a dataset, or in the file of one.

    Parameters
    ----------
    run
        A dataset of `simulate`, `coalesce` or `stream`, or the path of one.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(4.0), af.masks.causal)
    >>> run = af.simulate(flow, af.initial.sphere(3, 2, rng=0), [0.0, 1.0])
    >>> af.flow_of(run) == flow
    True
    """
    from attnflow.results.files import dataset_of  # which imports this module

    return recorded(dataset_of(run), "flow")


def recorded_flow(run: xr.Dataset) -> Any:
    """The model recorded in a dataset, or None where there is none or it cannot be restored."""
    try:
        return recorded(run, "flow")
    except InputError:
        return None


def solver_of(run: xr.Dataset) -> Any:
    """The solver recorded in a dataset."""
    return recorded(run, "solver")


def recorded(run: xr.Dataset, name: str) -> Any:
    """The object behind one recorded setting of a dataset: its flow, solver, stop or observables."""
    kind = require_complete(run, "the dataset")
    if name not in run.attrs:
        repeat = how_to_repeat_a_prompt(run) if kind is ResultKind.PROMPT else "`rerun` repeats it."
        raise InputError(f"The dataset was not made by `simulate`, so it has no {name}. {repeat}")
    try:
        record = json.loads(run.attrs[name])
        value = records.restore(record, name)
    except InputError:
        raise
    except Exception as error:  # a damaged file can hold anything
        raise _damaged(name, error) from error
    if not _is_of_type(value, name):
        raise InputError(f"The dataset records an object of type {type(value).__name__} as its {name}. It is damaged.")
    return value


def load_arguments(made: Mapping[str, Any]) -> str:
    """The arguments of `models.load` as code, of a model that was opened with these.

    Examples
    --------
    >>> load_arguments({"origin": "openai/clip-vit-base-patch32", "tower": "vision"})
    "'openai/clip-vit-base-patch32', tower='vision'"
    """
    named = [f"{name}={str(made[name])!r}" for name in ("dtype", "tower", "revision") if made.get(name)]
    return ", ".join([repr(str(made["origin"])), *named])


def how_to_repeat_a_prompt(run: xr.Dataset) -> str:
    """How the layers of a recorded prompt are computed again, as a sentence."""
    prompt = "image" if "picture" in run else "run.id.values"
    model = f"models.load({load_arguments(run.attrs)})"
    if run.attrs["origin"] == IN_MEMORY:
        model = "models.from_arrays(config, arrays)"
    if "reinitialised" in run.attrs:
        seed = json.loads(run.attrs["reinitialised"])
        entropy, key = (seed[name] for name in ("entropy", "spawn_key"))
        model += f".reinitialised(numpy.random.SeedSequence({entropy}, spawn_key={tuple(key)}))"
    return f"`{model}.trajectory({prompt})` computes the layers of a prompt again."


def _damaged(name: str, error: Exception) -> InputError:
    return InputError(
        f"The attribute `{name}` cannot be read ({type(error).__name__}). The dataset is damaged: pass `{name}` again "
        "when you rerun it, or compute it again."
    )


def _is_of_type(value: Any, name: str) -> bool:
    """Whether a restored value can be the argument `name` of `simulate`."""
    if name == "stop":
        return isinstance(value, tuple) and all(isinstance(one, AbstractStop) for one in value)
    types = {"flow": AbstractDynamics, "solver": (AbstractSolver, TokenByToken), "observables": dict}
    return isinstance(value, types.get(name, object))


def _as_attribute(value: Any) -> str | int | float:
    if isinstance(value, bool):
        return int(value)  # netCDF attributes have no booleans
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, np.ndarray):
        return json.dumps(value.tolist())
    if isinstance(value, np.random.SeedSequence):
        return json.dumps({"entropy": _entropy(value), "spawn_key": list(value.spawn_key)})
    return json.dumps(records.record(value))


def _entropy(seed: np.random.SeedSequence) -> int | list[int]:
    words = [int(word) for word in np.atleast_1d(np.asarray(seed.entropy, dtype=object))]
    return words[0] if len(words) == 1 else words


def seed_of(run: xr.Dataset) -> np.random.SeedSequence:
    """The recorded seed; one run taken out of an ensemble has the seed spawned for it."""
    entry = json.loads(run.attrs["seed"])
    is_member = "run" in run.coords and "run" not in run.dims
    own = (int(run.run),) if is_member else ()
    return np.random.SeedSequence(entry["entropy"], spawn_key=(*entry["spawn_key"], *own))
