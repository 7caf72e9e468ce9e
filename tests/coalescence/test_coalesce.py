"""Through metastable states: against the plain solver, exact times, and the rules of the staircase."""

import json

import numpy as np
import pytest
from tests.helpers.coalescing import CIRCLE, exact_log_time, flow

import attnflow as af
from attnflow.coalescence.cluster_state import HeavyTokens, Pull
from attnflow.coalescence.pair_quadrature import NEAR, _edges, meeting


def anyhow(value, beta):
    return af.SphereAttention(af.Head.bilinear(np.eye(len(value)), value), af.Softmax(beta))


@pytest.mark.parametrize("beta", [80.0, 200.0, 800.0])
def test_a_pair_meets_at_the_exact_time(beta):
    """A step's error is rtol = 1e-6 of the gap, which beta sin(angle) magnifies in the logarithm of the time."""
    found = af.coalesce(flow(beta), CIRCLE(np.array([0.0, 1.2])), progress=False)
    assert float(found.merge_log_time[0]) == pytest.approx(exact_log_time(1.2, beta), abs=3e-6 * beta)


@pytest.mark.parametrize("masses", [[1.0, 1.0], [1.0, 3.0]])
def test_the_pair_formula_is_approached_as_beta_grows(masses):
    errors = []
    for beta in (40.0, 80.0, 160.0, 320.0):
        found = af.coalesce(flow(beta, masses=masses), CIRCLE(np.array([0.0, 1.2])), progress=False)
        errors.append(abs(np.expm1(float(found.log_duration[0] - found.predicted_log_duration[0]))))
    assert errors[1] < 0.02
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 4


@pytest.mark.parametrize(
    "model",
    [
        flow(4.0, 3),
        flow(3.0, 3, masses=[1.0, 2.0, 1.0, 3.0, 1.0, 1.0]),
        af.SphereAttention(af.Head.identity(3), af.Unnormalised(3.0, offset=1.0)),
        af.SphereAttention(
            af.Head.bilinear([[1.0, 0.5, 0.0], [0.0, 1.0, 0.2], [0.3, 0.0, 1.0]], np.diag([2.0, 1.0, 0.5]))
        ),
    ],
    ids=["softmax", "masses", "unnormalised", "any Q, K, V"],
)
def test_it_agrees_with_the_plain_solver(model):
    tokens = af.initial.sphere(6, 3, rng=3)
    for end in (0.3, 3.0):
        plain = af.simulate(model, tokens, [0.0, end], solver=af.Adaptive(rtol=1e-10, atol=1e-12))
        found = af.coalesce(model, tokens, log_end=np.log(end), rtol=1e-8, progress=False)
        assert float(found.log_time[-1]) == pytest.approx(np.log(end), abs=1e-9)
        np.testing.assert_allclose(found.tokens[-1], plain.final_tokens, atol=2e-6)


def assert_times_are_near(found, exact, beta, rtol, merge=1e-6):
    """As the docstring of `coalesce` says: every merge adds beta (rtol + merge) to log t.

    Where two are near, a place is wrong by up to 0.01 rtol, so t by that over the merging distance.
    """
    times = exact.merge_log_time.values
    allowed = beta * (rtol + merge) * np.arange(1, len(times) + 1) + 0.01 * rtol / merge * np.exp(-times)
    errors = np.abs(found.merge_log_time.values - times)
    assert np.all(errors <= allowed), (errors / allowed).round(2)


@pytest.mark.parametrize(
    "model",
    [
        flow(60.0),
        flow(60.0, 3),
        flow(60.0, 10, masses=[1.0, 5.0, 2.0, 1.0, 1.0, 2.0, 1.0, 1.0]),
        af.SphereAttention(af.Head.identity(3), af.Unnormalised(60.0, offset=1.0)),
    ],
    ids=["circle", "S^2", "S^9 with masses", "unnormalised"],
)
def test_shortcuts_change_nothing(model):
    """Each step, meeting and merge may be wrong by rtol or by merge; beta magnifies that in log t, and merges add up."""
    tokens = af.initial.sphere(8, model.dimension, rng=5)
    quick = af.coalesce(model, tokens, progress=False)
    exact = af.coalesce(model, tokens, shortcuts=False, rtol=1e-7, progress=False)
    assert int(exact.quadrature_merges) == 0 < int(quick.quadrature_merges)
    assert 0 < float(quick.quadrature_error) <= 2e-6  # rtol times the widest gap
    np.testing.assert_array_equal(quick["first"], exact["first"])
    assert_times_are_near(quick, exact, 60.0, 1e-6)
    np.testing.assert_allclose(quick.tokens[-1], exact.tokens[-1], atol=1e-5)


