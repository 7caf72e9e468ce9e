"""The isolated pair by quadrature: exact times, its error estimate, and the term of each perturbation."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from tests.helpers.coalescing import CIRCLE, exact_log_time, flow, plain_velocity

import attnflow as af
from attnflow.coalescence.cluster_state import Clusters
from attnflow.coalescence.log_field import LogField
from attnflow.coalescence.pair_quadrature import (
    FINAL_DISTANCE,
    INTEGRALS_TO_NODES,
    NODES,
    _panel_edges,
    log_speeds,
    pair_merge,
)


def test_the_error_is_small_only_for_an_isolated_pair():
    """With three tokens at equal distances no pair is isolated."""
    clusters = Clusters.singletons(CIRCLE(np.array([0.0, 0.9, 1.8])))
    field = LogField.of(flow(60.0), 3.0)
    near = pair_merge(field, clusters, np.array([0, 1]), field.sums(clusters.positions, clusters.masses), 1e-6)
    assert near.error > 1e-3
    far = Clusters.singletons(CIRCLE(np.array([0.0, 0.4, 1.8])))
    alone = pair_merge(field, far, np.array([0, 1]), field.sums(far.positions, far.masses), 1e-6)
    assert alone.error < 1e-9
    np.testing.assert_allclose(alone.log_duration, exact_log_time(0.4, 60.0, merge=FINAL_DISTANCE * 1e-6), atol=1e-8)


def test_panels_without_contribution_are_left_out(monkeypatch):
    """The result is that with all panels: the others hold e^-40 of the time, and shares of speeds that are constant."""
    clusters = Clusters.singletons(CIRCLE(np.array([0.0, 0.9, 2.5])), [1.0, 3.0, 1.0])
    field = LogField.of(flow(1e4), 5.0)
    sums = field.sums(clusters.positions, clusters.masses)
    quick = pair_merge(field, clusters, np.array([0, 1]), sums, 1e-6)
    panels = len(_panel_edges(1e4, 0.9, 1e-6))
    monkeypatch.setattr("attnflow.coalescence.pair_quadrature.NEGLIGIBLE_LOG", np.inf)
    whole = pair_merge(field, clusters, np.array([0, 1]), sums, 1e-6)
    assert panels < 30 < 400 < len(_panel_edges(1e4, 0.9, 1e-6))
    np.testing.assert_allclose(quick.positions, whole.positions, atol=1e-9)  # the error of 8 nodes
    assert quick.log_duration == pytest.approx(whole.log_duration, abs=1e-8)


def test_a_pair_that_others_keep_apart_does_not_merge():
    """Each of the two in the middle has a nearer and heavier neighbour on its other side."""
    clusters = Clusters.singletons(CIRCLE(np.array([0.0, 0.3, 1.3, 1.6])), [9.0, 1.0, 1.0, 9.0])
    field = LogField.of(flow(20.0), 20.0)
    sums = field.sums(clusters.positions, clusters.masses)
    assert np.isinf(pair_merge(field, clusters, np.array([1, 2]), sums, 1e-6).error)
    assert np.isfinite(pair_merge(field, clusters, np.array([0, 1]), sums, 1e-6).error)


@pytest.mark.parametrize("angle", [1.1, 1.2, 1.3])
def test_the_error_bounds_the_difference_to_the_plain_equations(angle):
    """Three tokens at beta = 20, the third at `angle`: the estimate is above the true error, by a factor below ten."""
    beta, masses = 20.0, np.array([1.0, 2.0, 3.0])
    clusters = Clusters.singletons(CIRCLE(np.array([0.0, 0.4, angle])), masses)
    field = LogField.of(flow(beta), 6.0)
    found = pair_merge(field, clusters, np.array([0, 1]), field.sums(clusters.positions, masses), 1e-6)
    slope = lambda _, flat: plain_velocity(flat.reshape(3, 2), beta, masses, True).ravel()
    merged = lambda _, flat: np.linalg.norm(flat[:2] - flat[2:4]) - FINAL_DISTANCE * 1e-6
    merged.terminal = True
    exact = solve_ivp(slope, (0, 1e6), clusters.positions.ravel(), "DOP853", events=merged, rtol=1e-12, atol=1e-14)
    true = np.abs(exact.y_events[0][0].reshape(3, 2) - found.positions).max()
    assert 1e-5 < true <= found.error <= 10 * true


@pytest.mark.parametrize("rule", [af.Softmax(7.0), af.Unnormalised(7.0, 0.5)], ids=["softmax", "unnormalised"])
def test_speeds_of_an_isolated_pair_are_those_of_its_equations(rule):
    """Masses 1 and 3, each in the other's direction, under Q = K = I and V = 2 I."""
    field = LogField.of(af.SphereAttention(af.Head(np.eye(2), np.eye(2), 2 * np.eye(2)), rule), 4.0)
    angles, masses = np.array([0.3, 1.2, 2.9]), np.array([1.0, 3.0])

    found = np.exp(log_speeds(field, masses, angles))

    for angle, speeds in zip(angles, found.T, strict=True):
        tokens = CIRCLE(np.array([0.0, angle]))
        weights = masses * np.exp(7.0 * (tokens @ tokens.T))
        divisor = weights.sum(axis=1) if isinstance(rule, af.Softmax) else 4.0 * np.exp(7.0 * 0.5)
        pulls = 2 * (weights / np.reshape(divisor, (-1, 1))) @ tokens
        tangent = pulls - np.sum(pulls * tokens, axis=1, keepdims=True) * tokens
        np.testing.assert_allclose(speeds, np.linalg.norm(tangent, axis=1), rtol=1e-8)


def test_integrals_to_the_nodes_are_those_of_polynomials():
    for power in range(len(NODES)):
        exact = (NODES ** (power + 1) - (-1.0) ** (power + 1)) / (power + 1)
        np.testing.assert_allclose(INTEGRALS_TO_NODES @ NODES**power, exact, atol=1e-13)
