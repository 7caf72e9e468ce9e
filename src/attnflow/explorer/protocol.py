"""The layout of messages to the page: JSON; frames, attention images and files in binary. PROTOCOL.md describes it."""

import json
import math
import struct
from enum import IntEnum, IntFlag
from typing import Any, NamedTuple

import numpy as np

from attnflow._common.checks import InputError

VERSION = 1
# little-endian: kind, version, flags, run, frame, time, n, d; 32 bytes, so that float32 follow aligned
FRAME_HEADER = struct.Struct("<BBHIIxxxxdII")
# kind, version, heads, run, frame, time, side, n
ATTENTION_HEADER = struct.Struct("<BBHIIxxxxdII")
# kind, version, bytes of the name, run; the name follows, then the content
FILE_HEADER = struct.Struct("<BBHI24x")


class MessageKind(IntEnum):
    """The first byte of a binary message."""

    FRAME = 1
    ATTENTION = 2
    FILE = 3


class FrameFlag(IntFlag):
    """Flags of a frame."""

    HAS_LABELS = 1
    LOG_TIME = 2


class FrameMessage(NamedTuple):
    """The tokens at one time, as they are sent to the page."""

    run: int
    index: int
    time: float
    tokens: np.ndarray
    labels: np.ndarray | None = None
    flags: int = 0


def frame_bytes(frame: FrameMessage) -> bytes:
    """A frame as a binary message: header, tokens as float32, and labels, if any, as uint16."""
    n, d = frame.tokens.shape
    flags = frame.flags | (FrameFlag.HAS_LABELS if frame.labels is not None else 0)
    header = FRAME_HEADER.pack(MessageKind.FRAME, VERSION, flags, frame.run, frame.index, frame.time, n, d)
    with np.errstate(over="ignore"):  # a token beyond the range of float32 is not drawn
        body = header + np.ascontiguousarray(frame.tokens, "<f4").tobytes()
    return body if frame.labels is None else body + np.ascontiguousarray(frame.labels, "<u2").tobytes()


def read_frame(data: bytes) -> FrameMessage:
    """The frame in a binary message, as the page decodes it in JavaScript."""
    kind, version, flags, run, index, time, n, d = FRAME_HEADER.unpack_from(data)
    if (kind, version) != (MessageKind.FRAME, VERSION):
        raise InputError(
            f"A frame must have kind {MessageKind.FRAME} and version {VERSION}, but this one has {kind} and {version}."
        )
    tokens = np.frombuffer(data, "<f4", n * d, FRAME_HEADER.size).reshape(n, d)
    has_labels = bool(flags & FrameFlag.HAS_LABELS)
    labels = np.frombuffer(data, "<u2", n, FRAME_HEADER.size + 4 * n * d) if has_labels else None
    return FrameMessage(run, index, time, tokens, labels, flags)


def attention_bytes(run: int, index: int, time: float, matrix: np.ndarray, n: int, heads: int) -> bytes:
    """An image of P(t) as a binary message: header and weights as float32."""
    header = ATTENTION_HEADER.pack(MessageKind.ATTENTION, VERSION, heads, run, index, time, len(matrix), n)
    return header + np.ascontiguousarray(matrix, "<f4").tobytes()


def file_bytes(run: int, name: str, content: bytes) -> bytes:
    """A file as a binary message: header, name, content."""
    named = name.encode()
    return FILE_HEADER.pack(MessageKind.FILE, VERSION, len(named), run) + named + content


def json_text(message: Any, separators: tuple[str, str] | None = None) -> str:
    """A message as JSON; numbers that are not finite become the texts that JavaScript's `Number` reads.

    Examples
    --------
    >>> json_text({"height": float("inf"), "cosines": [0.5, float("nan")]})
    '{"height": "Infinity", "cosines": [0.5, "NaN"]}'
    """
    try:
        return json.dumps(message, allow_nan=False, separators=separators)
    except ValueError:
        return json.dumps(_with_texts(message), allow_nan=False, separators=separators)


def _with_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_texts(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_with_texts(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
