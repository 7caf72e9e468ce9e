"""The second curve over time, on both sides of the number of tokens from which it is estimated."""

import numpy as np
import pytest

import attnflow as af
from attnflow.explorer.measure import second_curve

SPHERE = af.SphereAttention(af.Head.identity(3), af.Softmax(2.0))


@pytest.mark.parametrize(("n", "is_estimated"), [(999, False), (1000, False), (1001, True)])
def test_the_energy_of_more_than_a_thousand_tokens_is_estimated(n, is_estimated):
    assert second_curve.is_estimated(SPHERE, n) is is_estimated
    assert not second_curve.is_estimated(af.EuclideanAttention(af.Head.identity(3)), n)


def test_the_curve_is_energy_order_or_mean_length():
    tokens = af.initial.sphere(7, 3, rng=0)
    lengths = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 8.0])  # mean 2, median 1
    zero = af.SphereAttention(af.Head.identity(3), af.Softmax(0.0))

    assert second_curve.value(zero, tokens, tokens) == pytest.approx(np.linalg.norm(tokens.mean(axis=0)))
    long = second_curve.value(af.EuclideanAttention(af.Head.identity(3)), 3 * tokens, tokens * lengths[:, None])
    assert long == pytest.approx(3 / 2)
    expected = np.mean(np.exp(2.0 * (tokens @ tokens.T - 1)))
    assert second_curve.value(SPHERE, tokens, tokens) == pytest.approx(expected)
    assert second_curve.value(SPHERE, np.full((2, 3), np.nan), tokens) is None
