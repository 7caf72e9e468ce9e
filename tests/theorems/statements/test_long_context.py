"""Statements on long contexts: the closed form against matrices, the three limits, near-critical cases."""

import numpy as np
import pytest

import attnflow as af
from attnflow.theorems.statements.long_context import STATEMENTS, critical_gamma, output_cosine

BY_ID = {statement.id: statement for statement in STATEMENTS}


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda one: one.id)
def test_the_example_holds_and_the_control_does_not(statement):
    assert statement.verify().verdict == "holds"
    assert statement.verify_control().verdict == "not_applicable"


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda one: one.id)
def test_outside_its_side_the_measurement_fails(statement):
    _, measure = statement.evaluate(**statement.control)
    assert measure().value > 0.1


@pytest.mark.parametrize("n", [2, 3, 7, 30])
@pytest.mark.parametrize(("rho", "gamma"), [(0.2, 0.5), (0.2, 1.25), (0.6, 4.0), (0.9, 0.0)])
def test_closed_form_against_one_layer(n, rho, gamma):
    tokens = af.initial.equiangular(n, n, cosine=rho)
    flow = af.EuclideanAttention(af.Head.identity(n), af.Softmax(gamma * np.log(n)))
    received = af.velocity(flow, tokens)
    unit = received / np.linalg.norm(received, axis=1, keepdims=True)
    np.testing.assert_allclose(output_cosine(rho, gamma, np.log(n)), unit[0] @ unit[1], atol=1e-12)


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
def test_three_limits_far_beyond_floats(rho):
    log_n, critical = 1e5, critical_gamma(rho)
    np.testing.assert_allclose(output_cosine(rho, 0.9 * critical, log_n), 1.0, atol=1e-12)
    np.testing.assert_allclose(output_cosine(rho, 1.1 * critical, log_n), rho, atol=1e-12)
    # at the critical gamma rounding of gamma counts: log n times it is the error
    np.testing.assert_allclose(output_cosine(rho, critical, 1e3), 4 * rho / (1 + 3 * rho), atol=1e-10)


def test_near_critical_is_undecided():
    """At 0.9 of the critical gamma a million tokens are not enough: the cosine is still 0.86."""
    near = {"rho": 0.2, "gamma": 0.9 * critical_gamma(0.2)}
    verdict = BY_ID["long-context-below"].check(**near, log10_n=6.0)
    assert verdict.verdict == "undecided"
    assert "the cosine is 0.86" in verdict.explanation()
    assert BY_ID["long-context-below"].check(**near, log10_n=60.0).verdict == "holds"


@pytest.mark.parametrize("bad", [{"rho": 0.0}, {"rho": 1.0}, {"gamma": -1.0}, {"log10_n": 0.0}, {"rho": np.nan}])
@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda one: one.id)
def test_impossible_parameters_are_not_applicable(statement, bad):
    assert statement.check(**(statement.example | bad)).verdict == "not_applicable"


def test_bad_input_is_a_sentence():
    with pytest.raises(ValueError, match="`rho` must be in"):
        output_cosine(1.5, 1.0, 10.0)
