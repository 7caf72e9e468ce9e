"""Progress of a long computation, and the signal that stops it.

Every function with the argument `progress` reports through `reporting`:

    with reporting(progress) as report:
        for index, one in enumerate(work):
            ...
            report((index + 1) / len(work), f"run {index + 1}")
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Report = Callable[[float, str], None]
"""Called with the fraction that is done, in [0, 1], and a sentence."""
Progress = bool | None | Report
"""A function; True for a bar; False for none; None for a bar where standard error is a terminal."""

SECONDS_BEFORE_BAR = 1.0  # a run shorter than this prints nothing


@contextmanager
def reporting(progress: Progress) -> Iterator[Report]:
    """Open what `progress` asks for and give the function to call; a bar is removed at the end in every case.

    Examples
    --------
    >>> with reporting(lambda fraction, sentence: print(f"{fraction:.0%} {sentence}")) as report:
    ...     report(0.5, "of the runs")
    50% of the runs
    >>> with reporting(False) as report:
    ...     report(0.5, "of the runs")
    """
    if callable(progress):
        yield progress
        return
    if not (sys.stderr.isatty() if progress is None else progress):
        yield lambda fraction, sentence: None
        return
    bar = Bar()
    try:
        yield bar
    finally:
        bar.close()


def parts_of(progress: Progress, count: int) -> list[Progress]:
    """The argument `progress` of each of `count` runs of equal length, one after the other, that share one bar.

    Where `progress` is no function there is no bar to share: each run opens its own, or none.

    Examples
    --------
    >>> seen = []
    >>> first, second = parts_of(lambda fraction, sentence: seen.append(fraction), 2)
    >>> first(1.0, ""), second(0.5, "")
    (None, None)
    >>> seen
    [0.5, 0.75]
    """
    if not callable(progress):
        return [progress] * count

    def part(index: int) -> Report:
        return lambda fraction, sentence: progress((index + fraction) / count, sentence)

    return [part(index) for index in range(count)]


class Bar:
    """A progress bar on standard error that appears after `SECONDS_BEFORE_BAR`."""

    def __init__(self):
        self._started = time.monotonic()
        self._display: Any = None  # rich.progress.Progress, imported when the bar appears
        self._task: Any = None
        self._fraction = 0.0

    def __call__(self, fraction: float, sentence: str) -> None:
        """Move the bar. A return to zero is the next part of the work: the time left is estimated anew."""
        if self._display is None and (time.monotonic() - self._started < SECONDS_BEFORE_BAR or fraction >= 1):
            return
        display = self._display or self._opened()
        if fraction == 0 < self._fraction:
            display.reset(self._task)
        self._fraction = fraction
        display.update(self._task, completed=fraction, description=sentence)

    def close(self) -> None:
        """Remove the bar if it has appeared."""
        if self._display is not None:
            self._display.stop()

    def _opened(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
        clocks = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
        self._display = Progress(*columns, *clocks, console=Console(stderr=True), transient=True)
        self._task = self._display.add_task("", total=1.0)
        self._display.start()
        return self._display


class Watch:
    """Joins the progress of several workers into one fraction, and tells them when to stop."""

    def __init__(self, report: Report, budget: float | None):
        self._report = report
        self._parts: dict[int, tuple[float, float]] = {}
        self._lock = threading.Lock()
        self._deadline = None if budget is None else time.monotonic() + budget
        self.is_interrupted = False

    def report(self, part: int, fraction: float, weight: float, sentence: str) -> None:
        """Note that `part`, which is `weight` of the whole, is done to `fraction`, and report the whole."""
        with self._lock:
            self._parts[part] = (fraction * weight, weight)
            done = sum(share for share, _ in self._parts.values())
            self._report(min(done, 1.0), sentence)

    def seconds_left(self) -> float:
        """The part of the budget that is not spent, negative after its end, or infinity without a budget."""
        return float("inf") if self._deadline is None else self._deadline - time.monotonic()

    def is_out_of_time(self) -> bool:
        """Whether the budget is spent."""
        return self.seconds_left() < 0

    def should_stop(self) -> bool:
        """Whether workers should return the results they have."""
        return self.is_interrupted or self.is_out_of_time()
