"""Limits of a coalescing run: flows that may turn for ever need an end."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.coalescence.request import _require_limits

TURNING = np.array([[1.0, 0.5], [-0.5, 1.0]])


def _limits(flow, log_end, budget):
    return _require_limits(flow, log_end, rtol=1e-6, max_steps=1000, budget=budget)


@pytest.mark.parametrize(("scores", "value", "name"), [(np.eye(2), TURNING, "V"), (TURNING, np.eye(2), r"Q\^T K")])
def test_a_flow_without_symmetry_needs_an_end_or_a_budget(scores, value, name):
    flow = af.SphereAttention(af.Head.bilinear(scores, value), af.Softmax(2.0))
    _limits(flow, log_end=3.0, budget=None)
    _limits(flow, log_end=np.inf, budget=1.0)

    with pytest.raises(InputError, match=f"must be given for this flow: {name} is not symmetric"):
        _limits(flow, log_end=np.inf, budget=None)


def test_a_symmetric_flow_needs_none():
    flow = af.SphereAttention(af.Head.bilinear(np.diag([2.0, -1.0]), np.diag([1.0, 3.0])), af.Softmax(2.0))
    assert _limits(flow, log_end=np.inf, budget=None) is None
