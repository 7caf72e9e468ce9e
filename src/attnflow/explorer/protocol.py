"""What the page and the server say to each other: checked requests in, JSON and binary frames out.

Nothing from the page is trusted: a request is parsed into one of the classes below or refused with a sentence.
PROTOCOL.md describes every message.
"""

import json
import math
import struct
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from attnflow._common.checks import InputError, require_known
from attnflow.explorer.prompt_scenarios import HeadsSettings

VERSION = 1
LONGEST_WORD = 2_000  # characters; a typed 8 x 8 matrix fits
MOST_CHANGES = 200  # made while a run plays, in one link
MESSAGE_BYTES = 32_768
SPEEDS = (1e-3, 1e3)  # of the run, relative to the scenario's own pace

FRAME, ATTENTION, FILE = 1, 2, 3  # kinds of binary messages
HAS_LABELS, LOG_TIME, IS_LAST = 1, 2, 4  # flags of a frame
# little-endian: kind, version, flags, run, frame, time, n, d; 32 bytes, so that float32 follow aligned
FRAME_HEADER = struct.Struct("<BBHIIxxxxdII")
# kind, version, heads, run, frame, time, side, n
ATTENTION_HEADER = struct.Struct("<BBHIIxxxxdII")
# kind, version, bytes of the name, run; the name follows, then the content
FILE_HEADER = struct.Struct("<BBHI24x")
EXPORTS = ("dataset", "code", "html", "mp4", "gif")

_WHOLE = {"n", "d", "heads", "saves", "runs", "seed", "layer"}
_NUMBERS = {"beta", "redraw", "kappa", "end", "rtol", "atol"}
_FIELDS = [entry.name for entry in fields(HeadsSettings)]


@dataclass(frozen=True)
class Start:
    """Begin a run: a scenario with changes, perhaps later changes at their times, perhaps up to a time."""

    scenario: str
    changes: dict[str, Any]
    later: tuple[tuple[float, dict[str, Any]], ...] = ()
    until: float | None = None
    plays: bool = True


@dataclass(frozen=True)
class Change:
    """Change the model under the tokens as they are now."""

    changes: dict[str, Any]


@dataclass(frozen=True)
class Play:
    """Go on, or pause."""

    plays: bool


@dataclass(frozen=True)
class Step:
    """One frame forward or back, paused."""

    by: int


@dataclass(frozen=True)
class Seek:
    """Show the recorded frame nearest to a share of what has been computed."""

    share: float


@dataclass(frozen=True)
class Speed:
    """Play so many times faster than the scenario's own pace."""

    factor: float


@dataclass(frozen=True)
class Row:
    """Who does this token attend to? None: nobody asks any more."""

    token: int | None


@dataclass(frozen=True)
class Axes:
    """The principal axes of the tokens shown now."""


@dataclass(frozen=True)
class Seen:
    """The page has painted this frame of this run."""

    run: int
    frame: int


@dataclass(frozen=True)
class Export:
    """Write a file of what has been recorded."""

    kind: str


Request = Start | Change | Play | Step | Seek | Speed | Row | Axes | Seen | Export


class Frame(NamedTuple):
    """Tokens at one time, as the page gets them."""

    run: int
    index: int
    time: float
    tokens: np.ndarray
    labels: np.ndarray | None = None
    flags: int = 0


def parse(text: str) -> Request:
    """The request in a message of the page.

    Examples
    --------
    >>> parse('{"type": "seek", "share": 0.5}')
    Seek(share=0.5)
    """
    if len(text.encode("utf-8", "surrogatepass")) > MESSAGE_BYTES:
        raise InputError(f"A message must be at most {MESSAGE_BYTES:,} bytes, but this one is longer.")
    try:
        message = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("A message must be JSON, but this one cannot be read as such.") from None
    if not isinstance(message, dict):
        raise InputError("A message must be a JSON object with a `type`, but this one is something else.")
    kind = str(message.get("type"))[:40]
    require_known(kind, _PARSERS, "type")
    return _PARSERS[kind](message)


def frame_bytes(frame: Frame) -> bytes:
    """A frame as it travels: header, tokens as float32, then labels as uint16 if there are any."""
    n, d = frame.tokens.shape
    flags = frame.flags | (HAS_LABELS if frame.labels is not None else 0)
    header = FRAME_HEADER.pack(FRAME, VERSION, flags, frame.run, frame.index, frame.time, n, d)
    with np.errstate(over="ignore"):  # beyond float32 a token is drawn nowhere
        body = header + np.ascontiguousarray(frame.tokens, "<f4").tobytes()
    return body if frame.labels is None else body + np.ascontiguousarray(frame.labels, "<u2").tobytes()


