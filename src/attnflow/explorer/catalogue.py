"""All scenarios that a page can choose: those of `attnflow.scenarios`, and trained models where they are installed."""

from typing import Any

from attnflow._common.checks import require_known
from attnflow.experiments import scenarios
from attnflow.experiments.scenarios import Scenario, Settings, Setup
from attnflow.explorer import prompt_scenarios
from attnflow.explorer.measure.layer_run import Passage


def every() -> dict[str, Scenario]:
    """By name."""
    more = (prompt_scenarios.LAYERS, prompt_scenarios.HEADS) if prompt_scenarios.is_installed() else ()
    return {**scenarios.CATALOGUE, **{one.name: one for one in more}}


def get(name: str) -> Scenario:
    """The scenario of that name."""
    require_known(name, every(), "scenario")
    return every()[name]


def change(settings: Settings, changes: dict[str, Any]) -> Settings:
    """Settings with some replaced; None leaves one as it is."""
    if isinstance(settings, prompt_scenarios.PromptSettings):
        return prompt_scenarios.change(settings, changes)
    return scenarios.change(settings, changes)


def build(settings: Settings) -> Setup:
    """The model, tokens, times and solver behind some settings."""
    return (
        prompt_scenarios.build(settings)
        if isinstance(settings, prompt_scenarios.HeadsSettings)
        else scenarios.build(settings)
    )


def passage(settings: Settings) -> Passage | None:
    """A prompt's way through real layers; None where a flow moves the tokens."""
    return prompt_scenarios.passage(settings) if isinstance(settings, prompt_scenarios.LayersSettings) else None


def labels(settings: Settings) -> tuple[str, ...]:
    """Words of the tokens; none where they have none."""
    return prompt_scenarios.labels(settings) if isinstance(settings, prompt_scenarios.PromptSettings) else ()
