"""A film: a finished run as the messages that a page plays without a server."""

import base64
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from attnflow._checks import InputError, require_count
from attnflow.dynamics import AbstractDynamics
from attnflow.explorer import panels, protocol
from attnflow.explorer.colours import Slots
from attnflow.explorer.recording import Moment
from attnflow.trajectory import COALESCENCE, KIND, flow_of, require_ours, solver_of

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
    """The tokens of one run over time, and the model that moved them."""

    flow: AbstractDynamics
    solver: Any  # None of a run that coalesces
    times: np.ndarray
    tokens: np.ndarray  # (time, token, coordinate)
    radii: np.ndarray | None
    is_log: bool  # whether times are log t
    labels: tuple[str, ...] = ()  # words of the tokens

    def moment(self, index: int) -> Moment:
        """The tokens at one of the times."""
        radii = None if self.radii is None else self.radii[index]
        return Moment(index, float(self.times[index]), self.tokens[index], radii)

    def thinned(self, most: int) -> "Reel":
        """At most `most` times, evenly chosen, the first and the last among them."""
        chosen = np.unique(np.linspace(0, len(self.times) - 1, min(most, len(self.times))).round().astype(int))
        radii = None if self.radii is None else self.radii[chosen]
        return Reel(self.flow, self.solver, self.times[chosen], self.tokens[chosen], radii, self.is_log, self.labels)


def reel_of(run: xr.Dataset, which: int = 0) -> Reel:
    """The tokens in a result of `simulate` or `coalesce`."""
    require_ours(run, "`run`")
    if run.attrs["kind"] not in (KIND, COALESCENCE):
        raise InputError(
            "`run` must be a result of `simulate` or `coalesce`, but it is a prompt's way through layers, "
            "which no flow moves. `show.trajectories` draws it."
        )
    if "tokens" not in run:
        raise InputError("`run` has no tokens over time: it was made with keep_tokens=False. Simulate it with tokens.")
    require_count(which, "runs", least=0)
    if which >= run.sizes.get("run", 1):
        raise InputError(f"`runs` must be one of the runs, 0 to {run.sizes.get('run', 1) - 1}, but it is {which}.")
    one = run.isel(run=which) if "run" in run.dims else run
    is_log = run.attrs["kind"] == COALESCENCE
    times = one.log_time.values if is_log else one.time.values
    whole = np.isfinite(one.tokens.values).all(axis=(1, 2))
    radii = one.radius.values[whole] if "radius" in one else None
    labels = tuple(str(word) for word in one.word.values) if "word" in one.coords else ()
    solver = None if is_log else solver_of(run)
    return Reel(flow_of(run), solver, times[whole], one.tokens.values[whole], radii, is_log, labels)


def film_of(reel: Reel, caption: Caption, frames: int = 300) -> dict[str, Any]:
    """All messages of a film, ready to be written as JSON."""
    require_count(frames, "frames", least=2)
    if len(reel.times) < 2:
        raise InputError(f"A film needs the tokens at two times or more, but there are {len(reel.times)}.")
    room = max(MOST_BYTES // reel.tokens[0].size // 4, 2)
    reel = reel.thinned(min(frames, room))
    facts = _facts(reel)
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
        "times": [panels.plain(time) for time in reel.times.tolist()],
        "shares": _shares(reel).round(6).tolist(),
        "frames": _frames(reel),
        "panels": _panels(reel, facts["prediction"]["limits"]),
        "attention": _attention(reel),
        "axes": panels.principal_axes(reel.tokens.reshape(-1, reel.tokens.shape[-1])),
    }


def palette() -> list[list[int]]:
    """Colours of clusters, as numbers from 0 to 255."""
    from attnflow.show.style import colours

    return (255 * colours(COLOURS)).round().astype(int).tolist()


def _facts(reel: Reel) -> dict[str, Any]:
    first = reel.moment(0)
    tokens = first.tokens if first.radii is None else first.tokens * first.radii[:, None]
    return {
        "centres": panels.centres_of(reel.flow, first.tokens, "Causal" in type(reel.flow.mask).__name__),
        "closeness": panels.closeness(reel.flow, first.tokens),
        **panels.model_facts(reel.flow, reel.solver, tokens),
    }


def _settings(reel: Reel) -> dict[str, Any]:
    n, d = reel.tokens.shape[1:]
    beta = getattr(reel.flow.attention, "beta", None)
    spacing = "linear" if _is_even(reel.times) else "log"
    return {"n": n, "d": d, "beta": None if beta is None else float(beta), "end": float(reel.times[-1]),
            "spacing": spacing, "space": type(reel.flow).__name__}  # fmt: skip


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
    slots = Slots(panels.closeness(reel.flow, reel.tokens[0]))
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
        numbers = panels.numbers_of(reel.flow, moment, reel.tokens[0])
        found.append({"type": "panels", "run": 1, "frame": index, "time": panels.plain(moment.time), **numbers})
    if reel.is_log:
        verdict = panels.verdict_of_count(found[-1]["clusters"], float(reel.times[-1]))
    else:
        verdict = panels.verdict(reel.flow, promised, reel.times, reel.tokens)
    verdict["says"] = verdict["says"].replace("The run so far", "The whole run")
    return [{**one, "verdict": verdict} for one in found]


def _attention(reel: Reel) -> dict[str, str]:
    """Images by the frame from which they are shown."""
    found = {}
    every = math.ceil(len(reel.times) / MOST_IMAGES)
    for index in range(0, len(reel.times), every):
        moment = reel.moment(index)
        now = moment._replace(time=0.0 if reel.is_log else moment.time)
        image = panels.attention_image(reel.flow, now, SIDE)
        if image is None:
            return {}
        sizes = (reel.tokens.shape[1], len(reel.flow.heads))
        found[str(index)] = _text(protocol.attention_bytes(1, index, now.time, image, *sizes))
    return found


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
