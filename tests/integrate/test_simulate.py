"""`simulate` as a whole: ensembles, observables, stops, failures, precision, compilation."""

import dataclasses
import os
import signal
import threading
import time

import jax
import jax.monitoring
import numpy as np
import pytest
from tests.helpers.systems import needs_posix

import attnflow as af
from attnflow.integrate import ensemble
from attnflow.integrate.plan import Plan, power_of_two
from attnflow.integrate.request import checked_request

IDENTITY = af.Head.identity
CIRCLE = af.SphereAttention(IDENTITY(2), af.Softmax(2.0))


def circle_tokens(n=6, **options):
    return af.initial.circle(n, **options)


def test_each_run_of_an_ensemble_is_the_same_alone_bit_for_bit():
    tokens = circle_tokens(rng=0, runs=5)
    times = np.linspace(0, 3, 4)

    together = af.simulate(CIRCLE, tokens, times)

    for index in range(5):
        alone = af.simulate(CIRCLE, tokens[index], times)
        np.testing.assert_array_equal(together.tokens[index], alone.tokens)


def test_the_memory_limit_changes_chunks_but_not_numbers():
    tokens = circle_tokens(rng=0, runs=40)

    roomy = af.simulate(CIRCLE, tokens, [0.0, 1.0], memory=1e9)
    tight = af.simulate(CIRCLE, tokens, [0.0, 1.0], memory=1e3)

    np.testing.assert_array_equal(roomy.tokens, tight.tokens)


def test_noise_of_a_run_does_not_depend_on_the_other_runs():
    flow = af.SphereAttention(IDENTITY(2), noise=af.Noise(kappa=5.0))
    tokens = circle_tokens(rng=0, runs=4)

    four = af.simulate(flow, tokens, [0.0, 1.0], rng=7)
    two = af.simulate(flow, tokens[:2], [0.0, 1.0], rng=7)
    other = af.simulate(flow, tokens[:2], [0.0, 1.0], rng=8)

    np.testing.assert_array_equal(four.final_tokens[:2], two.final_tokens)
    assert np.max(np.abs(two.final_tokens - other.final_tokens)) > 1e-3


def test_a_run_that_fails_does_not_change_the_others():
    """Unnormalised attention in R^1 runs to infinity in finite time from a large start."""
    flow = af.EuclideanAttention(IDENTITY(1), af.Unnormalised(1.0))
    tokens = np.array([[[0.1], [0.2]], [[3.0], [3.1]], [[-0.1], [0.1]]])

    run = af.simulate(flow, tokens, [0.0, 0.1, 0.2])

    np.testing.assert_array_equal(run.failed, [False, True, False])
    assert np.all(np.isfinite(run.tokens[[0, 2]]))
    assert np.all(np.isnan(run.tokens[1, -1]))
    assert "Of 3 runs 2 reached the end, 1 failed" in run.outcome
    assert "below the resolution of time" in run.outcome


def test_a_run_that_fails_returns_what_was_computed():
    """x' = e^{x^2} x has left every bound by the time integral_2^inf e^{-x^2}/x dx = 0.0019."""
    flow = af.EuclideanAttention(IDENTITY(1), af.Unnormalised(1.0))

    run = af.simulate(flow, [[2.0]], [0.0, 0.001, 0.0015, 1.0])

    assert run.failed
    np.testing.assert_allclose(run.time, [0.0, 0.001, 0.0015])
    assert np.all(np.isfinite(run.tokens))
    assert 0.0015 < float(run.final_time) < 0.0025
    assert run.outcome.startswith("Failed at t = 0.00")


def test_a_fixed_step_that_overflows_says_so():
    flow = af.EuclideanAttention(IDENTITY(1), af.Unnormalised(1.0))

    run = af.simulate(flow, [[3.0]], np.linspace(0, 1, 11), solver=af.Euler(0.1))

    assert run.failed
    assert "NaN or infinity" in run.outcome


