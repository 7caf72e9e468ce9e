"""Durations in words, and the run with a known solution that `attnflow doctor` computes."""

import pytest

from attnflow.cli.doctor import _error_of_known_run
from attnflow.cli.figures import _span


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (3.2, "3 s"),
        (99.4, "99 s"),
        (99.5, "2 min"),
        (150.0, "2 min"),
        (5399.0, "90 min"),
        (5400.0, "1.5 h"),
        (9000.0, "2.5 h"),
    ],
)
def test_durations_are_seconds_minutes_or_hours(seconds, words):
    assert _span(seconds) == words


def test_the_known_run_has_the_error_of_its_tolerance():
    assert 0 < _error_of_known_run() < 1e-7