def test_a_pair_that_is_not_alone_is_not_followed_at_once():
    """Of three tokens at equal distances no pair is faster than what else moves."""
    heavy = HeavyTokens.alone(CIRCLE(np.array([0.0, 0.9, 1.8])))
    pull = Pull.of(flow(60.0), 3.0)
    near = meeting(pull, heavy, np.array([0, 1]), pull.sums(heavy.places, heavy.masses), 1e-6)
    assert near.error > 1e-3
    far = HeavyTokens.alone(CIRCLE(np.array([0.0, 0.4, 1.8])))
    alone = meeting(pull, far, np.array([0, 1]), pull.sums(far.places, far.masses), 1e-6)
    assert alone.error < 1e-9
    np.testing.assert_allclose(alone.log_duration, exact_log_time(0.4, 60.0, merge=NEAR * 1e-6), atol=1e-8)


def test_a_long_way_is_cut_where_nothing_is_left_of_its_integrals(monkeypatch):
    """The same as with every part of the way: e^-40 of a time, and shares of the speed that do not change there."""
    heavy = HeavyTokens.alone(CIRCLE(np.array([0.0, 0.9, 2.5])), [1.0, 3.0, 1.0])
    pull = Pull.of(flow(1e4), 5.0)
    sums = pull.sums(heavy.places, heavy.masses)
    quick = meeting(pull, heavy, np.array([0, 1]), sums, 1e-6)
    parts = len(_edges(1e4, 0.9, 1e-6))
    monkeypatch.setattr("attnflow.coalescence.pair_quadrature.PAST", np.inf)
    whole = meeting(pull, heavy, np.array([0, 1]), sums, 1e-6)
    assert parts < 30 < 400 < len(_edges(1e4, 0.9, 1e-6))
    np.testing.assert_allclose(quick.places, whole.places, atol=1e-9)  # what 8 nodes leave
    assert quick.log_duration == pytest.approx(whole.log_duration, abs=1e-8)


def test_a_pair_that_others_hold_apart_has_no_meeting():
    """Each of the two in the middle has a nearer and heavier neighbour on its other side."""
    heavy = HeavyTokens.alone(CIRCLE(np.array([0.0, 0.3, 1.3, 1.6])), [9.0, 1.0, 1.0, 9.0])
    pull = Pull.of(flow(20.0), 20.0)
    sums = pull.sums(heavy.places, heavy.masses)
    assert np.isinf(meeting(pull, heavy, np.array([1, 2]), sums, 1e-6).error)
    assert np.isfinite(meeting(pull, heavy, np.array([0, 1]), sums, 1e-6).error)


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_the_effect_of_rtol_on_the_logarithm_of_time_is_stated(seed):
    tokens = af.initial.sphere(8, 3, rng=seed)
    exact = af.coalesce(flow(60.0, 3), tokens, rtol=1e-8, progress=False)
    for rtol in (1e-5, 1e-6):
        assert_times_are_near(af.coalesce(flow(60.0, 3), tokens, rtol=rtol, progress=False), exact, 60.0, rtol)


def test_velocities_of_e_to_the_minus_thousand_are_not_zero():
    found = af.coalesce(flow(500.0), CIRCLE(np.array([0.0, 0.4, 1.5, 2.6, 4.1])), progress=False)
    assert int(found.clusters[-1]) == 1
    assert float(found.log_time[-1]) > 400
    assert found.sizes["merge"] == 4


def test_the_energy_is_a_staircase():
    found = af.coalesce(flow(300.0), af.initial.circle(12, rng=1), progress=False)
    times, clusters = found.log_time.values, found.clusters.values
    assert np.all(np.diff(times) >= 0)
    assert np.all(np.diff(clusters) <= 0)
    assert np.all(np.diff(found.energy) >= -1e-12)
    alone = np.append(found.log_duration.values[1:], np.inf) > 5  # nobody else is on the way as these meet
    late = found.isel(merge=alone & (found.predicted_log_duration.values > 5))
    assert late.sizes["merge"] >= 3
    np.testing.assert_allclose(late.energy_after, late.level_after, atol=1e-2)
    np.testing.assert_allclose(
        found.level_after - found.level_before, 2 * found.mass_of_first * found.mass_of_second / 12**2, atol=1e-12
    )


