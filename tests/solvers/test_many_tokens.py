"""Observables of many tokens, computed without n^2 operations, against sums over all pairs in NumPy."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.precision import double
from attnflow.model.fast_sums import observed

N = observed.LEAST_TOKENS


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("length", [1.0, 0.9], ids=["on the sphere", "in space"])
def test_observables_of_many_tokens(d, length):
    tokens = length * af.initial.sphere(N, d, rng=0)
    products = tokens @ tokens.T
    squares = np.diag(products)[:, None] + np.diag(products) - 2 * products
    with double():
        found = {
            "energy": af.observables.Energy(7.0)(0.0, tokens),
            "diameter": af.observables.diameter(0.0, tokens),
            "pairs": af.observables.ClosePairs(0.7)(0.0, tokens),
        }
    np.testing.assert_allclose(found["energy"], np.mean(np.exp(7 * (products - 1))), rtol=1e-10)
    np.testing.assert_allclose(found["diameter"], np.sqrt(squares.max()), rtol=1e-10)
    np.testing.assert_allclose(found["pairs"], (np.sum(products > 0.7) - N) / (N * (N - 1)), rtol=1e-6)


def test_no_pair_is_closer_than_equal_tokens():
    """<x, y> = 1 is not above 1."""
    assert observed.close_pairs(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 1.0) == 0
