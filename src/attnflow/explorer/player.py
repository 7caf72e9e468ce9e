"""The player of a viewer: it prepares runs, computes their frames beside the viewer's thread, and shows them."""

import time as wall
from collections.abc import Callable
from typing import Any

from attnflow._common.checks import InputError
from attnflow.explorer import page_requests, run_messages
from attnflow.explorer.computation import ThreadedComputation, Work
from attnflow.explorer.computing_turns import ViewerTurns
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.panel_worker import PanelWorker
from attnflow.explorer.playback import Playback
from attnflow.explorer.preparation import (
    ChangedRun,
    StartedRun,
    changed_run,
    planned_change,
    slow_sentence,
    started_run,
)
from attnflow.explorer.recording import Frame

Publish = Callable[[str, Any], None]

MAX_ABANDONED = 2  # computations of one viewer that were cancelled and have not ended yet
COMPILING = "Compiling this kind of model. This happens once ..."


class Player:
    """The run of one viewer. All methods return at once; `collect` takes up what was computed meanwhile.

    `wake` is called from other threads when there is a result for `collect`.
    """

    def __init__(self, publish: Publish, panels: PanelWorker, turns: ViewerTurns, wake: Callable[[], None]):
        self._publish, self._panels, self._turns, self._wake = publish, panels, turns, wake
        self.playback = Playback()
        self.run: LiveRun | None = None
        self.request = 0  # number of the last request to play, step or seek
        self._answered = 0  # number of the last of them whose frame is on display
        self._runs = 0
        self._computation: ThreadedComputation | None = None
        self._abandoned: list[ThreadedComputation] = []
        self._undo: dict[str, Any] | None = None  # changes that restore the settings before the last change
        self._undescribed_change: float | None = None  # time of a change that the page does not know yet
        self._slow: str | None = None
        self._is_busy_shown = False

    @property
    def is_computing(self) -> bool:
        """Whether a frame is being computed, or the run or its model is about to be replaced."""
        return self._computation is not None and (self._computation.prepares or not self._computation.is_done)

    @property
    def is_preparing(self) -> bool:
        """Whether the run, or its model, is about to be replaced."""
        return self._computation is not None and self._computation.prepares

    @property
    def is_moving(self) -> bool:
        """Whether the run plays or is computed up to the time of a link."""
        return self.run is not None and self.playback.is_moving

    @property
    def can_start(self) -> bool:
        """Whether another run may be prepared: compilations that were abandoned must end some time."""
        self._abandoned = [one for one in self._abandoned if one.is_alive]
        return len(self._abandoned) < MAX_ABANDONED

    def stop(self, sentence: str) -> None:
        """Pause after a failure of the run, and offer to undo the last change."""
        self.playback.play(False)
        self._publish("problem", run_messages.problem(sentence, self._undo if self.run is not None else None))
        self.publish_state()

    def close(self) -> None:
        """Cancel the computation and forget the run."""
        self._abandon()
        self.run = None

    def start(self, request: page_requests.Start, undo: dict[str, Any] | None = None) -> None:
        """Prepare a run; an earlier preparation is abandoned."""
        self._abandon()
        self._runs += 1
        number = self._runs
        self.playback.prepare(request.plays)

        def work(pass_on: Callable[[], None]) -> StartedRun:
            def report(share: float, words: str) -> None:
                pass_on()
                self._publish("busy", run_messages.busy(f"Computing: {words}", share=share))

            return started_run(number, request, report, undo)

        self._compute(work, "Preparing the run ...", prepares=True)
        self._say_busy()

    def change(self, changes: dict[str, Any]) -> None:
        """Prepare another model for the tokens on display, or another run if the changes need other first tokens."""
        run, playback = self._require_run(), self.playback
        plays = playback.plays or (run.is_at_end and playback.played_from_start)
        playback.prepare(playback.plays)
        self._compute(lambda _: changed_run(run, changes, plays), "Preparing the change ...", prepares=True)

    def play(self, plays: bool) -> None:
        """Play or pause."""
        run = self.run
        if self.is_preparing:
            self._say_busy()
        elif plays and run is not None and run.is_at_end and run.is_precomputed:
            run.seek(0.0)
        self.playback.play(plays)
        self.publish_state()

    def step(self, by: int) -> None:
        """Pause and show the next or the previous frame."""
        run = self._require_run()
        self.playback.play(False)
        if by > 0 and not run.has_recorded_next:
            self.playback.is_stepping = True
            self.publish_state()
        else:
            run.step(by)
            self._show()

    def seek(self, share: float) -> None:
        """Show the recorded frame at a share of the time slider."""
        self.playback.until, self.playback.is_stepping = None, False
        self._require_run().seek(share)
        self._show()

    def seconds_until_due(self, now: float) -> float | None:
        """Seconds until `tick` has something to do; None if only a request can bring something."""
        due = []
        if self._computation is not None and not self._is_busy_shown:
            due.append(max(self._computation.seconds_until_long, 0.02))
        if self.run is not None and (self._computation is None or self._can_replay):
            due.append(self.playback.seconds_until_due(now))
        return min((seconds for seconds in due if seconds is not None), default=None)  # a computation that ends wakes

    def collect(self) -> None:
        """Take up what was computed."""
        if self._computation is not None:
            self._collect(self._computation)

    def tick(self, now: float) -> None:
        """Show or compute the next frame if it is due, after `collect`."""
        if self.run is None or self.is_preparing:
            return
        if self._can_replay and self.playback.is_due(now):
            self._replay(self.run, now)
        if self._computation is not None:
            return
        self._say_slow(self.run)
        if self._undescribed_change is not None and self._may_describe(self.run):
            self._describe_change(self.run, self._undescribed_change)
        elif self.playback.wants_frame(self.run, now):
            self._compute_next(self.run, now)

    @property
    def _can_replay(self) -> bool:
        """Whether the next frame is computed already, so that it can be shown beside a computation."""
        return self.run is not None and not self.is_preparing and self.run.has_recorded_next

    def publish_state(self) -> None:
        """Publish the state of the playback."""
        self._answered = self._answered if self.playback.is_stepping else self.request
        if self.run is not None:
            self._publish("state", run_messages.state(self.run, self.is_moving, self._answered))

    def _require_run(self) -> LiveRun:
        if self.run is None:
            raise InputError("There is no run yet. Choose a scenario.")
        return self.run

    def _compute(self, work: Work, sentence: str = "", prepares: bool = False) -> None:
        self._computation = ThreadedComputation(self._turns, work, self._wake, sentence, prepares)

    def _abandon(self) -> None:
        """Cancel the present computation; its result is ignored."""
        if self._computation is not None:
            self._computation.cancel()
            self._abandoned.append(self._computation)
            self._computation = None

    def _say_busy(self) -> None:
        """Say what is being computed, or that it is over."""
        sentence = "" if self._computation is None else self._computation.sentence
        if sentence or self._is_busy_shown:
            self._publish("busy", run_messages.busy(sentence))
        self._is_busy_shown = bool(sentence)

    def _collect(self, computation: ThreadedComputation) -> None:
        if not computation.is_done:
            if computation.is_long and not self._is_busy_shown:
                self._say_busy()
            return
        self._computation = None
        try:
            result = computation.value()
        except InputError as error:
            if not computation.prepares:
                raise
            self.playback.refuse()
            self._publish("problem", run_messages.problem(str(error)))
            self.publish_state()
            return
        if self._is_busy_shown and not computation.prepares:
            self._say_busy()
        match result:
            case StartedRun():
                self._begin(result)
            case ChangedRun():
                self._take_change(result)
            case Frame():
                self._accept(self._require_run(), result)
            case dict():
                self._panels.set_prediction(result["prediction"]["limits"])
                self._publish("changed", result)

    def _begin(self, started: StartedRun) -> None:
        run = self.run = started.run
        self._undescribed_change, self._undo, self._is_busy_shown = None, started.undo, False
        self._panels.restart()
        self._panels.set_prediction(started.message["prediction"]["limits"])
        self.playback.start(None if run.is_precomputed else started.request.until)
        self._publish("started", started.message)
        if started.axes is not None:
            self._publish("axes", started.axes)
        self._show()

    def _take_change(self, changed: ChangedRun) -> None:
        if changed.refused:
            self._publish("problem", run_messages.problem(changed.refused))
        if changed.restart is not None:
            self.start(changed.restart, changed.undo)
            return
        self._undo = changed.undo
        self._panels.forget_model()
        self._undescribed_change = self._require_run().frame.time
        self.playback.show_soon()
        self.publish_state()

    def _may_describe(self, run: LiveRun) -> bool:
        """Whether a changed model has moved a frame, and no link makes further changes."""
        is_resting = not self.is_moving or self.playback.unpainted.is_full
        return self.playback.until is None and (is_resting or run.frame.time != self._undescribed_change)

    def _describe_change(self, run: LiveRun, time: float) -> None:
        """Compute facts and prediction of a changed model, which take some time."""
        self._undescribed_change = None
        self._compute(lambda _: run_messages.changed(run, time, run_messages.model_fields(run)))

    def _replay(self, run: LiveRun, now: float) -> None:
        before = run.position
        run.replay(self.playback.speed)
        self.playback.note_frame(now, run.frame.time)
        self._pause_at_end(run)
        if run.position != before or not self.playback.plays:  # a precomputed frame stays for several ticks
            self._show()

    def _compute_next(self, run: LiveRun, now: float) -> None:
        playback = self.playback
        if (changes := run.due_change()) is not None:
            self._compute(lambda _: planned_change(run, changes), prepares=True)
        else:
            speed, until = playback.speed, playback.until
            recolours = playback.recolours(now, len(run.first.tokens))
            must_compile = run.stepper is not None and run.stepper.must_compile
            self._compute(lambda _: run.compute(speed, until, recolours), COMPILING if must_compile else "")

    def _accept(self, run: LiveRun, frame: Frame) -> None:
        """Record a computed frame, and show it unless the run was paused or sought meanwhile."""
        was_before_end = run.recording.last.time < run.settings.end
        now = wall.monotonic()
        if run.accept(frame, self.playback.is_due(now)):
            self.playback.note_frame(now, frame.time)
            if was_before_end:
                self._pause_at_end(run)
            self._show()
        elif not self.is_moving:
            self.publish_state()

    def _pause_at_end(self, run: LiveRun) -> None:
        if run.is_at_end:
            self.playback.plays = False

    def _show(self) -> None:
        run = self._require_run()
        self.playback.unpainted.add(run.number, run.frame.index)
        self._publish("frame", run_messages.frame(run))
        self.publish_state()

    def _say_slow(self, run: LiveRun) -> None:
        """Publish why the run is slow, or that it is so no longer, with the changes that undo the last one."""
        sentence = slow_sentence(run, self.playback.speed, self._undo) if self.playback.is_moving else self._slow
        if sentence != self._slow:
            self._slow = sentence
            self._publish("slow", run_messages.slow(sentence, self._undo))
