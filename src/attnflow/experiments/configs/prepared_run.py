"""The run behind a file of settings: the function that computes it, and its arguments, checked before it begins."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_known, require_positive_number, require_times
from attnflow._common.progress import Progress
from attnflow.coalescence.request import CoalescingRequest
from attnflow.experiments import scenarios, specs
from attnflow.experiments.configs.config_text import config_text
from attnflow.experiments.configs.kinds import checked
from attnflow.experiments.configs.model_parts import count_of, dimension_of, parts_of, stops_of
from attnflow.experiments.configs.run_config import RunConfig
from attnflow.experiments.effects import RUN_METHODS, reason_without_effect, require_effect
from attnflow.experiments.options import ALL_OPTIONS
from attnflow.experiments.settings import Scenario, Settings
from attnflow.integrate.request import FLOAT32_TOLERANCES, checked_request
from attnflow.integrate.simulate import simulate
from attnflow.results.run_dataset import Request
from attnflow.solvers.adaptive import Adaptive

FIRST_SAVED_TIME = 0.01  # of `stream`: the times from here on are evenly spaced in their logarithm
FIELDS = tuple(entry.name for entry in fields(Settings))
# Keys that other keys make idle, by the key that does.
IDLE_BESIDE = {
    "head": ("heads", "query_key", "value", "redraw"),
    "no_attention": ("head", "heads", "query_key", "value", "redraw"),
    "times": ("end", "saves", "spacing"),
    "log_end": ("end",),
    "stop": ("clustered", "settled", "diverged"),
}
NEEDED = {"mlp_weight": "mlp", "mlp_bias": "mlp", "common_noise": "kappa"}


@dataclass(frozen=True)
class PreparedRun:
    """A run that can be computed: its method, its settings in words, and the arguments of the method."""

    config: RunConfig
    scenario: Scenario | None
    method: str
    settings: Settings
    arguments: Mapping[str, Any]

    def require_valid(self) -> None:
        """Raise InputError if the method would refuse an argument; nothing is computed."""
        with errors_of(self.config):
            self._require_valid()

    def _require_valid(self) -> None:
        given = dict(self.arguments)
        budget = given.get("budget")
        if budget is not None:
            require_positive_number(budget, "budget", "It is a number of seconds.")
        if self.method == "coalesce":
            self.coalescing_request()
        elif self.method == "stream":
            from attnflow.streaming.stream import require_supported, require_tolerance

            require_supported(given["flow"], given["tokens"])
            require_times(given["times"])
            require_tolerance(given["tolerance"])
        else:
            self.simulating_request()

    def simulating_request(self) -> Request:
        """The checked arguments of `simulate`."""
        return checked_request(**{name: value for name, value in self.arguments.items() if name != "budget"})

    def coalescing_request(self) -> CoalescingRequest:
        """The checked arguments of `coalesce`."""
        return CoalescingRequest.of(**self.arguments)

    def run(self, progress: Progress = None) -> xr.Dataset:
        """The dataset of the run, with the name of its scenario and its settings among the attributes."""
        with errors_of(self.config):
            found = _function_of(self.method)(**self.arguments, progress=progress)
        named = {} if self.scenario is None else {"scenario": self.scenario.name}
        is_in_words = all(isinstance(value, str | int | float) for value in self.config.values.values())
        return found.assign_attrs(named | ({"settings": config_text(expanded(self.config))} if is_in_words else {}))

    def shown_settings(self) -> dict[str, Any]:
        """The settings as JSON knows them, with the arrays and tables of the file; None for what these replace."""
        values = self.config.values
        given = {name: plain(value) for name, value in values.items() if not isinstance(value, str | int | float)}
        return asdict(self.settings) | dict.fromkeys(_replaced(values)) | given


def _function_of(method: str) -> Callable[..., xr.Dataset]:
    """The function of a method; `coalesce` and `stream` take 0.1 to 0.2 s to import, and few runs need them."""
    if method == "coalesce":
        from attnflow.coalescence.coalesce import coalesce

        return coalesce
    if method == "stream":
        from attnflow.streaming.stream import stream

        return stream
    return simulate


def prepare(config: RunConfig) -> PreparedRun:
    """The run behind some settings; InputError names the file, the key, what was expected and what was found."""
    with errors_of(config):
        values = checked(config.values, ALL_OPTIONS)
        scenario = scenarios.get(values["scenario"]) if "scenario" in values else None
        method = values.get("method", "coalesce" if scenario is not None and scenario.coalesces else "simulate")
        require_known(method, RUN_METHODS, "method")
        require_effect(values, method=method)
        _require_meaning(values, scenario)
        settings = _settings(values, scenario)
        setup = scenarios.build(settings, **parts_of(values, settings))
        arguments = {"flow": setup.flow, "tokens": setup.tokens} | _OF_METHODS[method](values, settings, setup)
        if "budget" in values:
            arguments["budget"] = values["budget"]
        return PreparedRun(replace(config, values=values), scenario, method, settings, arguments)


@contextmanager
def errors_of(config: RunConfig) -> Iterator[None]:
    """Put the name of the file before the message of an InputError."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{config.source}: {error}") if config.source else error from error


