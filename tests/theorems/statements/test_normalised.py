"""Statements about normalisation schemes: true for each scheme, and able to fail."""

import dataclasses

import numpy as np
import pytest

import attnflow as af
from attnflow.theorems.statements import normalised

STATEMENTS = {statement.id: statement for statement in normalised.STATEMENTS}
SPHERE = {"post": (af.Post(), 20.0), "ngpt": (af.NGPT(), 100.0), "sqrt": (af.Sqrt(), 120.0)}
LENGTHS = {"pre": af.Pre(), "mix": af.Mix(2.0), "peri": af.Peri()}


@pytest.mark.parametrize("name", STATEMENTS)
def test_example_holds(name):
    verdict = STATEMENTS[name].verify()

    assert verdict.verdict == "holds", verdict.explanation()


@pytest.mark.parametrize("name", STATEMENTS)
def test_control_does_not(name):
    assert STATEMENTS[name].verify_control().verdict == "not_applicable"


def with_scheme(name, scheme, end=None):
    example = STATEMENTS[name].example()
    flow = af.SphereAttention(example.flow.heads, example.flow.attention, normalisation=scheme)
    times = example.times if end is None else np.linspace(0, end, 121)
    return dataclasses.replace(example, flow=flow, times=times)


@pytest.mark.parametrize("statement", ["synchronisation", "last-rate"])
@pytest.mark.parametrize("scheme", SPHERE)
def test_every_scheme_on_the_sphere(statement, scheme):
    verdict = STATEMENTS[statement].check_instance(with_scheme(statement, *SPHERE[scheme]))

    assert verdict.verdict == "holds", verdict.explanation()


@pytest.mark.parametrize("scheme", LENGTHS)
def test_every_scheme_with_lengths(scheme):
    """One run a scheme, held against three statements."""
    instance = with_scheme("synchronisation-with-lengths", LENGTHS[scheme])
    run = instance.simulate()

    for name in ("synchronisation-with-lengths", "last-rate", "length-growth"):
        verdict = STATEMENTS[name].check(instance.flow, run)
        assert verdict.verdict == "holds", verdict.explanation()


@pytest.mark.parametrize("scheme", [af.Post(), af.Pre(), af.Mix(2.0), af.Peri(), af.NGPT(0.7), af.Sqrt()])
def test_first_speeds(scheme):
    """Against the velocity of an independent few lines of NumPy, and by the statement."""
    n, beta, length = 3, 1.3, 2.0 if scheme.has_radii else 1.0
    weights = np.exp(beta * np.eye(n))
    received = weights / weights.sum(axis=1, keepdims=True)
    tangent = received - np.diag(np.diag(received))
    sizes = np.linalg.norm(received, axis=1)[0]
    factor = {"Pre": length, "Peri": length * sizes, "NGPT": sizes / 0.7}.get(type(scheme).__name__, 1.0)
    expected = (tangent + tangent.T)[0, 1] / factor

    np.testing.assert_allclose(normalised.first_speed(scheme, n, beta, length), expected, rtol=1e-13)
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(beta), normalisation=scheme)
    run = af.simulate(flow, length * np.eye(3), [0.0, 1e-4], progress=False)
    assert STATEMENTS["first-speed"].check(flow, run).verdict == "holds"
    # The cosine itself, after a short time.
    np.testing.assert_allclose(run.tokens[1, 0] @ run.tokens[1, 1] / 1e-4, expected, rtol=1e-3)


def test_mix_turns_pre_at_its_switch():
    assert normalised.first_speed(af.Mix(2.0), 3, 1.0, length=5.0, time=3.0) == pytest.approx(
        normalised.first_speed(af.Pre(), 3, 1.0, length=5.0)
    )


def test_rates_of_other_schemes_do_not_fit():
    """Negative control: a run under Post told to be nGPT, and one under Sqrt told to be Post."""
    for true, told in (("post", af.NGPT()), ("sqrt", af.Post())):
        instance = with_scheme("last-rate", *SPHERE[true])
        wrong = with_scheme("last-rate", told).flow
        assert not STATEMENTS["last-rate"].measure(wrong, instance.simulate()).met


def test_lengths_that_rest_do_not_grow():
    """Under Mix before its switch lengths stay as they are."""
    instance = with_scheme("length-growth", af.Mix(1e6))

    assert STATEMENTS["length-growth"].check_instance(instance).verdict == "undecided"


def test_short_runs_are_undecided():
    for name in ("synchronisation", "last-rate"):
        instance = with_scheme(name, af.NGPT(), end=3.0)
        verdict = STATEMENTS[name].check_instance(instance)
        assert verdict.verdict == "undecided"
        assert "t = 3" in verdict.explanation()


@pytest.mark.parametrize("name", [name for name in STATEMENTS if name != "first-speed"])
def test_a_run_without_two_snapshots_is_undecided(name):
    example = STATEMENTS[name].example()
    run = example.simulate()
    run.tokens[1:] = np.nan

    assert STATEMENTS[name].check(example.flow, run).verdict == "undecided"
