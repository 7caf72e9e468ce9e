"""All scenarios of the explorer: those of `attnflow.scenarios`, and trained models with a prompt."""

from typing import Any

from attnflow._common.checks import require_known
from attnflow.experiments import scenarios
from attnflow.experiments.scenarios import Scenario, Settings, Setup
from attnflow.explorer import prompt_scenarios
from attnflow.explorer.measure.layer_measurements import LayerMeasurements


def all_scenarios() -> dict[str, Scenario]:
    """All scenarios by name."""
    return {**scenarios.CATALOGUE, **{scenario.name: scenario for scenario in prompt_scenarios.offered()}}


def get(name: str) -> Scenario:
    """The scenario of that name."""
    require_known(name, all_scenarios(), "scenario")
    return all_scenarios()[name]


def change(settings: Settings, changes: dict[str, Any]) -> Settings:
    """Settings with some replaced; None leaves a setting as it is."""
    if isinstance(settings, prompt_scenarios.PromptSettings):
        return prompt_scenarios.change(settings, changes)
    return scenarios.change(settings, changes)


def build(settings: Settings) -> Setup:
    """The model, tokens, times and solver that settings describe."""
    if isinstance(settings, prompt_scenarios.HeadsSettings):
        return prompt_scenarios.build(settings)
    return scenarios.build(settings)


def layer_measurements(settings: Settings) -> LayerMeasurements | None:
    """A prompt in the layers of a trained model; None for settings of a flow."""
    if isinstance(settings, prompt_scenarios.LayersSettings):
        return prompt_scenarios.layer_measurements(settings)
    return None


def labels(settings: Settings) -> tuple[str, ...]:
    """Words of the tokens; empty if they have none."""
    return prompt_scenarios.labels(settings) if isinstance(settings, prompt_scenarios.PromptSettings) else ()


def parts(settings: Settings) -> tuple[int, ...]:
    """Number of tokens of each prompt; empty if there is none."""
    return prompt_scenarios.parts(settings) if isinstance(settings, prompt_scenarios.PromptSettings) else ()