def test_observables_are_kept_without_the_tokens():
    tokens = af.initial.sphere(12, 3, rng=1)
    flow = af.SphereAttention(IDENTITY(3), af.Softmax(1.0))
    times = np.linspace(0, 2, 5)
    observed = {
        "mean_cosine": af.observables.mean_cosine,
        "order": af.observables.order_parameter,
        "energy": af.observables.Energy(beta=1.0),
        "close": af.observables.ClosePairs(0.9),
        "diameter": af.observables.diameter,
        "longest": af.observables.largest_norm,
        "mean": lambda time, x: x.mean(axis=0) + time,
    }

    light = af.simulate(flow, tokens, times, observables=observed, keep_tokens=False)
    full = af.simulate(flow, tokens, times).tokens.values

    assert "tokens" not in light
    gram = np.einsum("tic,tjc->tij", full, full)
    others = ~np.eye(12, dtype=bool)
    close = {"atol": 1e-12, "rtol": 0}  # the same numbers summed in another order
    np.testing.assert_allclose(light["mean_cosine"], gram[:, others].mean(axis=1), **close)
    np.testing.assert_allclose(light["order"], np.linalg.norm(full.mean(axis=1), axis=1), **close)
    np.testing.assert_allclose(light["energy"], np.exp(gram - 1).mean(axis=(1, 2)), **close)
    np.testing.assert_allclose(light["close"], (gram[:, others] > 0.9).mean(axis=1), **close)
    distances = np.linalg.norm(full[:, :, None] - full[:, None], axis=-1)
    np.testing.assert_allclose(light["diameter"], distances.max(axis=(1, 2)), **close)
    np.testing.assert_allclose(light["longest"], 1.0, **close)
    np.testing.assert_allclose(light["mean"], full.mean(axis=1) + times[:, None], **close)


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        (af.Clustered(1e-2), "one cluster within 0.01"),
        (af.Settled(1e-6), "settled, no token faster than 1e-06"),
        ([af.Settled(1e-12), af.Clustered(1e-1)], "one cluster within 0.1"),
    ],
)
def test_a_stop_ends_the_run_early_with_a_sentence(stop, words):
    tokens = af.initial.hemisphere(8, 3, rng=0)
    flow = af.SphereAttention(IDENTITY(3), af.Softmax(1.0))

    run = af.simulate(flow, tokens, np.linspace(0, 1000, 1001), stop=stop)

    assert words in run.outcome
    assert 1 < float(run.final_time) < 100
    assert not run.failed
    assert float(run.time[-1]) <= float(run.final_time)


def test_clustered_counts_clusters():
    """Two antipodal caps stay apart for ever at this beta: two clusters, never one."""
    angles = np.array([0.0, 0.1, 0.2, np.pi, np.pi + 0.1])
    flow = af.SphereAttention(IDENTITY(2), af.Softmax(30.0))

    two = af.simulate(flow, af.initial.on_circle(angles), [0.0, 50.0], stop=af.Clustered(1e-3, count=2))
    one = af.simulate(flow, af.initial.on_circle(angles), [0.0, 50.0], stop=af.Clustered(1e-3))

    assert "at most 2 clusters" in two.outcome
    assert one.outcome.startswith("Reached t = 50")


def test_diverged_stops_a_run_with_growing_tokens():
    run = af.simulate(af.EuclideanAttention(IDENTITY(2)), np.eye(2), [0.0, 100.0], stop=af.Diverged(1e3))

    assert "diverged" in run.outcome
    assert 1e3 < np.linalg.norm(run.final_tokens, axis=-1).max() < 1e5


def test_the_budget_returns_what_was_computed_and_resuming_gives_the_rest():
    times = np.linspace(0, 1e6, 10001)
    solver = af.Euler(0.05)

    run = af.simulate(CIRCLE, circle_tokens(rng=0), times, solver=solver, budget=2.0)

    assert "time budget" in run.outcome
    assert 1 < run.sizes["time"] < 10001
    rest = times[run.sizes["time"] :][:3]
    resumed = af.simulate(CIRCLE, run.final_tokens.values, [float(run.final_time), *rest], solver=solver)
    assert resumed.outcome.startswith("Reached")


class SlowSteps:
    """A clock that only compiled steps advance, by `seconds` each, in place of the wall clock."""

    def __init__(self, monkeypatch, seconds):
        monkeypatch.setenv("ATTNFLOW_NATIVE", "0")
        self.now, self.longest_call, compiled = 0.0, 0, ensemble.advance

        def advance(task, cursors, *others):
            after = compiled(task, cursors, *others)
            made = int(np.sum(after[0].accepted + after[0].rejected - cursors.accepted - cursors.rejected))
            self.now, self.longest_call = self.now + seconds * made, max(self.longest_call, made)
            return after

        monkeypatch.setattr(ensemble, "advance", advance)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.mark.parametrize("solver", [af.Euler(0.01), af.Adaptive(rtol=1e-12)])
@pytest.mark.parametrize("seconds", [1e-3, 0.2, 5.8, 12.0, 30.0])
def test_a_run_ends_within_a_second_of_its_budget_or_after_its_first_step(seconds, solver, monkeypatch):
    clock = SlowSteps(monkeypatch, seconds)

    run = af.simulate(CIRCLE, circle_tokens(rng=0), [0.0, 1e6], solver=solver, budget=20.0)

    assert "time budget" in run.outcome
    assert clock.now <= max(21, seconds)
    assert clock.now + seconds > 20


