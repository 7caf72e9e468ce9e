"""The command line, run as a user would."""

import contextlib
import io
import os
import subprocess
import sys
from unittest import mock

COMMAND = [sys.executable, "-m", "attnflow.cli.process"]


def attnflow(*arguments, cwd, code=0):
    """Run a command in a folder and check its exit code; returns what it printed to both streams.

    It runs in this process, where libraries are loaded already: the entry point and all it calls are the same.
    """
    from attnflow.cli.app import main

    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["attnflow", *map(str, arguments)]),
        mock.patch.dict(os.environ, {"COLUMNS": "120"}),
    ):
        try:
            main()
            ended = 0
        except SystemExit as ending:
            ended = ending.code or 0
    assert ended == code, out.getvalue() + err.getvalue()
    return out.getvalue(), err.getvalue()


def attnflow_process(*arguments, cwd, code=0):
    """The same in a process of its own, as installed."""
    environment = os.environ | {"COLUMNS": "120"}
    finished = subprocess.run(
        [*COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, env=environment
    )
    assert finished.returncode == code, finished.stdout + finished.stderr
    return finished.stdout, finished.stderr
