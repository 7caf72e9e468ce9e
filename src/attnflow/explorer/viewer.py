"""A viewer: one visitor's run in a thread of its own, between a mailbox of requests and an outbox of news."""

import dataclasses
import logging
import threading
import time as wall
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow._common.plain import json_value
from attnflow.explorer import catalogue, protocol
from attnflow.explorer.descriptions import explained
from attnflow.explorer.export import exports
from attnflow.explorer.export.story import Story, story_of
from attnflow.explorer.live_run import Run, settings_of
from attnflow.explorer.measure import panels
from attnflow.explorer.playback_clock import FRAMES_PER_SECOND

Publish = Callable[[str, Any], None]

MOST_UNSEEN = 3  # frames on their way to the page before the run waits for it
SECONDS_BETWEEN_PANELS = 0.15
SHARE_OF_PANELS = 0.2  # of a helper's time, so that what is slow to measure does not slow the frames
LONGEST_PAUSE = 0.5  # seconds after it nevertheless: the first look, which compiles, says nothing of the next
SECONDS_BETWEEN_VERDICTS = 1.0
SECONDS_BETWEEN_COLOURS = 0.1
MOST_COLOURED = 1_000  # tokens up to which clusters are found anew in every frame
log = logging.getLogger("attnflow.explorer")


class _Closed(Exception):
    """The viewer has left while something was computed."""


