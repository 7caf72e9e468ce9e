"""A viewer: the run of one page, computed in a thread of its own."""

import logging
import threading
import time as wall
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow.explorer import page_requests, protocol, run_messages
from attnflow.explorer.export.exports import RunSnapshot, exported_file, snapshot_of
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.mailbox import Mailbox
from attnflow.explorer.panel_worker import PanelWorker
from attnflow.explorer.playback_clock import FRAMES_PER_SECOND
from attnflow.explorer.settings_changes import changed_settings, changes_from
from attnflow.explorer.unpainted_frames import UnpaintedFrames

Publish = Callable[[str, Any], None]

SECONDS_BETWEEN_COLOURS = 0.1  # of configurations with many tokens
MAX_RECOLOURED_TOKENS = 1_000  # up to so many, clusters are computed in every frame
NO_RUN = "There is no run yet. Choose a scenario."
log = logging.getLogger("attnflow.explorer")


class _CancelledError(Exception):
    """The page has left, or has asked for another run, during a computation."""


class Viewer:
    """Answers the requests of one page in the order in which they came, and plays its run.

    `publish` receives the type of a message and the message. `helpers` measure the panels, `writers` write files.
    """

    def __init__(self, publish: Publish, helpers: ThreadPoolExecutor, writers: ThreadPoolExecutor | None = None):
        self._publish, self._writers = publish, writers or helpers
        self._mailbox = Mailbox()
        self._unpainted = UnpaintedFrames()
        self._panels = PanelWorker(publish, helpers)
        self._runs = 0
        self.run: LiveRun | None = None
        self._plays, self._until, self._speed = False, None, 1.0
        self._played_from_start = False
        self._undescribed_change: float | None = None  # time of a change that the page has not been told of
        self._next_frame = self._next_colours = 0.0
        self._writing: Future | None = None
        self._thread = threading.Thread(target=self._work, name="attnflow viewer", daemon=True)
        self._thread.start()

    def post(self, request: page_requests.PageRequest) -> None:
        """Pass on a request of the page without waiting."""
        if isinstance(request, page_requests.FramePainted):
            self._unpainted.confirm(request.run, request.frame)
            self._mailbox.wake()
        else:
            self._mailbox.post(request)

    def close(self) -> None:
        """Stop as soon as the present computation returns."""
        self._mailbox.close()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread to end; returns whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while True:
            requests = self._mailbox.take(self._seconds_until_due())
            if self._mailbox.is_closed:
                self.run = None
                return
            try:
                for request in requests:
                    self._answer_or_refuse(request)
                self._tick()
            except InputError as error:
                self._stop(str(error))
            except _CancelledError:
                continue
            except Exception as error:
                log.exception("A viewer's run failed")
                self._stop(f"This run failed unexpectedly ({type(error).__name__}). Restart it, or change a setting.")

    def _stop(self, sentence: str) -> None:
        self._plays, self._until = False, None
        self._publish("problem", run_messages.problem(sentence))
        self._publish_state()

    def _seconds_until_due(self) -> float | None:
        """Seconds until there is something to do; None if only a request can bring something."""
        now, due = wall.monotonic(), []
        if self._is_moving and not self._unpainted.is_full:
            due.append(0.0 if self._until is not None else self._next_frame - now)
        elif self._is_moving:
            due.append(0.5)
        if self._panels.is_behind(self.run):
            due.append(self._panels.seconds_until_due(now))
        return max(min(due), 0.0) if due else None

    @property
    def _is_moving(self) -> bool:
        return self.run is not None and (self._plays or self._until is not None)

    def _answer_or_refuse(self, request: page_requests.PageRequest) -> None:
        """Answer a request; a refused one leaves the run as it is, so that a playing run goes on."""
        try:
            self._answer(request)
        except InputError as error:
            if isinstance(request, page_requests.ChangeSettings) and len(request.changes) > 1:
                for name, value in request.changes.items():  # changes that were merged while they waited
                    self._answer_or_refuse(page_requests.ChangeSettings({name: value}))
                return
            self._publish("problem", run_messages.problem(str(error)))
            self._publish_state()

    def _answer(self, request: page_requests.PageRequest) -> None:
        if self.run is None and not isinstance(request, page_requests.Start | page_requests.SetSpeed):
            raise InputError(NO_RUN)
        match request:
            case page_requests.Start():
                self._start(request)
            case page_requests.SetSpeed(factor):
                self._speed = factor
            case page_requests.ChangeSettings(changes):
                self._change(changes)
            case page_requests.Play(plays):
                self._play(plays)
            case page_requests.Step(by):
                self._step(by)
            case page_requests.Seek(share):
                self._seek(share)
            case page_requests.SendRow(token):
                self._panels.select_token(None if token is None or token >= self._token_count else token)
            case page_requests.SendAxes():
                self._publish("axes", run_messages.axes(self._current, self._current.frame.tokens))
            case page_requests.Export(kind):
                self._export(kind)

    @property
    def _current(self) -> LiveRun:
        if self.run is None:
            raise InputError(NO_RUN)
        return self.run

    @property
    def _token_count(self) -> int:
        return len(self._current.first.tokens)

    def _start(self, request: page_requests.Start) -> None:
        self._publish("busy", run_messages.busy("Preparing the run ..."))
        run = LiveRun(self._runs + 1, request, self._report)
        self._runs += 1
        self.run, self._undescribed_change = run, None
        self._unpainted.clear()
        self._panels.restart()
        self._plays, self._until = request.plays, None if run.is_precomputed else request.until
        self._played_from_start = request.plays
        self._publish("started", run_messages.started(run, self._described_model()))
        if run.first.tokens.shape[1] > 3:
            tokens = np.concatenate([frame.tokens for frame in run.recording.frames])
            self._publish("axes", run_messages.axes(run, tokens))
        self._show()

    def _described_model(self) -> dict[str, Any]:
        model = run_messages.model_fields(self._current)
        self._panels.set_prediction(model["prediction"]["limits"])
        return model

    def _report(self, share: float, sentence: str) -> None:
        """Publish the progress of a run that is computed at once; cancel it if the page wants another."""
        if self._mailbox.is_closed or page_requests.Start in self._mailbox:
            raise _CancelledError
        self._publish("busy", run_messages.busy(f"Computing: {sentence}", share=share))

    def _change(self, changes: dict[str, Any]) -> None:
        run = self._current
        settings = changed_settings(run.settings, changes)
        if run.needs_restart(settings, changes):
            plays = self._plays or (run.is_at_end and self._played_from_start)
            self._start(page_requests.Start(run.scenario.name, changes_from(run.scenario, settings), plays=plays))
            return
        run.change(changes)
        self._note_change()
        self._next_frame = 0.0  # show the effect at once
        self._publish_state()

    def _note_change(self) -> None:
        self._panels.forget_model()
        self._undescribed_change = self._current.frame.time

    def _describe_change(self) -> None:
        """Publish facts and prediction of a changed model, which take some time, after the first frame it moved."""
        run, time = self._current, self._undescribed_change
        has_frame = not self._is_moving or run.frame.time != time or self._unpainted.is_full
        if time is None or not has_frame or self._until is not None:  # a link may still make further changes
            return
        self._undescribed_change = None
        self._publish("changed", run_messages.changed(run, time, self._described_model()))

    def _play(self, plays: bool) -> None:
        run = self._current
        if plays and run.is_at_end and run.is_precomputed:
            run.seek(0.0)
        self._plays, self._until = plays, None
        self._publish_state()

    def _step(self, by: int) -> None:
        run = self._current
        self._plays, self._until = False, None
        if by > 0 and run.position == run.recording.last_position and not run.is_precomputed:
            while not run.forward(self._speed):
                if self._mailbox.is_closed:
                    raise _CancelledError
        else:
            run.step(by)
        self._show()

    def _seek(self, share: float) -> None:
        self._until = None
        self._current.seek(share)
        self._show()

    def _export(self, kind: str) -> None:
        """Let a writer thread write a file of the recorded run, while frames go on."""
        if self._writing is not None and not self._writing.done():
            raise InputError("A file is being written already. Wait for it, then ask for the next.")
        self._writing = self._writers.submit(self._write, snapshot_of(self._current), kind)

    def _write(self, snapshot: RunSnapshot, kind: str) -> None:
        try:
            self._publish("file", protocol.file_bytes(snapshot.run.number, *exported_file(snapshot, kind)))
        except InputError as error:
            self._publish("problem", run_messages.problem(str(error)))
        except Exception as error:
            log.exception("A file could not be written")
            self._publish("problem", run_messages.problem(f"The file could not be written ({type(error).__name__})."))

    def _tick(self) -> None:
        """Show the next frame if it is due, describe a changed model, and measure the panels if they are behind."""
        now = wall.monotonic()
        is_due = now >= self._next_frame or self._until is not None
        if self._is_moving and is_due and not self._unpainted.is_full:
            self._continue(now)
        if self._undescribed_change is not None:
            self._describe_change()
        self._panels.measure_if_due(self.run, now, self._is_moving)

    def _continue(self, now: float) -> None:
        run = self._current
        before, was_before_end = run.position, run.frame.time < run.settings.end
        recolours = now >= self._next_colours or len(run.frame.tokens) <= MAX_RECOLOURED_TOKENS
        settings = run.settings
        has_frame = run.forward(self._speed, self._until, recolours)
        if run.settings is not settings:  # a change planned in a link was applied
            self._note_change()
        if not has_frame:
            return
        if recolours:
            self._next_colours = now + SECONDS_BETWEEN_COLOURS
        self._next_frame = max(self._next_frame + 1 / FRAMES_PER_SECOND, now)
        if self._until is not None and run.frame.time >= self._until:
            self._until = None
        if run.is_at_end and (was_before_end or run.is_precomputed):
            self._plays = False
        if run.position != before or not self._plays:  # a precomputed frame stays on display for several ticks
            self._show()

    def _show(self) -> None:
        run = self._current
        self._unpainted.add(run.number, run.frame.index)
        self._publish("frame", run_messages.frame(run))
        self._publish_state()

    def _publish_state(self) -> None:
        if self.run is not None:
            self._publish("state", run_messages.state(self.run, self._is_moving))
