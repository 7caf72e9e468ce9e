"""Stopping conditions on both sides of their thresholds."""

import jax.numpy as jnp
import numpy as np
import pytest

import attnflow as af
from attnflow._common.precision import double
from attnflow.model.spaces import Euclidean, Sphere

PLANE, SPHERE = Euclidean(), Sphere()


def is_met(stop, space, before, tokens, duration=1.0):
    with double():
        arrays = (jnp.asarray(value, "float64") for value in (before, tokens, duration))
        return bool(stop.is_met(space, *arrays))


@pytest.mark.parametrize("duration", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize(("factor", "expected"), [(0.99, True), (1.01, False)])
def test_settled_compares_the_displacement_with_the_speed_times_the_duration(duration, factor, expected):
    before = np.array([[0.0, 0.0], [1.0, 2.0]])
    step = factor * 1e-3 * duration * np.array([0.6, 0.8])  # of length factor * speed * duration

    assert is_met(af.Settled(1e-3), PLANE, before, before + np.array([[0.0, 0.0], step]), duration) is expected


@pytest.mark.parametrize(("space", "place"), [(PLANE, lambda s: [s, 0.0]), (SPHERE, lambda s: [np.cos(s), np.sin(s)])])
@pytest.mark.parametrize(("factor", "expected"), [(0.99, True), (1.01, False)])
def test_clustered_compares_distances_and_angles_with_its_tolerance(space, place, factor, expected):
    tokens = np.array([place(0.0), place(0.2 * factor), place(0.1)])

    assert is_met(af.Clustered(0.2), space, tokens, tokens) is expected


@pytest.mark.parametrize(("count", "expected"), [(1, False), (2, False), (3, True), (4, True)])
def test_clustered_compares_the_number_of_groups_with_its_count(count, expected):
    tokens = np.array([[0.0], [5.0], [0.1], [9.0], [5.1]])

    assert is_met(af.Clustered(0.2, count=count), PLANE, tokens, tokens) is expected


@pytest.mark.parametrize(("length", "expected"), [(9.9, False), (10.1, True)])
def test_diverged_compares_the_longest_token_with_its_distance(length, expected):
    tokens = np.array([[0.0, 0.0], [0.6 * length, 0.8 * length]])

    assert is_met(af.Diverged(10.0), PLANE, tokens, tokens) is expected


@pytest.mark.parametrize("step", [0.01, 0.1])
def test_a_run_settles_when_its_speed_falls_below_the_threshold(step):
    """One token under V = -1 moves at the speed e^{-t}: it settles at t = log(1 / speed), whatever the step."""
    flow = af.EuclideanAttention(af.Head([[1.0]], [[1.0]], [[-1.0]]))

    run = af.simulate(flow, [[1.0]], [0.0, 100.0], solver=af.RK4(step), stop=af.Settled(1e-3))

    assert float(run.final_time) == pytest.approx(np.log(1e3), abs=2 * step)


def test_a_run_is_clustered_when_its_angle_falls_below_the_tolerance():
    """At beta = 0 two tokens at the angle a have a' = -sin a: tan(a / 2) decays as e^{-t}."""
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(0.0))

    run = af.simulate(flow, np.eye(2), [0.0, 100.0], solver=af.RK4(0.01), stop=af.Clustered(1e-2))

    assert float(run.final_time) == pytest.approx(np.log(1 / np.tan(0.005)), abs=0.02)
