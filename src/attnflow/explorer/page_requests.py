"""Requests of the page, read from its messages and checked.

A message of the page is not trusted: it is parsed into one of the requests below, or refused with a sentence.
PROTOCOL.md describes every request.
"""

import json
import math
from dataclasses import dataclass, fields
from typing import Any

from attnflow._common.checks import InputError, require_known
from attnflow.explorer.export.stage_view import StageView, parsed_view
from attnflow.explorer.prompt_scenarios import HeadsSettings

MAX_TEXT = 2_000  # characters of a setting; a typed 8 x 8 matrix fits
MAX_CHANGES = 200  # that one link may make while its run plays
MAX_PLACED_NUMBERS = 300  # coordinates of tokens placed by hand that a link may contain
MESSAGE_BYTES = 32_768  # of one request; the longest link fits
SPEEDS = (1e-3, 1e3)  # smallest and largest speed, relative to the usual one
EXPORTS = ("dataset", "code", "html", "mp4", "gif")

_WHOLE = {"n", "d", "heads", "saves", "runs", "seed", "layer", "layers", "head"}
_NUMBERS = {"beta", "redraw", "kappa", "end", "rtol", "atol"}
_FIELDS = [entry.name for entry in fields(HeadsSettings)]


@dataclass(frozen=True)
class Start:
    """Start a run of a scenario with changes, optionally with later changes at given times and up to a given time."""

    scenario: str
    changes: dict[str, Any]
    later: tuple[tuple[float, dict[str, Any]], ...] = ()
    until: float | None = None
    plays: bool = True
    tokens: tuple[tuple[float, ...], ...] | None = None
    """First tokens that were placed by hand; None for those of the settings."""


@dataclass(frozen=True)
class EditTokens:
    """Move, add or remove a token, and start a run from the tokens on display with this change."""

    token: int | None = None
    """The token that is moved or removed; None adds one."""
    point: tuple[float, ...] | None = None
    """The place to which the token goes; None removes it."""
    plays: bool = False


@dataclass(frozen=True)
class ChangeSettings:
    """Change the model and continue from the tokens on display."""

    changes: dict[str, Any]


@dataclass(frozen=True)
class Play:
    """Play or pause. The state that answers it has its number or a higher one; so it is with `Step` and `Seek`."""

    plays: bool
    number: int = 0


@dataclass(frozen=True)
class Step:
    """Pause and show the next or the previous frame."""

    by: int
    number: int = 0


@dataclass(frozen=True)
class Seek:
    """Show the recorded frame at a share of the time slider."""

    share: float
    number: int = 0


@dataclass(frozen=True)
class SetSpeed:
    """Play at a multiple of the usual speed."""

    factor: float


@dataclass(frozen=True)
class SendRow:
    """Send the attention weights of one token with every measurement; None ends this."""

    token: int | None


@dataclass(frozen=True)
class SendAxes:
    """Send the principal axes of the tokens on display."""


@dataclass(frozen=True)
class FramePainted:
    """Confirm that the page has painted a frame of a run."""

    run: int
    frame: int


@dataclass(frozen=True)
class Export:
    """Write a file of the recorded run; a movie in the view of the page."""

    kind: str
    view: StageView | None = None


@dataclass(frozen=True)
class ShowStrip:
    """Compute small pictures of the end states over beta, or end this."""

    is_shown: bool


PageRequest = (
    Start
    | EditTokens
    | ChangeSettings
    | Play
    | Step
    | Seek
    | SetSpeed
    | SendRow
    | SendAxes
    | FramePainted
    | Export
    | ShowStrip
)


