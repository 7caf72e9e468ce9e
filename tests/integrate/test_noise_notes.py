"""Steps under noise that are long for the flow are named in the outcome, with the rate that makes them so."""

import re

import numpy as np
import pytest

import attnflow as af
from attnflow.integrate.noise_notes import fastest_rate


def circle(noise=None):
    return af.SphereAttention(af.Head.identity(2), af.Unnormalised(4.0), noise=noise)


@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_the_rate_is_the_largest_eigenvalue_of_the_jacobian(spread):
    tokens = af.initial.on_circle(spread * np.random.default_rng(0).standard_normal(20))

    exact = np.abs(af.linearise(circle(), tokens).eigenvalues).max()

    assert fastest_rate(circle(af.Noise(0.5)), tokens) == pytest.approx(exact, rel=0.1)


def test_a_single_token_has_the_rate_of_v():
    flow = af.EuclideanAttention(af.Head(value=-30.0 * np.eye(2)), noise=af.Noise(1.0))

    assert fastest_rate(flow, np.array([[0.3, 0.1]])) == pytest.approx(30.0, rel=1e-3)


@pytest.mark.parametrize(("runs", "is_geodesic"), [(None, True), (2, True), (None, False)])
def test_long_steps_are_named_and_short_ones_are_not(runs, is_geodesic):
    tokens = af.initial.on_circle(0.1 * np.random.default_rng(0).standard_normal(20))
    tokens = tokens if runs is None else np.stack([tokens] * runs)
    flow = circle(af.Noise(0.5))

    long, short = (
        af.simulate(
            flow, tokens, [0.0, 0.1], solver=af.StochasticHeun(step, is_geodesic), rng=0, progress=False
        ).outcome
        for step in ((0.025, 0.01) if is_geodesic else (0.01, 0.0005))
    )

    assert "long" not in short
    rate, least = (float(re.findall(words, long)[0]) for words in (r"about ([\d.]+):", r"Take steps of ([\d.e-]+) or"))
    # The errors of these steps are a twentieth: (h r)^2 / 4, and h r for straight steps.
    assert rate * least == pytest.approx(0.2**0.5 if is_geodesic else 0.05, rel=0.1)


def test_the_spread_of_long_steps_errs_as_said():
    """The stationary law of mutual attraction: density ~ exp(kappa / beta * sum of e^(beta cos) over the others' law)."""
    beta, kappa, angles = 4.0, 0.5, np.linspace(-np.pi, np.pi, 800, endpoint=False)
    density = np.exp(5 * np.cos(angles))
    for _ in range(400):
        energy = np.exp(beta * np.cos(angles[:, None] - angles)) @ (density / density.sum())
        density = np.sqrt(density / density.sum() * (new := np.exp(kappa / beta * (energy - energy.max()))) / new.sum())
    expected = 1 - np.sum(np.cos(angles) * density) / density.sum()
    tokens = af.initial.on_circle(0.4 * np.random.default_rng(0).standard_normal(200))

    def spread(step, is_geodesic=False):
        times = np.arange(5, 21) * 0.5
        flow, solver = circle(af.Noise(kappa)), af.StochasticHeun(step, is_geodesic)
        run = af.simulate(flow, np.stack([tokens] * 4), times, solver=solver, rng=0, progress=False)
        return float(np.mean(1 - np.linalg.norm(run.tokens.values.mean(axis=2), axis=-1)[:, 5:]))

    assert spread(0.01) < 0.75 * expected
    assert spread(0.001) == pytest.approx(expected, rel=0.1)
    assert spread(0.01, is_geodesic=True) == pytest.approx(expected, rel=0.1)
