"""Matrices from their factors, against the same matrices formed in full."""

import numpy as np
import pytest

from attnflow._common.checks import InputError
from attnflow.analyse import low_rank

D, K = 11, 4


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(3)
    return rng.normal(size=(D, K)), rng.normal(size=(K, D))


def test_eigenvalues_are_those_of_the_product(pair):
    dense = np.linalg.eigvals(pair[0] @ pair[1])
    largest = dense[np.argsort(-np.abs(dense))][:K]  # the other D - K are zero
    expected = largest[np.lexsort((-largest.imag, -largest.real))]
    np.testing.assert_allclose(low_rank.eigenvalues(*pair), expected, atol=1e-10)


def test_symmetric_part(pair):
    product = pair[0] @ pair[1]
    dense = np.linalg.eigvalsh((product + product.T) / 2)
    nonzero = dense[np.abs(dense) > 1e-10]
    found = low_rank.symmetric_eigenvalues(*pair)
    np.testing.assert_allclose(found[np.abs(found) > 1e-10], nonzero, atol=1e-10)
    np.testing.assert_allclose(low_rank.symmetric_norm(*pair), np.linalg.norm((product + product.T) / 2))


def test_parts_add_up_and_have_their_signs(pair):
    attractive, repulsive, rotational = (left @ right for left, right in low_rank.parts(*pair))
    np.testing.assert_allclose(attractive + repulsive + rotational, pair[0] @ pair[1], atol=1e-12)
    assert np.linalg.eigvalsh(attractive).min() > -1e-12
    assert np.linalg.eigvalsh(repulsive).max() < 1e-12
    np.testing.assert_allclose(rotational, -rotational.T, atol=1e-12)
    assert np.abs(attractive @ repulsive).max() < 1e-12


def test_spectral_parts_keep_their_eigenvalues_and_only_those(pair):
    parts = {name: left @ right for name, (left, right) in low_rank.spectral_parts(*pair).items()}
    np.testing.assert_allclose(sum(parts.values()), pair[0] @ pair[1], atol=1e-10)
    every = low_rank.eigenvalues(*pair)
    kinds = {"positive": (every.imag == 0) & (every.real > 0), "negative": (every.imag == 0) & (every.real < 0)}
    kinds["complex"] = every.imag != 0
    assert kinds["complex"].any()
    assert kinds["positive"].any() or kinds["negative"].any()
    for name, chosen in kinds.items():
        found = np.linalg.eigvals(parts[name])
        found = found[np.abs(found) > 1e-8]
        np.testing.assert_allclose(np.sort_complex(found), np.sort_complex(every[chosen]), atol=1e-8)


def test_a_double_eigenvalue_that_rounding_splits_into_a_pair_is_real():
    """In some of these bases the double eigenvalue 1 is found as a pair with imaginary parts of about 1e-16."""
    bases = np.random.default_rng(0).normal(size=(50, 4, 4))
    matrices = [basis @ np.diag([1.0, 1.0, 2.0, -1.0]) @ np.linalg.inv(basis) for basis in bases]
    assert any(np.iscomplex(np.linalg.eigvals(matrix)).any() for matrix in matrices)

    for matrix in matrices:
        parts = {name: left @ right for name, (left, right) in low_rank.spectral_parts(np.eye(4), matrix).items()}
        assert not parts["complex"].any()
        np.testing.assert_allclose(np.trace(parts["positive"]), 4.0, atol=1e-8)


def test_the_range_contains_all_motion(pair):
    basis, small = low_rank.on_range(*pair)
    np.testing.assert_allclose(basis.T @ basis, np.eye(K), atol=1e-12)
    np.testing.assert_allclose(basis @ small @ basis.T @ basis, pair[0] @ pair[1] @ basis, atol=1e-12)


def test_factors_that_do_not_fit_are_refused(pair):
    with pytest.raises(InputError, match=r"d x k and k x d, but they are \(11, 4\) and \(3, 11\)"):
        low_rank.eigenvalues(pair[0], pair[1][:3])
