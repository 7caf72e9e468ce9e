"""Merges against the flow: an error of the time of a merge is allowed for, and the largest of several counts."""

import numpy as np
import pytest
import xarray as xr

import attnflow as af
from attnflow.theorems import recorded_merges

FLOW = af.SphereAttention(af.Head.identity(2), af.Softmax(1.0))
APART, MERGED = af.initial.on_circle(np.array([0.0, 1e-3])), af.initial.on_circle(np.array([5e-4, 5e-4]))


def share(monkeypatch, late_merges):
    """Of one interval with a merge at its end, which a repetition reaches only after the recorded time."""

    def repeated(flow, run, index, end):
        del flow, run, index
        tokens, merges = (MERGED, late_merges) if end > 1 else (APART, [])
        return recorded_merges._Repeated(tokens, np.array(merges), 1)

    monkeypatch.setattr(recorded_merges, "_repeated", repeated)
    run = xr.Dataset(
        {"tokens": (("state", "token", "coordinate"), np.stack([APART, MERGED])), "merge_log_time": ("merge", [1.0])},
        {"log_time": ("state", [0.0, 1.0])},
        {"merge": 1e-6, "rtol": 1e-6},
    )
    return recorded_merges._share_of_tolerance(FLOW, run, 0)


def test_a_merge_within_the_error_of_its_time_agrees(monkeypatch):
    found, attempts = share(monkeypatch, [1.0 + 1e-6])
    assert 0 < found <= 1
    assert attempts == 3


def test_a_merge_that_does_not_come_disagrees(monkeypatch):
    assert share(monkeypatch, [])[0] == np.inf


@pytest.mark.parametrize(("differences", "largest"), [([0.1, -3.0, 2.0], 3.0), ([], 0.0)])
def test_the_largest_difference_counts(differences, largest):
    assert recorded_merges._largest(np.array(differences)) == largest
