"""What has been computed of a run: frames in the order of time, in bounded memory."""

from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np

from attnflow._common.plain import evenly_spaced

MOST_BYTES = 48 * 2**20  # of one viewer
MOST_FRAMES = 6_000


class Moment(NamedTuple):
    """The tokens at one time, in full precision, so that a run can go on from there."""

    index: int
    time: float
    tokens: np.ndarray
    radii: np.ndarray | None = None
    labels: np.ndarray | None = None
    steps: int = 0
    """Steps taken so far; noise depends on it."""


class Recording:
    """Moments of one run. When it is full every second one is dropped, so that all of the time stays in reach.

    Examples
    --------
    >>> recording = Recording(most_frames=4)
    >>> for time in range(6):
    ...     recording.add(Moment(time, float(time), np.zeros((1, 2))))
    >>> [moment.time for moment in recording.moments]
    [0.0, 2.0, 4.0, 5.0]
    """

    def __init__(self, most_bytes: int = MOST_BYTES, most_frames: int = MOST_FRAMES):
        self.moments: list[Moment] = []
        self._most_bytes, self._most_frames = most_bytes, most_frames

    def add(self, moment: Moment) -> None:
        """Append the latest moment."""
        self.moments.append(moment)
        if len(self.moments) > max(2, min(self._most_frames, self._most_bytes // moment.tokens.nbytes)):
            self.moments = [*self.moments[:-1:2], self.moments[-1]]

    @property
    def last(self) -> Moment:
        """The latest moment."""
        return self.moments[-1]

    @property
    def times(self) -> list[float]:
        """All times."""
        return [moment.time for moment in self.moments]

    def place(self, time: float) -> int:
        """Place of the last moment that is not after `time`."""
        return max(bisect_right(self.moments, time, key=lambda moment: moment.time) - 1, 0)

    def forget_after(self, place: int) -> None:
        """Drop what followed: the run takes another way from there."""
        del self.moments[place + 1 :]

    def sample(self, most: int, until: int) -> tuple[np.ndarray, np.ndarray]:
        """At most `most` times and their tokens, evenly over the places up to `until`."""
        chosen: Any = evenly_spaced(until + 1, most)
        picked = [self.moments[place] for place in chosen]
        return np.array([moment.time for moment in picked]), np.stack([moment.tokens for moment in picked])
