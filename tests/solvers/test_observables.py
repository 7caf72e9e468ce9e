"""Observables against loops over pairs, for tokens of different lengths, on both sides of a threshold."""

import jax.numpy as jnp
import numpy as np
import pytest

import attnflow as af
from attnflow._common.precision import cast, double
from attnflow.solvers import observables

TOKENS = np.random.default_rng(0).normal(size=(7, 3))
PAIRS = [(i, j) for i in range(7) for j in range(7) if i != j]


def value(observable, tokens=TOKENS):
    with double():
        return float(cast(observable, "float64")(jnp.asarray(0.0), jnp.asarray(tokens, "float64")))


def test_mean_cosine_and_diameter_are_over_pairs():
    assert value(observables.mean_cosine) == pytest.approx(np.mean([TOKENS[i] @ TOKENS[j] for i, j in PAIRS]))
    assert value(observables.diameter) == pytest.approx(max(np.linalg.norm(TOKENS[i] - TOKENS[j]) for i, j in PAIRS))


def test_order_parameter_and_largest_norm_are_lengths():
    assert value(observables.order_parameter) == pytest.approx(np.linalg.norm(TOKENS.mean(axis=0)))
    assert value(observables.largest_norm) == pytest.approx(max(np.linalg.norm(token) for token in TOKENS))


def test_the_energy_is_the_mean_over_all_pairs_and_each_token_with_itself():
    expected = np.mean([[np.exp(0.7 * (x @ y - 1)) for y in TOKENS] for x in TOKENS])

    assert value(af.observables.Energy(0.7)) == pytest.approx(expected)


@pytest.mark.parametrize("cosine", [-0.5, 0.3, 0.9])
def test_close_pairs_are_counted_without_each_token_itself(cosine):
    """Some tokens have |x|^2 below the threshold, and some above it."""
    lengths = np.sum(TOKENS**2, axis=1)
    tokens = np.concatenate([TOKENS, 0.1 * TOKENS[:2]])
    assert np.any(lengths > cosine)
    pairs = [(i, j) for i in range(9) for j in range(9) if i != j]

    assert value(af.observables.ClosePairs(cosine), tokens) == np.mean(
        [tokens[i] @ tokens[j] > cosine for i, j in pairs]
    )


def test_a_cosine_at_the_threshold_is_not_above_it():
    tokens = np.array([[1.0, 0.0], [0.5, 0.5], [0.5, -0.5]])  # scores 0.5, 0.5 and 0; squares 1, 0.5 and 0.5

    assert value(af.observables.ClosePairs(0.5), tokens) == 0
    assert value(af.observables.ClosePairs(0.49), tokens) == pytest.approx(4 / 6)


def test_one_token_has_no_pairs():
    assert value(observables.mean_cosine, TOKENS[:1]) == pytest.approx(0, abs=1e-14)
    assert value(af.observables.ClosePairs(0.5), TOKENS[:1]) == 0
