"""Statements about metastable clusters: true where they should be, and able to fail."""

import dataclasses

import numpy as np
import pytest
from scipy.integrate import quad

import attnflow as af
from attnflow.analyse import plateau_forecasts
from attnflow.coalescence.cluster_state import Clusters
from attnflow.coalescence.log_field import LogField
from attnflow.coalescence.merge_forecast import forecast
from attnflow.theorems.statements import metastable, plateaus

STATEMENTS = {statement.id: statement for statement in (*metastable.STATEMENTS, *plateaus.STATEMENTS)}
ON_PATHS = [name for name, statement in STATEMENTS.items() if statement.measure is not None]


@pytest.mark.parametrize("name", STATEMENTS)
def test_example_holds(name):
    verdict = STATEMENTS[name].verify()

    assert verdict.verdict == "holds", verdict.explanation()


@pytest.mark.parametrize("name", STATEMENTS)
def test_control_does_not(name):
    assert STATEMENTS[name].verify_control().verdict == "not_applicable"


def test_caps_of_two_poles():
    """alpha is the cosine between the nearest points of the caps of twice the width, gamma follows."""
    tokens = np.array([[0.0, 0.0, 1.0]] * 4 + [[0.0, 0.0, -1.0]] * 4)

    found = metastable.caps(tokens, 60.0)

    np.testing.assert_array_equal(found.labels == found.labels[0], [True] * 4 + [False] * 4)
    alpha = np.cos(np.pi - 2 * np.arccos(1 - 2 * found.width))
    gamma = 1 - alpha - 8 * found.width - np.log(128 / found.width) / 60
    np.testing.assert_allclose([found.cosine, found.margin], [alpha, gamma], rtol=1e-12)
    assert found.margin > 1.6


def test_caps_that_touch_are_not_separated():
    tokens = af.initial.on_circle(np.linspace(0, 2 * np.pi, 12, endpoint=False))

    assert metastable.caps(tokens, 60.0).margin < 0


def test_caps_hold_under_unnormalised_attention():
    example = STATEMENTS["caps-hold"].example()
    flow = af.SphereAttention(af.Head.identity(3), af.Unnormalised(30.0, offset=1.0))

    for name in ("caps-hold", "caps-collapse"):
        assert STATEMENTS[name].check_instance(dataclasses.replace(example, flow=flow)).verdict == "holds"


def test_caps_are_left_at_small_beta():
    """A run at beta = 1, told to be one at beta = 30: its tokens gather in one place."""
    example = STATEMENTS["caps-hold"].example()
    run = af.simulate(
        af.SphereAttention(af.Head.identity(3), af.Softmax(1.0)), example.tokens, example.times, progress=False
    )

    assert not STATEMENTS["caps-hold"].measure(example.flow, run).met


def test_caps_do_not_collapse_where_nobody_moves():
    example = STATEMENTS["caps-collapse"].example()
    frozen = af.SphereAttention(af.Head.identity(3), af.Softmax(30.0), frozen=np.ones(8, bool))
    run = af.simulate(frozen, example.tokens, example.times, progress=False)

    assert not STATEMENTS["caps-collapse"].measure(example.flow, run).met


def test_collapse_is_undecided_before_its_time():
    example = dataclasses.replace(STATEMENTS["caps-collapse"].example(), times=np.linspace(0, 10, 11))

    assert STATEMENTS["caps-collapse"].check_instance(example).verdict == "undecided"


@pytest.mark.parametrize("beta", [40.0, 80.0, 320.0])
@pytest.mark.parametrize("masses", [(1.0, 1.0), (1.0, 3.0)])
def test_merge_time_is_the_leading_order_of_the_exact_integral(beta, masses):
    """The exact time from angle .8 to .4 is an integral over the cosine; the error shrinks like 1/beta."""
    first, second = masses

    def slowness(rho):
        weight = np.exp(beta * (rho - 1))
        pull = second * weight / (first + second * weight) + first * weight / (second + first * weight)
        return np.exp(-beta * (1 - np.cos(0.8))) / ((1 - rho**2) * pull)

    exact = quad(slowness, np.cos(0.8), np.cos(0.4), limit=200, epsabs=0)[0] * np.exp(beta * (1 - np.cos(0.8)))

    assert abs(exact / plateaus.merge_time(0.8, beta, masses) - 1) < 3.5 / beta


def test_pair_of_another_mass_takes_another_time():
    example = STATEMENTS["pair-merge-time"].example()
    run = example.simulate()
    told = af.SphereAttention(af.Head.identity(2), af.Softmax(40.0), masses=np.array([1.0, 1.0]))

    assert not STATEMENTS["pair-merge-time"].measure(told, run).met


def test_pair_that_had_no_time_to_meet_is_undecided():
    example = STATEMENTS["pair-merge-time"].example()
    early = dataclasses.replace(example, times=np.linspace(0, 0.5 * example.times[-1], 101))

    verdict = STATEMENTS["pair-merge-time"].check_instance(early)

    assert verdict.verdict == "undecided"
    assert "of the predicted time" in verdict.explanation()


def test_pair_that_never_meets_fails():
    example = STATEMENTS["pair-merge-time"].example()
    frozen = af.SphereAttention(af.Head.identity(2), af.Softmax(40.0), masses=np.ones(2), frozen=np.ones(2, bool))
    run = af.simulate(frozen, example.tokens, example.times, progress=False)

    assert STATEMENTS["pair-merge-time"].measure(example.flow, run).value == np.inf


