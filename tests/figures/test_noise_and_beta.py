"""Order against noise and numbers of clusters at a small size, against mean-field formulas."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ive

from attnflow.figures.entries import noise_and_beta


def test_order_with_noise_is_that_of_the_mean_field():
    """At beta = 0 the density is e^{kappa r cos theta} with r = I_1(kappa r) / I_0(kappa r): Kuramoto with noise."""
    grid = {"largest_beta": 2.0, "betas": 2, "least_kappa": 0.5, "largest_kappa": 8.0, "kappas": 2}
    data = noise_and_beta.compute_order(False, n=64, **grid, end=20.0, step=0.02, runs=1, seed=0, store="")
    expected = brentq(lambda r: ive(1, 8 * r) / ive(0, 8 * r) - r, 0.5, 1)
    ordered = float(data.order.sel(start="hemisphere", beta=0.0, kappa=8.0))
    assert ordered == pytest.approx(expected, abs=0.03)  # 64 tokens, ten units of time
    below = data.order.sel(kappa=0.5)  # critical are 2 and 1.26
    assert float(below.max()) < 0.35
    numbers = noise_and_beta.order_numbers(data)
    assert numbers["critical kappa at beta = 2"] == pytest.approx(1.2574, abs=1e-4)
    assert numbers["mean order above twice the critical kappa, hemisphere start"] > 0.9
    assert [one.verdict for one in noise_and_beta.order_verdicts(data)] == ["holds", "holds"]


def test_nearly_uniform_tokens_form_as_many_clusters_as_the_fastest_mode():
    data = noise_and_beta.compute_counts(False, n=48, betas=[5.0, 8.0], runs=2, end=60.0, ripple=1e-3, seed=0)
    np.testing.assert_array_equal(data.clusters.sel(case="nearly uniform start"), [[3, 3], [4, 4]])
    numbers = noise_and_beta.count_numbers(data)
    assert numbers["nearly uniform start: mean of clusters over the fastest mode"] == 1
    slope = np.log(4 / 3) / np.log(8 / 5)
    shown = numbers["nearly uniform start: exponent of beta with its 95 % interval (expected 1/2)"]
    assert float(shown.split()[0]) == pytest.approx(slope, abs=6e-4)
    assert numbers["random start: mean of clusters over the fastest mode"] < 1
