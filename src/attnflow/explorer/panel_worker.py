"""Measurements for the panels, made in a helper thread while frames go on."""

import logging
import time as wall
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from attnflow._common.plain import json_value
from attnflow.explorer import protocol
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.measure.prediction_check import MAX_TIMES
from attnflow.explorer.recording import Frame

SECONDS_BETWEEN_PANELS = 0.15
SECONDS_BETWEEN_VERDICTS = 1.0
MEASURING_SHARE = 0.2  # of a helper thread's time, so that slow measurements do not slow down the frames
MAX_PAUSE = 0.5  # seconds after a slow measurement: the first one compiles and says nothing about the next
log = logging.getLogger("attnflow.explorer")


class PanelWorker:
    """Measures the frame on display, one at a time, and publishes the messages `panels`, `attention` and `row`."""

    def __init__(self, publish: Callable[[str, Any], None], helpers: ThreadPoolExecutor):
        self._publish, self._helpers = publish, helpers
        self._token: int | None = None  # whose attention row is sent
        self._measured: tuple[int, int, int | None] | None = None  # run, frame and token of the last measurement
        self._next_time = self._next_verdict = 0.0
        self._job: Future | None = None
        self._verdict: dict[str, str] = {}
        self._predicted = ["unknown"]
        self._is_closed = False

    def restart(self) -> None:
        """Forget the measurements of an earlier run."""
        self._token = None
        self.forget_model()

    def close(self) -> None:
        """Cancel a measurement that has not begun, and publish no more."""
        self._is_closed = True
        if self._job is not None:
            self._job.cancel()

    def forget_model(self) -> None:
        """Forget the verdict on an earlier model, and measure the frame on display again."""
        self._verdict, self._next_verdict, self._measured = {}, 0.0, None

    def set_prediction(self, limits: list[str]) -> None:
        """Set the predicted limits that verdicts compare with."""
        self._predicted = limits

    def select_token(self, token: int | None) -> None:
        """Send the attention row of a token from now on; None sends none."""
        self._token, self._next_time = token, 0.0

    def is_behind(self, run: LiveRun | None) -> bool:
        """Whether the frame on display has not been measured."""
        if run is None or (self._job is not None and not self._job.done()):
            return run is not None
        return self._measured != (run.number, run.frame.index, self._token)

    def seconds_until_due(self, now: float) -> float:
        """Seconds until the next measurement may start, at least 0.02."""
        return max(self._next_time - now, 0.02)

    def measure_if_due(self, run: LiveRun | None, now: float, is_moving: bool) -> None:
        """Start a measurement if the frame on display has none and enough time has passed."""
        if run is None or not self.is_behind(run) or now < self._next_time:
            return
        now = wall.monotonic()
        if self._job is not None and not self._job.done():
            self._next_time = now + 0.03
            return
        self._measured = (run.number, run.frame.index, self._token)
        self._next_time = now + SECONDS_BETWEEN_PANELS
        sample = None
        if now >= self._next_verdict or not is_moving:
            sample = run.recording.sample(MAX_TIMES, run.position)
            self._next_verdict = now + SECONDS_BETWEEN_VERDICTS
        self._job = self._helpers.submit(self._measure, run, run.frame, self._token, self._predicted, sample)

    def _measure(self, run: LiveRun, frame: Frame, token: int | None, predicted: list[str], sample: Any) -> None:
        """Measure and publish in a helper thread."""
        began = wall.monotonic()
        try:
            if self._is_closed:
                return
            measurements = run.measurements
            numbers = measurements.numbers(frame)
            if sample is not None:
                self._verdict = measurements.verdict(predicted, *sample, is_complete=run.is_precomputed)
            about = {"run": run.number, "frame": frame.index, "time": json_value(frame.time)}
            self._publish("panels", {"type": "panels", **about, **numbers, "verdict": self._verdict})
            image = measurements.attention_image(frame)
            if image is not None:
                time, sizes = about["time"] or 0.0, (len(frame.tokens), measurements.heads)
                self._publish("attention", protocol.attention_bytes(run.number, frame.index, time, image, *sizes))
            if token is not None:
                weights = measurements.attention_row(frame, token, image)
                self._publish("row", {"type": "row", **about, "token": token, "weights": weights})
        except Exception:
            log.exception("A measurement for the panels failed")
        finally:
            seconds = wall.monotonic() - began
            self._next_time = max(self._next_time, began + seconds + pause_after(seconds))


def pause_after(seconds: float) -> float:
    """Seconds to pause after a measurement that took `seconds`, so that it uses `MEASURING_SHARE` of the time.

    Examples
    --------
    >>> round(pause_after(0.05), 3), pause_after(4.0)
    (0.2, 0.5)
    """
    return min(seconds / MEASURING_SHARE - seconds, MAX_PAUSE)
