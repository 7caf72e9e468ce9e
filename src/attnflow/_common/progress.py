"""Showing how far a long computation is, and letting it be stopped."""

import sys
import threading
import time
from collections.abc import Callable
from functools import partial

Progress = bool | None | Callable[[float, str], None]

PATIENCE = 1.0  # seconds before a bar appears: short runs should leave no trace


class Watch:
    """Collects the progress of several workers, and tells them when to stop."""

    def __init__(self, show: Callable[[float, str], None] | None, budget: float | None):
        self._show = show
        self._parts: dict[int, tuple[float, float]] = {}
        self._lock = threading.Lock()
        self._deadline = None if budget is None else time.monotonic() + budget
        self.is_interrupted = False

    def report(self, part: int, fraction: float, weight: float, sentence: str) -> None:
        """Worker's word: `part`, of `weight` in all, is done to `fraction`."""
        with self._lock:
            self._parts[part] = (fraction * weight, weight)
            done = sum(share for share, _ in self._parts.values())
            if self._show is not None:
                self._show(min(done, 1.0), sentence)

    def is_out_of_time(self) -> bool:
        """Whether the budget is spent."""
        return self._deadline is not None and time.monotonic() > self._deadline

    def should_stop(self) -> bool:
        """Whether workers should return what they have."""
        return self.is_interrupted or self.is_out_of_time()


class Bar:
    """A bar on the terminal, which appears when a run takes longer than a moment."""

    def __init__(self):
        self._started = time.monotonic()
        self._update: Callable | None = None
        self._restart: Callable[[], None] = lambda: None
        self._fraction = 0.0

    def __call__(self, fraction: float, sentence: str) -> None:
        """Move the bar; back to zero, it is another part of the work, with a clock of its own."""
        if self._update is None:
            if time.monotonic() - self._started < PATIENCE or fraction >= 1:
                return
            self._update = self._open()
        if fraction == 0 < self._fraction:
            self._restart()
        self._fraction = fraction
        self._update(completed=fraction, description=sentence)

    def _open(self) -> Callable:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
        clocks = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
        bar = Progress(*columns, *clocks, console=Console(stderr=True), transient=True)
        task = bar.add_task("", total=1.0)
        bar.start()
        self.close = bar.stop
        self._restart = partial(bar.reset, task)
        return partial(bar.update, task)

    def close(self) -> None:
        """Take the bar away; nothing to do while there is none."""


def shown(progress: Progress) -> Callable[[float, str], None] | None:
    """The function to call with progress: a callback, a bar, or nothing.

    None means a bar where standard error is a terminal.
    """
    if callable(progress):
        return progress
    wants_bar = sys.stderr.isatty() if progress is None else progress
    return Bar() if wants_bar else None
