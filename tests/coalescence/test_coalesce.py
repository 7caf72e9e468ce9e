"""`coalesce` against the plain solver, exact merge times and the energy levels of plateaus; its limits and messages."""

import numpy as np
import pytest
from tests.helpers.coalescing import CIRCLE, exact_log_time, flow

import attnflow as af


def flow_with_value(value, beta):
    return af.SphereAttention(af.Head.bilinear(np.eye(len(value)), value), af.Softmax(beta))


@pytest.mark.parametrize("beta", [80.0, 200.0, 800.0])
def test_a_pair_merges_at_the_exact_time(beta):
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
def test_tokens_agree_with_the_plain_solver(model):
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
def test_accelerations_change_no_merge_beyond_the_stated_error(model):
    """Each step and merge may be wrong by rtol or by merge; beta magnifies that in log t, and merges add up."""
    tokens = af.initial.sphere(8, model.dimension, rng=5)
    quick = af.coalesce(model, tokens, progress=False)
    exact = af.coalesce(model, tokens, shortcuts=False, rtol=1e-7, progress=False)
    assert int(exact.quadrature_merges) == 0 < int(quick.quadrature_merges)
    assert 0 < float(quick.quadrature_error) <= 2e-6  # rtol times the widest gap
    np.testing.assert_array_equal(quick["first"], exact["first"])
    assert_times_are_near(quick, exact, 60.0, 1e-6)
    np.testing.assert_allclose(quick.tokens[-1], exact.tokens[-1], atol=1e-5)


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
    alone = np.append(found.log_duration.values[1:], np.inf) > 5  # no other cluster moves as these merge
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


def test_merged_clusters_are_named_by_their_smallest_tokens():
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
    assert "all forces cancel" in resting.outcome
    assert int(resting.clusters[-1]) == len(tokens)
    left = af.coalesce(model, tokens, perturb=1e-4, rng=0, progress=False)
    assert int(left.clusters[-1]) == 1


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        (flow_with_value(-np.eye(2), 5.0), af.initial.circle(5, rng=0)),
        (flow(-3.0), af.initial.circle(5, rng=0)),
        (flow_with_value(np.diag([2.0, 1.0]), 20.0), af.initial.circle(8, rng=0)),
    ],
    ids=["V = -I", "beta < 0", "diagonal V"],
)
def test_a_stable_equilibrium_of_several_clusters_ends_the_run(model, tokens):
    """Velocities there are below the chatter of steps at the tolerance: 1e-5 of gaps of order one."""
    found = af.coalesce(model, tokens, max_steps=2000, progress=False)
    assert "no cluster moved" in found.outcome
    assert "perturb" not in found.outcome
    last = found.tokens[-1].values
    assert int(found.clusters[-1]) > 1
    weights = np.exp(float(model.attention.beta) * last @ last.T)
    pulls = (weights / weights.sum(axis=1, keepdims=True)) @ last @ np.asarray(model.heads[0].value_matrix).T
    assert np.abs(pulls - np.sum(pulls * last, axis=1, keepdims=True) * last).max() < 1e-4


def test_a_plateau_with_v_not_scalar_is_not_called_a_limit():
    """In the plane diag(1, 1, 0.2) is I, and clusters merge at times that rounding of V x hides."""
    tokens = np.pad(af.initial.circle(8, rng=3), ((0, 0), (0, 1)))
    found = af.coalesce(flow_with_value(np.diag([1.0, 1.0, 0.2]), 20.0), tokens, budget=20, progress=False)
    assert int(found.clusters[-1]) > 1
    assert "may be a metastable state: V is not a multiple of I" in found.outcome
    assert int(af.coalesce(flow_with_value(np.eye(3), 20.0), tokens, progress=False).clusters[-1]) == 1


@pytest.mark.parametrize("beta", [2.0, 40.0, 300.0])
def test_nearly_antipodal_tokens_merge(beta):
    found = af.coalesce(flow(beta), CIRCLE(np.array([0.0, np.pi - 1e-8])), progress=False)
    assert int(found.clusters[-1]) == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("beta", [1500.0, 1e5])
def test_times_beyond_floats_give_no_warning(beta):
    found = af.coalesce(flow(beta, 3), af.initial.sphere(25, 3, rng=1), progress=False)
    assert int(found.clusters[-1]) == 1
    assert float(found.log_time[-1]) > beta


@pytest.mark.parametrize("beta", [1e9, 1e15, 1e20])
def test_scores_beyond_their_rounding_are_refused(beta):
    with pytest.raises(ValueError, match="must be at most 1e\\+08 for `coalesce`, but it is"):
        af.coalesce(flow(beta), af.initial.circle(12, rng=0), progress=False)


