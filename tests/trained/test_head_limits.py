"""Simulations of single heads: how long they are, and what they show where the answer is known."""

import numpy as np
import pytest

import attnflow as af
from attnflow.analyse.spectra import spectrum
from attnflow.theorems.prediction.limits import Quantity
from attnflow.trained.head_limits import SAVES, _layer_step, _simulated


def test_a_slow_pair_is_followed_until_its_rate_has_acted():
    """Three times 1 / 0.05; a faster pair for half a turn."""
    for rate, end in ((0.05, 60.0), (2.0, np.pi)):
        step, layers = _layer_step(spectrum(af.values.complex_pair(rate, 1.0)))
        assert SAVES * layers * step == pytest.approx(end)
        assert step * np.hypot(rate, 1.0) <= 0.4


def test_equal_weights_turn_tokens_by_the_angle_between_saved_times():
    """For Q = K = 0 and V = 0.1 + i all tokens approach e^{tV} (mean of the first), which turns by one per unit of time."""
    value = af.values.complex_pair(0.1, 1.0)
    step, layers = _layer_step(spectrum(value))
    flow = af.RescaledAttention(af.Head(np.zeros((2, 2)), np.zeros((2, 2)), value), af.Softmax(1.0))
    assert layers > 2
    for one in _simulated(flow, 3, 0):
        assert one.limit == "rotation"
        assert one.numbers[Quantity.TURN] == pytest.approx(2 * np.sin(step * layers / 2), rel=0.02)
