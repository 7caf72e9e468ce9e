"""Changes of a scenario's settings that a page may ask for."""

from dataclasses import asdict, fields, replace
from typing import Any

from attnflow._common.checks import require_known
from attnflow.experiments.scenarios import Scenario, Settings
from attnflow.explorer import catalogue, request_limits

OPTIONAL = frozenset({"redraw", "mlp", "kappa", "solver", "head"})  # settings of which None is a value


def changed_settings(settings: Settings, changes: dict[str, Any]) -> Settings:
    """Settings of one run with changes, checked against the limits of the page; None removes an optional part."""
    for name in changes:
        require_known(name, [entry.name for entry in fields(settings)], "setting")
    removed = {name: None for name, value in changes.items() if value is None and name in OPTIONAL}
    settings = replace(settings, runs=None, **removed)
    given = {name: value for name, value in changes.items() if value is not None and name != "runs"}
    request_limits.require_allowed(replace(settings, **given))  # before a file could be opened
    changed = catalogue.change(settings, given)
    request_limits.require_allowed(changed)
    return changed


def changes_from(scenario: Scenario, settings: Settings) -> dict[str, Any]:
    """The settings that differ from those of the scenario, as changes."""
    standard = asdict(scenario.settings)
    return {name: value for name, value in asdict(settings).items() if value != standard[name] and name != "runs"}