class Viewer:
    """Answers requests in the order they came. Of several of one kind the last counts, so that nothing queues up."""

    def __init__(self, publish: Publish, helpers: ThreadPoolExecutor, writers: ThreadPoolExecutor | None = None):
        self._publish, self._helpers, self._writers = publish, helpers, writers or helpers
        self._news = threading.Condition()
        self._mailbox: dict[type, protocol.Request] = {}
        self._is_closed = False
        self._sent: list[tuple[int, int]] = []  # frames on their way, (run, frame)
        self._runs = 0
        self.run: Run | None = None
        self._plays, self._until, self._factor = False, None, 1.0
        self._is_eager = False  # whether the run began to play by itself
        self._row: int | None = None
        self._changed_at: float | None = None  # when the model changed that the page has not been told of
        self._next_frame = self._next_panels = self._next_verdict = self._next_colours = 0.0
        self._measured: tuple[int, int, int | None] | None = None
        self._job: Future | None = None
        self._writing: Future | None = None
        self._verdict: dict[str, str] = {}
        self._promised = ["unknown"]
        self._thread = threading.Thread(target=self._work, name="attnflow viewer", daemon=True)
        self._thread.start()

    def post(self, request: protocol.Request) -> None:
        """Leave a request; never waits."""
        with self._news:
            if isinstance(request, protocol.Seen):
                self._forget_seen((request.run, request.frame))
            elif isinstance(request, protocol.Start):
                self._mailbox = {protocol.Start: request}
            elif isinstance(request, protocol.Change):
                before = self._mailbox.pop(protocol.Change, protocol.Change({}))
                self._mailbox[protocol.Change] = protocol.Change({**before.changes, **request.changes})  # pyright: ignore
            else:
                self._mailbox.pop(type(request), None)
                self._mailbox[type(request)] = request
            self._news.notify()

    def _forget_seen(self, frame: tuple[int, int]) -> None:
        """A painted frame tells of all before it, which the page may have left out."""
        if frame in self._sent:
            last = len(self._sent) - 1 - self._sent[::-1].index(frame)
            self._sent = self._sent[last + 1 :]

    @property
    def _is_waiting(self) -> bool:
        """Whether the page has not painted what it was sent: it gets nothing new then."""
        return len(self._sent) >= MOST_UNSEEN

    def close(self) -> None:
        """Stop as soon as the present computation returns."""
        with self._news:
            self._is_closed = True
            self._news.notify()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread to end; whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while True:
            requests = self._take()
            if self._is_closed:
                self.run = None
                return
            try:
                for request in requests:
                    self._answer_or_refuse(request)
                self._tick()
            except InputError as error:
                self._stop(str(error))
            except _Closed:
                continue
            except Exception as error:
                log.exception("A viewer's run failed")
                self._stop(f"This run failed unexpectedly ({type(error).__name__}). Restart it, or change a setting.")

    def _stop(self, sentence: str) -> None:
        self._plays, self._until = False, None
        self._publish("problem", {"type": "problem", "sentence": sentence})
        self._publish_state()

    def _take(self) -> list[protocol.Request]:
        with self._news:
            if not self._mailbox and not self._is_closed:
                self._news.wait(self._patience())
            requests = list(self._mailbox.values())
            self._mailbox = {}
            return requests

    def _patience(self) -> float | None:
        """Seconds until there is something to do; None: until a request comes."""
        now, due = wall.monotonic(), []
        if self._is_moving and not self._is_waiting:
            due.append(0.0 if self._until is not None else self._next_frame - now)
        elif self._is_moving:
            due.append(0.5)
        if self._is_unmeasured():
            due.append(max(self._next_panels - now, 0.02))
        return max(min(due), 0.0) if due else None

    @property
    def _is_moving(self) -> bool:
        return self.run is not None and (self._plays or self._until is not None)

    def _answer_or_refuse(self, request: protocol.Request) -> None:
        """What is refused leaves the run as it is: one that plays goes on."""
        try:
            self._answer(request)
        except InputError as error:
            if isinstance(request, protocol.Change) and len(request.changes) > 1:  # several that waited together
                for name, value in request.changes.items():
                    self._answer_or_refuse(protocol.Change({name: value}))
                return
            self._publish("problem", {"type": "problem", "sentence": str(error)})
            self._publish_state()

    def _answer(self, request: protocol.Request) -> None:
        if isinstance(request, protocol.Start):
            self._start(request)
            return
        if isinstance(request, protocol.Speed):
            self._factor = request.factor
            return
        if self.run is None:
            raise InputError("There is no run yet. Choose a scenario.")
        actions: dict[type, Callable[[Any], None]] = {
            protocol.Change: lambda asked: self._change(asked.changes),
            protocol.Play: lambda asked: self._play(asked.plays),
            protocol.Step: lambda asked: self._step(asked.by),
            protocol.Seek: lambda asked: self._seek(asked.share),
            protocol.Row: self._ask_row,
            protocol.Axes: lambda _: self._publish_axes(self._current.moment.tokens),
            protocol.Export: lambda asked: self._export(asked.kind),
        }
        actions[type(request)](request)

    def _start(self, asked: protocol.Start) -> None:
        self._publish("busy", {"type": "busy", "sentence": "Preparing the run ..."})
        run = Run(self._runs + 1, asked, self._report)
        self._runs += 1
        self.run, self._sent, self._measured, self._row = run, [], None, None
        self._changed_at = None
        self._plays, self._until = asked.plays, None if run.is_whole else asked.until
        self._is_eager = asked.plays
        self._verdict, self._next_verdict = {}, 0.0
        self._publish("started", {"type": "started", "run": run.number, "scenario": run.scenario.name,
                                  "words": explained(run.scenario), "paper": run.scenario.paper,
                                  "logTime": run.is_coalescing, **self._model(run)})  # fmt: skip
        if run.first.tokens.shape[1] > 3:
            self._publish_axes(np.concatenate([moment.tokens for moment in run.recording.moments]))
        self._show()

    def _model(self, run: Run) -> dict[str, Any]:
        facts = run.subject.facts()
        self._promised = facts["prediction"]["limits"]
        return {
            "settings": dataclasses.asdict(run.settings),
            "later": run.later,
            "labels": catalogue.labels(run.settings) or None,
            **facts,
        }

    def _report(self, share: float, sentence: str) -> None:
        """Progress of a run that is computed at once; ends it when the viewer wants something else."""
        if self._is_closed or protocol.Start in self._mailbox:
            raise _Closed
        self._publish("busy", {"type": "busy", "sentence": f"Computing: {sentence}", "share": share})

    def _change(self, changes: dict[str, Any]) -> None:
        run = self._current
        settings = settings_of(run.settings, changes)
        if run.needs_restart(settings, changes):
            plays = self._plays or (run.is_at_end and self._is_eager)  # another run in place of one that is over
            self._start(protocol.Start(run.scenario.name, _different(settings, run), plays=plays))
            return
        run.change(changes)
        self._note_change()
        self._next_frame = 0.0  # at once
        self._publish_state()

    def _note_change(self) -> None:
        self._verdict, self._next_verdict = {}, 0.0
        self._measured, self._changed_at = None, self._current.moment.time

    def _describe_change(self) -> None:
        """What theory says of the changed model; it takes a moment, so that a frame goes first."""
        run, time = self._current, self._changed_at
        is_shown = not self._is_moving or run.moment.time != time or self._is_waiting
        if time is None or not is_shown or self._until is not None:  # a link may make many on its way
            return
        self._changed_at = None
        self._publish("changed", {"type": "changed", "run": run.number, "time": time, **self._model(run)})

    def _play(self, plays: bool) -> None:
        run = self._current
        if plays and run.is_at_end and run.is_whole:
            run.seek(0.0)
        self._plays, self._until = plays, None
        self._publish_state()

    def _step(self, by: int) -> None:
        run = self._current
        self._plays, self._until = False, None
        if by > 0 and run.place == len(run.recording.moments) - 1 and not run.is_whole:
            while not run.forward(self._factor):
                self._raise_if_closed()
        else:
            run.step(by)
        self._show()

    def _seek(self, share: float) -> None:
        self._until = None
        self._current.seek(share)
        self._show()

    def _ask_row(self, asked: protocol.Row) -> None:
        n = len(self._current.first.tokens)
        self._row = None if asked.token is None or asked.token >= n else asked.token
        self._next_panels = 0.0

    def _export(self, kind: str) -> None:
        """Hand what is recorded to a helper, who writes it; frames go on meanwhile."""
        if self._writing is not None and not self._writing.done():
            raise InputError("A file is being written already. Wait for it, then ask for the next.")
        self._writing = self._writers.submit(self._exported_by_helper, story_of(self._current), kind)

    def _exported_by_helper(self, story: Story, kind: str) -> None:
        try:
            self._publish("file", protocol.file_bytes(story.run.number, *exports.written(story, kind)))
        except InputError as error:
            self._publish("problem", {"type": "problem", "sentence": str(error)})
        except Exception as error:
            log.exception("A file could not be written")
            sentence = f"The file could not be written ({type(error).__name__})."
            self._publish("problem", {"type": "problem", "sentence": sentence})

    @property
    def _current(self) -> Run:
        if self.run is None:
            raise InputError("There is no run yet. Choose a scenario.")
        return self.run

    def _raise_if_closed(self) -> None:
        if self._is_closed:
            raise _Closed

    def _tick(self) -> None:
        """The next frame if it is time for it, and the panels if they are behind."""
        now = wall.monotonic()
        is_due = now >= self._next_frame or self._until is not None
        if self._is_moving and is_due and not self._is_waiting:
            self._go_on(now)
        if self._changed_at is not None:
            self._describe_change()
        if self._is_unmeasured() and now >= self._next_panels:
            self._measure()

    def _go_on(self, now: float) -> None:
        run = self._current
        before, was_before_end = run.place, run.moment.time < run.settings.end
        recolours = now >= self._next_colours or len(run.moment.tokens) <= MOST_COLOURED
        settings = run.settings
        has_frame = run.forward(self._factor, self._until, recolours)
        if run.settings is not settings:  # a link changes it on the way
            self._note_change()
        if not has_frame:
            return
        if recolours:
            self._next_colours = now + SECONDS_BETWEEN_COLOURS
        self._next_frame = max(self._next_frame + 1 / FRAMES_PER_SECOND, now)
        if self._until is not None and run.moment.time >= self._until:
            self._until = None
        if run.is_at_end and (was_before_end or run.is_whole):
            self._plays = False
        if run.place != before or not self._plays:  # states of a whole run are few and stay a while
            self._show()

    def _show(self) -> None:
        run = self._current
        moment = run.moment
        flags = protocol.LOG_TIME if run.is_coalescing else 0
        frame = protocol.Frame(run.number, moment.index, moment.time, moment.tokens, moment.labels, flags)
        with self._news:
            self._sent = [*self._sent[-MOST_UNSEEN:], (run.number, moment.index)]
        self._publish("frame", protocol.frame_bytes(frame))
        self._publish_state()

    def _publish_state(self) -> None:
        run = self.run
        if run is None:
            return
        state = {"run": run.number, "plays": self._is_moving, "share": run.share, "computed": run.computed}
        state |= {"atEnd": run.is_at_end, "end": run.settings.end, "later": run.later, "frame": run.moment.index}
        self._publish("state", {"type": "state", **state})

    def _publish_axes(self, tokens: np.ndarray) -> None:
        axes = panels.principal_axes(tokens)
        self._publish("axes", {"type": "axes", "run": self._current.number, "axes": axes})

    def _is_unmeasured(self) -> bool:
        run = self.run
        if run is None or (self._job is not None and not self._job.done()):
            return run is not None
        return self._measured != (run.number, run.moment.index, self._row)

    def _measure(self) -> None:
        """Hand the present moment to a helper; frames go on meanwhile."""
        if self._job is not None and not self._job.done():
            self._next_panels = wall.monotonic() + 0.03
            return
        run = self._current
        now = wall.monotonic()
        self._measured = (run.number, run.moment.index, self._row)
        self._next_panels = now + SECONDS_BETWEEN_PANELS
        wants_verdict = now >= self._next_verdict or not self._is_moving
        sample = run.recording.sample(panels.MOST_TIMES, run.place) if wants_verdict else None
        if wants_verdict:
            self._next_verdict = now + SECONDS_BETWEEN_VERDICTS
        self._job = self._helpers.submit(self._measured_by_helper, run, run.moment, self._row, self._promised, sample)

    def _measured_by_helper(self, run: Run, moment: Any, row: int | None, promised: list[str], sample: Any) -> None:
        began = wall.monotonic()
        try:
            subject = run.subject
            facts = subject.numbers(moment)
            if sample is not None:
                self._verdict = subject.verdict(promised, *sample)
            about = {"run": run.number, "frame": moment.index, "time": json_value(moment.time)}
            self._publish("panels", {"type": "panels", **about, **facts, "verdict": self._verdict})
            matrix = subject.image(moment)
            if matrix is not None:
                time, sizes = about["time"] or 0.0, (len(moment.tokens), subject.heads)
                self._publish("attention", protocol.attention_bytes(run.number, moment.index, time, matrix, *sizes))
            if row is not None:
                weights = subject.row(moment, row, matrix)
                self._publish("row", {"type": "row", **about, "token": row, "weights": weights})
        except Exception:
            log.exception("A panel failed")
        finally:
            took = wall.monotonic() - began
            self._next_panels = max(self._next_panels, began + took + pause_after(took))


def pause_after(took: float) -> float:
    """Seconds between two looks of a helper at a run.

    Examples
    --------
    >>> round(pause_after(0.05), 3), pause_after(4.0)
    (0.2, 0.5)
    """
    return min(took / SHARE_OF_PANELS - took, LONGEST_PAUSE)


def _different(settings: Any, run: Run) -> dict[str, Any]:
    """What differs from the scenario, as changes."""
    standard = dataclasses.asdict(run.scenario.settings)
    wanted = dataclasses.asdict(settings)
    return {name: value for name, value in wanted.items() if value != standard[name] and name != "runs"}