def test_the_largest_scores_give_one_cluster_at_the_time_of_the_last_angle():
    """To leading order log t = beta (1 - cos angle); the first two merge at the angle 0.25."""
    found = af.coalesce(flow(1e8), CIRCLE(np.array([0.0, 0.5, 2.0])), progress=False)
    assert found.merge_log_time.values / 1e8 == pytest.approx([1 - np.cos(0.5), 1 - np.cos(1.75)], rel=1e-5)


def test_an_interrupt_in_the_callback_keeps_the_merges_so_far():
    def interrupt(share, words):
        if share > 0.3:
            raise KeyboardInterrupt

    found = af.coalesce(flow(50.0, 3), af.initial.sphere(12, 3, rng=0), progress=interrupt)
    assert found.outcome.startswith("Stopped at log t = ")
    assert "interrupted" in found.outcome
    assert found.sizes["merge"] >= 3


def test_recorded_tokens_give_the_same_run_bit_for_bit():
    first = af.coalesce(flow(50.0, 3), af.initial.sphere(40, 3, rng=2), progress=False)
    again = af.coalesce(flow(50.0, 3), first.initial_tokens.values, progress=False)
    np.testing.assert_array_equal(first.merge_log_time, again.merge_log_time)
    np.testing.assert_array_equal(first.tokens, again.tokens)


def test_without_forces_all_tokens_are_at_rest():
    assert af.coalesce(flow_with_value(np.zeros((2, 2)), 5.0), CIRCLE(np.arange(3.0)), progress=False).outcome == (
        "At rest with 3 clusters from the start: all forces cancel."
    )


def test_the_outcome_names_one_cluster_or_rest_from_the_start():
    found = af.coalesce(flow(5.0), CIRCLE(np.ones(4)), progress=False)
    assert found.clusters.values.tolist() == [1]
    assert found.sizes["merge"] == 0
    assert found.outcome == "All 4 tokens coincide from the start; `perturb=1e-6` separates them."
    assert af.coalesce(flow(5.0), CIRCLE(np.ones(1)), progress=False).outcome.startswith("One token from the start")
    points = af.coalesce(flow(5.0, 1), np.array([[1.0], [-1.0]]), progress=False).outcome
    assert points.startswith("At rest with 2 clusters from the start")
    assert "perturb" not in points


def test_a_run_can_end_before_anything_happens():
    found = af.coalesce(flow(9.0), af.initial.circle(4, rng=0), log_end=-50.0, progress=False)
    assert float(found.log_time[-1]) == pytest.approx(-50.0)
    np.testing.assert_allclose(found.tokens[-1], found.initial_tokens, atol=1e-15)


def test_the_outcome_says_that_one_cluster_still_moves():
    found = af.coalesce(
        flow_with_value(np.diag([2.0, 1.0]), 1.0), CIRCLE(np.array([0.3, 0.8])), log_end=9.0, progress=False
    )
    assert int(found.clusters[-1]) == 1
    assert "is not integrated" in found.outcome


def test_beta_zero_is_served_without_a_warning():
    """Kuramoto: the angle th of two has th' = -sin(th), so that tan(th / 2) falls as e^-t."""
    found = af.coalesce(flow(0.0), CIRCLE(np.array([0.0, 1.2])), progress=False)
    exact = np.log(np.tan(0.6) / np.tan(np.arcsin(5e-7)))
    assert np.exp(float(found.merge_log_time[0])) == pytest.approx(exact, abs=0.02)  # 0.01 rtol / merge, of two


def test_the_outcome_has_the_time_of_the_last_merge():
    found = af.coalesce(flow(3.0), CIRCLE(np.array([0.0, 0.7])), rtol=1e-8, progress=False)
    last = float(found.merge_log_time[-1])
    assert last == pytest.approx(exact_log_time(0.7, 3.0), abs=1e-4)  # 0.01 rtol / merge of t
    assert f"One cluster since log t = {last:.6g}" in found.outcome


def test_max_steps_and_budget_end_a_run_with_the_merges_so_far():
    short = af.coalesce(flow(100.0), af.initial.circle(20, rng=0), max_steps=5, progress=False)
    assert "the largest number of steps was taken" in short.outcome
    brief = af.coalesce(flow(100.0), af.initial.circle(300, rng=0), budget=0.05, progress=False)
    assert "time budget" in brief.outcome
    heard = []
    af.coalesce(flow(9.0), af.initial.circle(5, rng=0), progress=lambda *word: heard.append(word))
    assert heard[-1][0] == pytest.approx(1.0)


