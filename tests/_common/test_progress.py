"""Progress: who is called, when a bar appears, and that it is removed."""

import sys

import pytest

from attnflow._common import progress
from attnflow._common.progress import Bar, Watch, parts_of, reporting


class Display:
    """Stands in for the display of rich: notes what it is told."""

    def __init__(self, *columns, **settings):
        self.calls = []

    def add_task(self, description, total):
        return 0

    def __getattr__(self, name):
        return lambda *arguments, **settings: self.calls.append((name, settings.get("completed")))


@pytest.fixture
def display(monkeypatch):
    """The display of a bar that appears at its first report."""
    shown = Display()
    monkeypatch.setattr(progress, "SECONDS_BEFORE_BAR", 0.0)
    monkeypatch.setattr("rich.progress.Progress", lambda *columns, **settings: shown)
    return shown


def test_a_bar_that_goes_back_to_zero_starts_its_clock_again(display):
    with reporting(True) as report:
        for fraction in (0.5, 0.9, 0.0, 0.0, 0.4):
            report(fraction, "drawing")

    assert [name for name, _ in display.calls].count("reset") == 1
    assert display.calls[3] == ("reset", None)


def test_a_bar_is_removed_when_the_work_fails(display):
    def work():
        with reporting(True) as report:
            report(0.5, "")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()

    assert display.calls == [("start", None), ("update", 0.5), ("stop", None)]


def test_a_run_shorter_than_a_second_shows_no_bar(display, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BEFORE_BAR", 1.0)
    with reporting(True) as report:
        report(0.5, "")

    assert display.calls == []


@pytest.mark.parametrize(("is_terminal", "kind"), [(True, Bar), (False, type(lambda: None))])
def test_without_a_word_only_a_terminal_has_a_bar(monkeypatch, is_terminal, kind):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    with reporting(None) as report:
        assert isinstance(report, kind)


def test_parts_of_parts_share_one_bar():
    seen = []
    parts = parts_of(lambda fraction, sentence: seen.append(fraction), 2)
    for part in parts:
        for inner in parts_of(part, 2):
            inner(1.0, "")

    assert seen == [0.25, 0.5, 0.75, 1.0]


def test_without_a_function_each_part_is_told_what_the_whole_was_told():
    assert parts_of(False, 2) == [False, False]
    assert parts_of(None, 2) == [None, None]


@pytest.mark.parametrize(("budget", "stops"), [(None, False), (1000.0, False), (-1.0, True)])
def test_workers_stop_when_the_budget_is_spent_or_the_run_is_interrupted(budget, stops):
    watch = Watch(lambda fraction, sentence: None, budget)
    assert watch.should_stop() is stops

    watch.is_interrupted = True
    assert watch.should_stop()


def test_the_fractions_of_workers_are_weighted_and_the_last_of_each_counts():
    seen = []
    watch = Watch(lambda fraction, sentence: seen.append(fraction), None)
    watch.report(0, 0.5, 0.25, "")
    watch.report(1, 0.4, 0.75, "")
    watch.report(0, 1.0, 0.25, "")

    assert seen == pytest.approx([0.125, 0.425, 0.55])
