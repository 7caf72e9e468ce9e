"""Pace: how fast time goes by on the page, evenly or by its logarithm."""

from dataclasses import dataclass

import numpy as np

FRAMES_PER_SECOND = 30
SECONDS = 14.0  # that a run takes from its start to its end at speed one
DECADES = 1e4  # of logarithmic time are seen: it starts at the end over this


@dataclass(frozen=True)
class Pace:
    """A clock that goes from 0 to `end`, evenly or, where much happens early, by the logarithm of time.

    Examples
    --------
    >>> Pace(10.0).share_of(5.0), Pace(10.0).time_of(0.5)
    (0.5, 5.0)
    >>> bool(Pace(10.0, is_log=True).share_of(0.1) > 0.4)
    True
    """

    end: float
    is_log: bool = False

    @property
    def _first(self) -> float:
        return self.end / DECADES

    def share_of(self, time: float) -> float:
        """Of the way to the end."""
        if not self.is_log:
            return time / self.end
        return float(np.log1p(time / self._first) / np.log1p(DECADES))

    def time_of(self, share: float) -> float:
        """After a share of the way."""
        if not self.is_log:
            return share * self.end
        return float(self._first * np.expm1(share * np.log1p(DECADES)))

    def after(self, time: float, factor: float) -> float:
        """The time of the next frame, at `factor` times the usual speed."""
        return self.time_of(self.share_of(time) + factor / (SECONDS * FRAMES_PER_SECOND))
