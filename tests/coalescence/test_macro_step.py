"""The macro step against one step of SciPy's RK45, and the norm of its errors."""

import numpy as np
import pytest
from scipy.integrate import RK45
from tests.helpers.coalescing import first_problem, flow, plain_velocity

import attnflow as af
from attnflow.coalescence.cluster_state import Clusters
from attnflow.coalescence.log_field import LogField
from attnflow.coalescence.macro_step import (
    ERROR_WEIGHTS,
    PATH_NODES,
    STAGES,
    defect_weights,
    dormand_prince,
    quadrature_weights,
)
from attnflow.coalescence.multirate import Carry, attempt
from attnflow.coalescence.step_problem import Partition, SlowPaths
from attnflow.coalescence.subcycling import Subcycle, Tolerances
from attnflow.coalescence.time_change import TimeChange

BETA, STEP = 6.0, 0.3
NONE = Subcycle.empty(3)


@pytest.fixture(scope="module")
def start():
    """Clusters, their field and velocity."""
    clusters = Clusters.singletons(af.initial.sphere(7, 3, rng=2), np.arange(1.0, 8.0))
    field = LogField.of(flow(BETA, 3), float(clusters.masses.sum()))
    return field, clusters, field.velocity(clusters.positions, clusters.masses)


def scipy_step(clusters, duration):
    """Positions and the embedded error, the largest coordinate of each token, of one step of SciPy's RK45."""
    shape = clusters.positions.shape
    slope = lambda _, flat: plain_velocity(flat.reshape(shape), BETA, clusters.masses, True).ravel()
    solver = RK45(slope, 0.0, clusters.positions.ravel(), duration, first_step=duration, rtol=1e3, atol=1e3)
    solver.step()
    errors = np.abs(duration * solver.K.T @ RK45.E).reshape(shape)
    return solver.y.reshape(shape), errors.max(axis=1)


def test_a_step_is_that_of_scipy_with_the_largest_coordinate_as_error(start):
    field, clusters, velocity = start
    rate = 2.0
    duration = STEP / (rate * np.exp(velocity.log_scale))
    positions, errors = scipy_step(clusters, duration)
    staged = np.ones(len(clusters), bool)
    found = dormand_prince(field, clusters, velocity, rate, TimeChange(), STEP, staged, NONE)
    np.testing.assert_allclose(found.positions, positions, atol=1e-14)
    np.testing.assert_allclose(found.errors, errors, rtol=1e-6)
    assert np.ptp(np.log(errors)) > 0.5  # another norm, or another token's, is another number


def test_trapezoidal_tokens_move_at_the_mean_velocity_with_the_change_as_error(start):
    field, clusters, velocity = start
    rate, staged = 2.0, np.arange(7) < 4
    found = dormand_prince(field, clusters, velocity, rate, TimeChange(), 0.01, staged, NONE)
    first = velocity.mantissa / rate
    last = found.velocity.mantissa * np.exp(found.velocity.log_scale - velocity.log_scale) / rate
    change = 0.01 * (last - first)[~staged] / 2
    moved = (found.positions - clusters.positions)[~staged]
    np.testing.assert_allclose(moved, 0.01 * first[~staged] + change, atol=1e-16)
    np.testing.assert_allclose(found.errors[~staged], np.abs(change).max(axis=1), rtol=1e-9)


def problem_of(start):
    return first_problem(start[1], BETA, Tolerances(1e-6, 0.01, 1e-6), np.empty(0, int))


def test_relative_rates_are_closing_speeds_over_gaps(start):
    problem, _ = problem_of(start)
    x, v = problem.clusters.positions, problem.velocity.mantissa
    gaps = np.linalg.norm(x[:, None] - x, axis=-1) + 9 * np.eye(7)
    nearest = gaps.argmin(axis=1)
    rates = np.linalg.norm(v - v[nearest], axis=1) / gaps.min(axis=1)
    np.testing.assert_allclose(problem.relative_rates, rates, rtol=1e-12)
    assert problem.rate == pytest.approx(max(rates.max(), np.abs(v).max() / np.pi))


def test_the_error_of_an_attempt_is_the_largest_over_the_tolerance_of_each_token(start):
    problem, partition = problem_of(start)
    step, scales = 0.05, np.geomspace(1e-9, 1e-5, 7)
    all_staged, none_promoted = np.full(7, -1.0), np.zeros(7, bool)
    found = attempt(problem, Carry(partition, SlowPaths.predicted(problem)), step, all_staged, none_promoted, scales)
    errors = found.result.errors / scales
    assert found.error == errors.max()
    assert np.argmax(errors) != np.argmax(found.result.errors)
    assert found.is_accepted == (errors.max() <= 1)


def test_trapezoidal_tokens_beyond_their_tolerance_are_misclassified(start):
    problem, partition = problem_of(start)
    never_staged, scales = np.full(7, np.inf), np.full(7, 1e-6)
    carry = Carry(partition, SlowPaths.predicted(problem))
    found = attempt(problem, carry, 0.05, never_staged, np.zeros(7, bool), scales)
    errors = found.result.errors / scales
    assert 0 < found.misclassified.sum() < 7
    assert np.all(errors[found.misclassified] > 1)
    assert not found.is_accepted
    again = attempt(problem, found.carry, 0.05, never_staged, found.misclassified, np.full(7, 1e-3))
    assert not again.misclassified.any()


def test_an_attempt_changes_none_of_its_arguments(start):
    problem, partition = problem_of(start)
    before = [array.copy() for array in (problem.clusters.positions, problem.velocity.mantissa, partition.slow)]
    arguments = (0.05, np.full(7, 1e-9), np.zeros(7, bool), np.full(7, 1e-6))
    carry = Carry(partition, SlowPaths.predicted(problem))
    first, second = (attempt(problem, carry, *arguments) for _ in range(2))
    np.testing.assert_array_equal(first.result.positions, second.result.positions)
    for array, copy in zip(
        (problem.clusters.positions, problem.velocity.mantissa, partition.slow), before, strict=True
    ):
        np.testing.assert_array_equal(array, copy)


def test_quadratures_integrate_polynomials():
    """Seven nodes integrate degree six; the six stages degree four, as a method of order five does."""
    nodes = np.array([0.0, *PATH_NODES])
    for degree in range(7):
        assert quadrature_weights() @ nodes**degree == pytest.approx(1 / (degree + 1), abs=1e-14)
        defect = defect_weights() @ nodes**degree
        assert abs(defect) < 1e-14 if degree < 5 else abs(defect) > 1e-5
    assert sum(STAGES[-1]) == pytest.approx(1.0)
    assert abs(sum(ERROR_WEIGHTS)) < 1e-15


def test_fast_groups_are_sorted_by_their_relative_rates(start):
    field, clusters, _ = start
    partition = Partition.of(field, clusters, np.arange(7.0), np.array([1, 2, 5]))
    np.testing.assert_array_equal(partition.fast, [1, 2, 5])
    assert 5 in partition.fast_groups[0]
    np.testing.assert_array_equal(np.flatnonzero(~partition.slow), [1, 2, 5])
