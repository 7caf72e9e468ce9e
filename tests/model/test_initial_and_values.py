"""Laws of the first tokens and spectra of value matrices."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError

LAWS = {
    "box": lambda **options: af.initial.box(200, 3, -1, 2, **options),
    "ball": lambda **options: af.initial.ball(200, 3, 2.0, **options),
    "gaussian": lambda **options: af.initial.gaussian(200, 3, 0.5, **options),
    "sphere": lambda **options: af.initial.sphere(200, 3, **options),
    "hemisphere": lambda **options: af.initial.hemisphere(200, 3, **options),
    "circle": lambda **options: af.initial.circle(200, 3, **options),
}


@pytest.mark.parametrize("name", LAWS)
def test_run_i_of_an_ensemble_can_be_drawn_alone(name):
    many = LAWS[name](rng=5, runs=4)
    alone = LAWS[name](rng=np.random.SeedSequence(5, spawn_key=(2,)))

    assert many.shape == (4, 200, 3)
    np.testing.assert_array_equal(many[2], alone)
    assert not np.array_equal(many[1], many[2])


@pytest.mark.parametrize("name", LAWS)
def test_a_range_of_runs_gives_these_runs_alone(name):
    some = LAWS[name](rng=5, runs=range(2, 4))

    np.testing.assert_array_equal(some, LAWS[name](rng=5, runs=4)[2:])


@pytest.mark.parametrize("runs", [range(0), range(-1, 2)])
def test_a_range_without_run_numbers_is_refused(runs):
    with pytest.raises(InputError, match="`runs` must hold run numbers"):
        af.initial.sphere(5, 2, runs=runs)


@pytest.mark.parametrize("rng", [7, np.random.SeedSequence(7)])
def test_the_same_seed_gives_the_same_tokens_twice(rng):
    np.testing.assert_array_equal(af.initial.sphere(5, 2, rng=rng, runs=2), af.initial.sphere(5, 2, rng=rng, runs=2))


def test_no_seed_gives_new_tokens_and_a_generator_moves_on():
    generator = np.random.default_rng(0)

    assert not np.array_equal(af.initial.sphere(5, 2), af.initial.sphere(5, 2))
    assert not np.array_equal(af.initial.sphere(5, 2, rng=generator), af.initial.sphere(5, 2, rng=generator))


def test_laws_have_their_supports_and_moments():
    """20,000 draws: means are within 5 standard errors, 5 sigma / sqrt(20000) = 0.035 sigma."""
    n = 20_000
    box, ball = af.initial.box(n, 2, -1, 3, rng=0), af.initial.ball(n, 3, 2.0, rng=0)
    sphere, half = af.initial.sphere(n, 3, rng=0), af.initial.hemisphere(n, 3, rng=0)

    assert box.min() >= -1
    assert box.max() <= 3
    np.testing.assert_allclose(box.mean(axis=0), 1, atol=0.05)
    np.testing.assert_allclose(box.var(axis=0), 16 / 12, rtol=0.05)
    np.testing.assert_allclose(np.mean(np.linalg.norm(ball, axis=1)), 2 * 3 / 4, atol=0.02)
    np.testing.assert_allclose(np.cov(sphere.T), np.eye(3) / 3, atol=0.02)
    assert half[:, -1].min() > 0
    np.testing.assert_allclose(half[:, -1].mean(), 0.5, atol=0.02)
    np.testing.assert_allclose(af.initial.gaussian(n, 2, 0.5, rng=0).std(axis=0), 0.5, atol=0.02)


def test_the_circle_lies_in_the_first_two_coordinates():
    tokens = af.initial.circle(50, 4, rng=0)

    np.testing.assert_allclose(np.linalg.norm(tokens, axis=1), 1, atol=1e-15)
    np.testing.assert_array_equal(tokens[:, 2:], 0)


@pytest.mark.parametrize(
    ("n", "d", "cosine"), [(4, 4, 0.0), (4, 6, 0.3), (4, 3, -1 / 3), (3, 2, -0.5), (1, 1, 0.0), (5, 7, 1.0)]
)
def test_equiangular_tokens_have_one_cosine(n, d, cosine):
    tokens = af.initial.equiangular(n, d, cosine)

    np.testing.assert_allclose(tokens @ tokens.T, cosine + (1 - cosine) * np.eye(n), atol=1e-12)


def test_the_least_common_cosine_is_that_of_a_simplex_up_to_rounding():
    assert af.initial.equiangular(4, 3, -1 / 3 - 1e-13).shape == (4, 3)
    for beyond in (-1 / 3 - 1e-11, 1 + 1e-11):
        with pytest.raises(InputError, match="must be in"):
            af.initial.equiangular(4, 4, beyond)
    with pytest.raises(InputError, match="need d >= 4"):
        af.initial.equiangular(4, 3, -1 / 3 + 1e-11)


def test_all_tokens_can_have_a_duplicate_and_no_more():
    tokens = af.initial.sphere(3, 3, rng=0)

    assert len(af.initial.with_duplicates(tokens, 3)) == 6
    with pytest.raises(InputError, match="at most the number of tokens, 3, but it is 4"):
        af.initial.with_duplicates(tokens, 4)


@pytest.mark.parametrize("eigenvalues", [[1.0 + 1j, 2.0 - 1j], [1.0 + 1j, 1.0 - 2j], [1j], [1.0 + 1j, 1.0 - 1j, 1j]])
def test_complex_eigenvalues_come_in_conjugate_pairs(eigenvalues):
    with pytest.raises(InputError, match="conjugate pairs"):
        af.values.from_spectrum(eigenvalues)


@pytest.mark.parametrize("eigenvalues", [[1.0, np.nan], [np.inf, 0.0], [], [[1.0]]])
def test_eigenvalues_are_a_list_of_finite_numbers(eigenvalues):
    with pytest.raises(InputError, match="list of finite numbers"):
        af.values.from_spectrum(eigenvalues)


def test_duplicates_and_antipodes_follow_the_tokens():
    tokens = af.initial.sphere(4, 3, rng=0, runs=2)

    np.testing.assert_array_equal(af.initial.with_duplicates(tokens, 2)[:, 4:], tokens[:, :2])
    np.testing.assert_array_equal(af.initial.with_antipodes(tokens, 3)[:, 4:], -tokens[:, :3])


def sorted_spectrum(matrix):
    return np.sort_complex(np.round(np.linalg.eigvals(matrix), 9))


@pytest.mark.parametrize("eigenvectors", ["random", "orthogonal", "standard"])
@pytest.mark.parametrize("spectrum", [[2.0, 1.0, -0.5], [1.5, 0.3 + 2j, 0.3 - 2j], [1j, -1j, 2j, -2j]])
def test_a_matrix_has_the_spectrum_asked_for(spectrum, eigenvectors):
    matrix = af.values.from_spectrum(spectrum, eigenvectors, rng=3)

    np.testing.assert_allclose(sorted_spectrum(matrix), np.sort_complex(np.array(spectrum, complex)), atol=1e-8)
    is_normal = np.allclose(matrix @ matrix.T, matrix.T @ matrix)
    assert is_normal == (eigenvectors != "random")


def test_named_matrices_are_what_they_say():
    np.testing.assert_array_equal(af.values.identity(2), np.eye(2))
    np.testing.assert_array_equal(af.values.minus_identity(2), -np.eye(2))
    np.testing.assert_array_equal(af.values.jordan_block(3.0, 2), [[3, 1], [0, 3]])
    np.testing.assert_allclose(np.linalg.eigvals(af.values.complex_pair(0.5, 2.0)), [0.5 + 2j, 0.5 - 2j])
    assert af.values.perron_frobenius(5, rng=0).min() > 0
    symmetric = af.values.goe(400, rng=0)
    np.testing.assert_array_equal(symmetric, symmetric.T)
    assert 1.9 < np.linalg.eigvalsh(symmetric).max() < 2.1  # the edge 2 is approached like d^(-2/3)
    assert 0.9 < np.abs(np.linalg.eigvals(af.values.gaussian(400, rng=0))).max() < 1.1