def _require_meaning(values: Mapping[str, Any], scenario: Scenario | None) -> None:
    """Raise InputError for keys that need others or stand beside others that replace them."""
    beside = IDLE_BESIDE | ({"start": ("n", "runs")} if isinstance(values.get("start"), np.ndarray) else {})
    for key, idle in beside.items():
        for name in idle if key in values else ():
            if name in values:
                raise InputError(f"`{name}` would change nothing here: `{key}` is given. Leave one of them out.")
    defaults = scenario.settings if scenario is not None else Settings()
    for name, needed in NEEDED.items():
        if name in values and values.get(needed, getattr(defaults, needed)) is None:
            raise InputError(f"`{name}` needs `{needed}`, which is not given.")


def _replaced(values: Mapping[str, Any]) -> list[str]:
    """Fields of the settings that other keys replace."""
    return [name for key, names in IDLE_BESIDE.items() if key in values for name in names if name in FIELDS]


def _settings(values: Mapping[str, Any], scenario: Scenario | None) -> Settings:
    """The settings in words; numbers of tokens and coordinates follow from arrays unless they are given."""
    settings = scenario.settings if scenario is not None else Settings()
    sizes = {"d": dimension_of(values), "n": count_of(values)}
    settings = replace(settings, **{name: size for name, size in sizes.items() if size is not None})
    if values.get("float32") and "rtol" not in values:
        settings = replace(settings, **FLOAT32_TOLERANCES)
    words = {name: values[name] for name in FIELDS if isinstance(values.get(name), str | int | float)}
    return scenarios.change(settings, words)


def _of_simulate(values: Mapping[str, Any], settings: Settings, setup: scenarios.Setup) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "times": setup.times,
        "solver": _solver(values, setup),
        "rng": setup.rng,
        "stop": stops_of(values),
        "dtype": "float32" if values.get("float32") else "float64",
    }
    if "observables" in values:
        arguments["observables"] = {
            name: specs.observable(word, f"observables.{name}") for name, word in values["observables"].items()
        }
    return arguments | {name: values[name] for name in ("memory", "keep_tokens") if name in values}


def _solver(values: Mapping[str, Any], setup: scenarios.Setup) -> Any:
    limits = {name: values[name] for name in ("max_steps", "min_step") if name in values}
    if limits and not isinstance(setup.solver, Adaptive):
        raise InputError(f"`{next(iter(limits))}` belongs to adaptive solvers, but the solver has fixed steps.")
    return replace(setup.solver, **limits) if isinstance(setup.solver, Adaptive) and limits else setup.solver


def _of_coalesce(values: Mapping[str, Any], settings: Settings, setup: scenarios.Setup) -> dict[str, Any]:
    taken = ("merge", "perturb", "shortcuts", "max_steps", "log_end", "rtol")
    defaults = {name: inspect.signature(_function_of("coalesce")).parameters[name].default for name in taken}
    arguments: dict[str, Any] = defaults | {name: values[name] for name in taken if name in values}
    if "end" in values:
        require_positive_number(values["end"], "end", "Use 1e9.")
        arguments["log_end"] = float(np.log(values["end"]))
    return {"rng": settings.seed} | arguments


def _of_stream(values: Mapping[str, Any], settings: Settings, setup: scenarios.Setup) -> dict[str, Any]:
    end = settings.end
    saved = np.r_[0.0, np.geomspace(min(FIRST_SAVED_TIME, end / 2), end, settings.saves - 1)]
    return {"times": setup.times if "times" in values else saved, "tolerance": values.get("tolerance", 1e-9)}


_OF_METHODS = {"simulate": _of_simulate, "coalesce": _of_coalesce, "stream": _of_stream}


def expanded(config: RunConfig) -> RunConfig:
    """The same run with every setting that acts on it, also those that the scenario or a default gives."""
    prepared = prepare(config)
    values, settings, method = prepared.config.values, prepared.settings, prepared.method
    idle = {*_replaced(values), *(("n", "runs") if isinstance(values.get("start"), np.ndarray) else ())}
    idle |= {"normalisation"} if settings.space != "sphere" else set()
    idle |= {"end", "rtol"} if method == "coalesce" else set()  # those of the settings are not used
    acting = {name: getattr(settings, name) for name in FIELDS if name not in idle}
    acting = {name: value for name, value in acting.items() if not reason_without_effect(name, settings, method)}
    known = {name: value for name, value in acting.items() if value is not None}
    if method == "coalesce":
        known["rtol"] = prepared.arguments["rtol"]
    if method == "stream":
        known["tolerance"] = prepared.arguments["tolerance"]
    return RunConfig({"method": method} | known | dict(values))


def plain(value: Any) -> Any:
    """A value of the settings as JSON knows it: arrays as lists."""
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return value.tolist() if isinstance(value, np.ndarray) else value