def parse(text: str) -> PageRequest:
    """The request that a message of the page contains.

    Examples
    --------
    >>> parse('{"type": "seek", "share": 0.5}')
    Seek(share=0.5, number=0)
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
        raise InputError("A message must be a JSON object with a `type`, but this one is not.")
    kind = str(message.get("type"))[:40]
    require_known(kind, _PARSERS, "type")
    return _PARSERS[kind](message)


def checked_changes(given: Any) -> dict[str, Any]:
    """Changes of settings whose values have the right types; their meaning is checked when the model is built."""
    if not isinstance(given, dict):
        raise InputError("`changes` must be settings by name, but it is another type.")
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
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise InputError(f"`{name}` must be a text of at most {MAX_TEXT:,} characters.")
    return value


def _whole(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**53:
        raise InputError(f"`{name}` must be a whole number, but it is {_short(value)}.")
    return value


def _number(value: Any, name: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or abs(value) > 1e300 or not math.isfinite(value):
        raise InputError(f"`{name}` must be a finite number of at most 1e300 in size, but it is {_short(value)}.")
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
    if not isinstance(later, list) or len(later) > MAX_CHANGES:
        raise InputError(f"`later` must be a list of at most {MAX_CHANGES} changes.")
    until = message.get("until")
    until = None if until is None else _number(until, "until")
    return Start(
        scenario=name,
        changes=checked_changes(message.get("changes", {})),
        later=tuple(_later_change(entry) for entry in later),
        until=until,
        plays=_flag(message.get("plays", True), "plays"),
        tokens=_placed(message.get("tokens")),
    )


def _placed(rows: Any) -> tuple[tuple[float, ...], ...] | None:
    if rows is None:
        return None
    if not isinstance(rows, list) or not rows:
        raise InputError("`tokens` must be a list of places, one for each token.")
    if sum(len(row) if isinstance(row, list) else 1 for row in rows) > MAX_PLACED_NUMBERS:
        raise InputError(f"`tokens` must have at most {MAX_PLACED_NUMBERS} numbers, but it has more.")
    return tuple(_point(row) for row in rows)


def _point(given: Any) -> tuple[float, ...]:
    if not isinstance(given, list) or not given:
        raise InputError("The place of a token must be a list of its coordinates.")
    return tuple(_number(value, "coordinate") for value in given)


def _edit(message: dict) -> EditTokens:
    plays = _flag(message.get("plays", False), "plays")
    edits = [name for name in ("move", "add", "remove") if name in message]
    if len(edits) != 1:
        raise InputError("`tokens` must have one of `move`, `add` and `remove`.")
    given = message[edits[0]]
    if edits == ["add"]:
        return EditTokens(None, _point(given), plays)
    if edits == ["remove"]:
        return EditTokens(_whole(given, "remove"), None, plays)
    if not isinstance(given, dict):
        raise InputError("`move` must have a `token` and its place `to`.")
    return EditTokens(_whole(given.get("token"), "token"), _point(given.get("to")), plays)


def _later_change(entry: Any) -> tuple[float, dict[str, Any]]:
    if not isinstance(entry, list) or len(entry) != 2:
        raise InputError("Every entry of `later` must be a list of a time and changes, but one is not.")
    return _number(entry[0], "later"), checked_changes(entry[1])


def _row(message: dict) -> SendRow:
    token = message.get("token")
    return SendRow(None if token is None else max(_whole(token, "token"), 0))


def _share(message: dict) -> float:
    return min(max(_number(message.get("share"), "share"), 0.0), 1.0)


def _request_number(message: dict) -> int:
    return _whole(message.get("number", 0), "number")


def _speed(message: dict) -> SetSpeed:
    return SetSpeed(min(max(_number(message.get("factor"), "factor"), SPEEDS[0]), SPEEDS[1]))


def _export(message: dict) -> Export:
    kind = str(message.get("kind"))[:40]
    require_known(kind, EXPORTS, "kind")
    return Export(kind, parsed_view(message.get("view"), _number))


_PARSERS = {
    "start": _start,
    "tokens": _edit,
    "change": lambda message: ChangeSettings(checked_changes(message.get("changes"))),
    "play": lambda message: Play(_flag(message.get("plays"), "plays"), _request_number(message)),
    "step": lambda message: Step(1 if _whole(message.get("by", 1), "by") >= 0 else -1, _request_number(message)),
    "seek": lambda message: Seek(_share(message), _request_number(message)),
    "speed": _speed,
    "row": _row,
    "axes": lambda message: SendAxes(),
    "export": _export,
    "strip": lambda message: ShowStrip(_flag(message.get("shown"), "shown")),
    "seen": lambda message: FramePainted(_whole(message.get("run"), "run"), _whole(message.get("frame"), "frame")),
}
