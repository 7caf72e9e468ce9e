"""One computation of a viewer in a thread of its own, so that the viewer answers requests meanwhile."""

import threading
import time as wall
from collections.abc import Callable
from typing import Any

from attnflow.explorer.computing_turns import TurnCancelledError, ViewerTurns

LONG = 0.3  # seconds

Work = Callable[[Callable[[], None]], Any]
"""A computation. Its argument is called from time to time: it passes the turn on, or ends a cancelled computation."""


class ThreadedComputation:
    """A computation that has begun: what it does in words, and its result or error when it is done.

    `prepares` if it replaces the run or its model, as against a further frame. `done` is called when it has ended.
    """

    def __init__(self, turns: ViewerTurns, work: Work, done: Callable[[], None], sentence: str, prepares: bool):
        self.sentence, self.prepares = sentence, prepares
        self._began = wall.monotonic()
        self.result: Any = None
        self.error: Exception | None = None
        self.is_done = self.is_cancelled = False
        self._turns, self._work, self._done = turns, work, done
        self._thread = threading.Thread(target=self._compute, name="attnflow computation", daemon=True)
        self._thread.start()

    @property
    def is_long(self) -> bool:
        """Whether the computation takes so long that the page should say so."""
        return self.seconds_until_long <= 0

    @property
    def seconds_until_long(self) -> float:
        """Seconds until the computation is long."""
        return self._began + LONG - wall.monotonic()

    @property
    def is_alive(self) -> bool:
        """Whether its thread has not ended."""
        return self._thread.is_alive()

    def cancel(self) -> None:
        """Ignore the result, and end as soon as the present compiled call returns."""
        self.is_cancelled = True

    def value(self) -> Any:
        """The result of a computation that is done; raises its error."""
        if self.error is not None:
            raise self.error
        return self.result

    def _compute(self) -> None:
        try:
            with self._turns.turn(lambda: self.is_cancelled) as pass_on:
                self.result = self._work(pass_on)
        except TurnCancelledError:
            pass
        except Exception as error:
            self.error = error
        finally:
            self.is_done = True
            del self._work  # it holds the run
            self._done()
