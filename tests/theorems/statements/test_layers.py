"""Statements on discrete layers: examples, controls, and the steps at which conclusions break."""

import dataclasses

import numpy as np
import pytest

import attnflow as af
from attnflow.theorems.statements.causal import STATEMENTS as CAUSAL
from attnflow.theorems.statements.layers import STATEMENTS, surviving_steps

BY_ID = {statement.id: statement for statement in STATEMENTS}
SURVIVE = ["layers-single-cluster", "layers-shrinking-hull", "layers-polytope"]
BREAK = ["layers-shrinking-tokens", "layers-falling-energy"]


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda one: one.id)
def test_the_example_holds_and_the_control_does_not(statement):
    verdict = statement.verify()
    assert verdict.verdict == "holds", verdict.explanation()
    assert statement.verify_control().verdict == "not_applicable"
    assert not statement.continuous


@pytest.mark.parametrize("name", SURVIVE)
def test_averaging_survives_every_step(name):
    """With V = I a layer is an average, so no step is too large."""
    verdicts = surviving_steps(BY_ID[name], [0.05, 0.5, 2.0, 10.0])
    assert list(verdicts) == [0.05, 0.5, 2.0, 10.0]
    assert {verdict.verdict for verdict in verdicts.values()} == {"holds"}


@pytest.mark.parametrize("name", BREAK)
def test_overshooting_breaks_at_large_steps(name):
    """With V = -I short layers keep the conclusion and long ones lose it."""
    verdicts = surviving_steps(BY_ID[name], [0.1, 1.0, 2.0, 4.0])
    assert [verdict.verdict for verdict in verdicts.values()] == ["holds", "holds", "fails", "fails"]


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda one: one.id)
def test_outside_the_hypotheses_the_measurement_fails(statement):
    control = statement.control()
    found = statement.measure(control.flow, control.simulate())
    assert not found.met
    assert found.value > 100 * found.tolerance


def test_one_layer_of_the_hull_is_an_average():
    """Independent check of the hull's measure: in the plane every token stays in the previous hull."""
    from scipy.spatial import Delaunay

    flow = af.RescaledAttention(af.Head.identity(2))
    run = af.simulate(flow, af.initial.box(10, 2, -1.0, 1.0, rng=0), 3.0 * np.arange(4), solver=af.Layers(3.0))
    for before, after in zip(run.tokens.values[:-1], run.tokens.values[1:], strict=True):
        middle = before.mean(axis=0)
        assert np.all(Delaunay(middle + (1 + 1e-9) * (before - middle)).find_simplex(after) >= 0)


def test_a_run_in_continuous_time_decides_nothing():
    example = BY_ID["layers-single-cluster"].example()
    continuous = dataclasses.replace(example, solver=af.Adaptive())
    assert BY_ID["layers-single-cluster"].check_instance(continuous).verdict == "not_applicable"


def test_too_few_layers_are_undecided():
    example = BY_ID["layers-single-cluster"].example()
    short = dataclasses.replace(example, times=example.times[:5])
    verdict = BY_ID["layers-single-cluster"].check_instance(short)
    assert verdict.verdict == "undecided"
    assert "and falling" in verdict.explanation()


def test_a_run_that_overflowed_has_failed_before():
    statement = BY_ID["layers-shrinking-tokens"]
    example = statement.example()
    long = dataclasses.replace(example, times=10.0 * np.arange(1001), solver=af.Layers(10.0))
    assert statement.check_instance(long).verdict == "fails"


def test_bad_input_is_a_sentence():
    with pytest.raises(ValueError, match="continuous time"):
        surviving_steps(CAUSAL[0], [0.1])
    with pytest.raises(ValueError, match="above zero"):
        surviving_steps(STATEMENTS[0], [-0.1])
    with pytest.raises(ValueError, match="at least"):
        surviving_steps(STATEMENTS[0], [1e-9])


def test_layers_that_still_move_decide_nothing():
    """Tokens on a small circle all have their own best match for a while, although they move apart."""
    angles = np.array([0.0, 1.1, 2.6, 3.9, 5.2])
    flow = af.RescaledAttention(af.Head.identity(2))
    run = af.simulate(flow, 1e-3 * af.initial.on_circle(angles), 0.1 * np.arange(4), solver=af.Layers(0.1))
    (early,) = af.verify(run, only=["layers-polytope"])
    assert early.verdict == "undecided"
    assert "still moves" in early.explanation()
