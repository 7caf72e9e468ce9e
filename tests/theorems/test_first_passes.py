"""The runs of an ensemble are integrated again together, with the verdicts that each has alone."""

import numpy as np
import pytest

import attnflow as af
from attnflow.results.provenance import flow_of
from attnflow.theorems import interval_integration
from attnflow.theorems.first_passes import first_passes
from attnflow.theorems.interval_integration import attempts_of, coarser, recorded
from attnflow.theorems.recorded_equation import agreement, path_of, stride_of

TIMES = np.linspace(0, 20, 41)
SPHERE = af.SphereAttention(af.Head.identity(3), af.Softmax(2.0))
FLOWS = {
    "sphere": (SPHERE, af.initial.sphere(6, 3, rng=0, runs=3), None),
    "rescaled": (af.RescaledAttention(af.Head.identity(2)), af.initial.box(9, 2, rng=0).reshape(3, 3, 2), None),
    "root of time": (
        af.SphereAttention(af.Head.identity(3), af.Softmax(2.0), normalisation=af.Sqrt()),
        af.initial.sphere(6, 3, rng=1, runs=3),
        None,
    ),
    "fixed steps": (SPHERE, af.initial.sphere(6, 3, rng=2, runs=3), af.RK4(0.05)),
}


def ensemble_of(name):
    flow, tokens, solver = FLOWS[name]
    return af.simulate(flow, tokens, TIMES, solver=solver, progress=False)


def members_of(run):
    return [run.isel(run=index) for index in range(run.sizes["run"])]


@pytest.mark.parametrize("name", FLOWS)
def test_states_are_those_that_each_run_reaches_alone(name):
    run = ensemble_of(name)
    flow = flow_of(run)
    for member, reached in zip(members_of(run), first_passes(flow, members_of(run)), strict=True):
        path, alone = path_of(flow, member), (coarser(flow, member) or recorded(flow, member)).integrate
        assert reached.shape == path.states[1:].shape
        stride = stride_of(path, attempts_of(member))
        for begun in range(0, len(TIMES) - 1, stride):
            times = path.times[begun : begun + stride + 1]
            expected = alone(path.states[begun], times).states
            np.testing.assert_allclose(reached[begun : begun + len(times) - 1], expected, atol=1e-11, rtol=1e-9)


def test_one_integration_serves_all_runs(monkeypatch):
    run, calls = ensemble_of("sphere"), []
    advance = interval_integration.advance
    monkeypatch.setattr(interval_integration, "advance", lambda *given: calls.append(1) or advance(*given))
    found = af.verify(run, only=["single-cluster"])[0]
    assert {one.hypotheses[0].holds for one in found.verdicts} == {True}
    assert len(calls) <= 3 * 3  # three intervals of each run with its own solver


def test_runs_that_do_not_follow_the_flow_are_found_among_others():
    run = ensemble_of("sphere")
    tokens = run.tokens.values.copy()
    tokens[1, 20] = tokens[1, 10]  # of another time
    tokens[2, 15:25] = np.nan  # lost
    forged = run.assign(tokens=run.tokens.copy(data=tokens))
    passes = first_passes(SPHERE, members_of(forged))
    answers = [
        agreement(SPHERE, one, first_pass=reached) for one, reached in zip(members_of(forged), passes, strict=True)
    ]
    assert [one.follows.holds for one in answers] == [True, False, True]
    assert passes[2].shape[0] == 30
    together = af.verify(forged)
    for index, member in enumerate(members_of(forged)):
        alone = af.verify(member)
        assert [one.verdicts[index].explanation() for one in together] == [one.explanation() for one in alone]


def test_runs_that_the_native_library_does_not_serve_are_integrated_alone():
    hard = af.RescaledAttention(af.Head.identity(2), af.Hardmax())
    run = af.simulate(hard, af.initial.box(8, 2, rng=0).reshape(2, 4, 2), TIMES, progress=False)
    assert first_passes(hard, members_of(run)) == [None, None]
    assert all(one.hypotheses[0].holds for one in af.verify(run, only=["hardmax-limits"])[0].verdicts)
