"""Options for the settings of a scenario, shared by all commands that take one."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from attnflow.experiments.vocabulary import SETTINGS

_HELP: dict[str, tuple[type, str]] = {
    "n": (int, "Number of tokens."),
    "d": (int, "Dimension."),
    "beta": (float, "Inverse temperature; may be negative."),
    "seed": (int, "Seed of weights, first tokens and noise."),
    "end": (float, "Last time."),
    "saves": (int, "Number of times that are kept."),
    "spacing": (str, "Spacing of the times that are kept: linear or log."),
    "runs": (int, "Number of runs, each from its own first tokens."),
    "space": (str, f"Model: {SETTINGS['space'].usage()}."),
    "value": (str, f"V: {SETTINGS['value'].usage()}."),
    "query_key": (str, "Q^T K, in the words of --value."),
    "heads": (int, "Number of heads."),
    "redraw": (float, "Period after which the weights are drawn again."),
    "attention": (str, f"Attention: {SETTINGS['attention'].usage()}."),
    "mask": (str, f"Mask: {SETTINGS['mask'].usage()}."),
    "normalisation": (str, f"Normalisation on the sphere: {SETTINGS['normalisation'].usage()}."),
    "mlp": (str, "Activation of a feed-forward layer: relu, tanh, gelu, identity."),
    "kappa": (float, "Noise sqrt(2 / kappa) dW."),
    "start": (str, f"First tokens: {SETTINGS['start'].usage()}."),
    "solver": (str, f"Solver: {SETTINGS['solver'].usage()}."),
    "rtol": (float, "Relative tolerance of adaptive solvers."),
    "atol": (float, "Absolute tolerance of adaptive solvers."),
}
SCENARIO_OPTIONS = {name: Annotated[kind | None, typer.Option(help=text)] for name, (kind, text) in _HELP.items()}


def with_scenario_options(command: Callable) -> Callable:
    """A command that takes all of `SCENARIO_OPTIONS` besides its own and gets them as the dict `changes`."""
    own = [one for one in inspect.signature(command).parameters.values() if one.name != "changes"]
    optional = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, optional, default=None, annotation=kind) for name, kind in SCENARIO_OPTIONS.items()
    ]

    @functools.wraps(command)
    def taking_options(**given: Any) -> Any:
        changes = {name: given.pop(name) for name in SCENARIO_OPTIONS}
        return command(changes=changes, **given)

    first, rest = own[0], [one.replace(kind=optional) for one in own[1:]]
    wrapped: Any = taking_options
    wrapped.__signature__ = inspect.Signature([first, *added, *rest])
    wrapped.__annotations__ = {one.name: one.annotation for one in (*added, *own)}
    return wrapped