def test_a_token_of_mass_three_is_three_tokens_in_one_place():
    heavy = af.coalesce(flow(50.0, masses=[3.0, 1.0, 1.0]), CIRCLE(np.array([0.0, 0.9, 2.0])), progress=False)
    many = af.coalesce(flow(50.0), CIRCLE(np.array([0.0, 0.0, 0.0, 0.9, 2.0])), progress=False)
    np.testing.assert_allclose(heavy.merge_log_time, many.merge_log_time, atol=1e-9)
    assert many.clusters.values[0] == 3


def test_who_met_is_told_by_their_first_tokens():
    found = af.coalesce(flow(60.0), CIRCLE(np.array([2.0, 0.0, 2.3, 0.4])), progress=False)
    met = list(zip(found.first.values.tolist(), found.second.values.tolist(), strict=True))
    assert met == [(0, 2), (1, 3), (0, 1)]


@pytest.mark.parametrize(
    "tokens",
    [[[1.0, 0.0], [-1.0, 0.0]], CIRCLE(2 * np.pi * np.arange(5) / 5), np.r_[np.eye(3), -np.eye(3)]],
    ids=["antipodes", "pentagon", "octahedron"],
)
def test_an_unstable_equilibrium_is_reported_and_can_be_left(tokens):
    tokens = np.asarray(tokens, dtype=float)
    model = flow(6.0, tokens.shape[1])
    resting = af.coalesce(model, tokens, progress=False)
    assert "all pulls cancel" in resting.outcome
    assert int(resting.clusters[-1]) == len(tokens)
    left = af.coalesce(model, tokens, perturb=1e-4, rng=0, progress=False)
    assert int(left.clusters[-1]) == 1


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        (anyhow(-np.eye(2), 5.0), af.initial.circle(5, rng=0)),
        (flow(-3.0), af.initial.circle(5, rng=0)),
        (anyhow(np.diag([2.0, 1.0]), 20.0), af.initial.circle(8, rng=0)),
    ],
    ids=["V = -I", "beta < 0", "diagonal V"],
)
def test_a_stable_equilibrium_of_several_clusters_ends_it(model, tokens):
    """Velocities there are below what steps of the tolerance leave: 1e-5 of gaps of order one."""
    found = af.coalesce(model, tokens, max_steps=2000, progress=False)
    assert "nobody has moved" in found.outcome
    assert "perturb" not in found.outcome
    last = found.tokens[-1].values
    assert int(found.clusters[-1]) > 1
    weights = np.exp(float(model.attention.beta) * last @ last.T)
    pulls = (weights / weights.sum(axis=1, keepdims=True)) @ last @ np.asarray(model.heads[0].value_matrix).T
    assert np.abs(pulls - np.sum(pulls * last, axis=1, keepdims=True) * last).max() < 1e-4


def test_a_plateau_under_another_v_is_not_called_a_limit():
    """In the plane diag(1, 1, 0.2) is I, and clusters merge at times that rounding of V x hides."""
    tokens = np.pad(af.initial.circle(8, rng=3), ((0, 0), (0, 1)))
    found = af.coalesce(anyhow(np.diag([1.0, 1.0, 0.2]), 20.0), tokens, budget=20, progress=False)
    assert int(found.clusters[-1]) > 1
    assert "may be a metastable state: V is no multiple of I" in found.outcome
    assert int(af.coalesce(anyhow(np.eye(3), 20.0), tokens, progress=False).clusters[-1]) == 1


@pytest.mark.parametrize("beta", [2.0, 40.0, 300.0])
def test_next_to_antipodes_nobody_nears_anybody_at_first(beta):
    found = af.coalesce(flow(beta), CIRCLE(np.array([0.0, np.pi - 1e-8])), progress=False)
    assert int(found.clusters[-1]) == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("beta", [1500.0, 1e5])
def test_times_beyond_floats_give_no_warning(beta):
    found = af.coalesce(flow(beta, 3), af.initial.sphere(25, 3, rng=1), progress=False)
    assert int(found.clusters[-1]) == 1
    assert float(found.log_time[-1]) > beta


def test_an_interrupt_in_the_callback_loses_nothing():
    def interrupt(share, words):
        if share > 0.3:
            raise KeyboardInterrupt

    found = af.coalesce(flow(50.0, 3), af.initial.sphere(12, 3, rng=0), progress=interrupt)
    assert "Interrupted" in found.outcome
    assert found.sizes["merge"] >= 3


