"""Options for the settings of a scenario, shared by all commands that take one."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli import completion
from attnflow.experiments.options import SCENARIO_OPTIONS, Option
from attnflow.experiments.vocabulary import SETTINGS

TYPES = {"whole": int, "number": float, "switch": bool}  # by the kind of an option; other kinds are text

FURTHER_WORDS = {
    "spacing": completion.one_of("linear", "log"),
    "mlp": completion.one_of("relu", "tanh", "gelu", "identity"),
}


def _annotation(name: str, option: Option) -> Any:
    words = completion.words_of(name) if name in SETTINGS else FURTHER_WORDS.get(name)
    given = typer.Option(help=option.help(name), show_default=False, autocompletion=words)
    return Annotated[TYPES.get(option.kind, str) | None, given]


NameOrFile = Annotated[
    str,
    typer.Argument(
        help="A scenario ('attnflow list' shows them), or a file of settings, .toml.",
        autocompletion=completion.scenarios_and_files,
    ),
]
"""The argument of a command that runs a scenario or a file of settings."""


def with_scenario_options(command: Callable) -> Callable:
    """A command that takes all of `SCENARIO_OPTIONS` besides its own and gets those that are given as `changes`."""
    own = [one for one in inspect.signature(command).parameters.values() if one.name != "changes"]
    optional = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, optional, default=None, annotation=_annotation(name, option))
        for name, option in SCENARIO_OPTIONS.items()
    ]

    @functools.wraps(command)
    def taking_options(**given: Any) -> Any:
        changes = {name: given.pop(name) for name in SCENARIO_OPTIONS}
        return command(changes={name: value for name, value in changes.items() if value is not None}, **given)

    first, rest = own[0], [one.replace(kind=optional) for one in own[1:]]
    wrapped: Any = taking_options
    wrapped.__signature__ = inspect.Signature([first, *added, *rest])
    wrapped.__annotations__ = {one.name: one.annotation for one in (*added, *own)}
    return wrapped


def config_named(name: str, changes: dict[str, Any]) -> Any:
    """The settings of a scenario or of a .toml file, with those replaced that options give; None is no value."""
    from attnflow.experiments.configs.config_files import load_config
    from attnflow.experiments.configs.run_config import RunConfig

    given = {option: value for option, value in changes.items() if value is not None}
    is_file = Path(name).suffix.lower() == ".toml"
    return load_config(name).override(**given) if is_file else RunConfig({"scenario": name} | given)


def default_result(name: str, addition: str = "") -> Path:
    """The name of the result in the working directory if none is given."""
    return Path(f"{Path(name).stem}{addition}.zarr")
