"""`verify`: the whole catalogue's shape, and verdicts on runs of a user's own."""

import json
import math

import numpy as np
import pytest

import attnflow as af
from attnflow.experiments import scenarios
from attnflow.theorems.catalogue import catalogue
from attnflow.theorems.recorded_equation import agreement
from attnflow.theorems.statement import Statement
from attnflow.theorems.verdict import Hypothesis, Measurement, Verdict, above, at_most, is_true, judge


def a_run(**options):
    flow = af.RescaledAttention(af.Head.identity(2))
    return af.simulate(flow, af.initial.box(8, 2, rng=0), np.linspace(0, 20, 41), **options)


def test_ids_are_unique_words_and_every_entry_is_described():
    entries = catalogue()
    assert len(entries) >= 40
    for name, entry in entries.items():
        assert name == entry.id
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert entry.says.endswith(".")
        assert entry.paper


def test_a_run_knows_its_flow():
    run = a_run()
    alone, together = (
        af.verify(run, only=["polytope"]),
        af.verify(af.RescaledAttention(af.Head.identity(2)), run, ["polytope"]),
    )
    assert [one.verdict for one in alone] == [one.verdict for one in together] == ["holds"]


def test_all_statements_can_be_asked_of_any_run():
    """Most do not apply, and say why; none that applies fails."""
    answers = {one.id: one for one in af.verify(a_run())}
    assert {name for name, one in answers.items() if one.verdict == "holds"} >= {
        "polytope",
        "shrinking-hull",
        "rank-bound",
    }
    assert answers["identity-value"].verdict == "not_applicable"
    assert "sphere" in answers["identity-value"].explanation()
    assert not [name for name, one in answers.items() if one.verdict == "fails"]


@pytest.mark.parametrize(
    "flow",
    [
        af.SphereAttention(af.Head.identity(2), af.Hardmax(), af.masks.others),
        af.SphereAttention([af.Head.identity(2)] * 2, af.Sinkhorn(1.0)),
        af.SphereAttention(af.RedrawnHead(2, 0.5, 1)),
        af.SphereAttention(af.Head.identity(2), normalisation=af.Pre()),
        af.EuclideanAttention(af.Head(np.eye(2), np.eye(2), [[0.0, -1.0], [1.0, 0.0]])),
        af.EuclideanAttention(af.Head(np.eye(2), np.eye(2), [[1.0, 1.0], [0.0, 1.0]]), frozen=[True] + [False] * 4),
    ],
    ids=["hardmax", "several heads", "redrawn", "lengths", "complex spectrum", "defective and frozen"],
)
def test_odd_flows_get_answers_and_no_traceback(flow):
    tokens = af.initial.circle(5, rng=0)
    run = af.simulate(flow, tokens, np.linspace(0, 1, 11))
    assert "fails" not in {one.verdict for one in af.verify(run)}


def test_odd_starts_get_answers_and_no_traceback():
    flow = af.RescaledAttention(af.Head.identity(2))
    for tokens in ([[1.0, 2.0]], np.ones((4, 2)), [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]):
        run = af.simulate(flow, tokens, np.linspace(0, 20, 21))
        assert "fails" not in {one.verdict for one in af.verify(run)}


def test_a_failed_run_decides_nothing():
    flow = af.SphereAttention(af.Head.identity(2), af.Unnormalised(800.0))
    run = af.simulate(flow, af.initial.circle(4, rng=0), [0.0, 1.0])
    assert bool(run.failed)
    assert {one.verdict for one in af.verify(run)} == {"not_applicable"}


def test_discrete_layers_are_not_continuous_time():
    run = a_run(solver=af.Layers(0.1))
    answers = {one.id: one.verdict for one in af.verify(run)}
    assert answers["polytope"] == "not_applicable"
    assert answers["layers-shrinking-hull"] == "holds"
    assert {one.id: one.verdict for one in af.verify(a_run())}["layers-shrinking-hull"] == "not_applicable"


def test_what_is_not_a_result_with_tokens_is_refused():
    with pytest.raises(ValueError, match="holds no tokens"):
        af.verify(a_run(keep_tokens=False))
    with pytest.raises(ValueError, match="must be a dataset"):
        af.verify(np.eye(2))
    with pytest.raises(ValueError, match="not a whole result"):
        af.verify(a_run().drop_attrs())
    with pytest.raises(ValueError, match="Did you mean 'polytope'"):
        af.verify(a_run(), only=["polytop"])


def test_judgement():
    met, missed = is_true("a", True), Hypothesis("b", -2.0, "metres")
    fine, wrong = Measurement("c", 1.0, 2.0, "why"), Measurement("c", 3.0, 2.0, "why")
    still_open = Measurement("c", 3.0, 2.0, "why", open="it still falls")
    nothing = Measurement("c", math.nan, 2.0, "why")
    assert judge([met], fine) == "holds"
    assert judge([met], wrong) == "fails"
    assert judge([met], still_open) == "undecided"
    assert judge([met], nothing) == "undecided"
    assert judge([met, missed], fine) == "not_applicable"
    assert judge([Hypothesis("d", math.nan)], fine) == "not_applicable"
    assert at_most("e", 1.0, 1.0).holds
    assert not above("e", 1.0, 1.0).holds


def test_verdicts_become_json():
    for one in af.verify(a_run(), only=["polytope", "identity-value"]):
        again = json.loads(json.dumps(one.as_dict(), allow_nan=False))
        assert again["verdict"] == one.verdict
        assert again["explanation"]


