"""The status of a run: one number with a name in every kind of dataset, and one sentence."""

import numpy as np
import pytest
from tests.helpers.coalescing import CIRCLE, flow

import attnflow as af
from attnflow.results.outcome import CAUSES, early_ending, simulation_sentence, status_variables
from attnflow.results.provenance import ResultKind
from attnflow.solvers.status import Status

CAUSAL = af.SphereAttention(af.Head.identity(2), af.Softmax(9.0), af.masks.causal)


def interrupt(share, words):
    raise KeyboardInterrupt


def coalesced(n=6, **options):
    return af.coalesce(flow(20.0, 3), af.initial.sphere(n, 3, rng=0), **{"progress": False} | options)


def simulated(**options):
    start, times = af.initial.circle(5, rng=0), np.linspace(0, 1, 3)
    return af.simulate(flow(2.0), start, times, progress=False, **options)


RUNS = {
    "one cluster": (lambda: coalesced(), Status.ONE_CLUSTER),
    "one cluster from the start": (lambda: coalesced(n=1), Status.ONE_CLUSTER),
    "at rest": (lambda: af.coalesce(flow(5.0, 1), np.array([[1.0], [-1.0]]), progress=False), Status.AT_REST),
    "end time": (lambda: coalesced(log_end=-3.0), Status.REACHED),
    "steps": (lambda: coalesced(max_steps=3), Status.OUT_OF_STEPS),
    "seconds": (lambda: coalesced(n=60, budget=1e-9), Status.OUT_OF_TIME),
    "interrupt": (lambda: coalesced(progress=interrupt), Status.INTERRUPTED),
    "simulate": (lambda: simulated(), Status.REACHED),
    "simulate, steps": (lambda: simulated(solver=af.Adaptive(max_steps=1)), Status.OUT_OF_STEPS),
    "stream": (lambda: af.stream(CAUSAL, CIRCLE(np.arange(2.0)), [0.0, 1.0], progress=False), Status.REACHED),
    "stream, interrupt": (
        lambda: af.stream(CAUSAL, CIRCLE(np.arange(2.0)), [0.0, 1.0], progress=interrupt),
        Status.INTERRUPTED,
    ),
}


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
@pytest.mark.parametrize("name", RUNS)
def test_a_dataset_and_its_file_have_the_status_by_number_and_by_name(name, suffix, tmp_path):
    make, expected = RUNS[name]
    run = make()
    for one in (run, af.load(af.save(run, tmp_path / f"run{suffix}"))):
        meanings = dict(zip(one.status.flag_values, one.status.flag_meanings.split(), strict=True))
        assert int(one.status) == expected
        assert meanings[int(one.status)] == expected.name.lower()
        assert bool(one.failed) == (expected == Status.OUT_OF_STEPS)


@pytest.mark.parametrize(
    ("where", "error", "expected"),
    [
        ("fast_tokens", FloatingPointError, Status.NOT_FINITE),
        ("fast_tokens", OverflowError, Status.NOT_FINITE),
        ("fast_tokens", KeyboardInterrupt, Status.INTERRUPTED),
    ],
)
def test_a_failure_of_a_step_ends_the_run_with_its_status(where, error, expected, monkeypatch):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(f"attnflow.coalescence.integrator.{where}", fail)
    run = coalesced(n=12)
    assert int(run.status) == expected
    assert CAUSES[ResultKind.COALESCENCE][expected] in run.outcome


def test_steps_that_are_lost_in_rounding_end_the_run_with_their_status(monkeypatch):
    monkeypatch.setattr("attnflow.coalescence.multirate.relative_errors", lambda result, scales: np.inf * scales)
    run = coalesced()
    assert int(run.status) == Status.STEP_TOO_SMALL
    assert run.outcome.startswith("Failed at the start with 6 clusters after 0 steps: steps became too short")


def test_runs_of_an_ensemble_have_a_status_each_and_stops_have_names():
    start = np.stack([CIRCLE(np.zeros(3)), CIRCLE(np.arange(3.0))])
    run = af.simulate(flow(2.0), start, [0.0, 0.5], stop=af.Settled(1e-9), progress=False)
    meanings = dict(zip(run.status.flag_values, run.status.flag_meanings.split(), strict=True))
    assert run.status.dims == run.failed.dims == ("run",)
    assert [meanings[int(one)] for one in run.status] == ["stop_0", "reached"]


@pytest.mark.parametrize("kind", ResultKind)
def test_every_cause_gives_a_sentence(kind):
    for status, cause in CAUSES[kind].items():
        sentence = early_ending(kind, status, "at the middle", ", after 3 steps")
        has_failed = bool(status_variables(np.array(status))["failed"])
        assert sentence == f"{'Failed' if has_failed else 'Stopped'} at the middle: {cause}, after 3 steps."


def test_a_run_that_reached_its_end_did_not_stop():
    assert simulation_sentence(Status.REACHED, 2.0, 1) == "Reached t = 2, after 1 step."
    assert simulation_sentence(Status.INTERRUPTED, 2.0, 3) == "Stopped at t = 2: interrupted, after 3 steps."