def test_energy_between_levels_at_small_beta():
    """The same tokens at beta = 4 see each other: that energy misses its levels by more than 1/40."""
    example = STATEMENTS["staircase-levels"].example()
    run = example.simulate()
    told = af.SphereAttention(af.Head.identity(2), af.Softmax(4.0))

    found = STATEMENTS["staircase-levels"].measure(told, run)

    assert found.value > 1 / 40
    assert STATEMENTS["staircase-levels"].measure(example.flow, run).value < 0.0025


def test_staircase_with_one_step_is_undecided():
    example = dataclasses.replace(STATEMENTS["staircase-levels"].example(), times=np.geomspace(0.01, 1, 20))

    assert STATEMENTS["staircase-levels"].check_instance(example).verdict == "undecided"


@pytest.mark.parametrize("name", ON_PATHS)
def test_a_run_without_two_snapshots_is_undecided(name):
    example = STATEMENTS[name].example()
    run = example.simulate()
    run.tokens[1:] = np.nan

    assert STATEMENTS[name].check(example.flow, run).verdict == "undecided"


# On runs of `coalesce`


def coalesced(name):
    example = STATEMENTS[name].example()
    return dataclasses.replace(example, coalesces=True).simulate()


@pytest.fixture(scope="module")
def long_runs():
    """Each example followed to one cluster."""
    return {name: coalesced(name) for name in STATEMENTS}


@pytest.mark.parametrize("name", STATEMENTS)
def test_it_holds_on_a_coalescing_run(name, long_runs):
    found = {verdict.id: verdict for verdict in af.verify(long_runs[name])}
    assert found[name].verdict == "holds", found[name].explanation()
    assert "fails" not in {verdict.verdict for verdict in found.values()}
    assert "a run of `simulate`" in found["polytope"].explanation()


def test_caps_hold_as_long_as_the_statement_says(long_runs):
    """Up to log T2, which no solver that counts in seconds reaches; and they are left in the end."""
    run, flow = long_runs["caps-hold"], STATEMENTS["caps-hold"].example().flow
    verdict = STATEMENTS["caps-hold"].check(flow, run)
    found = metastable.caps(run.initial_tokens.values, 30.0)
    last = np.log(found.width / 8) + (1 - found.cosine) * 30
    assert 10 < last < float(run.log_time[-1])
    assert f"{last:.4g}" in verdict.measurement.why
    hurried = run.assign_coords(log_time=run.log_time - 60)  # had it all happened e^60 times faster
    assert not STATEMENTS["caps-hold"].coalescing.measure(flow, hurried).met


def test_caps_that_stay_apart_do_not_hold_on_a_coalescing_run(long_runs):
    run, flow = long_runs["caps-collapse"], STATEMENTS["caps-collapse"].example().flow
    apart = run.copy(deep=True)
    apart["tokens"] = run.tokens * 0 + run.initial_tokens
    assert not STATEMENTS["caps-collapse"].coalescing.measure(flow, apart).met


CONTROLS = {
    "pair-merge-time": {"merge_log_time": 0.2},
    "staircase-levels": {"energy_after": 0.1},
    "plateau-lengths": {"log_duration": -0.3},
}


@pytest.mark.parametrize("name", CONTROLS)
def test_it_can_fail_on_a_coalescing_run(name, long_runs):
    """The same run with its times or energies put off."""
    run = long_runs[name].copy(deep=True)
    for variable, much in CONTROLS[name].items():
        run[variable] = run[variable] + much
    assert STATEMENTS[name].check(STATEMENTS[name].example().flow, run).verdict == "fails"


def test_waits_are_chosen_by_what_was_known_before(long_runs):
    """However long they lasted: one that ended far too soon is still chosen, and counts."""
    run = long_runs["plateau-lengths"].copy(deep=True)
    chosen = plateau_forecasts.is_forecast(run)
    assert 3 <= chosen.sum() < run.sizes["merge"]
    run["log_duration"] = run.log_duration - 10
    np.testing.assert_array_equal(plateau_forecasts.is_forecast(run), chosen)


def test_a_forecast_is_the_formula_for_the_soonest_pair():
    clusters = Clusters.singletons(af.initial.on_circle(np.array([0.0, 1.0, 2.2])), np.array([1.0, 3.0, 1.0]))
    field = LogField.of(af.SphereAttention(af.Head.identity(2), af.Softmax(60.0)), 5.0)
    found = forecast(field, clusters, 1e-6)
    np.testing.assert_allclose(found.log_duration, plateaus.log_merge_time(1.0, 60.0, (1.0, 3.0)))
    np.testing.assert_allclose(found.runner_up, plateaus.log_merge_time(1.2, 60.0, (3.0, 1.0)))
    near = Clusters.singletons(af.initial.on_circle(np.array([0.0, 0.05, 2.2])))
    assert forecast(field, near, 1e-6).log_duration == -np.inf  # the formula knows nothing of the near pair


def test_a_coalescing_run_that_was_ended_is_undecided():
    example = STATEMENTS["pair-merge-time"].example()
    run = af.coalesce(example.flow, example.tokens, log_end=2.0, progress=False)
    assert STATEMENTS["pair-merge-time"].check(example.flow, run).verdict == "undecided"
    waiting = STATEMENTS["plateau-lengths"].example()
    run = af.coalesce(waiting.flow, waiting.tokens, log_end=0.0, progress=False)
    assert STATEMENTS["plateau-lengths"].check(waiting.flow, run).verdict == "undecided"


def test_lengths_of_plateaus_need_a_coalescing_run():
    example = STATEMENTS["pair-merge-time"].example()
    verdict = STATEMENTS["plateau-lengths"].check(example.flow, example.simulate())
    assert verdict.verdict == "not_applicable"
    assert "a run of `coalesce`" in verdict.explanation()
