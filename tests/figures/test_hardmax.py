"""Layers of hardmax attention at a small size, against brute force."""

import numpy as np
import pytest
from tests.helpers import oracle

from attnflow.figures.entries import hardmax


@pytest.fixture(scope="module")
def leaders():
    starts = {"square and two": [[1, 1], [1, -1], [-1, 1], [-1, -1], [0.5, 0], [-0.5, 0]], "random": []}
    seeds = {"square and two": 3, "random": 303}
    return hardmax.compute_leaders(False, starts=starts, alpha=0.5, layers=40, n=20, seeds=seeds)


def test_hardmax_layers_are_steps_towards_the_best_match(leaders):
    eye = np.eye(2)
    model = oracle.Euclidean([oracle.Weights(eye, eye, eye)], oracle.hardmax(), oracle.mask(20))
    for name in leaders.start.values:
        tokens = leaders.tokens.sel(start=name).values
        expected = oracle.layers(model, tokens[0], 40, 1 / 3, 2 / 3)[0]
        np.testing.assert_allclose(tokens, expected, atol=1e-12)


def test_leaders_are_counted(leaders):
    numbers = hardmax.leader_numbers(leaders)
    assert numbers["square and two: leaders at the start"] == 4
    # Two corners tie for (1/2, 0): it ends between them, which makes two clusters more than leaders.
    assert numbers["square and two: clusters at the end"] == 6
    np.testing.assert_allclose(leaders.tokens.sel(start="square and two")[-1, 4], [1, 0], atol=1e-6)
    assert numbers["random: leaders that emerge"] == 1
    # Rounding moves a leader by 1e-16, which is printed as zero with its error; a token that follows moves far.
    shown = numbers["random: largest move of a leader"]
    assert shown.startswith("0 ± ")
    assert float(shown.removeprefix("0 ± ")) < 1e-13
