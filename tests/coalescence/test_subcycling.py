"""Fast tokens: their selection, and their native integration against SciPy on plain NumPy velocities."""

import numpy as np
import pytest
from scipy.integrate import RK45, solve_ivp
from scipy.interpolate import CubicHermiteSpline
from tests.helpers.coalescing import CIRCLE, exact_log_time, flow, plain_velocity

import attnflow as af
from attnflow.coalescence.cluster_state import Clusters
from attnflow.coalescence.log_field import LogField
from attnflow.coalescence.macro_step import error_norm
from attnflow.coalescence.subcycling import (
    NEIGHBOUR_DISTANCE,
    CubicPaths,
    StopRule,
    Subcycle,
    SubcyclingFailedError,
    Tolerances,
    _with_neighbours,
    fast_tokens,
    interacting_groups,
    is_available,
    subcycle,
)
from attnflow.model.native import library
from attnflow.model.native.subcycling import error_over_tolerance, tableau

pytestmark = pytest.mark.skipif(not library.is_built(), reason="subcycling needs the native kernel")

FINE = Tolerances(rtol=1e-9, gap_floor=0.01, merge=1e-6)
TIMES = np.array([0.2, 0.5, 1.0])
BETA = 20.0


def scene(d=4, n=20):
    """Clusters with masses, three of them close to each other; the others have velocities."""
    rng = np.random.default_rng(0)
    positions = rng.normal(size=(n, d))
    positions[1:3] = positions[0] + rng.normal(size=(2, d))
    positions /= np.linalg.norm(positions, axis=1, keepdims=True)
    velocity, quadratic = 0.1 * rng.normal(size=(2, n, d))
    return Clusters.singletons(positions, rng.uniform(0.5, 3.0, n)), velocity, quadratic, np.array([0, 1, 2])


@pytest.mark.parametrize("rule", [af.Softmax(BETA), af.Unnormalised(BETA, offset=1.0)], ids=["softmax", "unnormalised"])
@pytest.mark.parametrize("is_cubic", [False, True])
def test_fast_tokens_move_as_scipy_integrates_them(rule, is_cubic):
    clusters, velocity, quadratic, rows = scene()
    paths = CubicPaths(velocity, quadratic, -quadratic / 2) if is_cubic else CubicPaths.straight(velocity)
    paths = paths.with_fixed(rows)
    field = LogField.of(af.SphereAttention(af.Head.identity(4), rule), float(clusters.masses.sum()))
    duration = 30.0

    def slope(time, flat):
        positions = clusters.positions + time * (paths.velocity + time * (paths.quadratic + time * paths.cubic))
        positions[rows] = flat.reshape(len(rows), -1)
        return duration * plain_velocity(positions, BETA, clusters.masses, isinstance(rule, af.Softmax))[rows].ravel()

    begin = clusters.positions[rows].ravel()
    exact = solve_ivp(slope, (0, 1), begin, "DOP853", t_eval=TIMES, rtol=1e-12, atol=1e-13)
    found = subcycle(field, clusters, paths, rows, np.log(duration), FINE, TIMES, StopRule.AT_FIRST_MERGE)
    assert found.merge_time > 1
    expected = exact.y.T.reshape(len(TIMES), len(rows), -1)
    assert np.abs(expected[-1] - clusters.positions[rows]).max() > 0.05  # they do move
    np.testing.assert_allclose(found.paths, expected, atol=1e-7)  # rtol of many steps
    np.testing.assert_allclose(found.velocities, slope(1.0, exact.y[:, -1]).reshape(3, -1), atol=1e-6)
    at_rest = CubicPaths.straight(0 * velocity)
    other = subcycle(field, clusters, at_rest, rows, np.log(duration), FINE, TIMES, StopRule.AT_FIRST_MERGE)
    assert np.abs(other.paths - expected).max() > 1e-3  # slow tokens at rest are another problem


@pytest.mark.parametrize("beta", [20.0, 100.0])
def test_two_fast_tokens_merge_at_their_exact_time(beta):
    clusters = Clusters.singletons(CIRCLE(np.array([0.0, 0.6])))
    field, rows = LogField.of(flow(beta), 2.0), np.array([0, 1])
    log_time, paths = exact_log_time(0.6, beta), CubicPaths.straight(np.zeros((2, 2)))
    run = lambda log_duration, rule: subcycle(field, clusters, paths, rows, log_duration, FINE, TIMES, rule)
    found = run(log_time + np.log(2.0), StopRule.AT_FIRST_MERGE)
    assert found.merge_time == pytest.approx(0.5, rel=1e-5)
    assert set(found.pair) == {0, 1}
    at_last = run(log_time, StopRule.WITH_MERGE)
    assert np.linalg.norm(at_last.paths[-1, 0] - at_last.paths[-1, 1]) == pytest.approx(FINE.merge, rel=1e-7)
    assert np.linalg.norm(at_last.paths[1, 0] - at_last.paths[1, 1]) > 100 * FINE.merge
    assert run(log_time + np.log(0.99), StopRule.AT_FIRST_MERGE).merge_time > 1
    # A merge that is expected at time 1 may come slightly later.
    assert run(log_time + np.log(0.99), StopRule.WITH_MERGE).merge_time == pytest.approx(1 / 0.99, rel=1e-5)


