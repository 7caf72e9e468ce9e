"""The macro step against one step of SciPy's RK45, and the norm of its errors."""

import numpy as np
import pytest
from scipy.integrate import RK45
from tests.helpers.coalescing import first_problem, flow, plain_velocity

import attnflow as af
from attnflow.coalescence import multirate
from attnflow.coalescence.cluster_state import Clusters
from attnflow.coalescence.log_field import LogField
from attnflow.coalescence.macro_step import (
    ERROR_WEIGHTS,
    PATH_NODES,
    STAGES,
    StepResult,
    defect_weights,
    dormand_prince,
    error_norm,
    quadrature_weights,
)
from attnflow.coalescence.multirate import Carry, StepAttempt, attempt
from attnflow.coalescence.relaxation import with_merged_pair
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
    """Positions and the norm of the embedded error of each token of one step of SciPy's RK45."""
    shape = clusters.positions.shape
    slope = lambda _, flat: plain_velocity(flat.reshape(shape), BETA, clusters.masses, True).ravel()
    solver = RK45(slope, 0.0, clusters.positions.ravel(), duration, first_step=duration, rtol=1e3, atol=1e3)
    solver.step()
    return solver.y.reshape(shape), error_norm((duration * solver.K.T @ RK45.E).reshape(shape))


def test_a_step_and_its_error_are_those_of_scipy(start):
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
    np.testing.assert_allclose(found.errors[~staged], error_norm(change), rtol=1e-9)


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


def test_pin_the_error_of_an_attempt_is_the_largest_over_the_tolerance_of_each_token(start):
    problem, partition = problem_of(start)
    step, scales = 0.05, np.geomspace(1e-9, 1e-5, 7)
    all_staged, none_promoted = np.full(7, -1.0), np.zeros(7, bool)
    found = attempt(problem, Carry(partition, SlowPaths.predicted(problem)), step, all_staged, none_promoted, scales)
    errors = found.result.errors / scales
    assert found.error == errors.max(), (
        "The norm over tokens was changed. If the tests named test_judge_ pass, update this test and the section 'Errors "
        "of a step' in the docstring of attnflow.coalescence, which says that errors are compared cluster by cluster; "
        "error_over_tolerance in model/native/subcycling.cpp takes the largest over tokens, too."
    )
    assert np.argmax(errors) != np.argmax(found.result.errors)
    assert found.is_accepted == (errors.max() <= 1)


def attempted(step, wanted, error, misclassified=(False,), coupling_error=0.0, was_predicted=True):
    nothing = np.array(misclassified)
    return StepAttempt(step, wanted, 0.0, None, error, nothing, coupling_error, None, was_predicted)


@pytest.mark.parametrize(
    ("error", "factor"),
    [(0.5, 0.9 * 0.5**-0.2), (1.0, 0.9), (32.0, 0.45), (1e-4, 4.0), (0.0, 4.0), (1e4, 0.2), (np.inf, 0.2)],
)
def test_pin_the_next_step_is_that_of_an_error_of_order_five(error, factor):
    assert attempted(0.1, 0.1, error).next_step == pytest.approx(0.1 * factor), (
        "The control of the step length was changed: 0.9 error^(-1/5), between 0.2 and 4. "
        "The subcycle in model/native/subcycling.cpp has the same control."
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"step": 0.1, "wanted": 0.5, "error": 1.0}, 0.5),  # accepted, cut at a merge: the length wanted before
        ({"step": 0.4, "wanted": 0.5, "error": 0.0}, 1.6),
        ({"step": 0.1, "wanted": 0.5, "error": 2.0}, 0.1 * 0.9 * 2**-0.2),
        ({"step": 0.1, "wanted": 0.5, "error": 0.5, "misclassified": [True]}, 0.5),
        ({"step": 0.1, "wanted": 0.5, "error": 0.5, "coupling_error": 2.0}, 0.11),
        ({"step": 0.1, "wanted": 0.105, "error": 0.5, "coupling_error": 2.0}, 0.105),
        ({"step": 0.1, "wanted": 0.5, "error": 0.5, "coupling_error": 2.0, "was_predicted": False}, 0.1 / 3),
    ],
)
def test_pin_the_next_step_after_a_merge_a_misclassification_and_a_coupling_error(given, expected):
    message = "The step after an attempt was changed: update the section 'Errors of a step' of attnflow.coalescence."
    assert attempted(**given).next_step == pytest.approx(expected), message


def over_tokens(norm):
    """`multirate.relative_errors` with one number for all tokens."""
    return lambda result, scales: np.full_like(scales, norm(result.errors / scales))


RIGHT = {
    "the largest": lambda errors: errors.max(),
    "root mean square": lambda errors: np.sqrt(np.mean(errors**2)),
    "mean": lambda errors: errors.mean(),
}
WRONG = {"mean of squares": lambda errors: np.mean(errors**2), "product": lambda errors: errors.prod()}


def error_ratio(start):
    """The error of an attempt over that of the same attempt with all tolerances doubled."""
    problem, partition = problem_of(start)
    carry, all_staged, none_promoted = (
        Carry(partition, SlowPaths.predicted(problem)),
        np.full(7, -1.0),
        np.zeros(7, bool),
    )
    errors = [
        attempt(problem, carry, 0.02, all_staged, none_promoted, factor * np.geomspace(1e-9, 1e-7, 7)).error
        for factor in (1.0, 2.0)
    ]
    return errors[0] / errors[1]


def test_judge_the_error_over_tokens_is_inversely_proportional_to_the_tolerances(start):
    """The control of the step length takes the error as of order five: its square would be of order ten."""
    assert error_ratio(start) == pytest.approx(2.0)


@pytest.mark.parametrize("name", RIGHT)
def test_judge_accepts_a_right_norm_over_tokens(name, start, monkeypatch):
    monkeypatch.setattr(multirate, "relative_errors", over_tokens(RIGHT[name]))
    assert error_ratio(start) == pytest.approx(2.0)


@pytest.mark.parametrize("name", WRONG)
def test_judge_rejects_a_wrong_norm_over_tokens(name, start, monkeypatch):
    monkeypatch.setattr(multirate, "relative_errors", over_tokens(WRONG[name]))
    assert error_ratio(start) > 3


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


def test_a_pair_at_the_merging_distance_is_put_at_its_centre_of_mass(start):
    """Masses 3 and 4 of 1 to 7; without them the pair would be halfway."""
    _, clusters, velocity = start
    problem, _ = first_problem(clusters, BETA, Tolerances(rtol=1e-6, gap_floor=0.01, merge=1e-6))
    result = StepResult(clusters.positions, np.zeros(7), velocity)
    found = with_merged_pair(problem, result, np.array([2, 3])).positions
    expected = (3 * clusters.positions[2] + 4 * clusters.positions[3]) / 7
    np.testing.assert_allclose(found[[2, 3]], [expected, expected], rtol=1e-14)
    np.testing.assert_array_equal(found[[0, 1, 4, 5, 6]], clusters.positions[[0, 1, 4, 5, 6]])
