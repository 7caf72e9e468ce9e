"""Sprints against SciPy on plain NumPy velocities, and what they change in a run: nothing."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from tests.helpers.coalescing import CIRCLE, exact_log_time, flow, plain_velocity

import attnflow as af
from attnflow.coalescence.cluster_state import HeavyTokens, Pull
from attnflow.coalescence.multirate import Course
from attnflow.coalescence.subcycling import Ending, Sprint, Tolerances, Walks, groups, is_possible, runners, sprint
from attnflow.model.native import library

pytestmark = pytest.mark.skipif(not library.is_built(), reason="sprints need the native kernel")

FINE = Tolerances(rtol=1e-9, narrow=0.01, merge=1e-6)
TIMES = np.array([0.2, 0.5, 1.0])
BETA = 20.0


def scene(d=4, n=20):
    """Tokens with masses, three of them near each other; the others go their ways."""
    rng = np.random.default_rng(0)
    places = rng.normal(size=(n, d))
    places[1:3] = places[0] + rng.normal(size=(2, d))
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    ways, bends = 0.1 * rng.normal(size=(2, n, d))
    heavy = HeavyTokens.alone(places, rng.uniform(0.5, 3.0, n))
    return heavy, ways, bends, np.array([0, 1, 2])


@pytest.mark.parametrize("rule", [af.Softmax(BETA), af.Unnormalised(BETA, offset=1.0)], ids=["softmax", "unnormalised"])
@pytest.mark.parametrize("bent", [False, True])
def test_runners_go_where_scipy_takes_them(rule, bent):
    heavy, ways, bends, rows = scene()
    walks = (Walks(ways, bends, -bends / 2) if bent else Walks.straight(ways)).without(rows)
    pull = Pull.of(af.SphereAttention(af.Head.identity(4), rule), float(heavy.masses.sum()))
    duration = 30.0

    def slope(time, flat):
        places = heavy.places + time * (walks.ways + time * (walks.bends + time * walks.twists))
        places[rows] = flat.reshape(len(rows), -1)
        return duration * plain_velocity(places, BETA, heavy.masses, isinstance(rule, af.Softmax))[rows].ravel()

    begin = heavy.places[rows].ravel()
    exact = solve_ivp(slope, (0, 1), begin, "DOP853", t_eval=TIMES, rtol=1e-12, atol=1e-13)
    found = sprint(pull, heavy, walks, rows, np.log(duration), FINE, TIMES, Ending.EARLY)
    assert found.met > 1
    expected = exact.y.T.reshape(len(TIMES), len(rows), -1)
    assert np.abs(expected[-1] - heavy.places[rows]).max() > 0.05  # they do go somewhere
    np.testing.assert_allclose(found.paths, expected, atol=1e-7)  # rtol of many steps
    np.testing.assert_allclose(found.velocities, slope(1.0, exact.y[:, -1]).reshape(3, -1), atol=1e-6)
    straight = sprint(pull, heavy, Walks.straight(0 * ways), rows, np.log(duration), FINE, TIMES, Ending.EARLY)
    assert np.abs(straight.paths - expected).max() > 1e-3  # others that stand still are another problem


@pytest.mark.parametrize("beta", [20.0, 100.0])
def test_two_meet_at_their_exact_time(beta):
    heavy = HeavyTokens.alone(CIRCLE(np.array([0.0, 0.6])))
    pull, rows = Pull.of(flow(beta), 2.0), np.array([0, 1])
    log_time = exact_log_time(0.6, beta)
    walks = Walks.straight(np.zeros((2, 2)))
    found = sprint(pull, heavy, walks, rows, log_time + np.log(2.0), FINE, TIMES, Ending.EARLY)
    assert found.met == pytest.approx(0.5, rel=1e-5)
    assert set(found.pair) == {0, 1}
    at_last = sprint(pull, heavy, walks, rows, log_time, FINE, TIMES, Ending.WITH_MEETING)
    assert np.linalg.norm(at_last.paths[-1, 0] - at_last.paths[-1, 1]) == pytest.approx(FINE.merge, rel=1e-7)
    assert np.linalg.norm(at_last.paths[1, 0] - at_last.paths[1, 1]) > 100 * FINE.merge
    before = sprint(pull, heavy, walks, rows, log_time + np.log(0.99), FINE, TIMES, Ending.EARLY)
    assert before.met > 1


def test_a_sprint_that_is_too_long_says_so(monkeypatch):
    heavy = HeavyTokens.alone(CIRCLE(np.array([0.0, 0.6])))
    walks, rows = Walks.straight(np.zeros((2, 2))), np.array([0, 1])
    monkeypatch.setattr("attnflow.coalescence.subcycling.MOST_STEPS", 3)
    assert sprint(Pull.of(flow(20.0), 2.0), heavy, walks, rows, 5.0, FINE, TIMES, Ending.EARLY) is None


def test_runners_are_those_about_to_fall_and_groups_feel_each_other():
    angles = np.array([0.0, 0.2, 1.5, 2.4, 3.4, 4.3, 5.2, 5.4])
    heavy = HeavyTokens.alone(CIRCLE(angles))
    pull = Pull.of(flow(60.0), 8.0)
    directions = pull.velocity(heavy.places, heavy.masses).directions
    closing = np.linalg.norm(directions - directions[heavy.gaps[1]], axis=1)
    found = runners(pull, heavy, closing, 1e-6)
    np.testing.assert_array_equal(found, [0, 1, 6, 7])
    assert [group.tolist() for group in groups(pull, heavy, found)] == [[0, 1], [6, 7]]
    near = HeavyTokens.alone(CIRCLE(np.array([0.0, 0.2, 0.45, 0.65])))
    assert len(groups(pull, near, np.arange(4))) == 1


def test_nobody_runs_where_all_are_alike():
    heavy = HeavyTokens.alone(CIRCLE(np.linspace(0, 2 * np.pi, 13)[:-1]))
    assert len(runners(Pull.of(flow(60.0), 12.0), heavy, np.ones(12), 1e-6)) == 0


def in_order_of_names(found):
    return found.isel(merge=np.lexsort((found["second"], found["first"])))


@pytest.mark.parametrize(("n", "d"), [(40, 2), (40, 3), (60, 10)])
def test_a_run_with_sprints_is_the_run_without(n, d):
    tokens = af.initial.sphere(n, d, rng=3)
    quick = af.coalesce(flow(60.0, d), tokens, progress=False)
    exact = af.coalesce(flow(60.0, d), tokens, shortcuts=False, rtol=1e-7, progress=False)
    assert int(exact.subcycled_steps) == 0 < int(quick.subcycled_steps)
    assert int(quick.steps) < int(exact.steps) / 3
    quick, exact = in_order_of_names(quick), in_order_of_names(exact)  # two far from each other may meet at one time
    np.testing.assert_array_equal(quick["first"], exact["first"])
    np.testing.assert_array_equal(quick["second"], exact["second"])
    log_times = exact.merge_log_time.values
    errors = np.abs(quick.merge_log_time.values - log_times)[~of_three(exact)]
    # As the docstring of `coalesce` says: every merge so far adds beta (rtol + merge); places of 0.01 rtol, early.
    allowed = 60.0 * 2e-6 * (np.argsort(np.argsort(log_times)) + 1) + 0.01 * np.exp(-log_times)
    assert len(errors) > n / 3
    assert np.all(errors <= allowed[~of_three(exact)])


def of_three(found):
    """Whether one who has met somebody meets another within a unit of time: who is first is for rtol to say."""
    names = np.stack([found["first"], found["second"]])
    shares = (names[:, None, :, None] == names[None, :, None, :]).any(axis=(0, 1))
    near = np.abs(np.subtract.outer(*2 * [np.exp(np.minimum(found.merge_log_time.values, 50))])) < 1
    return (shares & near & ~np.eye(names.shape[1], dtype=bool)).any(axis=1)


def test_whom_runners_push_is_followed_closely(monkeypatch):
    """Stages and errors of a step do not see when a pull changed: without care for that, times are worse fivefold."""
    tokens = af.initial.sphere(16, 3, rng=8)
    exact = af.coalesce(flow(60.0, 3), tokens, shortcuts=False, rtol=1e-9, progress=False).merge_log_time
    careful = af.coalesce(flow(60.0, 3), tokens, progress=False).merge_log_time
    monkeypatch.setattr(Course, "jumps", lambda self, step, found, rows, ahead: np.zeros(len(rows)))
    careless = af.coalesce(flow(60.0, 3), tokens, progress=False).merge_log_time
    assert np.abs(careful - exact).max() < 1e-4
    assert np.abs(careless - exact).max() > 3e-4


def test_a_step_whose_error_happens_to_vanish_is_not_believed(monkeypatch):
    """Speed grows 30-fold in a step: its error of 8e-4 is told as 8e-7, where the estimate changes its sign."""
    tokens = af.initial.sphere(5, 5, rng=69)
    model = af.SphereAttention(af.Head.identity(5), af.Unnormalised(34.91552465169477, offset=1.0))
    exact = af.coalesce(model, tokens, shortcuts=False, rtol=1e-9, progress=False).merge_log_time
    careful = af.coalesce(model, tokens, progress=False).merge_log_time
    monkeypatch.setattr(Course, "surprise", lambda self, step, found, fast, scales: 0.0)
    careless = af.coalesce(model, tokens, progress=False).merge_log_time
    assert abs(careful - exact)[1] < 1e-4
    assert abs(careless - exact)[1] > 1e-3


def test_a_sprint_given_up_is_a_walk(monkeypatch):
    tokens = af.initial.sphere(20, 3, rng=1)
    monkeypatch.setattr("attnflow.coalescence.subcycling.MOST_STEPS", 1)
    found = af.coalesce(flow(60.0, 3), tokens, progress=False)
    monkeypatch.setattr("attnflow.coalescence.integrator.is_possible", lambda pull: False)
    walked = af.coalesce(flow(60.0, 3), tokens, progress=False)
    assert int(found.subcycled_steps) == 0
    np.testing.assert_array_equal(found.merge_log_time, walked.merge_log_time)


def test_sprints_serve_plain_attraction_only():
    assert is_possible(Pull.of(flow(9.0), 2.0))
    assert not is_possible(Pull.of(af.SphereAttention(af.Head.identity(2), af.Softmax(-9.0)), 2.0))
    assert len(Sprint.of_nobody(3).rows) == 0
