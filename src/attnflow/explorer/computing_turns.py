"""Computing turns: a bounded number of computations at a time, handed round fairly among the viewers.

A viewer takes a turn for every compiled call. Of the waiting viewers the one that has computed least comes first, so
that a viewer with short calls does not wait behind long runs. A turn that lasts longer than `LONG_TURN`, such as a
compilation, no longer counts: the operating system then shares the cores.
"""

import contextlib
import itertools
import os
import threading
import time as wall
from collections.abc import Callable, Iterator

LONG_TURN = 0.2  # seconds after which a turn no longer keeps others waiting
SHORT_TURN = 0.05  # seconds after which a long computation passes its turn on
CREDIT = 0.2  # seconds of computing that a viewer may be behind the others after a rest
SECONDS_BETWEEN_LOOKS = 0.02  # of a waiting thread, at its cancellation and at turns that became long


class TurnCancelledError(Exception):
    """The computation is not wanted any more."""


class ComputingTurns:
    """The turns of all viewers of one server."""

    def __init__(self, count: int | None = None):
        self._count = count or os.cpu_count() or 1
        self._condition = threading.Condition()
        self._arrivals = itertools.count()
        self._waiting: list[tuple[int, ViewerTurns]] = []
        self._since: dict[int, tuple[float, ViewerTurns]] = {}  # start and viewer of the turns that are taken

    def for_viewer(self) -> "ViewerTurns":
        """The turns of a new viewer."""
        return ViewerTurns(self)

    @property
    def taken(self) -> int:
        """Number of computations that have a turn."""
        return len(self._since)

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait for all turns to end; returns whether they have."""
        with self._condition:
            return self._condition.wait_for(lambda: not self._since, timeout)

    def take(self, viewer: "ViewerTurns", is_cancelled: Callable[[], bool]) -> int:
        """Wait for a turn and return its number."""
        number = next(self._arrivals)
        with self._condition:
            least = min((other.seconds for other in self._active()), default=0.0)
            viewer.seconds = max(viewer.seconds, least - CREDIT)
            entry = (number, viewer)
            self._waiting.append(entry)
            try:
                while not self._is_next(entry):
                    if is_cancelled():
                        raise TurnCancelledError
                    self._condition.wait(SECONDS_BETWEEN_LOOKS)
                if is_cancelled():
                    raise TurnCancelledError
                self._since[number] = (wall.monotonic(), viewer)
            finally:
                self._waiting.remove(entry)
                self._condition.notify_all()
        return number

    def end(self, number: int) -> None:
        """End a turn."""
        with self._condition:
            began, viewer = self._since.pop(number)
            viewer.seconds += wall.monotonic() - began
            self._condition.notify_all()

    def seconds_of(self, number: int) -> float:
        """How long a turn has lasted."""
        return wall.monotonic() - self._since[number][0]

    def _active(self) -> list["ViewerTurns"]:
        return [viewer for _, viewer in (*self._waiting, *self._since.values())]

    def _is_next(self, entry: tuple[int, "ViewerTurns"]) -> bool:
        now = wall.monotonic()
        counted = sum(now - began < LONG_TURN for began, _ in self._since.values())
        first = min(self._waiting, key=lambda one: (one[1].seconds, one[0]))
        return counted < self._count and entry == first


class ViewerTurns:
    """The turns of one viewer, with the seconds that it has computed."""

    def __init__(self, turns: ComputingTurns):
        self._turns = turns
        self.seconds = 0.0

    @contextlib.contextmanager
    def turn(self, is_cancelled: Callable[[], bool]) -> Iterator[Callable[[], None]]:
        """Compute in the body; the value given to it, when called, passes the turn on if it has become long."""
        number = self._turns.take(self, is_cancelled)

        def pass_on() -> None:
            nonlocal number
            if is_cancelled():
                raise TurnCancelledError
            if self._turns.seconds_of(number) > SHORT_TURN:
                self._turns.end(number)
                number = -1
                number = self._turns.take(self, is_cancelled)

        try:
            yield pass_on
        finally:
            if number >= 0:
                self._turns.end(number)
