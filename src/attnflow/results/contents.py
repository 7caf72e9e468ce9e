"""What a whole result holds: attributes of the right types, variables with the right dimensions.

A file can hold anything. What passes `require_contents` can be read without further checks, except for the recorded
flow, solver, stopping conditions and observables, which `provenance.recorded` checks when they are wanted.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.precision import DTYPES
from attnflow.results.provenance import ResultKind, require_complete


def json_of(run: xr.Dataset, name: str) -> Any:
    """The value that an attribute holds as JSON text."""
    text = run.attrs.get(name)
    if not isinstance(text, str):
        raise InputError(f"The attribute `{name}` must be JSON text, but it is {_shown(text)}. The dataset is damaged.")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"The attribute `{name}` cannot be read as JSON ({error}): it begins with {_shown(text)}. "
            "The dataset is damaged."
        ) from error


def require_contents(run: xr.Dataset, name: str) -> None:
    """Raise InputError unless a dataset is a result whose attributes and variables have the types that are written."""
    kind = require_complete(run, name)
    for attribute in ATTRIBUTES.keys() & run.attrs.keys():
        words, is_right = ATTRIBUTES[attribute]
        value = json_of(run, attribute) if attribute in JSON_ATTRIBUTES else run.attrs[attribute]
        if not is_right(value):
            raise InputError(f"The attribute `{attribute}` of {name} must be {words}, but it is {_shown(value)}.")
    if kind in (ResultKind.TRAJECTORY, ResultKind.STREAM) and run.attrs.get("dtype", DTYPES[0]) not in DTYPES:
        raise InputError(f"The attribute `dtype` of {name} must be one of {DTYPES}, but it is {run.attrs['dtype']!r}.")
    domain = str(run.attrs.get("domain", "circle")) if kind is ResultKind.DENSITY else ""
    if domain and domain not in DOMAINS:
        raise InputError(f"The attribute `domain` of {name} must be one of {tuple(DOMAINS)}, but it is {domain!r}.")
    for variable in (*VARIABLES[kind], *DOMAINS.get(domain, {})):
        if variable not in run.variables:
            raise InputError(f"{name} is not a whole result of attnflow: it lacks the variable `{variable}`.")
    shapes = SHAPES | DOMAINS.get(domain, {})
    for variable, (dimensions, kinds) in shapes.items():
        if variable in run.variables and not _fits(run[variable], dimensions, kinds):
            raise InputError(
                f"The variable `{variable}` of {name} must be numbers over {dimensions or 'runs'}, "
                f"but it is {run[variable].dtype} over {run[variable].dims}."
            )


def _fits(values: xr.DataArray, dimensions: tuple[str, ...], kinds: str) -> bool:
    own = tuple(name for name in values.dims if name != "run")
    return own == dimensions and values.dtype.kind in kinds


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_list_of(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_right, value))


def _is_seed(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) != {"entropy", "spawn_key"}:
        return False
    wholes = _is_list_of(_is_whole)
    return (_is_whole(value["entropy"]) or (wholes(value["entropy"]) and value["entropy"])) and wholes(
        value["spawn_key"]
    )


def _is_limits(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() <= {"log_start", "log_end", "until", "shortcuts", "max_steps"}
        and _is_number(value.get("log_start", 0.0))
        and _is_number(value.get("log_end", value.get("until", 0.0)))
        and isinstance(value.get("shortcuts", True), bool)
        and _is_whole(value.get("max_steps", 1))
    )


def _is_perturbation(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"amount", "seed", "spawn_key"}
        and _is_number(value["amount"])
        and isinstance(value["seed"], str)
        and _is_list_of(_is_whole)(value["spawn_key"])
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


MADE_BY = ("scenario", "settings", "command", "date")
TEXT, NUMBER = ("text", _is_text), ("a number", _is_number)
ATTRIBUTES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("outcome", "dtype", "attnflow_version", "model", "origin", *MADE_BY), TEXT),
    **dict.fromkeys(("keep_tokens", "memory", "merge", "rtol", "angle", "layer", "modes", "max_modes"), NUMBER),
    **dict.fromkeys(("flow", "solver", "observables", "config"), ("an object", _is_object)),
    "stop": ("a list", _is_list),
    "outcomes": ("a list of text", _is_list_of(_is_text)),
    "requested_times": ("a list of numbers", lambda value: _is_list_of(_is_number)(value) and value),
    "seed": ("an entropy and a spawn key", _is_seed),
    "limits": ("the limits of `coalesce`", _is_limits),
    "perturbed": ("an amount, a seed and a spawn key", _is_perturbation),
}
JSON_ATTRIBUTES = {
    *("flow", "solver", "observables", "config", "stop", "outcomes"),
    *("requested_times", "seed", "limits", "perturbed"),
}

ENDS = ("initial_tokens", "final_tokens", "final_time", "steps", "rejected_steps", "failed", "time")
VARIABLES = {
    ResultKind.TRAJECTORY: ENDS,
    ResultKind.STREAM: ENDS,
    ResultKind.COALESCENCE: ("initial_tokens", "tokens", "clusters", "energy", "log_time", "steps", "quadrature_error"),
    ResultKind.PROMPT: ("initial_tokens",),
    ResultKind.DENSITY: ("density", "time", "final_time", "steps", "status"),
}
# Dimensions besides `run`, and the kinds of numbers: floats, integers, booleans.
SHAPES = {
    **dict.fromkeys(("initial_tokens", "final_tokens"), (("token", "coordinate"), "fiu")),
    "final_radius": (("token",), "fiu"),
    **dict.fromkeys(("final_time", "drift", "quadrature_error"), ((), "fiu")),
    **dict.fromkeys(("steps", "rejected_steps"), ((), "iu")),
    "failed": ((), "biu"),
}


def _spectral(places: tuple[str, ...], modes: tuple[str, ...]) -> dict[str, tuple[tuple[str, ...], str]]:
    coefficients = dict.fromkeys(("cosine", "sine"), (("time", *modes), "f"))
    coordinates = {name: ((name,), "fiu") for name in (*places, *modes)}
    return {"density": (("time", *places), "f"), **coefficients, **coordinates}


def _on_nodes(*labels: str) -> dict[str, tuple[tuple[str, ...], str]]:
    places = {"place": (("time", *labels, "coordinate"), "f"), "mass": (labels, "f")}
    return {"density": (("time", *labels), "f"), **places, "box": (("side", "coordinate"), "f")}


DOMAINS = {
    "circle": _spectral(("angle",), ("mode",)),
    "zonal": _spectral(("polar",), ("mode",)),
    "sphere": _spectral(("polar", "azimuth"), ("azimuthal_mode", "mode")),
    "line": _on_nodes("label"),
    "plane": _on_nodes("label", "second_label"),
}
"""Variables of a density by the attribute `domain`; observables of tokens may have these names and other dimensions."""