def test_recorded_tokens_give_the_same_run_bit_for_bit():
    first = af.coalesce(flow(50.0, 3), af.initial.sphere(40, 3, rng=2), progress=False)
    again = af.coalesce(flow(50.0, 3), first.initial_tokens.values, progress=False)
    np.testing.assert_array_equal(first.merge_log_time, again.merge_log_time)
    np.testing.assert_array_equal(first.tokens, again.tokens)


def test_a_repeated_run_tells_how_its_tokens_were_moved():
    first = af.coalesce(flow(6.0), [[1.0, 0.0], [-1.0, 0.0]], perturb=1e-4, rng=0, progress=False)
    again = af.rerun(first, progress=False)
    assert again.perturbed == first.perturbed
    np.testing.assert_array_equal(again.merge_log_time, first.merge_log_time)
    other = af.rerun(first, perturb=1e-3, rng=1, progress=False)
    assert json.loads(other.perturbed)["amount"] == 1e-3


def test_nobody_pulls_nobody():
    assert af.coalesce(anyhow(np.zeros((2, 2)), 5.0), CIRCLE(np.arange(3.0)), progress=False).outcome == (
        "At rest with 3 clusters from the start: all pulls cancel."
    )


def test_what_is_one_or_at_rest_from_the_start_is_said_so():
    found = af.coalesce(flow(5.0), CIRCLE(np.ones(4)), progress=False)
    assert found.clusters.values.tolist() == [1]
    assert found.sizes["merge"] == 0
    assert found.outcome == "All 4 tokens are in one place from the start; `perturb=1e-6` parts them."
    assert af.coalesce(flow(5.0), CIRCLE(np.ones(1)), progress=False).outcome.startswith("One token from the start")
    points = af.coalesce(flow(5.0, 1), np.array([[1.0], [-1.0]]), progress=False).outcome
    assert points.startswith("At rest with 2 clusters from the start")
    assert "perturb" not in points


def test_a_run_can_end_before_anything_happens():
    found = af.coalesce(flow(9.0), af.initial.circle(4, rng=0), log_end=-50.0, progress=False)
    assert float(found.log_time[-1]) == pytest.approx(-50.0)
    np.testing.assert_allclose(found.tokens[-1], found.initial_tokens, atol=1e-15)


def test_one_cluster_that_v_still_carries_is_said_so():
    found = af.coalesce(anyhow(np.diag([2.0, 1.0]), 1.0), CIRCLE(np.array([0.3, 0.8])), log_end=9.0, progress=False)
    assert int(found.clusters[-1]) == 1
    assert "is not followed" in found.outcome


def test_beta_zero_is_served_without_a_warning():
    """Kuramoto: the angle th of two has th' = -sin(th), so that tan(th / 2) falls as e^-t."""
    found = af.coalesce(flow(0.0), CIRCLE(np.array([0.0, 1.2])), progress=False)
    exact = np.log(np.tan(0.6) / np.tan(np.arcsin(5e-7)))
    assert np.exp(float(found.merge_log_time[0])) == pytest.approx(exact, abs=0.02)  # 0.01 rtol / merge, of two


def test_the_outcome_tells_when_the_last_two_met():
    found = af.coalesce(flow(3.0), CIRCLE(np.array([0.0, 0.7])), rtol=1e-8, progress=False)
    last = float(found.merge_log_time[-1])
    assert last == pytest.approx(exact_log_time(0.7, 3.0), abs=1e-4)  # 0.01 rtol / merge of t
    assert f"One cluster since log t = {last:.6g}" in found.outcome


def test_a_perturbation_is_recorded():
    tokens = CIRCLE(np.array([0.0, np.pi]))
    found = af.coalesce(flow(6.0), tokens, perturb=1e-3, rng=7, log_end=0.0, progress=False)
    told = json.loads(found.attrs["perturbed"])
    assert told == {"amount": 1e-3, "seed": "7", "spawn_key": []}
    assert 0 < np.abs(found.initial_tokens.values - tokens).max() < 5e-3
    assert "perturbed" not in af.coalesce(flow(6.0), tokens, log_end=0.0, progress=False).attrs


def test_steps_and_budgets_end_it_with_what_exists():
    short = af.coalesce(flow(100.0), af.initial.circle(20, rng=0), max_steps=5, progress=False)
    assert "Stopped after 5 steps" in short.outcome
    brief = af.coalesce(flow(100.0), af.initial.circle(300, rng=0), budget=0.05, progress=False)
    assert "time budget" in brief.outcome
    heard = []
    af.coalesce(flow(9.0), af.initial.circle(5, rng=0), progress=lambda *word: heard.append(word))
    assert heard[-1][0] == pytest.approx(1.0)


