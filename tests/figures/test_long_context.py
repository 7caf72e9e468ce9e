"""One layer on long contexts, against brute force."""

import numpy as np
import pytest

from attnflow.figures.entries import long_context


def test_one_layer_of_equiangular_tokens():
    rho, n = 0.2, 100
    data = long_context.compute_contexts(False, rho=rho, exponents=[2, 12], largest=2.5, points=6)
    gram = rho + (1 - rho) * np.eye(n)
    for gamma in data.gamma.values:
        weights = np.exp(gamma * np.log(n) * gram)
        weights /= weights.sum(axis=1, keepdims=True)
        after = weights @ gram @ weights.T
        assert float(data.cosine.sel(log10_n=2, gamma=gamma)) == pytest.approx(after[0, 1] / after[0, 0], rel=1e-9)
    numbers = long_context.context_numbers(data)
    assert numbers["cosine at the critical gamma, n = 10^12"] == pytest.approx(4 * rho / (1 + 3 * rho), abs=1e-9)
    assert [one.verdict for one in long_context.context_verdicts(data)] == ["holds"] * 3