def read_frame(data: bytes) -> Frame:
    """The frame in a binary message; what the page does in JavaScript."""
    kind, version, flags, run, index, time, n, d = FRAME_HEADER.unpack_from(data)
    if (kind, version) != (FRAME, VERSION):
        raise InputError(f"This is no frame of version {VERSION}: kind {kind}, version {version}.")
    tokens = np.frombuffer(data, "<f4", n * d, FRAME_HEADER.size).reshape(n, d)
    has_labels = bool(flags & HAS_LABELS)
    labels = np.frombuffer(data, "<u2", n, FRAME_HEADER.size + 4 * n * d) if has_labels else None
    return Frame(run, index, time, tokens, labels, flags)


def attention_bytes(run: int, index: int, time: float, matrix: np.ndarray, n: int, heads: int) -> bytes:
    """P(t), already made small enough, as it travels: header and weights as float32."""
    header = ATTENTION_HEADER.pack(ATTENTION, VERSION, heads, run, index, time, len(matrix), n)
    return header + np.ascontiguousarray(matrix, "<f4").tobytes()


def file_bytes(run: int, name: str, content: bytes) -> bytes:
    """A file as it travels: header, name, content."""
    named = name.encode()
    return FILE_HEADER.pack(FILE, VERSION, len(named), run) + named + content


def checked_changes(given: Any) -> dict[str, Any]:
    """Changes of settings with the right kinds of values; what they mean is checked when the model is built."""
    if not isinstance(given, dict):
        raise InputError("`changes` must be settings by name, but it is something else.")
    for name in given:
        require_known(name, _FIELDS, "setting")
    return {name: _checked(name, value) for name, value in given.items()}


def _checked(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _WHOLE:
        return _whole(value, name)
    if name in _NUMBERS:
        return _number(value, name)
    if not isinstance(value, str) or len(value) > LONGEST_WORD:
        raise InputError(f"`{name}` must be a text of at most {LONGEST_WORD:,} characters.")
    return value


def _whole(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**53:
        raise InputError(f"`{name}` must be a whole number, but it is {_short(value)}.")
    return value


def _number(value: Any, name: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or abs(value) > 1e300 or not math.isfinite(value):
        raise InputError(f"`{name}` must be a finite number, but it is {_short(value)}.")
    return float(value)


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"`{name}` must be true or false, but it is {_short(value)}.")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _refuse_constant(name: str) -> Any:
    raise InputError(f"Numbers in a message must be finite, but one is {name}.")


def _start(message: dict) -> Start:
    name, later = message.get("scenario"), message.get("later", [])
    if not isinstance(name, str) or len(name) > 100:
        raise InputError("`scenario` must be the name of a scenario.")
    if not isinstance(later, list) or len(later) > MOST_CHANGES:
        raise InputError(f"`later` must be a list of at most {MOST_CHANGES} changes.")
    until = message.get("until")
    until = None if until is None else _number(until, "until")
    moments = tuple(_moment(entry) for entry in later)
    return Start(
        name, checked_changes(message.get("changes", {})), moments, until, _flag(message.get("plays", True), "plays")
    )


def _moment(entry: Any) -> tuple[float, dict[str, Any]]:
    if not isinstance(entry, list) or len(entry) != 2:
        raise InputError("Every entry of `later` must be a time and changes, but one is something else.")
    return _number(entry[0], "later"), checked_changes(entry[1])


def _row(message: dict) -> Row:
    token = message.get("token")
    return Row(None if token is None else max(_whole(token, "token"), 0))


def _speed(message: dict) -> Speed:
    return Speed(min(max(_number(message.get("factor"), "factor"), SPEEDS[0]), SPEEDS[1]))


def _export(message: dict) -> Export:
    kind = str(message.get("kind"))[:40]
    require_known(kind, EXPORTS, "kind")
    return Export(kind)


_PARSERS = {
    "start": _start,
    "change": lambda message: Change(checked_changes(message.get("changes"))),
    "play": lambda message: Play(_flag(message.get("plays"), "plays")),
    "step": lambda message: Step(1 if _whole(message.get("by", 1), "by") >= 0 else -1),
    "seek": lambda message: Seek(min(max(_number(message.get("share"), "share"), 0.0), 1.0)),
    "speed": _speed,
    "row": _row,
    "axes": lambda message: Axes(),
    "export": _export,
    "seen": lambda message: Seen(_whole(message.get("run"), "run"), _whole(message.get("frame"), "frame")),
}
