"""Heads that do not change, and heads that are drawn anew after every period."""

import jax.numpy as jnp
import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow._common.precision import cast, double

SCORES = np.array([[1.0, 2.0], [-3.0, 0.5]])


def test_the_identity_has_three_identities():
    head = af.Head.identity(3)

    for matrix in (head.query, head.key, head.value_matrix):
        np.testing.assert_array_equal(matrix, np.eye(3))


def test_a_bilinear_head_has_the_scores_of_its_matrix_and_not_of_its_transpose():
    head = af.Head.bilinear(SCORES, np.eye(2))

    np.testing.assert_array_equal(np.asarray(head.query).T @ np.asarray(head.key), SCORES)
    np.testing.assert_array_equal(head.query_key, SCORES)


def weights_at(head, time):
    with double():
        now = cast(head, "float64").at(jnp.asarray(time))
        return np.asarray(now.query), np.asarray(now.key), np.asarray(now.value_matrix)


@pytest.mark.parametrize("period", [0.1, 0.3, 1.0, 7.0])
def test_weights_change_at_every_multiple_of_the_period_and_at_no_other_time(period):
    """Quotients such as 0.3 / 0.1 round below a whole number; products k * period decide."""
    head = af.RedrawnHead(3, period, seed=1)
    for k in (1, 2, 3, 6, 7, 11):
        at = k * period
        before, now, later = (weights_at(head, time)[0] for time in (np.nextafter(at, 0), at, at + 0.9 * period))
        assert not np.array_equal(before, now)
        np.testing.assert_array_equal(now, later)


def test_jumps_are_the_multiples_strictly_between_two_times():
    head = af.RedrawnHead(2, 0.5)

    np.testing.assert_array_equal(head.jumps(0.0, 2.0), [0.5, 1.0, 1.5])
    np.testing.assert_array_equal(head.jumps(0.5, 1.1), [1.0])
    assert len(head.jumps(0.6, 0.9)) == 0


@pytest.mark.parametrize(("value", "sign"), [("query_key", 1), ("minus_query_key", -1)])
def test_the_drawn_value_matrix_is_that_of_the_scores_or_its_negative(value, sign):
    query, key, matrix = weights_at(af.RedrawnHead(4, 1.0, seed=3, value=value), 2.5)

    np.testing.assert_array_equal(query.T @ key, sign * matrix)
    np.testing.assert_array_equal(key, np.eye(4))
    assert not np.array_equal(query, query.T)


def test_laws_of_drawn_matrices_have_their_sizes():
    """Entries of variance 1/d; the symmetric one has a spectrum that fills [-2, 2]."""
    d = 200
    gaussian, _, symmetric = weights_at(af.RedrawnHead(d, 1.0, query_key="gaussian", value="goe"), 0.0)

    assert np.var(gaussian) * d == pytest.approx(1.0, abs=0.05)
    np.testing.assert_array_equal(symmetric, symmetric.T)
    assert np.abs(np.linalg.eigvalsh(symmetric)).max() == pytest.approx(2.0, abs=0.1)


def test_bias_and_weight_of_the_layer_after_attention_fit():
    assert af.MLP(np.ones((2, 3))).bias is None
    af.MLP(np.ones((2, 3)), bias=np.zeros(3))
    with pytest.raises(InputError, match="one entry for each column of `weight`, 3"):
        af.MLP(np.ones((2, 3)), bias=np.zeros(2))
    with pytest.raises(InputError, match="must be finite"):
        af.MLP(np.ones((2, 3)), bias=np.array([0.0, np.nan, 0.0]))


@pytest.mark.parametrize("frozen", [np.array([1, 0]), np.array([[True, False]]), np.array([1.0, 0.0])])
def test_frozen_is_a_list_of_booleans(frozen):
    with pytest.raises(InputError, match="must be a list of booleans"):
        af.EuclideanAttention(af.Head.identity(2), frozen=frozen)


def test_the_slowness_of_ngpt_is_the_length_of_the_output_over_alpha():
    output = np.array([[3.0, 4.0], [0.0, 2.0]])
    with double():
        found = af.NGPT(0.5).slowness(jnp.asarray(0.0), None, jnp.asarray(output))

    np.testing.assert_allclose(np.ravel(found), [10.0, 4.0])


def test_swapped_arguments_of_a_schedule_are_named():
    heads = [af.Head.identity(2), af.Head.identity(2)]
    for given in ([1.0], np.array([1.0]), heads[0]):
        with pytest.raises(InputError, match=r"`heads` must be a list of `Head`.*the times of the switches first"):
            af.PiecewiseHead(heads, given)
    assert len(af.PiecewiseHead([1.0], heads).heads) == 2


def test_swapped_arguments_of_a_schedule_of_perceptrons_are_named():
    with pytest.raises(InputError, match="`pieces` must be a list of `Perceptron`"):
        af.PiecewisePerceptron([af.Perceptron([[1.0]], [[0.0]], [1.0])] * 2, [1.0])
