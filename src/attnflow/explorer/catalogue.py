"""All scenarios of the explorer: those of `attnflow.scenarios`, and trained models with a prompt."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attnflow._common.checks import InputError, require_known
from attnflow.experiments import scenarios
from attnflow.experiments.scenarios import Scenario, Settings, Setup
from attnflow.explorer import prompt_scenarios, steer_scenarios
from attnflow.explorer.measure.control_measurements import ControlMeasurements
from attnflow.explorer.measure.layer_measurements import LayerMeasurements


def all_scenarios() -> dict[str, Scenario]:
    """All scenarios by name."""
    own = {steer_scenarios.STEER.name: steer_scenarios.STEER}
    return {**scenarios.CATALOGUE, **own, **{scenario.name: scenario for scenario in prompt_scenarios.offered()}}


def get(name: str) -> Scenario:
    """The scenario of that name."""
    require_known(name, all_scenarios(), "scenario")
    return all_scenarios()[name]


def change(settings: Settings, changes: dict[str, Any]) -> Settings:
    """Settings with some replaced; None leaves a setting as it is."""
    if isinstance(settings, prompt_scenarios.PromptSettings):
        return prompt_scenarios.change(settings, changes)
    if isinstance(settings, steer_scenarios.SteerSettings):
        return steer_scenarios.change(settings, changes)
    return scenarios.change(settings, changes)


def build(settings: Settings) -> Setup:
    """The model, tokens, times and solver that settings describe."""
    if isinstance(settings, prompt_scenarios.HeadsSettings):
        return prompt_scenarios.build(settings)
    return scenarios.build(settings)


def build_from(settings: Settings, placed: Sequence[Sequence[float]] | None) -> Setup:
    """The same with first tokens placed by hand; on the sphere they are scaled to length one where it is required."""
    setup = build(settings)
    if placed is None:
        return setup
    shape = setup.tokens.shape if labels(settings) else (settings.n, settings.d)
    if [len(row) for row in placed] != [shape[1]] * shape[0]:
        raise InputError(f"`tokens` must be {shape[0]} places of {shape[1]} coordinates, but they are not.")
    tokens = np.array(placed)
    if setup.flow.is_on_sphere and not setup.flow.has_radii:
        lengths = np.linalg.norm(tokens, axis=1, keepdims=True)
        if not np.all(lengths > 0):
            raise InputError("A token on the sphere must have a direction, but one of `tokens` is zero.")
        tokens = tokens / lengths
    return replace(setup, tokens=tokens)


def layer_measurements(settings: Settings) -> LayerMeasurements | None:
    """A prompt in the layers of a trained model; None for settings of a flow."""
    if isinstance(settings, prompt_scenarios.LayersSettings):
        return prompt_scenarios.layer_measurements(settings)
    return None


def has_targets(settings: Settings) -> bool:
    """Whether tokens go to targets, which are moved by hand as tokens are."""
    return isinstance(settings, steer_scenarios.SteerSettings)


def measured_at_once(
    settings: Settings, placed: Sequence[Sequence[float]] | None
) -> LayerMeasurements | ControlMeasurements | None:
    """The measurements of a run whose frames are computed at once; None for settings of a flow."""
    if isinstance(settings, steer_scenarios.SteerSettings):
        return ControlMeasurements(steer_scenarios.steered(settings, placed))
    return layer_measurements(settings)


def labels(settings: Settings) -> tuple[str, ...]:
    """Words of the tokens; empty if they have none."""
    return prompt_scenarios.labels(settings) if isinstance(settings, prompt_scenarios.PromptSettings) else ()


def parts(settings: Settings) -> tuple[int, ...]:
    """Number of tokens of each prompt; empty if there is none."""
    return prompt_scenarios.parts(settings) if isinstance(settings, prompt_scenarios.PromptSettings) else ()


def picture(settings: Settings) -> dict[str, Any] | None:
    """The image whose patches are the tokens, as PROTOCOL.md describes it; None if there is none."""
    return prompt_scenarios.picture(settings) if isinstance(settings, prompt_scenarios.PromptSettings) else None
