"""Spectra: multiplicities, Jordan blocks, leading spaces, against matrices built to order."""

import numpy as np
import pytest
from scipy.linalg import block_diag, expm

from attnflow.analyse import spectra
from attnflow.model import values


def in_random_basis(blocks, seed=0):
    """S J S^{-1} for Jordan blocks (eigenvalue, size), and S."""
    jordan = block_diag(*(values.jordan_block(eigenvalue, size) for eigenvalue, size in blocks))
    basis = np.random.default_rng(seed).normal(size=(len(jordan),) * 2)
    return basis @ jordan @ np.linalg.inv(basis), basis


def projector(columns):
    orthonormal = np.linalg.qr(columns)[0]
    return orthonormal @ orthonormal.T


@pytest.mark.parametrize("seed", range(3))
def test_jordan_blocks_are_found_in_any_basis(seed):
    matrix, basis = in_random_basis([(2.0, 3), (2.0, 1), (1.0, 2), (-1.0, 1)], seed)

    found = spectra.spectrum(matrix)

    sizes = [(one.multiplicity, one.geometric, one.block) for one in found.eigenvalues]
    assert sizes == [(4, 2, 3), (2, 1, 2), (1, 1, 1)]
    np.testing.assert_allclose([one.value for one in found.eigenvalues], [2, 1, -1], atol=1e-9)
    # L' are the first four columns, L the end of the block of size three, its eigenvector.
    np.testing.assert_allclose(projector(found.leading_space), projector(basis[:, :4]), atol=1e-7)
    np.testing.assert_allclose(projector(found.largest_block_space), projector(basis[:, :1]), atol=1e-7)


def test_directions_of_the_exponential_tend_to_the_largest_block_space():
    """Lemma 3.1 of arXiv:2411.04990: the distance to L falls like 1/t, that to L' exponentially."""
    matrix, _ = in_random_basis([(0.5, 2), (0.5, 1), (-0.2, 1)])
    found = spectra.spectrum(matrix)
    start = np.random.default_rng(1).normal(size=4)

    def distances(time):
        direction = expm(time * (matrix - 0.5 * np.eye(4))) @ start
        direction /= np.linalg.norm(direction)
        spaces = (found.largest_block_space, found.leading_space)
        return [np.linalg.norm(direction - space @ space.T @ direction) for space in spaces]

    (to_block, to_leading), (later, _) = distances(100.0), distances(200.0)
    assert found.largest_block_space.shape == (4, 1)
    assert to_leading < 1e-9 < 1e-4 < to_block
    assert 0.45 < later / to_block < 0.55


def test_defective_complex_pairs():
    turning = np.kron(np.eye(2), values.complex_pair(1.0, 2.0)) + np.kron(np.diag([1.0], 1), np.eye(2))
    basis = np.random.default_rng(2).normal(size=(4, 4))

    found = spectra.spectrum(basis @ turning @ np.linalg.inv(basis))

    assert [(one.multiplicity, one.block) for one in found.eigenvalues] == [(2, 2), (2, 2)]
    assert not found.is_leading_real
    assert not found.is_leading_simple
    np.testing.assert_allclose(projector(found.largest_block_space), projector(basis[:, :2]), atol=1e-7)


def test_close_eigenvalues_are_not_taken_for_one():
    found = spectra.spectrum(values.from_spectrum([1.0, 1.0 - 1e-5, 0.5], "random", rng=0))
    assert [one.multiplicity for one in found.eigenvalues] == [1, 1, 1]
    np.testing.assert_allclose(found.gap, 1e-5, rtol=1e-6)


def test_random_matrices_have_simple_eigenvalues():
    matrix = values.gaussian(60, rng=0)
    found = spectra.spectrum(matrix)
    assert len(found.eigenvalues) == 60
    assert np.all(np.diff(np.real(found.values)) <= 0)
    np.testing.assert_allclose(np.sort_complex(found.values), np.sort_complex(np.linalg.eigvals(matrix)), atol=1e-12)


def test_leading_eigenvectors_solve_their_equations():
    matrix = values.from_spectrum([2.0, 0.5, -1.0], "random", rng=3)
    found = spectra.spectrum(matrix)
    np.testing.assert_allclose(matrix @ found.right, 2 * found.right, atol=1e-12)
    np.testing.assert_allclose(found.left @ matrix, 2 * found.left, atol=1e-12)
    np.testing.assert_allclose([np.linalg.norm(found.right), found.left @ found.right], 1, atol=1e-12)
    np.testing.assert_allclose([found.gap, found.rest_radius, found.dominance], [1.5, 1.0, 1.0], atol=1e-12)


def test_a_leading_eigenvector_that_is_not_unique_is_refused():
    with pytest.raises(ValueError, match="multiplicity one"):
        _ = spectra.spectrum(np.eye(2)).right


def test_a_real_eigenvalue_may_share_the_lead_with_a_pair():
    found = spectra.spectrum(block_diag(values.complex_pair(1.0, 3.0), [[1.0]], [[0.0]]))
    assert len(found.leaders) == 3
    assert found.leading.is_real
    assert not found.is_leading_simple
    assert found.leading_space.shape == (4, 3)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [(np.ones((2, 3)), "square"), ([[np.nan]], "finite"), (np.eye(2) * 1j, "real"), ([1.0, 2.0], "matrix")],
)
def test_wrong_matrices_are_refused(wrong, word):
    with pytest.raises(ValueError, match=word):
        spectra.spectrum(wrong)


def test_query_key():
    query, key = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
    np.testing.assert_array_equal(spectra.query_key(query, key), query.T @ key)
    with pytest.raises(ValueError, match="one shape"):
        spectra.query_key(query, np.ones((3, 3)))


def test_a_wide_matrix_of_low_rank():
    """V = L R with R L known: 60 coordinates, 4 eigenvalues, and 0 fifty-six times; a Jordan block of 0 is told."""
    rng = np.random.default_rng(0)
    left, small = rng.normal(size=(60, 4)), np.diag([2.0, 1.0, -1.0, -3.0])
    value = left @ small @ np.linalg.pinv(left)

    found = spectra.spectrum(value)

    zero = next(one for one in found.eigenvalues if abs(one.value) < 1e-9)
    assert (zero.multiplicity, zero.geometric, zero.block) == (56, 56, 1)
    np.testing.assert_allclose(sorted(found.values.real)[-2:], [1, 2], atol=1e-9)
    xi = left[:, 0] / np.linalg.norm(left[:, 0])
    np.testing.assert_allclose(np.abs(found.leading_space.T @ xi), [1], atol=1e-9)
    kernel = spectra.generalised_eigenspace(found, zero)
    np.testing.assert_allclose(value @ kernel, 0, atol=1e-9)
    # Control: an arrow from the kernel into itself makes one block of two.
    first, second = np.real(np.linalg.svd(value)[2][-2:])
    defective = next(
        one for one in spectra.spectrum(value + np.outer(first, second)).eigenvalues if abs(one.value) < 1e-3
    )
    assert (defective.multiplicity, defective.geometric) == (56, 55)
