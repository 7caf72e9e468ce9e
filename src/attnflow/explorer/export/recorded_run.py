"""A film: a finished run as the messages that a page plays without a server."""

import base64
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count
from attnflow._common.plain import evenly_spaced, json_value
from attnflow.explorer import protocol
from attnflow.explorer.measure import panels
from attnflow.explorer.measure.cluster_colours import Slots
from attnflow.explorer.measure.layer_run import Passage
from attnflow.explorer.measure.subject import AbstractSubject, Flowing
from attnflow.explorer.recording import Moment
from attnflow.results.run_dataset import COALESCENCE, PROMPT, flow_of, require_ours, solver_of

MOST_BYTES = 24 * 2**20  # of all frames: what mail and browsers still take
MOST_IMAGES = 80  # of the attention matrix
SIDE = 64  # of such an image
COLOURS = 40  # that clusters have before they repeat


@dataclass(frozen=True)
class Caption:
    """What stands beside a film."""

    title: str
    words: tuple[str, ...] = ()
    paper: str = ""


@dataclass(frozen=True)
class Reel:
    """The tokens of one run over time, and what is known of them."""

    subject: AbstractSubject
    times: np.ndarray
    tokens: np.ndarray  # (time, token, coordinate)
    radii: np.ndarray | None = None
    is_log: bool = False  # whether times are log t
    beta: float | None = None
    space: str = "layers"
    labels: tuple[str, ...] = ()  # words of the tokens

    def moment(self, index: int) -> Moment:
        """The tokens at one of the times."""
        radii = None if self.radii is None else self.radii[index]
        return Moment(index, float(self.times[index]), self.tokens[index], radii)

    def thinned(self, most: int) -> "Reel":
        """At most `most` times, evenly chosen, the first and the last among them."""
        chosen = evenly_spaced(len(self.times), most)
        radii = None if self.radii is None else self.radii[chosen]
        return replace(self, times=self.times[chosen], tokens=self.tokens[chosen], radii=radii)


def reel_of(run: xr.Dataset, member: int = 0) -> Reel:
    """The tokens in a result of `simulate`, `coalesce` or a trained model's `trajectory`."""
    require_ours(run, "`run`")
    if "tokens" not in run:
        raise InputError("`run` has no tokens over time: it was made with keep_tokens=False. Simulate it with tokens.")
    require_count(member, "member", least=0)
    if member >= run.sizes.get("run", 1):
        raise InputError(f"`member` must be one of the runs, 0 to {run.sizes.get('run', 1) - 1}, but it is {member}.")
    one = run.isel(run=member) if "run" in run.dims else run
    along = "state" if run.attrs["kind"] == COALESCENCE else "time"
    whole = np.isfinite(one.tokens.values).all(axis=(1, 2))
    if np.count_nonzero(whole) < 2:
        raise InputError(f"A film needs the tokens at two times or more, but there are {np.count_nonzero(whole)}.")
    one = one.isel({along: whole})
    return _reel_of_layers(one) if run.attrs["kind"] == PROMPT else _reel_of_flow(one)


def _reel_of_layers(run: xr.Dataset) -> Reel:
    passage = Passage(run)
    return Reel(passage, run.time.values, passage.tokens, labels=passage.words)


def _reel_of_flow(run: xr.Dataset) -> Reel:
    is_log = run.attrs["kind"] == COALESCENCE
    times, tokens = (run.log_time if is_log else run.time).values, run.tokens.values
    radii = run.radius.values if "radius" in run else None
    flow, solver = flow_of(run), None if is_log else solver_of(run)
    subject = Flowing(flow, solver, Moment(0, 0.0, tokens[0], None if radii is None else radii[0]), is_log)
    labels = tuple(str(word) for word in run.word.values) if "word" in run.coords else ()
    return Reel(subject, times, tokens, radii, is_log, flow.beta, type(flow).__name__, labels)


