"""Named scenarios of control: settings in words and numbers, and the explicit construction behind each of them."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from attnflow._common.checks import InputError, require_count, require_known
from attnflow.control.circle_caps import steer_circle
from attnflow.control.prompt_matching import PromptMatching, match_prompts
from attnflow.control.sequences import SequenceInterpolation, interpolate_sequences
from attnflow.control.steering import Steering, steer
from attnflow.experiments import specs
from attnflow.experiments.settings import Scenario, Settings

CONTROLS = {
    scenario.name: scenario
    for scenario in (
        Scenario("steer-sphere", "Tokens on the sphere to random targets, one at a time; the others do not move.",
                 "2411.04551", Settings(n=12, d=3)),
        Scenario("steer-labels", "Prompts of two labels under one control: each ends near the point of its label.",
                 "2411.04551", Settings(n=12, d=3, runs=6)),
        Scenario("interpolate-sequences", "Layers that map sequences to three outputs each: separate, collapse, match.",
                 "2502.02270", Settings(space="euclidean", n=30, d=16, runs=4, attention="hardmax",
                                        start="gaussian:1")),
        Scenario("neural-ode", "Points of the plane to random targets by one control without attention.",
                 "2104.05278", Settings(space="euclidean", n=10, d=2, start="gaussian:1")),
    )
}  # fmt: skip
"""Every scenario of control by its name."""

OUTPUTS = 3  # of each sequence of interpolate-sequences
LABEL_RADIUS = 0.25  # distance from the point of a label within which its prompts have their targets

USED = {
    "steer-sphere": ("n", "d", "start", "seed"),
    "steer-labels": ("n", "d", "start", "runs", "seed"),
    "interpolate-sequences": ("n", "d", "attention", "beta", "start", "runs", "seed"),
    "neural-ode": ("n", "d", "start", "seed"),
}
"""Settings that act on each scenario; `runs` is the number of prompts or sequences."""

Found = Steering | PromptMatching | SequenceInterpolation


@dataclass(frozen=True)
class ControlSetup:
    """A scenario of control with its settings; `find` constructs the control.

    Examples
    --------
    >>> import attnflow as af
    >>> af.control_scenario("neural-ode", n=3).find().terminal_error < 1e-10
    True
    """

    name: str
    settings: Settings

    def find(self) -> Found:
        """The control that the construction gives, with the tokens and targets that it is made for."""
        return FINDERS[self.name](self.settings)

    def shown_settings(self) -> dict[str, Any]:
        """The settings that act on this scenario."""
        return {setting: getattr(self.settings, setting) for setting in USED[self.name]}


def control_scenario(name: str, **changes: Any) -> ControlSetup:
    """A named scenario of control, with some of its settings changed.

    `n` is the number of tokens, `runs` that of prompts or sequences; `start` is the law of tokens and of targets.

    Parameters
    ----------
    name
        A name that `attnflow list` prints.
    changes
        Settings by name, such as ``n=50``: the fields of `scenarios.Settings`.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.control_scenario("steer-sphere", n=4).find()
    >>> len(found.control.pieces), found.terminal_error < 1e-10
    (4, True)
    """
    require_known(name, CONTROLS, "scenario")
    given = {setting: value for setting, value in changes.items() if value is not None}
    for setting in given:
        require_known(setting, [entry.name for entry in fields(Settings)], "setting")
        if setting not in USED[name]:
            raise InputError(
                f"`{setting}` would change nothing here: weights and times of {name} are those of its construction. "
                f"Its settings are {', '.join(USED[name])}."
            )
    settings = replace(CONTROLS[name].settings, **given)
    for setting in ("n", "d", "runs"):
        if getattr(settings, setting) is not None:
            require_count(getattr(settings, setting), setting)
    return ControlSetup(name, settings)


def _draws(settings: Settings, count: int) -> list[np.random.SeedSequence]:
    """Seeds of tokens, of targets and of directions that are tried."""
    return np.random.SeedSequence(settings.seed).spawn(count)


def _points(settings: Settings, n: int, rng: np.random.SeedSequence, runs: int | None = None) -> np.ndarray:
    return specs.start(settings.start, n, settings.d, runs, rng)


def tokens_and_targets(settings: Settings) -> tuple[np.ndarray, np.ndarray, np.random.SeedSequence]:
    """First tokens and targets of a scenario, in one order on the circle, and the seed of the construction."""
    of_tokens, of_targets, of_search = _draws(settings, 3)
    tokens, targets = (_points(settings, settings.n, rng) for rng in (of_tokens, of_targets))
    if settings.space == "sphere" and settings.d == 2:
        tokens, targets = _in_order(tokens), _in_order(targets)
    return tokens, targets, of_search


def _steered(settings: Settings) -> Steering:
    tokens, targets, of_search = tokens_and_targets(settings)
    if settings.space == "sphere" and settings.d == 2:
        return steer_circle(tokens, targets)
    return steer(tokens, targets, space=settings.space, rng=of_search)


def _in_order(points: np.ndarray) -> np.ndarray:
    """Points of the circle in the order of their angles: no flow with full attention changes it."""
    return points[np.argsort(np.arctan2(points[:, 1], points[:, 0]))]


def _matched(settings: Settings) -> PromptMatching:
    of_tokens, of_targets, of_search = _draws(settings, 3)
    if settings.d < 3:
        raise InputError(f"`d` must be at least 3 for steer-labels, but it is {settings.d}.")
    prompts = _points(settings, settings.n, of_tokens, settings.runs)
    return match_prompts(prompts, label_targets(len(prompts), settings.d, of_targets), rng=of_search)


def label_targets(prompts: int, d: int, rng: np.random.SeedSequence) -> np.ndarray:
    """Targets of prompts with labels 0, 1, 0, 1, ...: distinct points near the first axis, and near its opposite."""
    sides = np.where(np.arange(prompts) % 2 == 0, 1.0, -1.0)
    moves = np.random.default_rng(rng).normal(size=(prompts, d - 1))
    moves = LABEL_RADIUS * moves / np.maximum(np.linalg.norm(moves, axis=1, keepdims=True), 1e-12)
    points = np.concatenate([sides[:, None], moves], axis=1)
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def _interpolated(settings: Settings) -> SequenceInterpolation:
    of_tokens, of_outputs, of_search = _draws(settings, 3)
    sequences = _points(settings, settings.n, of_tokens, settings.runs)
    outputs = _points(settings, min(OUTPUTS, settings.n), of_outputs, settings.runs)
    attention = specs.attention(settings.attention, settings.beta)
    return interpolate_sequences(sequences, list(outputs), attention, rng=of_search)


FINDERS: dict[str, Callable[[Settings], Found]] = {
    "steer-sphere": _steered,
    "steer-labels": _matched,
    "interpolate-sequences": _interpolated,
    "neural-ode": _steered,
}
