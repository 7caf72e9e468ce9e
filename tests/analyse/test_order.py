"""Order parameters against loops and closed forms."""

import numpy as np
import pytest

import attnflow as af
from attnflow.analyse import order


def circle(*angles):
    return np.c_[np.cos(angles), np.sin(angles)]


def test_fourier_modes_are_means_of_powers():
    angles = np.random.default_rng(0).uniform(-np.pi, np.pi, 11)
    points = np.exp(1j * angles)

    found = order.fourier_modes(circle(*angles)[None], 5)

    np.testing.assert_allclose(found[0], [np.mean(np.conj(points) ** k) for k in range(1, 6)], atol=1e-14)
    np.testing.assert_array_equal(found.mode, [1, 2, 3, 4, 5])


def test_first_mode_has_the_length_of_the_mean():
    tokens = af.initial.circle(9, rng=0)[None]

    np.testing.assert_allclose(np.abs(order.fourier_modes(tokens, 1))[:, 0], order.mean_length(tokens), rtol=1e-13)


def test_mean_cosine_is_that_of_all_pairs_whatever_the_lengths():
    tokens = af.initial.gaussian(6, 4, rng=0)
    unit = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
    expected = np.mean([unit[i] @ unit[j] for i in range(6) for j in range(6) if i != j])

    np.testing.assert_allclose(order.mean_cosine(tokens[None]), [expected], rtol=1e-12)


def test_histogram_is_a_density_of_pairs():
    tokens = af.initial.gaussian(30, 3, rng=0)
    unit = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
    cosines = [unit[i] @ unit[j] for i in range(30) for j in range(i)]

    found = order.cosine_histogram(tokens[None], bins=8)[0]

    counts = [sum(low <= c < low + 0.25 for c in cosines) for low in np.arange(-1, 1, 0.25)]
    np.testing.assert_allclose(found * 0.25 * 435, counts, atol=1e-9)
    np.testing.assert_allclose(found.sum() * 0.25, 1.0)
    np.testing.assert_allclose(found.cosine, np.arange(-0.875, 1, 0.25))


def test_tokens_in_one_place_are_counted_in_the_last_bin():
    """Their cosines round to a hair above one, some of them; none may be lost."""
    directions = af.initial.sphere(60, 3, rng=0)
    tokens = np.concatenate([directions, 0.3 * directions])
    cosines = (directions @ directions.T)[np.triu_indices(60, 1)]

    found = order.cosine_histogram(tokens[None], bins=10)[0]

    # Every pair of directions is there four times, and every direction makes one pair of equal ones.
    expected = (60 + 4 * np.sum(cosines >= 0.8)) / (120 * 119 / 2)
    np.testing.assert_allclose(found[-1] * 0.2, expected, rtol=1e-12)


def test_missing_tokens_give_missing_numbers():
    tokens = np.stack([circle(0.0, 1.0), np.full((2, 2), np.nan)])

    for found in (order.mean_length(tokens), order.mean_cosine(tokens)):
        np.testing.assert_array_equal(np.isnan(found), [False, True])
    for found in (order.fourier_modes(tokens, 3), order.cosine_histogram(tokens, 4)):
        np.testing.assert_array_equal(np.isnan(found).any(found.dims[-1]), [False, True])


def test_a_single_token_has_no_pairs():
    one = circle(0.3)[None]

    assert np.isnan(order.mean_cosine(one)).all()
    assert np.isnan(order.cosine_histogram(one)).all()
    np.testing.assert_allclose(order.mean_length(one), [1.0])


def test_bad_input_is_a_sentence():
    with pytest.raises(ValueError, match="d = 3"):
        order.fourier_modes(np.ones((1, 4, 3)))
    with pytest.raises(ValueError, match=r"tokens\[1\] is the zero vector"):
        order.cosine_histogram([[[1.0, 0.0], [0.0, 0.0]]])
