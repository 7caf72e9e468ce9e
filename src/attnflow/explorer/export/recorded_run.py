"""A finished run as the messages that a page plays without a server."""

import base64
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count
from attnflow._common.plain import evenly_spaced, json_value
from attnflow.explorer import protocol
from attnflow.explorer.measure.cluster_colours import ClusterColours
from attnflow.explorer.measure.flow_measurements import FlowMeasurements
from attnflow.explorer.measure.layer_measurements import LayerMeasurements
from attnflow.explorer.measure.measurements import AbstractMeasurements
from attnflow.explorer.measure.principal_axes import principal_axes
from attnflow.explorer.recording import Frame
from attnflow.results.provenance import ResultKind, flow_of, require_result, solver_of

MAX_BYTES = 24 * 2**20  # of the tokens of all frames: a size that mail and browsers accept
MAX_IMAGES = 80  # of the attention matrix
MAX_SIDE = 64  # rows and columns of such an image
PALETTE_SIZE = 40  # colours of clusters before they repeat


@dataclass(frozen=True)
class Caption:
    """The text beside a run."""

    title: str
    words: tuple[str, ...] = ()
    paper: str = ""


@dataclass(frozen=True)
class RecordedRun:
    """The tokens of one finished run over time, and the measurements on them."""

    measurements: AbstractMeasurements
    times: np.ndarray
    tokens: np.ndarray  # (time, token, coordinate)
    radii: np.ndarray | None = None
    is_log: bool = False
    """Whether times are log t."""
    beta: float | None = None
    space: str = "layers"
    labels: tuple[str, ...] = ()
    """Words of the tokens."""
    colours: np.ndarray | None = None
    """Colour of each token; None for those of clusters."""

    def frames(self) -> list[Frame]:
        """All times as frames, with the colours of their clusters or those of the tokens."""
        colours = ClusterColours(self.measurements.distance)
        frames = []
        for index, (time, tokens) in enumerate(zip(self.times, self.tokens, strict=True)):
            radii = None if self.radii is None else self.radii[index]
            shown, count = colours.update(tokens) if self.colours is None else (self.colours, None)
            frames.append(Frame(index, float(time), tokens, radii, shown, count))
        return frames

    def thinned(self, count: int) -> "RecordedRun":
        """At most `count` times, evenly chosen, with the first and the last."""
        chosen = evenly_spaced(len(self.times), count)
        radii = None if self.radii is None else self.radii[chosen]
        return replace(self, times=self.times[chosen], tokens=self.tokens[chosen], radii=radii)


def recorded_run(run: xr.Dataset, member: int = 0) -> RecordedRun:
    """One run of a result of `simulate`, `coalesce` or a trained model's `trajectory`."""
    kind = require_result(run, "`run`")
    if "tokens" not in run:
        raise InputError("`run` has no tokens over time: it was made with keep_tokens=False. Simulate it with tokens.")
    require_count(member, "member", least=0)
    if member >= run.sizes.get("run", 1):
        raise InputError(f"`member` must be one of the runs, 0 to {run.sizes.get('run', 1) - 1}, but it is {member}.")
    run = run.isel(run=member) if "run" in run.dims else run
    is_finite = np.isfinite(run.tokens.values).all(axis=(1, 2))
    if np.count_nonzero(is_finite) < 2:
        count = np.count_nonzero(is_finite)
        raise InputError(f"`run` must have tokens at two times or more, but there are {count}. Save more times.")
    along = run.tokens.dims[0]  # time, or the state of a coalescing run
    readers = {ResultKind.PROMPT: _from_layers, ResultKind.COALESCENCE: _from_coalescence}
    return readers.get(kind, _from_simulation)(run.isel({along: is_finite}))


def _from_layers(run: xr.Dataset) -> RecordedRun:
    layers = LayerMeasurements(run)
    return RecordedRun(layers, run.time.values, layers.tokens, labels=layers.words)


def _from_coalescence(run: xr.Dataset) -> RecordedRun:
    flow, tokens = flow_of(run), run.tokens.values
    measurements = FlowMeasurements(flow, None, Frame(0, 0.0, tokens[0]), is_log=True)
    return RecordedRun(
        measurements, run.log_time.values, tokens, is_log=True, beta=flow.beta, space=type(flow).__name__
    )


