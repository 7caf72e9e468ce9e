"""Defaults of solvers, and the last time at which a step may evaluate the field."""

import jax.numpy as jnp
import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow._common.precision import double
from attnflow.solvers.base import Target, retracted_if_moved


def test_the_tolerances_of_adaptive_steps_are_the_documented_ones():
    assert (float(af.Adaptive().rtol), float(af.Adaptive().atol)) == (1e-8, 1e-10)


def test_with_them_the_error_is_between_1e_12_and_1e_8():
    """Two tokens at beta = 0: the cosine is tanh t."""
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(0.0))
    run = af.simulate(flow, np.eye(2), [0.0, 1.0], progress=False)
    first, second = run.final_tokens.values
    assert 1e-12 < abs(first @ second - np.tanh(1.0)) < 1e-8


@pytest.mark.parametrize("options", [{"order": 4}, {"order": 8, "stiff": True}, {"order": 6}])
def test_other_orders_are_refused(options):
    with pytest.raises(InputError, match="`order` must be 5"):
        af.Adaptive(**options)


def test_the_served_orders_are_five_eight_and_stiff_five():
    assert [af.Adaptive(order=8).lands_on_times, af.Adaptive(stiff=True).lands_on_times] == [True, True]
    assert not af.Adaptive().lands_on_times


def test_before_a_jump_the_field_is_evaluated_up_to_the_float_before_it():
    with double():
        at = lambda is_jump: float(Target(jnp.asarray(2.0), jnp.asarray(2.0), jnp.asarray(is_jump)).latest())

        assert at(True) == np.nextafter(2.0, 0.0)
        assert at(False) == np.inf


@pytest.mark.parametrize("flow", [af.EuclideanAttention, af.SphereAttention])
def test_layers_that_start_late_serve_every_flow_but_the_rescaled_one(flow):
    times = np.array([0.5, 0.6])
    af.Layers(0.1).require_serves(flow(af.Head.identity(2)), times)

    with pytest.raises(InputError, match="layers are counted from time 0"):
        af.Layers(0.1).require_serves(af.RescaledAttention(af.Head.identity(2)), times)
    af.Layers(0.1).require_serves(af.RescaledAttention(af.Head.identity(2)), times - 0.5)


@pytest.mark.parametrize(("off", "fits"), [(0.9e-6, True), (1.1e-6, False)])
def test_times_are_whole_layers_up_to_a_millionth_of_one(off, fits):
    times = np.array([0.0, 0.1 * (3 + off)])
    if fits:
        af.Layers(0.1).require_serves(af.EuclideanAttention(af.Head.identity(2)), times)
    else:
        with pytest.raises(InputError, match="must be a whole number of steps"):
            af.Layers(0.1).require_serves(af.EuclideanAttention(af.Head.identity(2)), times)


def test_tokens_that_moved_return_to_the_sphere_and_others_keep_their_bits():
    flow = af.SphereAttention(af.Head.identity(2))
    former = np.array([[0.6, 0.8], [1.0, 0.0]]) * [[1 + 1e-9], [1.0]]  # the first is off the sphere by rounding
    moved = former + np.array([[0.0, 0.0], [0.1, 0.2]])
    with double():
        found = np.asarray(retracted_if_moved(flow, moved, former))
    np.testing.assert_array_equal(found[0], former[0])
    np.testing.assert_allclose(found[1], moved[1] / np.linalg.norm(moved[1]), rtol=1e-15)
