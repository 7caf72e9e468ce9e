"""The times that a run steps towards."""

import numpy as np
import pytest

import attnflow as af
from attnflow.integrate.targets import next_target, steps_for, targets_of

HEADS = [af.Head.identity(2), af.Head.bilinear(-np.eye(2), np.eye(2))]
SMOOTH = af.SphereAttention(HEADS[0])
JUMPING = af.SphereAttention(af.PiecewiseHead([0.7], HEADS))
REDRAWN = af.SphereAttention([af.RedrawnHead(2, 0.5), af.RedrawnHead(2, 0.3)])


def test_targets_are_saving_times_and_jumps():
    targets, saves = targets_of(JUMPING, af.Adaptive(), np.array([0.0, 0.5, 1.0]), "float64")

    np.testing.assert_array_equal(targets.time, [0.5, 0.7, 1.0])
    np.testing.assert_array_equal(saves, [1, -1, 2])
    np.testing.assert_array_equal(targets.barrier, [0.7, 0.7, 1.0])  # Tsit5 interpolates at 0.5
    np.testing.assert_array_equal(targets.barrier_is_jump, [True, True, False])


def test_a_solver_without_interpolation_stops_at_every_saving_time():
    targets, _ = targets_of(SMOOTH, af.RK4(0.1), np.array([0.0, 0.5, 1.0]), "float64")

    np.testing.assert_array_equal(targets.barrier, [0.5, 1.0])


def test_layers_have_no_targets_at_jumps():
    targets, saves = targets_of(JUMPING, af.Layers(0.5), np.array([0.0, 0.5, 1.0]), "float64")

    np.testing.assert_array_equal(targets.time, [0.5, 1.0])
    np.testing.assert_array_equal(saves, [1, 2])


@pytest.mark.parametrize(
    ("flow", "now", "time", "expected"),
    [
        (SMOOTH, 0.0, 2.0, (2.0, np.inf, False)),
        (JUMPING, 0.0, 0.5, (0.5, 0.7, True)),
        (JUMPING, 0.0, 2.0, (0.7, 0.7, True)),
        (JUMPING, 0.7, 2.0, (2.0, np.inf, False)),
        (REDRAWN, 0.31, 2.0, (0.5, 0.5, True)),
    ],
)
def test_a_run_without_a_last_time_has_the_next_jump_as_its_barrier(flow, now, time, expected):
    target = next_target(flow, af.Adaptive(), now, time)

    assert (float(target.time), float(target.barrier), bool(target.barrier_is_jump)) == expected


def test_the_next_jump_is_the_first_of_all_jumps():
    assert SMOOTH.next_jump(0.0) == np.inf
    for time in np.linspace(0, 2, 21):
        assert REDRAWN.next_jump(time) == REDRAWN.jumps(time, 10.0)[0]


def test_the_number_of_steps_follows_the_duration_of_the_last_call():
    assert steps_for(0.3, last_steps=100, last_seconds=0.15, most=10**6) == 200
    assert steps_for(0.3, last_steps=100, last_seconds=1e-6, most=10**6) == 400  # at most four times as many
    assert steps_for(0.3, last_steps=100, last_seconds=60.0, most=10**6) == 25  # at least a quarter
    assert steps_for(0.3, last_steps=100, last_seconds=0.15, most=7) == 7
    assert steps_for(0.3, last_steps=1, last_seconds=60.0, most=0) == 1


@pytest.mark.parametrize(("step", "count"), [(0.25, 4), (0.3, 4), (1.0, 1)])
def test_as_many_equal_steps_are_made_as_the_time_needs(step, count):
    flow = af.EuclideanAttention(af.Head.identity(2))
    run = af.simulate(flow, np.eye(2), [0.0, 1.0], solver=af.Euler(step), progress=False)

    assert (int(run.steps), int(run.rejected_steps)) == (count, 0)