def _from_simulation(run: xr.Dataset) -> RecordedRun:
    flow, tokens = flow_of(run), run.tokens.values
    radii = run.radius.values if "radius" in run else None
    first = Frame(0, 0.0, tokens[0], None if radii is None else radii[0])
    labels = tuple(str(word) for word in run.word.values) if "word" in run.coords else ()
    parts = tuple(np.bincount(run.prompt.values).tolist()) if "prompt" in run.coords else ()
    measurements = FlowMeasurements(flow, solver_of(run), first, parts=parts)
    return RecordedRun(
        measurements, run.time.values, tokens, radii, beta=flow.beta, space=type(flow).__name__, labels=labels
    )


def recorded_messages(run: RecordedRun, caption: Caption, frames: int = 300) -> dict[str, Any]:
    """All messages of a finished run, ready to be written as JSON; at most `frames` of its times are kept."""
    require_count(frames, "frames", least=2)
    room = max(MAX_BYTES // run.tokens[0].size // 4, 2)  # four bytes for a number
    run = run.thinned(min(frames, room))
    facts, settings, shown = run.measurements.facts(), _settings(run), run.frames()
    described = {"words": list(caption.words), "paper": caption.paper, "settings": settings}
    return {
        "hello": {
            "type": "hello",
            "version": protocol.VERSION,
            "catalogue": [{"name": caption.title, **described}],
            "words": {},
            "limits": {},
            "palette": palette(),
        },
        "started": {
            "type": "started",
            "run": 1,
            "scenario": caption.title,
            "logTime": run.is_log,
            "labels": list(run.labels) or None,
            "parts": list(run.measurements.parts) or None,
            "later": [],
            **described,
            **facts,
        },
        "times": [json_value(time) for time in run.times.tolist()],
        "shares": _shares(run).round(6).tolist(),
        "frames": [_base64(_frame_message(frame, run.is_log)) for frame in shown],
        "panels": _panels(run, shown, facts["prediction"]["limits"]),
        "attention": _attention(run, shown),
        "axes": principal_axes(run.tokens.reshape(-1, run.tokens.shape[-1])),
    }


def palette() -> list[list[int]]:
    """Colours of clusters, as numbers from 0 to 255."""
    from attnflow.show.parts.style import colours

    return (255 * colours(PALETTE_SIZE)).round().astype(int).tolist()


def _settings(run: RecordedRun) -> dict[str, Any]:
    n, d = run.tokens.shape[1] - run.measurements.targets, run.tokens.shape[2]
    spacing = "linear" if _is_even(run.times) else "log"
    return {"n": n, "d": d, "beta": run.beta, "end": float(run.times[-1]), "spacing": spacing, "space": run.space}


def _is_even(times: np.ndarray) -> bool:
    """Whether times are evenly spaced, up to the rounding of indices in `thinned`."""
    steps = np.diff(times)
    return bool(np.all(np.isfinite(steps)) and steps.max() <= 3 * max(steps.min(), 0))


def _shares(run: RecordedRun) -> np.ndarray:
    """Shares of the time slider of all times; unevenly spaced times are played one by one at the same pace."""
    if not run.is_log and _is_even(run.times):
        return (run.times - run.times[0]) / (run.times[-1] - run.times[0])
    return np.linspace(0, 1, len(run.times))


def _frame_message(frame: Frame, is_log: bool) -> bytes:
    flags = protocol.FrameFlag.LOG_TIME if is_log else 0
    message = protocol.FrameMessage(1, frame.index, frame.time, frame.tokens, frame.colours, flags)
    return protocol.frame_bytes(message)


def _panels(run: RecordedRun, frames: list[Frame], predicted: list[str]) -> list[dict[str, Any]]:
    """The numbers of every frame, with the verdict on the whole run."""
    verdict = run.measurements.verdict(predicted, run.times, run.tokens, is_complete=True)
    return [
        {
            "type": "panels",
            "run": 1,
            "frame": frame.index,
            "time": json_value(frame.time),
            **run.measurements.numbers(frame),
            "verdict": verdict,
        }
        for frame in frames
    ]


def _attention(run: RecordedRun, frames: list[Frame]) -> dict[str, str]:
    """Images of the attention matrix, by the index of the first frame that shows them."""
    images = {}
    for frame in frames[:: math.ceil(len(frames) / MAX_IMAGES)]:
        image = run.measurements.attention_image(frame, MAX_SIDE)
        if image is None:
            return {}
        time, sizes = json_value(frame.time) or 0.0, (len(frame.tokens), run.measurements.heads)
        images[str(frame.index)] = _base64(protocol.attention_bytes(1, frame.index, time, image, *sizes))
    return images


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
