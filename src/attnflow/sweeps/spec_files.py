"""Specs of sweeps from files (TOML), from the name of a scenario, and from arguments."""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnflow._common.checks import InputError, require_known
from attnflow.experiments.configs.config_files import with_paths
from attnflow.experiments.configs.kinds import checked
from attnflow.experiments.number_files import read_numbers
from attnflow.experiments.options import ALL_OPTIONS
from attnflow.experiments.scenarios import get
from attnflow.experiments.settings import Settings
from attnflow.experiments.vocabulary import is_file
from attnflow.sweeps.axes import Axis, table_axis
from attnflow.sweeps.measures import name_of
from attnflow.sweeps.sweep_spec import SweepSpec

OWN_KEYS = ("runs", "seed", "reduce", "over", "table", "observables", "common_starts")
# Keys of a file of settings that a sweep sets itself, or that would make its numbers depend on the machine.
NOT_TAKEN = {"method", "keep_tokens", "noise_seed", "budget", "memory", *OWN_KEYS}
SETTINGS_KEYS = {name: option for name, option in ALL_OPTIONS.items() if name not in NOT_TAKEN}


def spec_named(
    source: str | os.PathLike | SweepSpec, given: Mapping[str, Any], settings: Mapping[str, Any]
) -> SweepSpec:
    """The spec of a file, a scenario or a `SweepSpec`, with what is given in place of it; None is not given."""
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(source, SweepSpec):
        if given:
            raise InputError(f"`{next(iter(given))}` is given beside a SweepSpec. Put it into the spec.")
        return replace(source, settings=dict(source.settings) | dict(settings))
    if Path(source).suffix.lower() == ".toml":
        path = Path(source)
        values = _parsed(path)
        try:
            return spec_of_values(values | _merged(values, given) | dict(settings), path.parent)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    return spec_of_values({"scenario": str(source)} | given | dict(settings), Path())


def _merged(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, with axes added to those of the file or in place of them."""
    axes = {"over": dict(values.get("over", {})) | dict(given["over"])} if "over" in given else {}
    return dict(given) | axes


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise InputError(f"The spec {path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError:
        raise InputError(f"The spec {path} is not a text file in UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"The spec {path} is not valid TOML: {error}.") from error


def spec_of_values(values: Mapping[str, Any], folder: Path) -> SweepSpec:
    """The spec of the values of a file; names of files are relative to a folder.

    Examples
    --------
    >>> spec = spec_of_values({"scenario": "sphere", "runs": 4, "over": {"beta": "1:9:3"}}, Path())
    >>> spec.runs, spec.axes[0].columns["beta"], dict(spec.observables)
    (4, (1.0, 5.0, 9.0), {'mean_cosine': 'mean-cosine'})
    """
    for name in values:
        require_known(name, (*OWN_KEYS, *SETTINGS_KEYS), "key")
    settings = {name: value for name, value in values.items() if name in SETTINGS_KEYS}
    settings = checked(_with_numbers(with_paths(settings, lambda word: str(folder / word))), SETTINGS_KEYS)
    axes = _axes(values, folder)
    observables, reductions = _observables(values, settings)
    own = {name: values[name] for name in ("runs", "seed", "common_starts") if name in values}
    for axis in axes:
        for name in axis.columns:
            if name in settings:
                raise InputError(f"`{name}` is an axis and a setting. Leave one of them out.")
    return SweepSpec(settings, axes, observables=observables, reductions=reductions, **own)


def _with_numbers(values: Any, name: str = "") -> Any:
    """The values with every file of numbers read, so that the store needs no other file."""
    if isinstance(values, Mapping):
        return {key: _with_numbers(value, key) for key, value in values.items()}
    if isinstance(values, list):
        return [_with_numbers(value, name) for value in values]
    return read_numbers(values, name).tolist() if isinstance(values, str) and is_file(values) else values


def _axes(values: Mapping[str, Any], folder: Path) -> tuple[Axis, ...]:
    over = values.get("over", {})
    if not isinstance(over, Mapping):
        raise InputError(f"`over` must be a table of axes by name, but it is {over!r}.")
    axes = [Axis.of(name, given) for name, given in over.items()]
    if "table" in values:
        if not isinstance(values["table"], str | os.PathLike):
            raise InputError(f"`table` must be the name of a CSV file, but it is {values['table']!r}.")
        axes.append(table_axis(folder / values["table"]))
    return tuple(axes)


def _observables(
    values: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Words of measures and reductions by name; a measure may have reductions of its own."""
    given = values.get("observables", [_default_measure(settings)])
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, Mapping):
        given = {name_of(word).replace("-", "_"): word for word in given if isinstance(word, str)} or given
    if not isinstance(given, Mapping) or not given:
        raise InputError(
            f"`observables` must be words by name, such as {{'order': 'mean-cosine'}}, but it is {given!r}."
        )
    common = _words(values["reduce"]) if "reduce" in values else None
    words, reductions = {}, {}
    for name, entry in given.items():
        table = entry if isinstance(entry, Mapping) else {"measure": entry}
        for key in table:
            require_known(key, ("measure", "reduce"), f"key of observables.{name}")
        if "measure" not in table:
            raise InputError(f"`observables.{name}` has no `measure`. Write measure = 'mean-cosine'.")
        words[name] = table["measure"]
        if "reduce" in table or common is not None:
            reductions[name] = _words(table["reduce"]) if "reduce" in table else common
    return words, {name: words for name, words in reductions.items() if words is not None}


def _words(given: Any) -> tuple[str, ...]:
    words = (given,) if isinstance(given, str) else given
    if not isinstance(words, Sequence) or not words:
        raise InputError(f"`reduce` must be words such as ['mean', 'quantiles:0.1,0.9'], but it is {given!r}.")
    return tuple(words)


def _default_measure(settings: Mapping[str, Any]) -> str:
    """The mean cosine on the sphere, else the largest distance of two tokens."""
    base = get(settings["scenario"]).settings if "scenario" in settings else Settings()
    return "mean-cosine" if settings.get("space", base.space) == "sphere" else "diameter"
