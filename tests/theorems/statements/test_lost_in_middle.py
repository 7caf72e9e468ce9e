"""Influence of positions: the linear iteration against laws on a grid, the closed form against its series, controls."""

import math

import numpy as np
import pytest
from scipy.linalg import expm

from attnflow.theorems.statements import lost_in_middle as middle

BY_ID = {statement.id: statement for statement in middle.STATEMENTS}


@pytest.mark.parametrize("name", ["lost-in-the-middle", "recency-lost"])
def test_the_example_holds_and_the_control_does_not(name):
    assert BY_ID[name].verify().verdict == "holds"
    control = BY_ID[name].verify_control()
    assert [one.says for one in control.broken] == ["strictly causal mask"]
    _, measure = BY_ID[name].evaluate(**BY_ID[name].control)
    assert not measure().met


CHANGES = {"lambda > 0": {"slope": 0.0}, "beta > 0": {"beta": 0.0}, "width > 0": {"width": 0.0}, "n >= 100": {"n": 50}}


@pytest.mark.parametrize("says", CHANGES)
@pytest.mark.parametrize("name", ["lost-in-the-middle", "recency-lost"])
def test_each_hypothesis_is_named_alone(name, says):
    assert [one.says for one in BY_ID[name].check(**BY_ID[name].example | CHANGES[says]).broken] == [says]


def test_a_profile_needs_a_time():
    broken = BY_ID["lost-in-the-middle"].check(**BY_ID["lost-in-the-middle"].example | {"time": 0.0}).broken
    assert [one.says for one in broken] == ["t > 0"]


@pytest.mark.parametrize(("slope", "beta", "width"), [(0.5, 1.0, 4.0), (5.0, 1.0, 4.0), (2.0, 4.0, 6.0)])
def test_other_parameters(slope, beta, width):
    critical = middle.critical_time(slope, beta, width)
    assert BY_ID["recency-lost"].check(slope=slope, beta=beta, width=width).verdict == "holds"
    for time in (critical / 3, 2 * critical):
        verdict = BY_ID["lost-in-the-middle"].check(slope=slope, beta=beta, width=width, time=time)
        assert verdict.verdict == "holds", verdict.explanation()


def test_the_closed_form_is_its_series():
    slope, time, place = 2.0, 1.3, 0.4
    strengths, weights = middle.mode_strengths(1.0, 4.0)
    depth = math.log((math.e**slope - 1) / (math.e ** (slope * place) - 1))
    series = sum(
        weight * (a * time) ** (k + 1) * depth**k / (math.factorial(k) * math.factorial(k + 1))
        for a, weight in zip(strengths, weights, strict=True)
        for k in range(40)
    )
    expected = slope * math.e ** (slope * place) / (math.e**slope - 1) * series
    assert float(middle.influence(place, time, slope, 1.0, 4.0)) == pytest.approx(expected, rel=1e-12)


def test_the_iteration_is_the_exponential_of_the_weights():
    strengths, weights = middle.mode_strengths(1.0, 4.0)
    matrix = middle.position_weights(30, 2.0)
    np.testing.assert_allclose(matrix[1:].sum(axis=1), 1.0)
    assert not matrix[0].any()
    rows = [w * (expm(a * 1.5 * matrix) - np.eye(30))[-1] for a, w in zip(strengths, weights, strict=True)]
    found = middle.iterated_influence(30, 1.5, 2.0, 1.0, 4.0)
    np.testing.assert_allclose(found, 30 * np.sum(rows, axis=0)[:-1], rtol=1e-10)


def test_a_ripple_on_the_law_of_one_token_reaches_the_last_one():
    """Laws on a grid of angles, moved by the nonlinear equation: d rho_j/dt = -(rho_j v_j)'."""
    beta, mode, n, points, ripple, source = 2.0, 2, 8, 32, 1e-6, 3
    angles = 2 * np.pi * np.arange(points) / points
    force = -beta * np.sin(angles[:, None] - angles) * np.exp(beta * np.cos(angles[:, None] - angles))
    weights = middle.position_weights(n, 1.0)
    frequencies = 1j * np.fft.fftfreq(points, 1 / points)
    laws = np.ones((n, points))
    laws[source] += ripple * np.cos(mode * angles)

    def rate(laws):
        velocity = weights @ laws @ force.T / points
        return -np.real(np.fft.ifft(frequencies * np.fft.fft(laws * velocity, axis=1), axis=1))

    step = 0.01
    for _ in range(50):
        first = rate(laws)
        second = rate(laws + step / 2 * first)
        third = rate(laws + step / 2 * second)
        fourth = rate(laws + step * third)
        laws = laws + step / 6 * (first + 2 * second + 2 * third + fourth)
    strength = middle.mode_strengths(beta, 4.0)[0][mode - 1]
    expected = expm(strength * 0.5 * weights)[-1, source]
    assert 2 * np.mean(laws[-1] * np.cos(mode * angles)) / ripple == pytest.approx(expected, rel=1e-5)


def test_early_profiles_are_high_at_both_ends_and_late_ones_fall():
    places, critical = np.linspace(0.02, 1.0, 200), middle.critical_time(2.0, 1.0, 4.0)
    early, late = (middle.influence(places, factor * critical, 2.0, 1.0, 4.0) for factor in (0.5, 2.0))
    assert 0 < np.argmin(early) < 199
    assert np.all(np.diff(late) < 0)