def test_without_the_native_kernel_it_is_the_same(monkeypatch):
    tokens = af.initial.circle(8, rng=2)
    exact = af.coalesce(flow(40.0), tokens, shortcuts=False, rtol=1e-9, progress=False)
    assert_times_are_near(af.coalesce(flow(40.0), tokens, progress=False), exact, 40.0, 1e-6)
    monkeypatch.setenv("ATTNFLOW_NATIVE", "0")
    plain = af.coalesce(flow(40.0), tokens, progress=False)
    assert int(plain.subcycled_steps) == 0
    assert_times_are_near(plain, exact, 40.0, 1e-6)
    monkeypatch.delenv("ATTNFLOW_NATIVE")
    monkeypatch.setattr("attnflow.coalescence.integrator.is_possible", lambda pull: False)
    native = af.coalesce(flow(40.0), tokens, progress=False)
    np.testing.assert_allclose(native.merge_log_time, plain.merge_log_time, atol=1e-6)  # other rounding, other steps


def test_a_long_run_can_be_written_and_read(tmp_path):
    found = af.coalesce(flow(40.0), af.initial.circle(6, rng=0), progress=False)
    for name in ("long.zarr", "long.nc"):
        af.save(found, tmp_path / name)
        again = af.load(tmp_path / name)
        np.testing.assert_array_equal(again.log_time, found.log_time)
        np.testing.assert_array_equal(again["first"], found["first"])
        assert af.rerun(again, progress=False).equals(found)


REFUSED = {
    "noise": (lambda: (flow(1.0, noise=af.Noise(5.0)), {}), "noise would part"),
    "changing weights": (lambda: (af.SphereAttention(af.RedrawnHead(2, 1.0, 0)), {}), "constant weights"),
    "several heads": (lambda: (af.SphereAttention([af.Head.identity(2)] * 2), {}), "one head"),
    "causal": (lambda: (flow(1.0, mask=af.masks.causal), {}), "see different others.*Use `stream`"),
    "window": (lambda: (flow(1.0, mask=af.masks.window(2)), {}), "Use `simulate`"),
    "R^d": (lambda: (af.EuclideanAttention(af.Head.identity(2)), {}), "on the sphere"),
    "hardmax": (lambda: (af.SphereAttention(af.Head.identity(2), af.Hardmax()), {}), "softmax or unnormalised"),
    "frozen": (lambda: (flow(1.0, frozen=[True, False, False]), {}), "frozen tokens"),
    "wide merge": (lambda: (flow(1.0), {"merge": 0.9}), "below the smallest gap"),
    "narrow merge": (lambda: (flow(1.0), {"merge": 1e-14}), "where floats have digits"),
    "rtol": (lambda: (flow(1.0), {"rtol": 0.0}), "`rtol` must be above zero"),
    "coarse rtol": (lambda: (flow(1.0), {"rtol": 10.0}), "`rtol` must lie between"),
    "fine rtol": (lambda: (flow(1.0), {"rtol": 1e-16}), "`rtol` must lie between"),
    "log_end": (lambda: (flow(1.0), {"log_end": np.nan}), "`log_end` must be the logarithm"),
    "log_end in words": (lambda: (flow(1.0), {"log_end": "5"}), "`log_end` must be the logarithm"),
    "log_end too early": (lambda: (flow(1.0), {"log_end": -800.0}), "`log_end` must be the logarithm"),
    "budget": (lambda: (flow(1.0), {"budget": 0}), "`budget` must be above zero"),
    "no budget": (lambda: (flow(1.0), {"budget": np.nan}), "`budget` must be one finite number"),
    "perturb": (lambda: (flow(1.0), {"perturb": 100.0}), "`perturb` must be at most"),
    "circling": (lambda: (anyhow(np.array([[0.0, -1.0], [1.0, 0.0]]), 5.0), {}), "periodic orbits are possible"),
    "ensemble": (lambda: (flow(1.0), {"tokens": af.initial.circle(3, rng=0, runs=2)}), "Take one run"),
    "too close": (lambda: (flow(1.0), {"tokens": CIRCLE(np.array([0.0, 1e-11, 1.0]))}), "too close to follow"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_served_is_refused_with_the_reason(name):
    make, sentence = REFUSED[name]
    model, options = make()
    tokens = options.pop("tokens", CIRCLE(np.array([0.0, 0.5, 2.0])))
    with pytest.raises(ValueError, match=sentence):
        af.coalesce(model, tokens, progress=False, **options)
