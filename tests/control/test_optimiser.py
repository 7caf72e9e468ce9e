"""Weights of attention alone, found by least squares, judged by a solve that is not part of the search."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError


def test_three_tokens_arrive_at_once_by_attention_alone():
    tokens, targets = af.initial.sphere(3, 3, rng=0), af.initial.sphere(3, 3, rng=1)

    found = af.control.optimise(tokens, targets, pieces=4, rng=0)

    assert found.terminal_error < 1e-8
    assert found.control.flow().perceptron is None
    assert 1.0 <= found.gap < 3.0
    assert found.limit.speed == pytest.approx(1.0)  # |V| = 1 in every piece
    assert 0.0 <= found.stationarity < 1.0
    assert "of its gradient" in str(found)


def test_a_search_that_cannot_arrive_keeps_what_it_has_reached():
    """18 weights against 2 * 12 conditions."""
    tokens, targets = af.initial.sphere(12, 3, rng=0), af.initial.sphere(12, 3, rng=1)

    found = af.control.optimise(tokens, targets, pieces=1, rng=0)

    assert 1e-3 < found.terminal_error < np.linalg.norm(tokens - targets, axis=1).max()


def test_bad_input():
    with pytest.raises(InputError, match="tokens 0 and 1 are distinct"):
        af.control.optimise(np.eye(3), np.eye(3)[[0, 0, 2]])
    with pytest.raises(InputError, match="nothing to do"):
        af.control.optimise(np.eye(3), np.eye(3))
    with pytest.raises(InputError, match="`pieces`"):
        af.control.optimise(np.eye(3), -np.eye(3), pieces=0)
