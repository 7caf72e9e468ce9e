"""Saving times of the written code: by factors from the start of a run whose clock is logarithmic, else equal steps."""

import pytest

from attnflow.experiments.scenarios import Settings
from attnflow.explorer.export.python_code import _times
from attnflow.explorer.recording import Frame


def written(start, end, frames=(), **settings):
    return _times(frames, Settings(n=4, d=2, **settings), start, end)


@pytest.mark.parametrize(("spacing", "start"), [("linear", 0.0), ("linear", 2.0), ("log", 2.0)])
def test_times_are_equally_spaced(spacing, start):
    assert written(start, 10.0, spacing=spacing) == f"np.linspace({start}, 10.0, 101)"


def test_times_of_a_logarithmic_clock_grow_by_factors_after_zero():
    assert written(0.0, 100.0, spacing="log") == "np.append(0.0, np.geomspace(100.0 / 1e4, 100.0, 100))"


def test_times_of_fixed_steps_are_those_of_the_frames_between_start_and_end():
    frame = lambda time: Frame(**(dict.fromkeys(Frame._fields) | {"time": time}))
    frames = [frame(0.25 * k) for k in range(9)]

    assert written(0.5, 1.5, frames, solver="euler:0.25") == "np.array([0.5, 0.75, 1.0, 1.25, 1.5])"