def test_a_force_that_may_pass_the_cutoff_before_the_next_list_is_not_left_out():
    """A motion of 0.01 changes logits by 0.02 beta = 12: a token of e^-11 of the largest force counts at a cut-off of 21."""
    beta, rows = 600.0, np.array([0])
    clusters = Clusters.singletons(CIRCLE(np.array([0.0, 0.1, -0.1])), np.array([1.0, 1.0, np.exp(-11.0)]))
    field, paths = LogField.of(flow(beta), float(clusters.masses.sum())), CubicPaths.straight(np.zeros((3, 2)))
    found = subcycle(field, clusters, paths, rows, np.log(1e-3), FINE, TIMES, StopRule.AT_FIRST_MERGE)

    positions = clusters.positions.copy()
    positions[rows] = found.paths[-1]
    exact = 1e-3 * plain_velocity(positions, beta, clusters.masses, True)[rows]
    np.testing.assert_allclose(found.velocities, exact, rtol=1e-7, atol=1e-7 * np.abs(exact).max())


def test_a_subcycle_with_too_many_steps_fails(monkeypatch):
    clusters = Clusters.singletons(CIRCLE(np.array([0.0, 0.6])))
    paths, rows = CubicPaths.straight(np.zeros((2, 2))), np.array([0, 1])
    monkeypatch.setattr("attnflow.coalescence.subcycling.MAX_STEPS", 3)
    field = LogField.of(flow(20.0), 2.0)
    with pytest.raises(SubcyclingFailedError, match="more than 3 steps"):
        subcycle(field, clusters, paths, rows, 5.0, FINE, TIMES, StopRule.AT_FIRST_MERGE)


def test_the_native_tableau_is_that_of_scipy():
    nodes, stages, error_weights = tableau()
    np.testing.assert_array_equal(nodes, [*RK45.C, 1.0])
    np.testing.assert_array_equal(stages, np.pad(np.vstack([RK45.A, np.zeros(5)]), ((0, 0), (0, 1))) + last_row())
    np.testing.assert_array_equal(error_weights, -RK45.E)


@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_the_native_norm_of_errors_is_that_of_the_macro_step(d):
    rng = np.random.default_rng(d)
    for _ in range(20):
        errors, tolerances = rng.normal(size=(6, d)), rng.uniform(1e-9, 1e-6, 6)
        assert error_over_tolerance(errors, tolerances) == np.max(error_norm(errors) / tolerances), (
            "The subcycle's norm of position errors (error_over_tolerance in subcycling.cpp) differs from that of the "
            "macro step (`macro_step.error_norm`): change both, or fast and slow tokens have different tolerances."
        )
    errors[3, -1] = np.nan
    assert np.isnan(error_over_tolerance(errors, tolerances))


def last_row():
    """The weights of the step as the last stage."""
    rows = np.zeros((7, 6))
    rows[-1] = RK45.B
    return rows


def test_fast_tokens_merge_soon_and_groups_interact():
    angles = np.array([0.0, 0.2, 1.5, 2.4, 3.4, 4.3, 5.2, 5.4])
    clusters = Clusters.singletons(CIRCLE(angles))
    field = LogField.of(flow(60.0), 8.0)
    mantissa = field.velocity(clusters.positions, clusters.masses).mantissa
    closing = np.linalg.norm(mantissa - mantissa[clusters.nearest.indices], axis=1)
    rows = fast_tokens(field, clusters, closing, 1e-6)
    np.testing.assert_array_equal(rows, [0, 1, 6, 7])
    assert [group.tolist() for group in interacting_groups(field, clusters, rows)] == [[0, 1], [6, 7]]
    close = Clusters.singletons(CIRCLE(np.array([0.0, 0.2, 0.45, 0.65])))
    assert len(interacting_groups(field, close, np.arange(4))) == 1


def test_no_token_is_fast_where_all_are_alike():
    clusters = Clusters.singletons(CIRCLE(np.linspace(0, 2 * np.pi, 13)[:-1]))
    assert len(fast_tokens(LogField.of(flow(60.0), 12.0), clusters, np.ones(12), 1e-6)) == 0


def test_subcycling_serves_plain_attraction_only():
    assert is_available(LogField.of(flow(9.0), 2.0))
    assert not is_available(LogField.of(af.SphereAttention(af.Head.identity(2), af.Softmax(-9.0)), 2.0))
    assert len(Subcycle.empty(3).rows) == 0


def test_hermite_paths_are_those_of_scipy():
    displacement, velocity, last_velocity = np.random.default_rng(1).normal(size=(3, 5, 2))
    paths = CubicPaths.hermite(displacement, velocity, last_velocity)
    exact = CubicHermiteSpline([0.0, 1.0], [0 * displacement, displacement], [velocity, last_velocity])
    for time in (0.0, 0.3, 1.0):
        np.testing.assert_allclose(paths.positions(0 * displacement, time), exact(time), atol=1e-14)
    longer = paths.in_units_of(0.5)
    np.testing.assert_allclose(longer.positions(0 * displacement, 1.0), exact(0.5), atol=1e-14)


def test_neighbours_are_added_up_to_a_number_and_rows_that_need_more_are_left_out():
    """0 and 1 are close to 2; 3 and 4 have no neighbours. With room for four, only 3 and 4 can be subcycled."""
    near = 0.5 * NEIGHBOUR_DISTANCE
    clusters = Clusters.singletons(CIRCLE(np.array([0.0, near, 1.9 * near, 2.0, 2.0 + near, 4.0])))
    rows = np.array([0, 1, 3, 4])

    np.testing.assert_array_equal(_with_neighbours(clusters, rows, 5), [0, 1, 2, 3, 4])
    np.testing.assert_array_equal(_with_neighbours(clusters, rows, 4), [3, 4])
    assert len(_with_neighbours(clusters, np.array([0, 1]), 2)) == 0
