"""Rates of normalisation schemes at a small size, against the theorem."""

import pytest

from attnflow.figures.entries import normalisation


def test_rates_are_exponential_or_algebraic_as_the_theorem_says():
    settings = {"n": 4, "beta": 2.1, "end": 1000.0, "saves": 120, "seed": 1}
    data = normalisation.compute_rates(False, schemes=["Post-LN", "Pre-LN"], **settings)
    times = data.time.values
    rates = {
        name: normalisation.fitted_rate(name, times, data.height.sel(scheme=name).values) for name in data.scheme.values
    }
    assert rates["Post-LN"].rate == pytest.approx(2.0, rel=1e-3)
    assert rates["Pre-LN"].rate == pytest.approx(2.0, rel=0.02)  # r = t + c, and c / t is still a hundredth
    assert [rates[name].law for name in ("Post-LN", "Pre-LN")] == ["exponential", "algebraic"]
    for fit in rates.values():  # the interval holds the rate of the theorem, whatever the correction of order c / t
        assert fit.low < 2 < fit.high
    assert [one.verdict for one in normalisation.rate_verdicts(data)] == ["holds", "holds"]
    tokens = data.tokens.sel(scheme="Pre-LN").values
    worst = max(1 - one @ other for one in tokens[50] for other in tokens[50])
    assert data.height.sel(scheme="Pre-LN")[50] == pytest.approx(worst, rel=1e-9)
