"""A process that runs command lines one after the other, with libraries loaded and programs compiled.

Each line of its input is a folder and the arguments as JSON; each line of its output is the exit code and what was
printed. A command that does not answer in time ends with the process, and the next command gets a new one.
"""

import contextlib
import io
import json
import os
import select
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

SECONDS = 300.0  # after which a command counts as hanging; on an idle machine none of them takes thirty


class Ended(NamedTuple):
    """How a command ended: its exit code, None if it did not, and the end of what it printed."""

    code: int | None
    printed: str


class Worker:
    """The process, started when it is needed."""

    def __init__(self, seconds: float = SECONDS):
        self.seconds = seconds
        self._process: Any = None

    def run(self, arguments: list[str], folder: Path) -> Ended:
        """Run one command line in a folder."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        process: Any = self._process
        try:
            process.stdin.write(json.dumps([str(folder), arguments]) + "\n")
            process.stdin.flush()
            if not select.select([process.stdout], [], [], self.seconds)[0]:
                self.close()
                return Ended(None, f"no answer in {self.seconds:g} s")
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            code = process.wait()
            self.close()
            return Ended(code, "the process ended")
        return Ended(*json.loads(answer))

    def close(self) -> None:
        """End the process."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._process = None

    def _start(self) -> None:
        command = [sys.executable, "-m", "tests.fuzz.worker"]
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=nothing)


def fault_of(ended: Ended, folder: Path) -> str:
    """What is wrong with the end of a command, or nothing."""
    if ended.code is None:
        return ended.printed
    if "Traceback (most recent call last)" in ended.printed:
        return f"traceback: {ended.printed[-1500:]}"
    if ended.code not in (0, 1, 2):
        return f"exit code {ended.code}: {ended.printed[-300:]}"
    left = [str(path) for path in folder.rglob(".*.part*")]
    return f"left {left}" if left else ""


def _answer(folder: str, arguments: list[str]) -> Ended:
    from attnflow.cli.app import main

    out = io.StringIO()
    code: Any = 0
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
        mock.patch.object(sys, "argv", ["attnflow", *arguments]),
    ):
        try:
            main()
        except SystemExit as ending:
            code = ending.code or 0
        except BaseException:
            code = 1
            out.write(traceback.format_exc())
    return Ended(code, out.getvalue()[-3000:])


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print by themselves is no answer
    for line in sys.stdin:
        print(json.dumps(_answer(*json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
