"""Figures of the mean field at a small size: exponents, hysteresis with its control, and the time T*."""

import numpy as np
import pytest

from attnflow.figures.entries import aggregation, hysteresis, mean_field_limit


def test_tokens_tend_to_their_law_and_not_to_another():
    data = mean_field_limit.compute_limit(False, sizes=[40, 640], runs=5, end=1.0, seed=0)

    ratios = (data.distance.mean("run").isel(n=0) / data.distance.mean("run").isel(n=1)).values
    np.testing.assert_allclose(ratios, 4, rtol=0.45)  # n^-1/2; five starts leave a fifth
    controls = (data.control.mean("run").isel(n=0) / data.control.mean("run").isel(n=1)).values
    assert np.all(controls < 1.5)
    assert "5 random starts" in mean_field_limit.draw_limit(data).caption
    assert len(mean_field_limit.limit_numbers(data)) == 6


def test_the_start_decides_above_the_critical_beta_and_not_below():
    data = hysteresis.compute_hysteresis(False, betas=[1.5, 4.0], ratios=[0.96], n=30, periods=20.0, steps=50, seed=0)

    below, above = data.order_of_law.values[:, 0]
    assert above[1] > 0.6 > 0.1 > above[0]
    assert below[1] < 0.45
    assert hysteresis.bistable_range(data, 1, "law") == [0.96]
    assert "kappa_1 = beta / I_1(beta) at beta = 4" in hysteresis.hysteresis_numbers(data)
    assert [one.verdict for one in hysteresis.hysteresis_verdicts(data)] == ["not_applicable", "holds"]


def test_aggregation_collapses_after_its_time_and_attention_does_not():
    data = aggregation.compute_aggregation(False, n=30, saves=13, times_shown=[0.0, 0.5], attention_shown=[0.0, 1.0])

    assert float(data.predicted_time) == pytest.approx(0.5, rel=0.01)
    assert float(data.predicted_time) < float(data.collapse_time) < float(data.time[-1])
    assert float(data.aggregation[-1]) < 1e-12
    assert float(data.inward[-1]) > 0.3
    assert "T* = " in aggregation.aggregation_sentence(data)
