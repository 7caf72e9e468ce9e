"""The time change within a step."""

import numpy as np
import pytest

import attnflow as af
from attnflow.coalescence.step_problem import StepProblem
from attnflow.coalescence.time_change import TimeChange, log_difference
from attnflow.solvers.status import Status


@pytest.mark.parametrize(("growth", "log_time"), [(np.nan, 0.0), (2.0, np.nan), (np.nan, np.nan)])
def test_a_speed_or_a_time_that_is_no_number_is_an_arithmetic_error(growth, log_time):
    with pytest.raises(ArithmeticError, match="not a number"):
        TimeChange(growth).step_for(1.0, log_time)


def test_a_run_with_a_time_that_is_no_number_ends_as_not_finite(monkeypatch):
    monkeypatch.setattr(StepProblem, "log_unit", np.nan)
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(5.0))
    run = af.coalesce(flow, af.initial.sphere(4, 3, rng=0), progress=False)
    assert int(run.status) == Status.NOT_FINITE


def test_a_step_is_the_solution_of_a_closed_form():
    assert TimeChange(2.0).step_for(1.0, np.log(0.1)) == pytest.approx(-np.log(0.8) / 2)  # (1 - e^(-2u)) / 2 = 0.1


@pytest.mark.parametrize("change", [TimeChange(2.0), TimeChange(-1.5), TimeChange(1.0, 3.0), TimeChange(0.0, -2.0)])
@pytest.mark.parametrize("share", [1e-14, 1e-6, 0.3, 0.999])
def test_a_step_takes_the_time_asked_for(change, share):
    longest = 2.0
    log_time = np.log(share) + np.log(change.duration(longest))

    step = change.step_for(longest, log_time)

    assert 0 < step < longest
    assert np.log(change.duration(step)) == pytest.approx(log_time, abs=1e-8)


def test_a_time_that_the_longest_step_does_not_take_gives_the_longest_step():
    change = TimeChange(1.0, 3.0)
    log_longest = np.log(change.duration(2.0))

    assert change.step_for(2.0, log_longest) == 2.0
    assert change.step_for(2.0, log_longest + 1) == 2.0


@pytest.mark.parametrize(("later", "earlier"), [(3.0, 1.0), (3.0, 3.0 - 1e-9), (0.0, -700.0)])
def test_the_logarithm_of_a_duration_is_that_of_the_difference(later, earlier):
    assert log_difference(later, earlier) == pytest.approx(later + np.log(-np.expm1(earlier - later)), rel=1e-12)
    assert log_difference(later, -np.inf) == later
    assert log_difference(later, later) == pytest.approx(later - 36.8, abs=0.1)  # below rounding, and not -inf
