"""Logarithmic axes of time: when, from which time, and for which runs of centres."""

from types import SimpleNamespace

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.show.runs.over_time import _first_move, is_logarithmic
from attnflow.show.theory.centres import _require_drawable


@pytest.mark.parametrize(
    ("times", "expected"),
    [(np.geomspace(1e-3, 10, 40), True), (np.linspace(0, 10, 40), False), ([0.0, 0.1, 0.2, 9.0], False)],
)
def test_an_axis_is_logarithmic_where_half_of_the_times_are_early(times, expected):
    assert is_logarithmic(np.asarray(times)) is expected


def test_the_axis_begins_at_the_power_of_ten_before_a_token_has_moved_by_a_hundredth():
    """A token at x = t moves by 1 % of its way at t = 10; another one moves less."""
    times = np.append(0.0, np.geomspace(1e-3, 1000.0, 601))
    tokens = np.stack([np.stack([times, 0 * times], axis=1), np.stack([0 * times, times / 2], axis=1)], axis=1)

    assert _first_move(SimpleNamespace(times=times, tokens=tokens)) == 10.0


@pytest.mark.parametrize(("times", "fits"), [([0.0, 1.0, 2.0], True), ([0.0, 1.0], False), ([0.5, 1.0], True)])
def test_centres_are_drawn_over_two_positive_times_or_more(times, fits):
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(3.0), mask=af.masks.causal)
    run = af.simulate(flow, af.initial.circle(4, rng=0), times, solver=af.Euler(0.5), progress=False)
    if fits:
        assert _require_drawable(run) == 3.0
    else:
        with pytest.raises(InputError, match="two positive times or more"):
            _require_drawable(run)
