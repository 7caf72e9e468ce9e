"""Timings of contenders in turn, and their differences from attnflow."""

import numpy as np
import pytest

from attnflow._common import extras
from attnflow.experiments.bench.timing import Contender, Row, machine, ratios, timings


def row(*contenders):
    return Row("name", "title", "unit", contenders)


def test_contenders_are_timed_in_turn_after_a_first_call_of_each():
    order = []
    contenders = [Contender(name, lambda name=name: order.append(name) or np.ones(1)) for name in "ab"]

    timings(row(*contenders), repeats=3)

    assert order == list("ab" * 4)


def test_seconds_are_those_of_a_unit():
    work = lambda: np.linalg.inv(np.eye(300) + 0.1)
    whole, part = timings(row(Contender("one", work), Contender("many", work, units=1000.0)), repeats=5)

    wall, processor = ratios(part, whole)
    assert np.median(wall) < 0.1  # the same work, counted as a thousand units
    assert len(wall) == len(processor) == 5


def test_differences_are_those_of_the_runs_that_both_have_computed():
    ours = Contender("attnflow", lambda: np.arange(4.0))
    same = Contender("two of them", lambda: np.arange(2.0))
    other = Contender("wrong", lambda: np.array([0.0, 1.5]))
    unlike = Contender("something else", lambda: np.array([7.0]), has_same_numbers=False)

    found = timings(row(ours, same, other, unlike), repeats=1)

    assert [one.difference for one in found] == [0.0, 0.0, 0.5, None]


def test_a_machine_that_tells_neither_load_nor_processor_has_a_name(monkeypatch):
    """As on Windows; the file of Linux is absent on macOS, too."""
    monkeypatch.delattr("os.getloadavg", raising=False)
    monkeypatch.setattr("pathlib.Path.exists", lambda path: False)
    monkeypatch.setattr("platform.processor", lambda: "a processor")

    facts = machine()

    assert (facts["processor"], facts["is_busy"]) == ("a processor", False)
    assert facts["load"] is None


@pytest.mark.parametrize(("is_installed", "said"), [(True, "installed"), (False, "not installed: large-run sums over")])
def test_the_extra_on_which_a_row_depends_is_named(monkeypatch, is_installed, said):
    monkeypatch.setattr(extras, "is_installed", lambda extra: is_installed)
    assert machine()["extra fast"].startswith(said)


def test_the_machine_is_named():
    facts = machine()

    assert facts["processor"]
    assert facts["cores"] >= 1
    assert facts["is_busy"] == (facts["load"] > 0.3 * facts["cores"])
