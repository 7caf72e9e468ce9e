"""Each part of the fuzzing for a few seconds; `python -m tests.fuzz` runs them for as long as one likes."""

import pytest
from tests.fuzz import commands, files, kills, worker

SECONDS = 5.0


@pytest.mark.parametrize("part", [commands, files, kills])
def test_nothing_is_wrong(part):
    counts, failures = part.run(SECONDS, seed=0)

    assert failures == []
    assert counts


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
