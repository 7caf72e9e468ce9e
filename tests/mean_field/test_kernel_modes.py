"""Modes of a kernel density estimate against direct sums, their order of growth, and refusals."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError

kernel_modes = af.mean_field.kernel_modes


@pytest.mark.parametrize("beta", [0.5, 30.0, 2000.0])
def test_modes_are_the_sign_changes_of_the_derivative(beta):
    tokens = np.random.default_rng(5).normal(size=60)
    fine = np.linspace(tokens.min() - 1e-3, tokens.max() + 1e-3, 60_001)
    away = fine[:, None] - tokens
    slope = -(away * np.exp(-beta * away**2 / 2)).sum(axis=1)
    signs = np.sign(slope[slope != 0])
    direct = int(np.sum((signs[:-1] > 0) & (signs[1:] < 0)))

    assert kernel_modes(tokens, beta) == direct


def test_the_number_grows_like_the_root_and_ends_at_the_number_of_tokens():
    tokens = np.random.default_rng(6).normal(size=(10, 2000))
    mean = [np.mean([kernel_modes(one, beta) for one in tokens]) for beta in (100.0, 10_000.0)]

    exponent = np.log(mean[1] / mean[0]) / np.log(10_000 * np.log(10_000) / (100 * np.log(100)))
    assert exponent == pytest.approx(0.5, abs=0.08)  # up to terms of lower order
    assert kernel_modes(tokens[0, :20], 1e7) == 20  # control: beyond n^2 every token is a mode


@pytest.mark.parametrize(
    ("tokens", "beta", "words"),
    [([], 1.0, "at least one"), ([0.0, np.nan], 1.0, "finite"), ([0.0], -1.0, "beta"), ([0.0, 1e9], 1e12, "memory")],
)
def test_bad_input_gets_one_sentence(tokens, beta, words):
    with pytest.raises(InputError, match=words):
        kernel_modes(tokens, beta)
