"""All scenarios that a page can choose: those of `attnflow.scenarios`, and trained models where they are installed."""

from typing import Any

from attnflow import scenarios
from attnflow._checks import require_known
from attnflow.explorer import trained
from attnflow.explorer.passage import Passage
from attnflow.scenarios import Scenario, Settings, Setup


def every() -> dict[str, Scenario]:
    """By name."""
    more = (trained.LAYERS, trained.HEADS) if trained.is_installed() else ()
    return {**scenarios.CATALOGUE, **{one.name: one for one in more}}


def get(name: str) -> Scenario:
    """The scenario of that name."""
    require_known(name, every(), "scenario")
    return every()[name]


def change(settings: Settings, changes: dict[str, Any]) -> Settings:
    """Settings with some replaced; None leaves one as it is."""
    if isinstance(settings, trained.PromptSettings):
        return trained.change(settings, changes)
    return scenarios.change(settings, changes)


def build(settings: Settings) -> Setup:
    """The model, tokens, times and solver behind some settings."""
    return trained.build(settings) if isinstance(settings, trained.HeadsSettings) else scenarios.build(settings)


def passage(settings: Settings) -> Passage | None:
    """A prompt's way through real layers; None where a flow moves the tokens."""
    return trained.passage(settings) if isinstance(settings, trained.LayersSettings) else None


def labels(settings: Settings) -> tuple[str, ...]:
    """Words of the tokens; none where they have none."""
    return trained.labels(settings) if isinstance(settings, trained.PromptSettings) else ()
