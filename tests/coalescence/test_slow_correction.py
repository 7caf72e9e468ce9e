"""Forces of fast on slow tokens over a step with a time change, against fine quadratures of the plain equations."""

import dataclasses

import numpy as np
import pytest
from scipy.integrate import RK45, quad_vec
from scipy.interpolate import CubicHermiteSpline
from scipy.special import logsumexp
from tests.helpers.coalescing import first_problem

import attnflow as af
from attnflow.coalescence import macro_step, step_errors
from attnflow.coalescence.cluster_state import Clusters
from attnflow.coalescence.step_problem import SlowPaths
from attnflow.coalescence.subcycling import Subcycle, Tolerances
from attnflow.coalescence.time_change import TimeChange

BETA, STEP = 4.0, 0.4
CHANGES = {
    "none": TimeChange(),
    "growth": TimeChange(growth=2.0),
    "growth and curvature": TimeChange(growth=-1.5, curvature=3.0),
}
FAST = np.array([0, 1])
SLOW = np.array([3, 5])


class Step:
    """A step of six clusters with masses, whose ends and fast paths are prescribed, and the plain force in it."""

    def __init__(self, time_change):
        clusters = Clusters.singletons(af.initial.sphere(6, 3, rng=4), np.arange(1.0, 7.0))
        problem, _ = first_problem(clusters, BETA, Tolerances(1e-6, 0.01, 1e-6), FAST)
        self.problem = dataclasses.replace(problem, time_change=time_change)
        self.start, self.masses = clusters.positions, clusters.masses
        self.end = self.start + 0.05 * np.random.default_rng(0).standard_normal(self.start.shape)
        self.result = macro_step.StepResult(self.end, np.zeros(6), problem.field.velocity(self.end, clusters.masses))
        self.duration = np.exp(self.problem.log_duration(STEP))
        first = self.duration * np.exp(problem.velocity.log_scale) * problem.velocity.mantissa
        last = self.duration * np.exp(self.result.velocity.log_scale) * self.result.velocity.mantissa
        self.slow_path = CubicHermiteSpline([0.0, 1.0], [self.start, self.end], [first, last])
        self.slow_paths = SlowPaths.predicted(self.problem).computed(self.problem, STEP, self.result)

    def subcycle(self, rows, fast_path):
        """Fast tokens on a path, a function of the share of the duration."""
        paths = np.stack([fast_path(time) for time in self.problem.stage_times(STEP)])
        return Subcycle(rows, paths, np.zeros((len(rows), 3)), 2.0, np.empty(0, int))

    def force(self, time, sources, positions):
        """Velocities of SLOW due to clusters `sources` at `positions`, times the duration, by the plain equations."""
        log_masses = np.log(self.masses)
        log_divisors = [
            logsumexp(BETA * where[SLOW] @ where.T + log_masses, axis=1) for where in (self.start, self.end)
        ]
        x = self.slow_path(time)[SLOW]
        log_divisor = (1 - time) * log_divisors[0] + time * log_divisors[1]
        weights = self.masses[sources] * np.exp(BETA * x @ positions.T - log_divisor[:, None])
        pulls = weights @ positions
        return self.duration * (pulls - np.sum(pulls * x, axis=1, keepdims=True) * x)


@pytest.fixture(params=CHANGES)
def step(request):
    return Step(CHANGES[request.param])


def assumed(step):
    return lambda time: step.start[FAST] + time * np.array([[0.1, 0.0, -0.1], [0.0, 0.1, 0.1]])


def computed(step):
    return lambda time: assumed(step)(time) + time**2 * np.array([[0.0, 0.2, 0.1], [-0.1, 0.1, 0.0]])


def test_the_correction_is_the_integral_of_the_change_of_the_force(step):
    old, new = assumed(step), computed(step)
    change = lambda time: step.force(time, FAST, new(time)) - step.force(time, FAST, old(time))
    expected = quad_vec(change, 0.0, 1.0, epsrel=1e-10)[0]
    displacements, velocities = step_errors.slow_correction(
        step.problem, step.slow_paths, STEP, step.result, SLOW, step.subcycle(FAST, old), step.subcycle(FAST, new)
    )
    assert np.abs(expected).max() > 1e-4
    np.testing.assert_allclose(displacements, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(velocities, change(1.0), rtol=1e-9)


def test_a_token_that_is_newly_fast_was_on_its_slow_path(step):
    fast = np.array([0, 1, 2])
    old = assumed(step)
    new = lambda time: np.vstack([computed(step)(time), step.slow_path(time)[2] + time**2 * 0.1])
    before = lambda time: np.vstack([old(time), step.slow_path(time)[2]])
    change = lambda time: step.force(time, fast, new(time)) - step.force(time, fast, before(time))
    expected = quad_vec(change, 0.0, 1.0, epsrel=1e-10)[0]
    displacements, _ = step_errors.slow_correction(
        step.problem, step.slow_paths, STEP, step.result, SLOW, step.subcycle(FAST, old), step.subcycle(fast, new)
    )
    np.testing.assert_allclose(displacements, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_weights_over_time_integrate_one_to_one(step):
    weights = step_errors._time_weights(step.problem, STEP, macro_step.quadrature_weights())
    assert weights.sum() == pytest.approx(1.0, rel=1e-6)


def abrupt(step):
    """Fast tokens that move by 0.5 in the middle of the step, within a tenth of it."""
    return lambda time: step.start[FAST] + 0.25 * (1 + np.tanh((time - 0.5) / 0.05)) * np.array([[1.0], [-1.0]])


def quadratures(step, path):
    """The integral of the force by a polynomial through all seven nodes, and by the stages of DP5, in the step u."""
    nodes = np.array([0.0, *macro_step.PATH_NODES])
    times = np.array([0.0, *step.problem.stage_times(STEP)])
    time_change = step.problem.time_change
    slowness = np.exp(-time_change.log_growth(STEP * nodes)) * STEP / time_change.duration(STEP)
    forces = np.stack([w * step.force(time, FAST, path(time)) for w, time in zip(slowness, times, strict=True)])
    coefficients = np.linalg.solve(np.vander(nodes, increasing=True), forces.reshape(len(nodes), -1))
    all_nodes = (coefficients / np.arange(1, len(nodes) + 1)[:, None]).sum(axis=0).reshape(forces.shape[1:])
    stages = sum(weight * forces[np.argmin(np.abs(nodes - node))] for weight, node in zip(RK45.B, RK45.C, strict=True))
    return all_nodes, stages


def test_the_quadrature_defect_is_the_difference_of_all_nodes_and_the_stages(step):
    all_nodes, stages = quadratures(step, abrupt(step))
    found = step_errors.quadrature_defect(
        step.problem, step.slow_paths, STEP, step.result, SLOW, step.subcycle(FAST, abrupt(step))
    )
    np.testing.assert_allclose(found, macro_step.error_norm(all_nodes - stages), rtol=1e-6)


def test_the_quadrature_defect_shows_abrupt_forces_only(step):
    defects = [
        step_errors.quadrature_defect(step.problem, step.slow_paths, STEP, step.result, SLOW, step.subcycle(FAST, path))
        for path in (assumed(step), abrupt(step))
    ]
    assert np.all(defects[0] < defects[1] / 100)
