"""Settings that would have no effect on a run, and are therefore refused: one rule for each setting."""

from collections.abc import Callable, Mapping
from typing import Any

from attnflow._common.checks import InputError, require_known
from attnflow.experiments.catalogue import CATALOGUE
from attnflow.experiments.settings import Settings
from attnflow.experiments.vocabulary import ADAPTIVE_SOLVERS, lists_tokens

RUN_METHODS = ("simulate", "coalesce", "stream")
METHODS = (*RUN_METHODS, "predict")


def _for_each(*methods: str, reason: str) -> dict[str, str]:
    return dict.fromkeys(methods, reason)


_OWN_STEPS = {"coalesce": "`coalesce` chooses its steps, and `rtol` is its tolerance"}
_OWN_COLLOCATION = {"stream": "`stream` chooses its steps, and `tolerance` is its tolerance"}
_ONE_END = {"coalesce": "the run ends when all tokens have merged, or at `end`"}
_KEPT_STATES = {"coalesce": "a state is kept wherever something has changed"}
_NO_RUN = {"predict": "a prediction follows from the model and the first tokens, without a run"}
_COALESCING = " and ".join(scenario.name for scenario in CATALOGUE.values() if scenario.coalesces)
_ONLY_COALESCING = _for_each("simulate", "stream", reason=f"only the scenarios {_COALESCING} merge tokens")
_TO_THE_END = {"stream": "every token is followed to the last time"}
_ONE_TOKEN = {"stream": "`stream` solves for one token at a time"}

OF_METHODS: dict[str, Mapping[str, str]] = {
    "end": _NO_RUN,
    "saves": _KEPT_STATES | _NO_RUN,
    "spacing": _KEPT_STATES | _NO_RUN | {"stream": "times are evenly spaced in their logarithm"},
    "runs": {
        "predict": "the first tokens of one run are asked about, and `seed` chooses others",
        "coalesce": "one start is followed, and `seed` chooses another",
        "stream": "one start is followed, and `seed` chooses another",
    },
    "solver": _OWN_STEPS | _OWN_COLLOCATION,
    "rtol": _OWN_COLLOCATION | _NO_RUN,
    "atol": _OWN_STEPS | _OWN_COLLOCATION | _NO_RUN,
    "clustered": _ONE_END | _TO_THE_END,
    "settled": _ONE_END | _TO_THE_END,
    "diverged": {"coalesce": "tokens stay on the sphere"} | _TO_THE_END,
    "stop": _ONE_END | _TO_THE_END,
    "memory": {"coalesce": "`coalesce` holds one state at a time and a limited number of saved ones"} | _ONE_TOKEN,
    "float32": {
        "coalesce": "`coalesce` computes in double precision",
        "stream": "`stream` computes in double precision",
    },
    "merge": _ONLY_COALESCING,
    "perturb": _ONLY_COALESCING,
    "shortcuts": _ONLY_COALESCING,
    "log_end": _ONLY_COALESCING | {"stream": "`end` is the last time"},
    "tolerance": dict.fromkeys(
        ("simulate", "coalesce"), "it is the tolerance of `stream`, and `rtol` is that of others"
    ),
    "times": _KEPT_STATES,
    "max_steps": _OWN_COLLOCATION,
    "min_step": _OWN_STEPS | _OWN_COLLOCATION,
    "observables": _for_each("coalesce", "stream", reason="only `simulate` saves observables"),
    "keep_tokens": _for_each("coalesce", "stream", reason="the tokens are the result"),
    "noise_seed": _for_each("coalesce", "stream", reason="there is no noise"),
}
"""Reasons by setting and method, for what has no effect whatever the other settings are."""


def _of_listed_tokens(settings: Settings) -> str:
    return "`start` lists the tokens" if lists_tokens(settings.start) else ""


def _of_temperature(settings: Settings) -> str:
    is_hardmax = settings.attention.partition(":")[0] == "hardmax"
    return "hardmax has no temperature" if is_hardmax else ""


def _of_tolerance(settings: Settings) -> str:
    default = "stochastic-heun" if settings.kappa is not None else "tsit5"
    solver = (settings.solver or default).partition(":")[0]
    return "" if solver in ADAPTIVE_SOLVERS else f"the solver {solver!r} has fixed steps"


OF_SETTINGS: dict[str, Callable[[Settings], str]] = {
    "n": _of_listed_tokens,
    "runs": _of_listed_tokens,
    "beta": _of_temperature,
    "rtol": _of_tolerance,
    "atol": _of_tolerance,
}
"""The reason why a setting has no effect beside the others; empty where it has one."""


def reason_without_effect(name: str, settings: Settings | None = None, method: str = "simulate") -> str:
    """The reason why a setting has no effect on a run of `method`; empty where it has one.

    Rules that depend on other settings are asked only if `settings` is passed.
    """
    reason = OF_METHODS.get(name, {}).get(method, "")
    return reason or (OF_SETTINGS[name](settings) if settings is not None and name in OF_SETTINGS else "")


def require_effect(given: Mapping[str, Any], settings: Settings | None = None, method: str = "simulate") -> None:
    """Raise InputError if one of the settings in `given` would have no effect on a run of `method`.

    None in `given` is not a value.
    """
    require_known(method, METHODS, "method")
    for name, value in given.items():
        reason = "" if value is None else reason_without_effect(name, settings, method)
        if reason:
            raise InputError(f"`{name}` would change nothing here: {reason}. Leave it out.")
