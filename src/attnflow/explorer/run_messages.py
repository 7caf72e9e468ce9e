"""JSON and binary messages about a run; PROTOCOL.md lists their fields."""

import dataclasses
from typing import Any

import numpy as np

from attnflow.explorer import catalogue, page_requests, protocol
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.measure.principal_axes import principal_axes


def model_fields(run: LiveRun) -> dict[str, Any]:
    """Settings and facts of the present model; fields of `started` and `changed`."""
    return {
        "words": run.sentences,
        "settings": dataclasses.asdict(run.settings),
        "later": run.later,
        "labels": catalogue.labels(run.settings) or None,
        "parts": list(catalogue.parts(run.settings)) or None,
        **run.measurements.facts(),
        "picture": catalogue.picture(run.settings),
    }


def started(run: LiveRun, model: dict[str, Any]) -> dict[str, Any]:
    """Announcement of a new run."""
    return {
        "type": "started",
        "run": run.number,
        "scenario": run.scenario.name,
        "paper": run.scenario.paper,
        "logTime": run.is_coalescing,
        "placed": _placed(run),
        **model,
    }


def _placed(run: LiveRun) -> dict[str, Any] | None:
    """First tokens placed by hand, as many as a link may contain."""
    if run.placed is None:
        return None
    is_short = sum(map(len, run.placed)) <= page_requests.MAX_PLACED_NUMBERS
    return {"tokens": run.placed if is_short else None}


def changed(run: LiveRun, time: float, model: dict[str, Any]) -> dict[str, Any]:
    """Description of the model that acts from a time on."""
    return {"type": "changed", "run": run.number, "time": time, **model}


def state(run: LiveRun, plays: bool, answered: int) -> dict[str, Any]:
    """The state of the playback after the request with the number `answered`."""
    return {
        "type": "state",
        "run": run.number,
        "plays": plays,
        "share": run.share,
        "computed": run.computed,
        "atEnd": run.is_at_end,
        "end": run.settings.end,
        "later": run.later,
        "frame": run.frame.index,
        "answered": answered,
    }


def axes(run: LiveRun, tokens: np.ndarray) -> dict[str, Any]:
    """Principal axes of tokens."""
    return {"type": "axes", "run": run.number, "axes": principal_axes(tokens)}


def frame(run: LiveRun) -> bytes:
    """The frame on display."""
    shown, flags = run.frame, protocol.FrameFlag.LOG_TIME if run.is_coalescing else 0
    message = protocol.FrameMessage(run.number, shown.index, shown.time, shown.tokens, shown.colours, flags)
    return protocol.frame_bytes(message)


def problem(sentence: str, undo: dict[str, Any] | None = None) -> dict[str, Any]:
    """A sentence about something that was refused or failed, with changes that undo its cause, if they are known."""
    return {"type": "problem", "sentence": sentence, **({"undo": undo} if undo else {})}


def busy(sentence: str, **share: float) -> dict[str, Any]:
    """A sentence about a computation that takes a noticeable time, optionally with the share done."""
    return {"type": "busy", "sentence": sentence, **share}


def slow(sentence: str | None, undo: dict[str, Any] | None) -> dict[str, Any]:
    """A sentence about what makes a run slow, or None, and the changes that undo the last one."""
    return {"type": "slow", "sentence": sentence, "undo": undo or None}
