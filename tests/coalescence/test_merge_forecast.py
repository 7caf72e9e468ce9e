"""Forecasts of the next merge against the exact time of an isolated pair, with their errors."""

import numpy as np
import pytest
from tests.helpers.coalescing import CIRCLE, exact_log_time, flow

import attnflow as af
from attnflow.coalescence.cluster_state import Clusters
from attnflow.coalescence.log_field import LogField
from attnflow.coalescence.merge_forecast import forecast, log_merge_duration

MERGE = 1e-6


def forecast_of(angles, beta, masses=None):
    clusters = Clusters.singletons(CIRCLE(np.array(angles)), masses)
    return forecast(LogField.of(flow(beta), float(clusters.masses.sum())), clusters, MERGE)


@pytest.mark.parametrize("beta", [60.0, 200.0, 1000.0])
@pytest.mark.parametrize("ratio", [1.0, 3.0])
def test_the_time_of_an_isolated_pair_is_forecast_within_its_error(beta, ratio):
    """The error is at most thirty times the true one: it is of the same order in 1/beta."""
    found = forecast_of([0.0, 1.2], beta, [ratio, 1.0])

    off = abs(np.expm1(found.log_duration - exact_log_time(1.2, beta, ratio)))
    assert off < found.error < 30 * off
    assert found.runner_up == np.inf


def test_a_runner_up_of_nearly_the_same_time_makes_the_forecast_uncertain():
    sure, unsure = forecast_of([0.0, 1.2, 3.0], 100.0), forecast_of([0.0, 1.2, 2.41], 100.0)

    assert sure.error < 0.1
    assert unsure.error > 0.5
    assert unsure.log_duration < unsure.runner_up < unsure.log_duration + 2


def test_a_close_pair_merges_before_any_plateau():
    found = forecast_of([0.0, 0.01, 1.2], 100.0)

    assert found.log_duration == -np.inf
    assert found.error == np.inf


@pytest.mark.parametrize("offset", [0.0, 1.0, 5.0])
def test_the_duration_under_unnormalised_attention_is_that_of_its_equation(offset):
    """Two of masses 1 and 2 of a total of 4 close in at the speed (3/4) e^{beta cos - offset} sin: integrated exactly."""
    beta, angle = 400.0, 1.2
    field = LogField.of(af.SphereAttention(af.Head.identity(2), af.Unnormalised(beta, offset)), 4.0)
    found = float(log_merge_duration(field, angle, 1.0, 2.0))

    angles = np.linspace(angle - 0.2, angle, 200_001)  # the time is spent where the speed is least
    slowness = np.exp(beta * (np.cos(angle) - np.cos(angles))) / (0.75 * np.sin(angles))
    exact = np.log(np.trapezoid(slowness, angles)) + field.offset - beta * np.cos(angle)
    assert found == pytest.approx(exact, abs=0.01)
