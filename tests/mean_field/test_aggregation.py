"""The aggregation equation with the logarithmic kernel: two tokens, the second moment, collapse, refusals."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError

aggregate = af.mean_field.aggregate


def disc(n):
    """Tokens nearly uniform in the unit disc."""
    index = np.arange(n) + 0.5
    angle = index * np.pi * (3 - np.sqrt(5))
    return np.sqrt(index / n)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


@pytest.mark.parametrize("d", [1, 3])
def test_two_tokens_meet_at_half_their_squared_distance(d):
    tokens = np.zeros((2, d))
    tokens[1, 0] = 0.8
    run = aggregate(tokens, [0.0, 0.2, 1.0])

    # The distance r obeys r' = -1/r.
    assert float(run.tokens[1, 1, 0] - run.tokens[1, 0, 0]) == pytest.approx(np.sqrt(0.64 - 0.4), rel=1e-6)
    assert float(run.collapse_time) == pytest.approx(0.32, rel=1e-5)
    np.testing.assert_allclose(run.tokens[-1, :, 0], 0.4, atol=1e-9)


def test_the_second_moment_falls_at_the_rate_of_theory_and_all_tokens_meet_after_the_time_of_the_law():
    n = 40
    run = aggregate(disc(n), np.linspace(0, 0.6, 13))
    is_early = run.atoms.values == n

    expected = float(run.second_moment[0]) - (1 - 1 / n) * run.time.values
    np.testing.assert_allclose(run.second_moment[is_early], expected[is_early], atol=1e-6)
    assert is_early.sum() > 4
    assert float(run.predicted_time) == pytest.approx(0.5, rel=2e-3)  # R^2 / 2 of the uniform disc
    assert 1 < float(run.collapse_time / run.predicted_time) < 1.2
    np.testing.assert_allclose(np.ptp(run.tokens.values.mean(axis=1), axis=0), 0, atol=1e-8)


def test_attention_from_the_same_start_does_not_meet():
    """Control: with V = -I tokens gather, too, but stay apart."""
    flow = af.EuclideanAttention(af.Head(value=-np.eye(2)))
    run = af.simulate(flow, disc(40), [0.0, 0.6], progress=False)

    assert np.linalg.norm(run.final_tokens.values, axis=1).max() > 0.5


@pytest.mark.parametrize(
    ("tokens", "words"),
    [(np.zeros((2, 2)), "different"), (np.ones((1, 2)), "n at least 2"), ([[0.0], [np.nan]], "finite")],
)
def test_bad_input_gets_one_sentence(tokens, words):
    with pytest.raises(InputError, match=words):
        aggregate(tokens, [0.0, 1.0])
