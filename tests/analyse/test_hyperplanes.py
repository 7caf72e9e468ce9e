"""Coordinates along left eigenvectors, and the groups they fall into."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.analyse import hyperplanes


def tokens(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("seed", range(3))
def test_real_rows_are_left_eigenvectors_in_order(seed):
    value = af.values.from_spectrum([2.0, -1.0, 0.5, 0.1], "random", rng=seed)
    eigenvalues, rows = hyperplanes.left_eigenvectors(value)
    np.testing.assert_allclose(eigenvalues, [2.0, 0.5, 0.1, -1.0], atol=1e-9)
    np.testing.assert_allclose(rows @ value, np.real(eigenvalues)[:, None] * rows, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)


def test_a_complex_pair_spans_an_invariant_plane():
    value = af.values.from_spectrum([3.0, 0.5 + 2j, 0.5 - 2j, -1.0], "random", rng=0)
    eigenvalues, rows = hyperplanes.left_eigenvectors(value)
    np.testing.assert_allclose(eigenvalues, [3.0, 0.5 + 2j, 0.5 - 2j, -1.0], atol=1e-9)
    images = rows[1:3] @ value
    assert np.linalg.matrix_rank(np.vstack([rows[1:3], images]), tol=1e-8) == 2
    assert np.linalg.matrix_rank(rows[1:3], tol=1e-8) == 2


def test_coordinates_are_linear_forms_over_runs_and_times():
    value = af.values.from_spectrum([2.0, 1.0, -1.0], "random", rng=1)
    run = tokens(2, 5, 7, 3)
    run[1, 4] = np.nan
    found = hyperplanes.coordinates(run, value, 2)
    assert found.dims == ("run", "time", "token", "eigenvector")
    np.testing.assert_allclose(found.eigenvalue_real, [2.0, 1.0], atol=1e-9)
    expected = run @ hyperplanes.left_eigenvectors(value).rows[:2].T
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.isnan(found.values[1, 4]).all()


def test_a_coordinate_along_a_left_eigenvector_is_independent_of_the_others():
    """phi*(e^{tV} x) = e^{lambda t} phi*(x)."""
    value = af.values.from_spectrum([1.0, 0.3 + 1j, 0.3 - 1j], "random", rng=2)
    from scipy.linalg import expm

    x = tokens(4, 3)
    before, after = hyperplanes.coordinates(x, value), hyperplanes.coordinates(x @ expm(2 * value).T, value)
    np.testing.assert_allclose(after, np.exp(2.0) * before, rtol=1e-9)


def test_groups_are_levels_with_sizes_and_spreads():
    values = np.array([5.0, -2.0, 0.02, 5.01, 0.0, -2.03, 5.02])
    found = hyperplanes.groups(values)
    assert found.count == 3
    np.testing.assert_allclose(found.levels.ravel(), [-2.015, 0.01, 5.01])
    np.testing.assert_allclose(found.spreads, [0.015, 0.01, 0.01])
    assert found.sizes.tolist() == [2, 2, 3]
    assert found.labels.tolist() == [2, 0, 1, 2, 1, 0, 2]
    assert hyperplanes.groups(values, 0.005).count == 7
    assert hyperplanes.groups([1.0]).count == 1


def test_tokens_on_parallel_lines_and_points():
    """V = diag(2, 1, -1): lines are points in the first two coordinates, whatever the third is."""
    value = np.diag([2.0, 1.0, -1.0])
    feet = np.array([[0.0, 0.0], [3.0, 1.0], [3.0, -1.0]])
    run = np.concatenate([np.repeat(feet, 4, axis=0), 100 * tokens(12, 1)], axis=1)
    assert hyperplanes.parallel_subspaces(run, value, 2).count == 3
    assert hyperplanes.parallel_subspaces(run, value, 1).count == 2  # 0 and 3
    assert hyperplanes.parallel_subspaces(run, value, 3).count == 12
    both = np.stack([run, np.full_like(run, np.nan)])
    assert hyperplanes.count(both, value, 2).values.tolist() == [3, -1]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: hyperplanes.coordinates(tokens(3, 2), af.values.complex_pair(1, 1)), "complex pair.* Use 2"),
        (lambda: hyperplanes.coordinates(tokens(3, 2), af.values.jordan_block(1.0, 2), 2), "defective"),
        (lambda: hyperplanes.coordinates(tokens(3, 2), np.eye(2), 3), "2 left eigenvectors, but 3"),
        (lambda: hyperplanes.coordinates(tokens(3, 2), np.eye(3)), "2 x 2 like the tokens"),
        (lambda: hyperplanes.coordinates(tokens(3, 2), [[np.nan, 0], [0, 1]]), "finite"),
        (lambda: hyperplanes.groups([np.nan, 1.0]), "finite"),
        (lambda: hyperplanes.parallel_subspaces(tokens(2, 3, 2), np.eye(2)), "one time of one run"),
    ],
)  # fmt: skip
def test_bad_input_is_a_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()


def test_a_defective_matrix_still_has_its_first_coordinate():
    """Of the block [[1, 1], [0, 1]] the only left eigenvector is (0, 1)."""
    found = hyperplanes.coordinates(tokens(4, 2), af.values.jordan_block(1.0, 2))
    np.testing.assert_allclose(found.values[:, 0], tokens(4, 2)[:, 1], atol=1e-12)
