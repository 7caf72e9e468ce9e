"""Each part of the fuzzing for a few seconds; `python -m tests.fuzz` runs them for as long as one likes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz import commands, worker
from tests.fuzz.__main__ import PARTS

MINUTES = "0.1"
ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("part", PARTS)
def test_nothing_is_wrong(part):
    # A process of its own: parts fork, which is safe only where no compiled program has started threads.
    command = [sys.executable, "-m", "tests.fuzz", "--minutes", MINUTES, "--part", part]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)

    assert done.returncode == 0, done.stdout + done.stderr
    report = re.search(rf"^{part}: (.+); 0 wrong$", done.stdout, re.MULTILINE)
    assert report, done.stdout
    tried, name = report.group(1).split(", ")[0].split(" ", 1)
    assert int(tried) > 0, name


def test_a_fault_would_be_found(tmp_path):
    """The control of the test above."""
    assert worker.fault_of(worker.Ended(0, "all is well"), tmp_path) == ""
    assert "traceback" in worker.fault_of(worker.Ended(1, "Traceback (most recent call last):"), tmp_path)
    assert "exit code -6" in worker.fault_of(worker.Ended(-6, ""), tmp_path)
    assert "no answer" in worker.fault_of(worker.Ended(None, "no answer in 3 s"), tmp_path)
    (tmp_path / ".x.png.1-2-3.part").write_text("")
    assert "left" in worker.fault_of(worker.Ended(0, ""), tmp_path)


def test_the_parameters_of_commands_are_known():
    known = commands.parameters()
    assert commands.Parameter("n", "--n", int) in known["run"]
    assert commands.Parameter("as_json", "--json", bool) in known["stream"]
    assert commands.Parameter("path", None, commands.Path) in known["show"]
