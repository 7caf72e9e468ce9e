"""The preparation of a run, or of another model for it. It takes some time and runs beside the viewer's thread."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow.explorer import catalogue, page_requests, placed_tokens, run_messages
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.pace import slow_words
from attnflow.explorer.playback_clock import FRAMES_PER_SECOND
from attnflow.explorer.settings_changes import changed_settings, changes_from

MAX_SHOWN = 40  # characters of a setting in a sentence


@dataclass(frozen=True)
class StartedRun:
    """A new run with its first messages."""

    run: LiveRun
    request: page_requests.Start
    message: dict[str, Any]
    axes: dict[str, Any] | None
    undo: dict[str, Any] | None
    """Changes that restore the settings before; None for a run that is not a change of another."""


@dataclass(frozen=True)
class ChangedRun:
    """What changes of settings have done to a run."""

    undo: dict[str, Any]
    """Changes that restore the settings before."""
    restart: page_requests.Start | None = None
    """The run that must be started, since the changes need other first tokens."""
    refused: str = ""
    """Sentences about changes that were refused, while others were made."""


def started_run(
    number: int, request: page_requests.Start, report: Callable[[float, str], None], undo: dict[str, Any] | None
) -> StartedRun:
    """Build the run that a page asks for."""
    run = LiveRun(number, request, report)
    message = run_messages.started(run, run_messages.model_fields(run))
    axes = None
    if run.first.tokens.shape[1] > 3:
        axes = run_messages.axes(run, np.concatenate([frame.tokens for frame in run.recording.frames]))
    return StartedRun(run, request, message, axes, undo)


def changed_run(run: LiveRun, changes: dict[str, Any], plays: bool) -> ChangedRun:
    """Make changes; of several that waited together, a refused one does not prevent the others."""
    refused: list[str] = []
    if len(changes) > 1:
        changes, refused = _accepted(run, changes)
    settings = changed_settings(run.settings, changes)
    undo = {name: getattr(run.settings, name) for name in changes}
    restart = None
    if run.needs_restart(settings, changes):
        tokens, made = placed_tokens.kept(run, changes), changes_from(run.scenario, settings)
        restart = page_requests.Start(run.scenario.name, made, plays=plays, tokens=tokens)
    else:
        run.change(changes)
    return ChangedRun(undo, restart, " ".join(refused))


def planned_change(run: LiveRun, changes: dict[str, Any]) -> ChangedRun:
    """Make a change that a link has planned."""
    undo = {name: getattr(run.settings, name) for name in changes}
    run.change(changes)
    return ChangedRun(undo)


def _accepted(run: LiveRun, changes: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The changes that are accepted together, and sentences about the others; raises InputError if none is."""
    try:
        catalogue.build(changed_settings(run.settings, changes))
        return changes, []
    except InputError:
        pass
    accepted: dict[str, Any] = {}
    refused = []
    for name, value in changes.items():
        try:
            catalogue.build(changed_settings(run.settings, {**accepted, name: value}))
            accepted = {**accepted, name: value}
        except InputError as error:
            refused.append(str(error))
    if not accepted:
        raise InputError(" ".join(refused))
    return accepted, refused


def slow_sentence(run: LiveRun, factor: float, undo: dict[str, Any] | None) -> str | None:
    """A sentence about what makes a run slow, after the change that may have caused it; None if it is not slow."""
    pace, last = None if run.stepper is None else run.stepper.pace.recent(), run.recording.last.time
    words = pace and slow_words(pace, (run.clock.after(last, factor) - last) * FRAMES_PER_SECOND)
    if words is None:
        return None
    made = ", ".join(f"{name} = {_shown(getattr(run.settings, name))}" for name in undo or {})
    return f"{made}: {words}." if made else f"{words[0].upper()}{words[1:]}."


def _shown(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."