def test_a_coarse_solver_cannot_refute_a_theorem():
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(1.0))
    tokens, times = af.initial.hemisphere(8, 3, rng=0), np.linspace(0, 12, 61)
    coarse = af.simulate(flow, tokens, times, solver=af.Euler(0.1))
    fine = af.simulate(flow, tokens, times)
    found = [af.verify(run, only=["hemisphere-rate"])[0] for run in (coarse, fine)]
    assert [one.verdict for one in found] == ["undecided", "holds"]
    assert "coarse" in found[0].explanation()


EYE = np.eye(2)
NEARLY_THERE = {  # starts that look like a limit which they then leave, looked at too early
    "polytope": (EYE, 1e-3 * af.initial.on_circle(np.array([0.0, 1.1, 2.6, 3.9, 5.2]))),
    "rank-bound": (EYE, 1e-3 * af.initial.on_circle(np.array([0.0, 1.1, 2.6, 3.9, 5.2]))),
    "hyperplanes": (np.diag([2.0, 1.0]), np.array([[1.0, 0.0], [1.0, 1.0], [-1.0, 0.5], [0.0, 2.0]])),
    "codimension-k": (np.diag([2.0, 1.0]), 5 + 0.01 * af.initial.gaussian(8, 2, rng=0)),
    "polytope-times-hyperplane": (
        np.diag([1.0, 1.0, 0.5]),
        1e-3 * np.c_[af.initial.on_circle(np.array([0.0, 1.5, 3.0, 4.5])), np.ones(4)],
    ),
}


@pytest.mark.parametrize("name", NEARLY_THERE)
def test_a_limit_that_tokens_still_leave_is_not_said_to_hold(name):
    value, tokens = NEARLY_THERE[name]
    flow = af.RescaledAttention(af.Head(np.eye(len(value)), np.eye(len(value)), value))
    (early,) = af.verify(af.simulate(flow, tokens, np.linspace(0, 0.05, 5)), only=[name])
    assert early.verdict == "undecided"
    assert "still move" in early.explanation()
    assert early.measurement.met or name == "hyperplanes"


def test_causal_tokens_at_an_unstable_place_are_not_said_to_have_arrived():
    """All at +xi but the second at -xi: with lambda_2 close to lambda_1 the first pulls it back in the end."""
    value = np.diag([1.0, 0.95, 0.9])
    flow = af.SphereAttention(af.Head(np.eye(3), np.eye(3), value), af.Softmax(0.1), af.masks.causal)
    tokens = np.array([[1.0, 0.0, 0.0], [-1.0, 1e-6, 0.0], [1.0, 0.0, 1e-6]])
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    (early,) = af.verify(af.simulate(flow, tokens, [0.0, 0.01, 0.02]), only=["conjecture-1"])
    assert early.measurement.met
    assert early.verdict == "undecided"
    assert "grow at the rate" in early.explanation()


def test_masks_and_masses_that_say_nothing_are_no_obstacle():
    flow = af.RescaledAttention(af.Head.identity(2), mask=af.masks.boolean(np.ones((8, 8), bool)), masses=np.ones(8))
    run = af.simulate(flow, af.initial.box(8, 2, rng=0), np.linspace(0, 20, 41))
    assert af.verify(run, only=["polytope"])[0].verdict == "holds"
    masked = af.RescaledAttention(af.Head.identity(2), mask=af.masks.boolean(~np.eye(8, dtype=bool)))
    run = af.simulate(masked, af.initial.box(8, 2, rng=0), np.linspace(0, 2, 5))
    assert af.verify(run, only=["polytope"])[0].verdict == "not_applicable"


@pytest.mark.parametrize(
    ("scenario", "name"),
    [
        ("polytope", "polytope"),
        ("polytope-3d", "polytope"),
        ("mixed", "polytope-times-hyperplane"),
        ("hardmax", "hardmax-limits"),
    ],
)
def test_a_scenario_runs_until_its_theorem_is_decided(scenario, name):
    setup = scenarios.build(scenarios.get(scenario).settings)
    run = af.simulate(setup.flow, setup.tokens, setup.times, solver=setup.solver)
    assert af.verify(run, only=[name])[0].verdict == "holds"


def failing(statement, flow, run):
    """The verdict that a statement fails, whatever the run."""
    measurement = Measurement("a number", 1.0, 0.5, "the half")
    return Verdict(statement.id, statement.paper, statement.says, "fails", (), measurement)


def test_a_failure_is_told_of_a_run_that_solves_its_equation_and_of_no_other(monkeypatch):
    """A displacement below what the first comparison finds is found before a statement is said to fail."""
    setup = scenarios.scenario("hyperplanes", n=8)
    run = af.simulate(setup.flow, setup.tokens, setup.times, progress=False)
    tokens = run.tokens.values.copy()
    tokens[70, 2] += 4e-6 * np.abs(tokens[70]).max()
    displaced = run.assign(tokens=run.tokens.copy(data=tokens))
    assert agreement(setup.flow, displaced).follows.holds
    monkeypatch.setattr(Statement, "check", failing)
    assert {one.verdict for one in af.verify(run)} == {"fails"}
    (refused,) = {one.explanation() for one in af.verify(displaced)}
    assert "follow the flow" in refused


@pytest.mark.parametrize(
    ("value", "tolerance", "text"),
    [
        (4.13e-16, 1e-9, "is 0 ± 1e-14 ("),
        (4.13e-10, 1e-9, "is 4.13e-10 ("),
        (4e-32, 5e-32, "is 4e-32 ("),
        (0.0, 1, "is 0 ("),
    ],
)
def test_values_below_rounding_are_printed_as_zero_with_their_error(value, tolerance, text):
    verdict = Verdict("name", "paper", "statement", "holds", (), Measurement("error", value, tolerance, "why"))

    assert text in verdict.explanation()
    assert verdict.as_dict()["measurement"]["value"] == value