def test_without_the_native_kernel_merge_times_are_the_same(monkeypatch):
    tokens = af.initial.circle(8, rng=2)
    exact = af.coalesce(flow(40.0), tokens, shortcuts=False, rtol=1e-9, progress=False)
    assert_times_are_near(af.coalesce(flow(40.0), tokens, progress=False), exact, 40.0, 1e-6)
    monkeypatch.setenv("ATTNFLOW_NATIVE", "0")
    plain = af.coalesce(flow(40.0), tokens, progress=False)
    assert int(plain.subcycled_steps) == 0
    assert_times_are_near(plain, exact, 40.0, 1e-6)
    monkeypatch.delenv("ATTNFLOW_NATIVE")
    monkeypatch.setattr("attnflow.coalescence.integrator.is_available", lambda field: False)
    native = af.coalesce(flow(40.0), tokens, progress=False)
    np.testing.assert_allclose(native.merge_log_time, plain.merge_log_time, atol=1e-6)  # other rounding, other steps


REFUSED = {
    "noise": (lambda: (flow(1.0, noise=af.Noise(5.0)), {}), "noise would separate"),
    "changing weights": (lambda: (af.SphereAttention(af.RedrawnHead(2, 1.0, 0)), {}), "constant weights"),
    "several heads": (lambda: (af.SphereAttention([af.Head.identity(2)] * 2), {}), "one head"),
    "causal": (lambda: (flow(1.0, mask=af.masks.causal), {}), "see different tokens.*Use `stream`"),
    "window": (lambda: (flow(1.0, mask=af.masks.window(2)), {}), "Use `simulate`"),
    "R^d": (lambda: (af.EuclideanAttention(af.Head.identity(2)), {}), "on the sphere"),
    "hardmax": (lambda: (af.SphereAttention(af.Head.identity(2), af.Hardmax()), {}), "softmax or unnormalised"),
    "frozen": (lambda: (flow(1.0, frozen=[True, False, False]), {}), "frozen tokens"),
    "wide merge": (lambda: (flow(1.0), {"merge": 0.9}), "below the smallest gap"),
    "narrow merge": (lambda: (flow(1.0), {"merge": 1e-14}), "smaller gaps are lost in rounding"),
    "rtol": (lambda: (flow(1.0), {"rtol": 0.0}), "`rtol` must be above zero"),
    "coarse rtol": (lambda: (flow(1.0), {"rtol": 10.0}), "`rtol` must lie between"),
    "fine rtol": (lambda: (flow(1.0), {"rtol": 1e-16}), "`rtol` must lie between"),
    "log_end": (lambda: (flow(1.0), {"log_end": np.nan}), "`log_end` must be the logarithm"),
    "log_end in words": (lambda: (flow(1.0), {"log_end": "5"}), "`log_end` must be the logarithm"),
    "log_end too early": (lambda: (flow(1.0), {"log_end": -800.0}), "`log_end` must be the logarithm"),
    "budget": (lambda: (flow(1.0), {"budget": 0}), "`budget` must be above zero"),
    "no budget": (lambda: (flow(1.0), {"budget": np.nan}), "`budget` must be one finite number"),
    "perturb": (lambda: (flow(1.0), {"perturb": 100.0}), "`perturb` must be at most"),
    "circling": (
        lambda: (flow_with_value(np.array([[0.0, -1.0], [1.0, 0.0]]), 5.0), {}),
        "periodic orbits are possible",
    ),
    "ensemble": (lambda: (flow(1.0), {"tokens": af.initial.circle(3, rng=0, runs=2)}), "Take one run"),
    "too close": (lambda: (flow(1.0), {"tokens": CIRCLE(np.array([0.0, 1e-11, 1.0]))}), "too close to resolve"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_input_is_refused_with_the_reason(name):
    make, sentence = REFUSED[name]
    model, options = make()
    tokens = options.pop("tokens", CIRCLE(np.array([0.0, 0.5, 2.0])))
    with pytest.raises(ValueError, match=sentence):
        af.coalesce(model, tokens, progress=False, **options)


@pytest.mark.parametrize("limits", ["{}", '{"log_end": 1.0}', '{"log_end": 1.0, "shortcuts": true, "max_steps": "5"}'])
def test_a_record_without_its_limits_is_refused_with_a_sentence(limits):
    run = af.coalesce(
        af.SphereAttention(af.Head.identity(2), af.Softmax(20.0)), CIRCLE(np.array([0.0, 0.5, 2.0])), progress=False
    )
    with pytest.raises(ValueError, match=r"must be (log_end, shortcuts and max_steps|the limits)"):
        af.rerun(run.assign_attrs(limits=limits))