def test_a_slow_compilation_is_not_taken_for_a_slow_step(monkeypatch):
    """Twelve of twenty seconds of compilation leave time for eight steps of one second."""
    clock = SlowSteps(monkeypatch, 1.0)
    calls, advance = [], ensemble.advance

    def slow_first_call(*arguments):
        clock.now += 0.0 if calls else 12.0
        calls.append(arguments)
        return advance(*arguments)

    monkeypatch.setattr(ensemble, "advance", slow_first_call)
    run = af.simulate(CIRCLE, circle_tokens(rng=0), [0.0, 1e6], solver=af.Euler(0.01), budget=20.0)

    assert 8 <= int(run.steps) <= 9


def test_short_steps_share_compiled_calls(monkeypatch):
    clock = SlowSteps(monkeypatch, 1e-3)

    af.simulate(CIRCLE, circle_tokens(rng=0), [0.0, 20.0], solver=af.Euler(0.01))

    assert 200 <= clock.longest_call <= 400  # 0.3 s of 1 ms


def test_few_runs_of_many_tokens_share_a_compiled_call():
    many, few = (af.initial.sphere(n, 2, rng=0, runs=64) for n in (4000, 8))
    plans = [Plan.of(checked_request(CIRCLE, tokens, [0.0, 1.0])) for tokens in (many, few)]

    assert [plan.runs_per_call for plan in plans] == [1, power_of_two(-(-64 // (8 * os.cpu_count())))]


def test_runs_of_many_heads_share_fewer_calls_than_runs_of_one(monkeypatch):
    """With room for 2^20 pairs of 512 tokens in R^2, one head allows two runs a call, and two heads one."""
    monkeypatch.setattr("attnflow.integrate.plan.MAX_PAIRS_PER_CALL", 2**20)
    tokens = af.initial.sphere(512, 2, rng=0, runs=512)
    flows = [af.SphereAttention([af.Head.identity(2)] * count) for count in (1, 2)]
    plans = [Plan.of(checked_request(flow, tokens, [0.0, 1.0])) for flow in flows]

    assert [plan.runs_per_call for plan in plans] == [2, 1]


def test_no_run_attempts_more_than_max_steps():
    """Half of the runs need more than `limit` attempts, whatever runs share their compiled calls."""
    tokens = circle_tokens(rng=0, runs=64)
    attempts = lambda run: run.steps.values + run.rejected_steps.values
    needed = attempts(af.simulate(CIRCLE, tokens, [0.0, 3.0]))
    limit = int(np.median(needed))

    limited = af.simulate(CIRCLE, tokens, [0.0, 3.0], solver=af.Adaptive(max_steps=limit))
    alone = af.simulate(CIRCLE, tokens[0], [0.0, 3.0], solver=af.Adaptive(max_steps=5))

    np.testing.assert_array_equal(limited.failed, needed > limit)
    np.testing.assert_array_equal(attempts(limited), np.minimum(needed, limit))
    assert attempts(alone) == 5
    assert "largest number of steps" in alone.outcome


def test_progress_between_two_saving_times_follows_the_time(monkeypatch):
    SlowSteps(monkeypatch, 0.3)
    heard = []

    af.simulate(
        CIRCLE, circle_tokens(rng=0), [0.0, 1.0], solver=af.Euler(0.1), progress=lambda *word: heard.append(word)
    )

    np.testing.assert_allclose([fraction for fraction, _ in heard], np.arange(1, 11) / 10)


def test_progress_is_reported_and_reaches_one():
    heard = []

    af.simulate(CIRCLE, circle_tokens(rng=0, runs=3), np.linspace(0, 5, 6), progress=lambda *word: heard.append(word))

    fractions = [fraction for fraction, _ in heard]
    assert fractions == sorted(fractions)
    assert fractions[-1] == pytest.approx(1.0)
    assert all("t = " in sentence for _, sentence in heard)


@needs_posix
def test_an_interruption_keeps_what_was_computed():
    """Ctrl-C arrives as a signal in the main thread while workers compute."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job's shell has it ignored
    threading.Timer(4.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        run = af.simulate(CIRCLE, circle_tokens(rng=0), np.linspace(0, 1e7, 1001), solver=af.Euler(0.01), budget=60.0)
    finally:
        signal.signal(signal.SIGINT, before)

    assert "interrupted" in run.outcome
    assert np.all(np.isfinite(run.final_tokens))


def test_times_are_interpolated_and_do_not_change_the_steps():
    tokens = circle_tokens(rng=0)

    few = af.simulate(CIRCLE, tokens, [0.0, 4.0])
    many = af.simulate(CIRCLE, tokens, np.linspace(0, 4, 301))

    assert int(few.steps) == int(many.steps)
    np.testing.assert_array_equal(few.final_tokens, many.final_tokens)
    fine = af.simulate(CIRCLE, tokens, np.linspace(0, 4, 301), solver=af.Adaptive(rtol=1e-12, atol=1e-13, order=8))
    np.testing.assert_allclose(many.tokens, fine.tokens, atol=1e-6)  # the interpolant is one order below the step


class Compilations:
    """Counts what XLA compiles while it is entered."""

    def __enter__(self):
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self.hear)
        return self

    def hear(self, event, duration, **_):
        del duration
        self.count += "backend_compile" in event

    def __exit__(self, *_):
        jax.monitoring.unregister_event_duration_listener(self.hear)


def test_changing_beta_weights_times_and_tolerances_compiles_nothing(monkeypatch):
    monkeypatch.setenv("ATTNFLOW_NATIVE", "0")
    tokens = circle_tokens(rng=0)

    def go(beta, value, end, rtol, tokens):
        head = af.Head.bilinear(np.eye(2), value)
        solver = af.Adaptive(rtol=rtol, atol=1e-9)
        times = np.linspace(0, end, 7)
        return af.simulate(
            af.SphereAttention(head, af.Softmax(beta)), tokens, times, solver=solver, stop=af.Settled(1e-20 * end)
        )

    with Compilations() as first:
        go(1.0, np.eye(2), 1.0, 1e-6, tokens)
    with Compilations() as again:
        go(9.0, np.diag([2.0, -1.0]), 5.0, 1e-8, tokens[::-1])
    with Compilations() as other_size:
        go(1.0, np.eye(2), 1.0, 1e-6, tokens[:-1])

    assert first.count > 0
    assert again.count == 0
    assert other_size.count > 0  # the counter does count


def test_native_runs_compile_nothing_for_any_number_of_tokens():
    with Compilations() as compilations:
        for n in (41, 42):
            assert af.simulate(CIRCLE, circle_tokens(n, rng=0), [0.0, 1.0]).attrs["computed_by"] == "native runs"

    assert compilations.count == 0


def test_jax_keeps_its_global_precision():
    af.simulate(CIRCLE, circle_tokens(rng=0), [0.0, 1.0])

    assert jax.numpy.ones(1).dtype == np.float32
    assert not jax.config.jax_enable_x64


def test_float32_is_an_option_and_agrees_to_its_precision():
    tokens = circle_tokens(rng=0)

    single = af.simulate(CIRCLE, tokens, [0.0, 1.0], dtype="float32", solver=af.Adaptive(rtol=1e-5, atol=1e-6))
    double = af.simulate(CIRCLE, tokens, [0.0, 1.0])

    assert single.tokens.dtype == np.float32
    assert double.tokens.dtype == np.float64
    np.testing.assert_allclose(single.final_tokens, double.final_tokens, atol=1e-4)


@pytest.mark.parametrize("solver", [af.Adaptive(order=8), af.Adaptive(stiff=True), af.RK4(1e-3)])
def test_solvers_agree(solver):
    tokens = circle_tokens(rng=0)

    run = af.simulate(CIRCLE, tokens, [0.0, 0.55, 2.0], solver=solver)

    expected = af.simulate(CIRCLE, tokens, [0.0, 0.55, 2.0], solver=af.Adaptive(rtol=1e-12, atol=1e-13, order=8))
    np.testing.assert_allclose(run.tokens, expected.tokens, atol=1e-6)


def test_hardmax_slides_along_a_switch_instead_of_stalling():
    """Two frozen tokens of equal score: the field jumps at their bisector and points to it from both sides."""
    tokens = np.array([[1.0, 1.0], [1.0, -1.0], [0.3, 0.2]])
    head = af.Head(query=[[0.0, -1.0]], key=[[0.0, 1.0]], value=np.eye(2))
    flow = af.EuclideanAttention(
        head,
        af.Hardmax(),
        af.masks.boolean(np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]]) > 0),
        frozen=[True, True, False],
    )

    run = af.simulate(flow, tokens, [0.0, 1.0])

    # It slides with the mean of (1, 1) and (1, -1): the second coordinate stays near zero.
    assert run.outcome.startswith("Reached")
    np.testing.assert_allclose(run.final_tokens[2], [1.3, 0.0], atol=1e-3)
    assert int(run.steps) < 1_000_000


@pytest.mark.parametrize("step", [0.05, 0.1, 0.2])
def test_layers_switch_weights_at_the_same_layer_whatever_is_saved(step):
    redrawn = af.EuclideanAttention(af.RedrawnHead(2, 3 * step, seed=1))
    piecewise = af.EuclideanAttention(
        af.PiecewiseHead([10 * step], [IDENTITY(2), af.Head.bilinear(np.eye(2), -np.eye(2))])
    )
    for flow in (redrawn, piecewise):
        few = af.simulate(flow, np.eye(2), [0.0, 30 * step], solver=af.Layers(step))
        many = af.simulate(flow, np.eye(2), np.arange(31) * step, solver=af.Layers(step))
        np.testing.assert_allclose(few.final_tokens, many.final_tokens, rtol=1e-12, atol=1e-14)


def test_layers_with_a_switch_are_the_plain_recursion():
    flow = af.EuclideanAttention(af.PiecewiseHead([1.0], [IDENTITY(1), af.Head.bilinear(np.eye(1), -np.eye(1))]))

    run = af.simulate(flow, [[1.0]], [0.0, 2.0], solver=af.Layers(0.1))

    np.testing.assert_allclose(run.final_tokens, [[1.1**10 * 0.9**10]], rtol=1e-13)


def test_single_precision_and_hidden_tokens_survive_extreme_score_scales():
    tokens = np.random.default_rng(0).normal(size=(5, 2))
    shrinking = af.RescaledAttention(af.Head.bilinear(np.eye(2), -0.01 * np.eye(2)), mask=af.masks.causal)

    single = af.simulate(af.RescaledAttention(IDENTITY(2)), tokens, [0.0, 20.0, 60.0], dtype="float32")
    far = af.simulate(shrinking, tokens, [0.0, 40_000.0])

    assert single.outcome.startswith("Reached t = 60")
    assert far.outcome.startswith("Reached t = 40000")


def test_one_run_taken_out_of_a_noisy_ensemble_can_be_rerun():
    flow = af.SphereAttention(IDENTITY(2), noise=af.Noise(kappa=5.0))
    many = af.simulate(flow, circle_tokens(rng=0, runs=3), [0.0, 0.5], rng=7)

    again = af.rerun(many.isel(run=1))

    np.testing.assert_array_equal(again.tokens, many.tokens[1])


def test_an_observable_cannot_have_the_name_of_a_variable_of_the_result():
    tokens = af.initial.sphere(3, 3, rng=0, runs=2)
    flow = af.SphereAttention(af.Head.identity(3), normalisation=af.Pre())
    run = af.simulate(flow, tokens, [0.0, 0.1], progress=False)
    for name in {*run.variables, *run.dims}:
        with pytest.raises(ValueError, match="the result has one of its own"):
            af.simulate(flow, tokens, [0.0, 0.1], observables={name: lambda time, tokens: time}, progress=False)


def test_a_whole_number_observed_is_nan_where_a_run_has_stopped():
    flow = af.SphereAttention(af.Head.identity(3))
    tokens = np.stack([af.initial.equiangular(4, 4, 0.9)[:, :3], af.initial.sphere(4, 3, rng=1)])
    tokens /= np.linalg.norm(tokens, axis=-1, keepdims=True)
    seen = {"count": lambda time, tokens: jax.numpy.sum(tokens[:, 0] > -2)}
    run = af.simulate(flow, tokens, np.linspace(0, 3, 7), observables=seen, stop=af.Clustered(0.5), progress=False)
    has_ended = run.time.values[None] > run.final_time.values[:, None]
    assert has_ended.any()
    np.testing.assert_array_equal(run["count"].values, np.where(has_ended, np.nan, 4.0))


def test_workers_share_the_memory(monkeypatch):
    """Room for all runs in one call of one worker is room for a quarter of them where four work at once."""
    monkeypatch.setattr("attnflow.integrate.plan.MAX_PAIRS_PER_CALL", 2**40)
    tokens = af.initial.sphere(8, 2, rng=0, runs=1024)
    request = checked_request(CIRCLE, tokens, [0.0, 1.0], memory=2e5, keep_tokens=False)
    request = dataclasses.replace(request, runs_per_call=256)
    calls = []
    for workers in (1, 4):
        monkeypatch.setattr(os, "cpu_count", lambda workers=workers: workers)
        calls.append(Plan.of(request).runs_per_call)
    assert calls == [64, 16]
