"""The command line, run in a process of its own as a user would."""

import os
import subprocess
import sys

COMMAND = [sys.executable, "-c", "from attnflow.cli.app import main; main()"]


def attnflow(*arguments, cwd, code=0):
    """Run a command in a folder and check its exit code; returns what it printed to both streams."""
    environment = os.environ | {"COLUMNS": "120"}
    finished = subprocess.run(
        [*COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, env=environment
    )
    assert finished.returncode == code, finished.stdout + finished.stderr
    return finished.stdout, finished.stderr