def film_of(reel: Reel, caption: Caption, frames: int = 300) -> dict[str, Any]:
    """All messages of a film, ready to be written as JSON."""
    require_count(frames, "frames", least=2)
    room = max(MOST_BYTES // reel.tokens[0].size // 4, 2)
    reel = reel.thinned(min(frames, room))
    facts = reel.subject.facts()
    settings = _settings(reel)
    scenario = {"name": caption.title, "words": list(caption.words), "paper": caption.paper, "settings": settings}
    started = {"type": "started", "run": 1, "scenario": caption.title, "words": list(caption.words),
               "paper": caption.paper, "logTime": reel.is_log, "labels": list(reel.labels) or None,
               "settings": settings, "later": [], **facts}  # fmt: skip
    hello = {"type": "hello", "version": protocol.VERSION, "catalogue": [scenario], "words": {}, "limits": {},
             "palette": palette()}  # fmt: skip
    return {
        "hello": hello,
        "started": started,
        "times": [json_value(time) for time in reel.times.tolist()],
        "shares": _shares(reel).round(6).tolist(),
        "frames": _frames(reel),
        "panels": _panels(reel, facts["prediction"]["limits"]),
        "attention": _attention(reel),
        "axes": panels.principal_axes(reel.tokens.reshape(-1, reel.tokens.shape[-1])),
    }


def palette() -> list[list[int]]:
    """Colours of clusters, as numbers from 0 to 255."""
    from attnflow.show.parts.style import colours

    return (255 * colours(COLOURS)).round().astype(int).tolist()


def _settings(reel: Reel) -> dict[str, Any]:
    n, d = reel.tokens.shape[1:]
    spacing = "linear" if _is_even(reel.times) else "log"
    return {"n": n, "d": d, "beta": reel.beta, "end": float(reel.times[-1]), "spacing": spacing, "space": reel.space}


def _is_even(times: np.ndarray) -> bool:
    """Whether times go by evenly, up to the rounding of a choice among them."""
    steps = np.diff(times)
    return bool(np.all(np.isfinite(steps)) and steps.max() <= 3 * max(steps.min(), 0))


def _shares(reel: Reel) -> np.ndarray:
    """Where each time stands between the start and the end; uneven times were chosen to be seen one by one."""
    if not reel.is_log and _is_even(reel.times):
        return (reel.times - reel.times[0]) / (reel.times[-1] - reel.times[0])
    return np.linspace(0, 1, len(reel.times))


def _frames(reel: Reel) -> list[str]:
    slots = Slots(reel.subject.distance)
    flags = protocol.LOG_TIME if reel.is_log else 0
    found = [
        protocol.Frame(1, index, float(time), tokens, slots.update(tokens), flags)
        for index, (time, tokens) in enumerate(zip(reel.times, reel.tokens, strict=True))
    ]
    return [_text(protocol.frame_bytes(frame)) for frame in found]


def _panels(reel: Reel, promised: list[str]) -> list[dict[str, Any]]:
    """The numbers of every frame; the verdict is that of the whole run, which is known."""
    found = []
    for index in range(len(reel.times)):
        moment = reel.moment(index)
        numbers = reel.subject.numbers(moment)
        found.append({"type": "panels", "run": 1, "frame": index, "time": json_value(moment.time), **numbers})
    verdict = reel.subject.verdict(promised, reel.times, reel.tokens)
    verdict["says"] = verdict["says"].replace("The run so far", "The whole run")
    return [{**one, "verdict": verdict} for one in found]


def _attention(reel: Reel) -> dict[str, str]:
    """Images by the frame from which they are shown."""
    found = {}
    every = math.ceil(len(reel.times) / MOST_IMAGES)
    for index in range(0, len(reel.times), every):
        moment = reel.moment(index)
        image = reel.subject.image(moment, SIDE)
        if image is None:
            return {}
        time, sizes = json_value(moment.time) or 0.0, (reel.tokens.shape[1], reel.subject.heads)
        found[str(index)] = _text(protocol.attention_bytes(1, index, time, image, *sizes))
    return found


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
