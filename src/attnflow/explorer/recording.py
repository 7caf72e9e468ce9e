"""The computed frames of a run, in the order of time and in bounded memory."""

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
import xarray as xr

from attnflow._common.plain import evenly_spaced

MAX_BYTES = 48 * 2**20  # of the tokens that one viewer's recording holds
MAX_FRAMES = 6_000  # more than a time slider can tell apart


class Frame(NamedTuple):
    """The tokens at one time, in double precision, so that a run can continue from them."""

    index: int
    time: float
    tokens: np.ndarray
    radii: np.ndarray | None = None
    """Lengths of the tokens where the model has them; `tokens` are directions then."""
    colours: np.ndarray | None = None
    """Colour of each token's cluster; 0 is the colour of tokens in no cluster."""
    clusters: int | None = None
    """Number of clusters; None if it was not counted."""
    steps: int = 0
    """Solver steps up to this time; the noise of a step depends on its number."""

    @property
    def full_tokens(self) -> np.ndarray:
        """Directions times lengths, or the tokens themselves where they have no lengths."""
        return self.tokens if self.radii is None else self.tokens * self.radii[:, None]


def frames_of(run: xr.Dataset) -> list[Frame]:
    """The recorded states of a coalescing run as frames, whose time is log t."""
    states = zip(run.log_time.values, run.tokens.values, strict=True)
    return [Frame(index, float(time), np.asarray(tokens, float)) for index, (time, tokens) in enumerate(states)]


class Recording:
    """The frames of one run. A full recording drops every second frame, so that all of the time stays in reach.

    Examples
    --------
    >>> recording = Recording(max_frames=4)
    >>> for time in range(6):
    ...     recording.add(Frame(time, float(time), np.zeros((1, 2))))
    >>> [frame.time for frame in recording.frames]
    [0.0, 2.0, 4.0, 5.0]
    """

    def __init__(self, max_bytes: int = MAX_BYTES, max_frames: int = MAX_FRAMES):
        self.frames: list[Frame] = []
        self._max_bytes, self._max_frames = max_bytes, max_frames

    def add(self, frame: Frame, shown: int = -1) -> None:
        """Append the latest frame. Frames from the position `shown` on are not dropped: they have yet to be shown."""
        self.frames.append(frame)
        if len(self.frames) > max(2, min(self._max_frames, self._max_bytes // frame.tokens.nbytes)):
            self.frames = [*self.frames[:shown:2], *self.frames[shown:]]

    @property
    def last(self) -> Frame:
        """The latest frame."""
        return self.frames[-1]

    @property
    def last_position(self) -> int:
        """Position of the latest frame in `frames`."""
        return len(self.frames) - 1

    @property
    def times(self) -> list[float]:
        """Times of all frames."""
        return [frame.time for frame in self.frames]

    def position_at(self, time: float) -> int:
        """Position of the last frame that is not after `time`."""
        return max(bisect_right(self.frames, time, key=lambda frame: frame.time) - 1, 0)

    def drop_after(self, position: int) -> None:
        """Drop all frames after a position, since the run continues differently from there."""
        del self.frames[position + 1 :]

    def sample(self, count: int, until: int) -> tuple[np.ndarray, np.ndarray]:
        """At most `count` times and their tokens, evenly chosen from the positions 0 to `until`."""
        picked = [self.frames[position] for position in evenly_spaced(until + 1, count)]
        return np.array([frame.time for frame in picked]), np.stack([frame.tokens for frame in picked])
