"""The pace of a computation: how much time of a run is computed in a second, and with which steps."""

import math
import time as wall
from collections import deque
from typing import NamedTuple

WINDOW = 2.0  # seconds over which the pace is averaged
SLOW_FRAMES_PER_SECOND = 30  # planned where computing is slow; some of the time goes into colours and interpolation
MAX_PARTS = 2**20  # of a frame in slow motion: smaller ones show no motion
MIN_SECONDS = 0.3  # of computing in a window: a run that computes less is not slowed by it


class CallTime(NamedTuple):
    """What one or several compiled calls have done."""

    advance: float = 0.0
    """Time of the run that was integrated."""
    steps: int = 0
    """Attempted steps."""
    seconds: float = 0.0
    """Seconds of computing."""

    def plus(self, other: "CallTime") -> "CallTime":
        """The sum of both."""
        return CallTime(self.advance + other.advance, self.steps + other.steps, self.seconds + other.seconds)


class RecentCalls:
    """Sums over the calls of the last seconds.

    Examples
    --------
    >>> pace = RecentCalls()
    >>> for _ in range(4):
    ...     pace.add(CallTime(advance=1e-3, steps=100, seconds=0.125))
    >>> pace.recent()
    CallTime(advance=0.004, steps=400, seconds=0.5)
    """

    def __init__(self) -> None:
        self._calls: deque[tuple[float, CallTime]] = deque()

    def add(self, call: CallTime) -> None:
        """Count a call that has just ended."""
        self._calls.append((wall.monotonic(), call))

    def recent(self) -> CallTime | None:
        """The sum over the last `WINDOW` seconds and at least one call; None if little was spent on computing."""
        oldest = wall.monotonic() - WINDOW
        while len(self._calls) > 1 and self._calls[0][0] < oldest:
            self._calls.popleft()
        total = CallTime()
        for _, call in list(self._calls):
            total = total.plus(call)
        return total if total.seconds >= MIN_SECONDS else None

    def parts(self, spacing: float) -> int:
        """The power of two of parts of a frame, `spacing` apart in time, at which computing keeps up with playing."""
        pace = self.recent()
        if pace is None or pace.advance <= 0:
            return 1
        longest = pace.advance / pace.seconds / SLOW_FRAMES_PER_SECOND
        return 2 ** max(0, math.ceil(math.log2(min(spacing / longest, MAX_PARTS))))


def slow_words(pace: CallTime, wanted_speed: float) -> str | None:
    """What makes a run slow, as the end of a sentence; None if it reaches a tenth of the wanted speed.

    Examples
    --------
    >>> slow_words(CallTime(advance=0.01, steps=1000, seconds=1.0), wanted_speed=0.4)
    'the solver needs steps of 1e-05, so that the run plays at 2% of its speed'
    >>> slow_words(CallTime(advance=0.099, steps=4, seconds=1.0), wanted_speed=1.0)
    'one step takes 0.2 s, so that the run plays at 10% of its speed'
    >>> slow_words(CallTime(advance=0.3, steps=1000, seconds=1.0), wanted_speed=0.4)
    """
    share = pace.advance / pace.seconds / wanted_speed
    if share >= 0.1:
        return None
    shown = "less than 0.01%" if share < 1e-4 else f"{100 * share:.1g}%" if share < 0.01 else f"{100 * share:.0f}%"
    seconds = pace.seconds / max(pace.steps, 1)
    if seconds > 0.05:
        return f"one step takes {seconds:.1g} s, so that the run plays at {shown} of its speed"
    if pace.advance == 0:
        return "the solver has found no step that is short enough so far"
    return f"the solver needs steps of {pace.advance / pace.steps:.0e}, so that the run plays at {shown} of its speed"
