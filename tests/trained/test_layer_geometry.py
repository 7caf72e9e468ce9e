"""Geometry of tokens and sinks: exact cases, invariances, and cases in which each measure must not say the same."""

import numpy as np
import pytest

from attnflow.trained import layer_geometry, sinks
from attnflow.trained.studies.layer_measures import MeasureSettings, measured
from attnflow.trained.studies.layer_states import LayerState

RNG = np.random.default_rng(7)


def test_a_common_offset_raises_the_cosine_but_not_the_cosine_about_the_mean():
    tokens = RNG.standard_normal((40, 30))
    moved = tokens + 100.0
    units = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    plain = (np.sum(units @ units.T) - 40) / (40 * 39)
    assert plain > 0.95
    np.testing.assert_allclose(layer_geometry.centred_cosine(moved), layer_geometry.centred_cosine(tokens), atol=1e-10)
    assert abs(layer_geometry.centred_cosine(tokens) + 1 / 39) < 0.02


def test_two_groups_about_their_mean_have_the_cosine_of_a_split():
    """m tokens on each side: m(m-1) pairs of each side at 1, m^2 pairs across at -1, out of m(2m-1) pairs."""
    m = 6
    tokens = np.array([[1.0, 3.0]] * m + [[-1.0, 3.0]] * m)
    np.testing.assert_allclose(layer_geometry.centred_cosine(tokens), (m * (m - 1) - m**2) / (m * (2 * m - 1)))


@pytest.mark.parametrize("tokens", [np.ones((4, 3)), np.ones((1, 3))])
def test_the_cosine_about_the_mean_is_undefined_for_equal_tokens(tokens):
    assert np.isnan(layer_geometry.centred_cosine(tokens))


def test_matrix_entropy_is_that_of_the_eigenvalues_of_the_gram_matrix():
    tokens = RNG.standard_normal((9, 5))
    shares = np.linalg.eigvalsh(tokens @ tokens.T / np.trace(tokens @ tokens.T))
    shares = shares[shares > 1e-12]
    np.testing.assert_allclose(layer_geometry.matrix_entropy(tokens), -np.sum(shares * np.log(shares)))
    assert np.isnan(layer_geometry.matrix_entropy(np.zeros((3, 2))))


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_intrinsic_dimension_is_that_of_the_space_the_tokens_lie_in(dimension):
    """For m dimensions the estimate has the relative error n^{-1/2}: 4 of them are allowed, plus the edges."""
    inside = RNG.random((1500, dimension)) @ RNG.standard_normal((dimension, 20))
    found = layer_geometry.intrinsic_dimension(inside)
    assert abs(found / dimension - 1) < 4 / np.sqrt(1500) + 0.05 * dimension / 5


def test_intrinsic_dimension_ignores_repeated_tokens_and_needs_ten():
    tokens = RNG.random((50, 3))
    repeated = np.concatenate([tokens, tokens[:20]])
    assert layer_geometry.intrinsic_dimension(repeated) == pytest.approx(layer_geometry.intrinsic_dimension(tokens))
    assert np.isnan(layer_geometry.intrinsic_dimension(tokens[:9]))
    assert np.isfinite(layer_geometry.intrinsic_dimension(tokens[:10]))


def test_the_line_shape_score_does_not_depend_on_the_lengths_of_steps():
    direction, lengths = RNG.standard_normal((1, 3, 4)), np.array([0.0, 1.0, 5.0, 5.5])[:, None, None]
    np.testing.assert_allclose(layer_geometry.line_shape_score(direction * lengths), 1.0)
    there_and_back = np.array([0.0, 1.0, 0.5])[:, None, None] * direction
    assert layer_geometry.line_shape_score(there_and_back) > 1e10
    quarter_circle = np.array([[[0.0, 0.0]], [[2.0, 0.0]], [[2.0, 7.0]], [[2.0, 8.0]]])
    np.testing.assert_allclose(layer_geometry.line_shape_score(quarter_circle), 3 / np.hypot(1, 2))


def test_a_sink_is_told_from_attention_that_is_spread():
    n = 10
    equal, sink = np.full((n, n), 1 / n), np.full((n, n), 0.4 / (n - 1))
    sink[:, 0] = 0.6
    both = np.stack([equal, sink])
    np.testing.assert_allclose(sinks.first_token_attention(both), [0.1, 0.6])
    assert sinks.sink_share(both) == 0.5
    np.testing.assert_allclose(sinks.most_received(both), 0.6)


def test_the_last_tokens_of_a_causal_mask_are_no_sinks():
    """The last token sees itself alone among few queries; equal causal weights would give it all of its attention."""
    n = 8
    causal = np.tril(np.ones((n, n)))
    weights = (causal / causal.sum(axis=1, keepdims=True))[None]
    late = weights.copy()
    late[0, -1] = np.eye(n)[-1]  # the last query attends to itself: one query, no sink
    expected = np.mean([1 / (i + 1) for i in range(n)])
    np.testing.assert_allclose(sinks.most_received(weights), expected)
    np.testing.assert_allclose(sinks.most_received(late), expected - 1 / n**2)


def test_massive_activations_need_size_and_ratio():
    tokens = np.full((5, 4), 1e-3)
    tokens[0, 0] = 50.0  # 50,000 times the median, but small
    assert sinks.massive_activations(tokens) == 0
    tokens[1, 1] = 101.0
    assert sinks.massive_activations(tokens) == 1
    assert sinks.massive_activations(np.full((5, 4), 500.0)) == 0  # large, but like all others
    assert np.isnan(sinks.length_ratio(np.zeros((3, 2))))


def test_one_long_token_does_not_look_like_a_cluster_of_the_others():
    """A sink of 140 median lengths: about the mean of tokens the others have the cosine 0.8, in a study that of chance."""
    n = 20
    tokens = np.random.default_rng(3).standard_normal((n, 60))
    tokens[0] *= 140
    state = LayerState(0, 0, None, None, None, tokens)
    found = measured(state, np.arange(n), MeasureSettings(0.5, (1.0,)))

    assert layer_geometry.centred_cosine(tokens) > 0.7
    np.testing.assert_allclose(found["centred_cosine"], -1 / (n - 1), atol=0.01)
    assert found["length_ratio"] > 100
