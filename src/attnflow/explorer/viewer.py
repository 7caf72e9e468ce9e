"""A viewer: one page, whose requests are answered in a thread of its own while its run is computed in another."""

import logging
import threading
import time as wall
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from attnflow._common.checks import InputError
from attnflow.explorer import page_requests, placed_tokens, protocol, run_messages
from attnflow.explorer.beta_strip import StripWorker
from attnflow.explorer.computing_turns import ComputingTurns
from attnflow.explorer.export.exports import RunSnapshot, exported_file, snapshot_of
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.mailbox import Mailbox
from attnflow.explorer.panel_worker import PanelWorker
from attnflow.explorer.player import Player

NO_RUN = "There is no run yet. Choose a scenario."
log = logging.getLogger("attnflow.explorer")


class Viewer:
    """Answers the requests of one page in the order in which they came, and plays its run.

    `publish` receives the type of a message and the message. `helpers` measure the panels, `writers` write files,
    `turns` are the computing turns of the server.
    """

    def __init__(
        self,
        publish: Callable[[str, Any], None],
        helpers: ThreadPoolExecutor,
        writers: ThreadPoolExecutor | None = None,
        turns: ComputingTurns | None = None,
    ):
        self._publish, self._writers = publish, writers or helpers
        self._mailbox = Mailbox()
        self._panels = PanelWorker(publish, helpers)
        own_turns = (turns or ComputingTurns()).for_viewer()
        self.player = Player(publish, self._panels, own_turns, self._mailbox.wake)
        self._strip = StripWorker(publish, own_turns)
        self._writing: Future | None = None
        self._thread = threading.Thread(target=self._work, name="attnflow viewer", daemon=True)
        self._thread.start()

    @property
    def run(self) -> LiveRun | None:
        """The run on display."""
        return self.player.run

    def post(self, request: page_requests.PageRequest) -> None:
        """Pass on a request of the page without waiting."""
        if isinstance(request, page_requests.FramePainted):
            self.player.playback.unpainted.confirm(request.run, request.frame)
            self._mailbox.wake()
        else:
            self._mailbox.post(request)

    def close(self) -> None:
        """Stop; a computation ends as soon as its present compiled call returns."""
        self._mailbox.close()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread to end; returns whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while True:
            requests = self._mailbox.take(self._seconds_until_due(), self._can_answer)
            if self._mailbox.is_closed:
                self._panels.close()
                self._strip.cancel()
                self.player.close()
                return
            try:
                self.player.collect()  # a request can be answered because a frame is done, which must not be lost
                for request in requests:
                    self._answer_or_refuse(request)
                now = wall.monotonic()
                self.player.tick(now)
                if not self.player.is_preparing:
                    self._panels.measure_if_due(self.run, now, self.player.is_moving)
            except InputError as error:
                self.player.stop(str(error))
            except Exception as error:
                log.exception("A viewer's run failed")
                self.player.stop(
                    f"This run failed unexpectedly ({type(error).__name__}). Restart it, or change a setting."
                )

    def _refuse(self, sentence: str) -> None:
        self._publish("problem", run_messages.problem(sentence))
        self.player.publish_state()

    def _seconds_until_due(self) -> float | None:
        """Seconds until there is something to do; None if only a request can bring something."""
        now = wall.monotonic()
        due = [self.player.seconds_until_due(now)]
        if not self.player.is_preparing and self._panels.is_behind(self.run):
            due.append(self._panels.seconds_until_due(now))
        return min((max(seconds, 0.0) for seconds in due if seconds is not None), default=None)

    def _can_answer(self, request: page_requests.PageRequest) -> bool:
        """Whether a request can be answered beside the present computation."""
        match request:
            case page_requests.Start():
                return self.player.can_start
            case page_requests.Play() | page_requests.SetSpeed():
                return True
            case page_requests.ChangeSettings():
                return not self.player.is_computing
            case _:
                return not self.player.is_preparing

    def _answer_or_refuse(self, request: page_requests.PageRequest) -> None:
        """Answer a request; a refused one leaves the run as it is, so that a playing run goes on."""
        try:
            self._answer(request)
        except InputError as error:
            self._refuse(str(error))

    def _answer(self, request: page_requests.PageRequest) -> None:
        player, is_start = self.player, isinstance(request, page_requests.Start | page_requests.SetSpeed)
        if self.run is None and not is_start and not player.is_preparing:
            raise InputError(NO_RUN)
        if isinstance(request, page_requests.Play | page_requests.Step | page_requests.Seek):
            player.request = max(player.request, request.number)
        match request:
            case page_requests.Start():
                self._strip.cancel()
                player.start(request)
            case page_requests.EditTokens():
                self._strip.cancel()
                player.start(placed_tokens.start_from(self._current, request))
            case page_requests.SetSpeed(factor):
                player.playback.speed = factor
            case page_requests.ChangeSettings(changes):
                player.change(changes)
            case page_requests.Play(plays):
                player.play(plays)
            case page_requests.Step(by):
                player.step(by)
            case page_requests.Seek(share):
                player.seek(share)
            case page_requests.SendRow(token):
                is_known = token is not None and token < len(self._current.first.tokens)
                self._panels.select_token(token if is_known else None)
            case page_requests.SendAxes():
                self._publish("axes", run_messages.axes(self._current, self._current.frame.tokens))
            case page_requests.Export():
                self._export(request)
            case page_requests.ShowStrip(is_shown):
                self._strip.cancel()
                if is_shown:
                    self._strip.start(self._current)

    @property
    def _current(self) -> LiveRun:
        if self.run is None:
            raise InputError(NO_RUN)
        return self.run

    def _export(self, request: page_requests.Export) -> None:
        """Let a writer thread write a file of the recorded run, while frames go on."""
        if self._writing is not None and not self._writing.done():
            raise InputError("A file is being written already. Wait for it, then ask for the next.")
        self._writing = self._writers.submit(self._write, snapshot_of(self._current), request)

    def _write(self, snapshot: RunSnapshot, request: page_requests.Export) -> None:
        try:
            written = exported_file(snapshot, request.kind, request.view)
            self._publish("file", protocol.file_bytes(snapshot.run.number, *written))
        except InputError as error:
            self._publish("problem", run_messages.problem(str(error)))
        except Exception as error:
            log.exception("A file could not be written")
            self._publish("problem", run_messages.problem(f"The file could not be written ({type(error).__name__})."))
