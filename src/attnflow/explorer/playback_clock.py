"""The clock of a playback: which time of a run is shown at which share of the time slider."""

import math
from dataclasses import dataclass

import numpy as np

FRAMES_PER_SECOND = 30
PLAYBACK_SECONDS = 14.0  # from the start of a run to its end at speed one
LOG_TIME_RANGE = 1e4  # logarithmic time is resolved from the end down to the end over this


@dataclass(frozen=True)
class PlaybackClock:
    """Maps times from 0 to `end` to shares from 0 to 1, linearly or, for runs that change most at first, by log time.

    With `is_log`, share(t) = log(1 + t / t_0) / log(1 + end / t_0) and t_0 = end / LOG_TIME_RANGE.

    Examples
    --------
    >>> PlaybackClock(10.0).share_of(5.0), PlaybackClock(10.0).time_of(0.5)
    (0.5, 5.0)
    >>> bool(PlaybackClock(10.0, is_log=True).share_of(0.1) > 0.4)
    True
    """

    end: float
    is_log: bool = False

    @property
    def _shortest_time(self) -> float:
        return self.end / LOG_TIME_RANGE

    def share_of(self, time: float) -> float:
        """Position of the slider, from 0 to 1, at a time."""
        if not self.is_log:
            return time / self.end
        return float(np.log1p(time / self._shortest_time) / np.log1p(LOG_TIME_RANGE))

    def time_of(self, share: float) -> float:
        """The time at a position of the slider, from 0 to 1."""
        if not self.is_log:
            return share * self.end
        return float(self._shortest_time * np.expm1(share * np.log1p(LOG_TIME_RANGE)))

    def after(self, time: float, factor: float, parts: int = 1) -> float:
        """The time of the next frame at `factor` times the usual speed, with `parts` frames in place of one.

        Frames are at multiples of one share of the slider, so that two runs with the same factor have frames at the
        same times, whatever the powers of two `parts` of each.
        """
        spacing = factor / (PLAYBACK_SECONDS * FRAMES_PER_SECOND * parts)
        return self.time_of((math.floor(self.share_of(time) / spacing + 1e-6) + 1) * spacing)
