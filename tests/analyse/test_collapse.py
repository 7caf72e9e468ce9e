"""Neural-collapse measures: exact configurations, a brute-force oracle, degenerate input."""

import numpy as np
import pytest

import attnflow as af
from attnflow.analyse import collapse


def test_a_simplex_of_equal_tokens_is_collapsed():
    corners = af.initial.equiangular(4, 5, cosine=-1 / 3)
    found = collapse.measures(np.repeat(corners, 3, axis=0))
    assert found.classes == 4
    for name in ("within", "variability", "unequal_norms", "unequal_angles", "simplex_distance"):
        assert abs(float(found[name])) < 1e-12, name
    np.testing.assert_allclose(found.between, 1.0)


def test_orthogonal_means_are_a_simplex_about_their_mean():
    assert float(collapse.measures(3.0 * np.eye(5)).simplex_distance) < 1e-12


def test_measures_against_loops():
    generator = np.random.default_rng(0)
    tokens, labels = generator.normal(size=(20, 3)), np.arange(20) % 4
    means = [tokens[labels == one].mean(axis=0) for one in range(4)]
    middle = np.mean(means, axis=0)
    within = sum(np.outer(x - means[one], x - means[one]) for x, one in zip(tokens, labels, strict=True)) / 20
    between = sum(np.outer(mean - middle, mean - middle) for mean in means) / 4
    cosines = []
    for i in range(4):
        for j in range(i):
            a, b = means[i] - middle, means[j] - middle
            cosines.append(a @ b / np.sqrt((a @ a) * (b @ b)))
    norms = [np.linalg.norm(mean - middle) for mean in means]

    found = collapse.measures(tokens, labels)

    np.testing.assert_allclose(found.within, np.trace(within))
    np.testing.assert_allclose(found.between, np.trace(between))
    np.testing.assert_allclose(found.variability, np.trace(within @ np.linalg.inv(between)) / 4)
    np.testing.assert_allclose(found.unequal_norms, np.std(norms) / np.mean(norms))
    np.testing.assert_allclose(found.unequal_angles, np.std(cosines))
    np.testing.assert_allclose(found.simplex_distance, np.mean(np.abs(np.array(cosines) + 1 / 3)))
    assert found.variability > 0.1


def test_noise_around_the_means_is_seen():
    corners, generator = np.repeat(af.initial.equiangular(3, 3), 5, axis=0), np.random.default_rng(0)
    quiet, loud = (corners + size * generator.normal(size=corners.shape) for size in (1e-3, 1e-1))
    labels = np.repeat(np.arange(3), 5)
    assert collapse.measures(quiet, labels).variability < 1e-4 < collapse.measures(loud, labels).variability


def test_one_cluster_one_token_and_missing_tokens():
    for tokens in (np.ones((4, 2)), np.ones((1, 2))):
        found = collapse.measures(tokens)
        assert found.classes == 1
        assert found.within == 0
        assert np.isnan(found.variability)
        assert np.isnan(found.unequal_norms)
    runs = np.random.default_rng(0).normal(size=(2, 3, 4, 2))
    runs[0, 1] = np.nan
    found = collapse.measures(runs, [0, 0, 1, 1])
    assert found.variability.dims == ("run", "time")
    assert int(np.isnan(found.variability).sum()) == 1
    assert np.isnan(found.within[0, 1])


def test_means_in_one_place_have_no_angles():
    tokens = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    found = collapse.measures(tokens, [0, 0, 1, 1])
    assert found.between == 0
    assert np.isnan(found.variability)
    assert np.isnan(found.simplex_distance)


def test_means_that_differ_by_rounding_only_are_in_one_place():
    """Three tokens in another order in each class: the sums of 64 coordinates round differently."""
    tokens = np.random.default_rng(0).normal(size=(3, 64))
    mixed = 1e3 * np.concatenate([tokens, tokens[[1, 2, 0]], tokens[[2, 1, 0]]])
    labels = np.repeat([0, 1, 2], 3)
    found = collapse.measures(mixed, labels)
    assert found.between > 0
    for name in ("variability", "unequal_norms", "unequal_angles", "simplex_distance"):
        assert np.isnan(found[name]), name
    assert np.isnan(collapse.variability(mixed, labels))
    shifted = mixed + 1e-6 * np.repeat(np.eye(3, 64), 3, axis=0)  # a difference far above rounding
    np.testing.assert_allclose(collapse.measures(shifted, labels).simplex_distance, 0.0, atol=1e-5)


def test_a_mean_at_the_centre_has_a_length_but_no_angles():
    """Three classes with the means (2, 0), (0, 0), (-2, 0): lengths 2, 0, 2; the middle one has no direction."""
    tokens = np.array([[2.0, 1.0], [2.0, -1.0], [0.0, 0.5], [0.0, -0.5], [-2.0, 0.0], [-2.0, 0.0]])
    found = collapse.measures(tokens, [0, 0, 1, 1, 2, 2])

    assert found.unequal_norms == pytest.approx(np.std([2, 0, 2]) / np.mean([2, 0, 2]))
    assert np.isnan(found.unequal_angles)
    assert np.isnan(found.simplex_distance)


def test_means_of_length_one_have_angles():
    found = collapse.measures(np.array([[1.0, 0.0], [-1.0, 0.0]]), [0, 1])

    assert found.simplex_distance == pytest.approx(0.0, abs=1e-12)


def test_bad_labels_are_a_sentence():
    with pytest.raises(ValueError, match="`labels` must be 3 whole numbers"):
        collapse.measures(np.eye(3), [0, 1])
    with pytest.raises(ValueError, match="type float64"):
        collapse.measures(np.eye(3), [0.0, 1.0, 2.0])


def test_many_labellings_at_once_are_those_one_by_one():
    generator = np.random.default_rng(1)
    tokens, own = generator.normal(size=(14, 3)), np.array([0] * 3 + [4] * 5 + [2] * 6)
    labels = np.stack([generator.permutation(own) for _ in range(6)])

    found = collapse.permuted_variability(tokens, labels)

    np.testing.assert_allclose(found, [collapse.measures(tokens, one).variability for one in labels], rtol=1e-12)
    assert np.ptp(found) > 0.01
    assert np.isnan(collapse.permuted_variability(tokens, np.zeros((2, 14), int))).all()
