"""Figures beyond the first papers at a small size: against theorems, brute force and mean-field formulas."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ive
from tests.helpers import oracle

from attnflow.figures.entries import beyond, noise_and_beta


def test_rates_are_exponential_or_algebraic_as_the_theorem_says():
    settings = {"n": 4, "beta": 2.1, "end": 1000.0, "saves": 120, "seed": 1}
    data = beyond.compute_rates(False, schemes=["Post-LN", "Pre-LN"], **settings)
    times = data.time.values
    rates = {name: beyond.fitted_rate(name, times, data.height.sel(scheme=name).values) for name in data.scheme.values}
    assert rates["Post-LN"].rate == pytest.approx(2.0, rel=1e-3)
    assert rates["Pre-LN"].rate == pytest.approx(2.0, rel=0.02)  # r = t + c, and c / t is still a hundredth
    assert [rates[name].law for name in ("Post-LN", "Pre-LN")] == ["exponential", "algebraic"]
    assert [one.verdict for one in beyond.rate_verdicts(data)] == ["holds", "holds"]
    tokens = data.tokens.sel(scheme="Pre-LN").values
    worst = max(1 - one @ other for one in tokens[50] for other in tokens[50])
    assert data.height.sel(scheme="Pre-LN")[50] == pytest.approx(worst, rel=1e-9)


@pytest.fixture(scope="module")
def leaders():
    starts = {"square and two": [[1, 1], [1, -1], [-1, 1], [-1, -1], [0.5, 0], [-0.5, 0]], "a leader emerges": []}
    seeds = {"square and two": 3, "a leader emerges": 303}
    return beyond.compute_leaders(False, starts=starts, alpha=0.5, layers=40, n=20, seeds=seeds)


def test_hardmax_layers_are_steps_towards_the_best_match(leaders):
    eye = np.eye(2)
    model = oracle.Euclidean([oracle.Weights(eye, eye, eye)], oracle.hardmax(), oracle.mask(20))
    for name in leaders.start.values:
        tokens = leaders.tokens.sel(start=name).values
        expected = oracle.layers(model, tokens[0], 40, 1 / 3, 2 / 3)[0]
        np.testing.assert_allclose(tokens, expected, atol=1e-12)


def test_leaders_are_counted(leaders):
    numbers = beyond.leader_numbers(leaders)
    assert numbers["square and two: leaders at the start"] == 4
    # Two corners tie for (1/2, 0): it ends between them, which makes two clusters more than leaders.
    assert numbers["square and two: clusters at the end"] == 6
    np.testing.assert_allclose(leaders.tokens.sel(start="square and two")[-1, 4], [1, 0], atol=1e-6)
    assert numbers["a leader emerges: leaders that emerge"] == 1
    assert numbers["a leader emerges: largest move of a leader"] < 1e-12


def test_one_layer_of_equiangular_tokens():
    rho, n = 0.2, 100
    data = beyond.compute_contexts(False, rho=rho, exponents=[2, 12], largest=2.5, points=6, seed=0)
    gram = rho + (1 - rho) * np.eye(n)
    for gamma in data.gamma.values:
        weights = np.exp(gamma * np.log(n) * gram)
        weights /= weights.sum(axis=1, keepdims=True)
        after = weights @ gram @ weights.T
        assert float(data.cosine.sel(log10_n=2, gamma=gamma)) == pytest.approx(after[0, 1] / after[0, 0], rel=1e-9)
    numbers = beyond.context_numbers(data)
    assert numbers["cosine at the critical gamma, n = 10^12"] == pytest.approx(4 * rho / (1 + 3 * rho), abs=1e-9)
    assert [one.verdict for one in beyond.context_verdicts(data)] == ["holds"] * 3


def test_order_with_noise_is_that_of_the_mean_field():
    """At beta = 0 the density is e^{kappa r cos theta} with r = I_1(kappa r) / I_0(kappa r): Kuramoto with noise."""
    grid = {"largest_beta": 2.0, "betas": 2, "least_kappa": 0.5, "largest_kappa": 8.0, "kappas": 2}
    data = noise_and_beta.compute_order(False, n=64, **grid, end=20.0, step=0.02, seed=0)
    expected = brentq(lambda r: ive(1, 8 * r) / ive(0, 8 * r) - r, 0.5, 1)
    ordered = float(data.order.sel(start="gathered", beta=0.0, kappa=8.0))
    assert ordered == pytest.approx(expected, abs=0.03)  # 64 tokens, ten units of time
    below = data.order.sel(kappa=0.5)  # critical are 2 and 1.26
    assert float(below.max()) < 0.35
    numbers = noise_and_beta.order_numbers(data)
    assert numbers["critical kappa at beta = 2"] == pytest.approx(1.2574, abs=1e-4)
    assert numbers["mean order above twice the critical kappa, gathered start"] > 0.9
    assert [one.verdict for one in noise_and_beta.order_verdicts(data)] == ["holds", "holds"]


def test_nearly_uniform_tokens_form_as_many_clusters_as_the_fastest_mode():
    data = noise_and_beta.compute_counts(False, n=48, betas=[5.0, 8.0], runs=2, end=60.0, ripple=1e-3, seed=0)
    np.testing.assert_array_equal(data.clusters.sel(case="nearly uniform start"), [[3, 3], [4, 4]])
    numbers = noise_and_beta.count_numbers(data)
    assert numbers["nearly uniform start: mean of clusters over the fastest mode"] == 1
    slope = np.log(4 / 3) / np.log(8 / 5)
    assert numbers["nearly uniform start: exponent of beta (expected 1/2)"] == pytest.approx(slope)
    assert numbers["random start: mean of clusters over the fastest mode"] < 1
