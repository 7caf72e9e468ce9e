"""Statements about the sphere and the circle: true where they should be, and able to fail."""

import dataclasses

import numpy as np
import pytest

import attnflow as af
from attnflow.theorems.statements import circle, equiangular, metastable, normalised, sphere

FAMILIES = (sphere, equiangular, circle)
STATEMENTS = {statement.id: statement for family in FAMILIES for statement in family.STATEMENTS}
ALL = {one.id: one for family in (*FAMILIES, metastable, normalised) for one in family.STATEMENTS}
IDENTITY = af.Head.identity


@pytest.mark.parametrize("name", STATEMENTS)
def test_example_holds(name):
    verdict = STATEMENTS[name].verify()

    assert verdict.verdict == "holds", verdict.explanation()


@pytest.mark.parametrize("name", STATEMENTS)
def test_control_does_not(name):
    assert STATEMENTS[name].verify_control().verdict == "not_applicable"


def measured(name, flow, tokens, times, judged_as=None, solver=None):
    """The measurement with the hypotheses left aside; `judged_as` is the flow the statement is told of."""
    run = af.simulate(flow, tokens, times, solver=solver, progress=False)
    return STATEMENTS[name].measure(judged_as or flow, run)


def test_energy_falls_where_tokens_repel():
    example = STATEMENTS["energy-sa"].example()
    head = af.Head(query=np.eye(3), key=np.eye(3), value=-np.eye(3))

    assert not measured("energy-sa", af.SphereAttention(head, af.Softmax(1.0)), example.tokens, example.times).met


def test_energy_identity_of_one_rule_fails_for_the_other():
    """A run of softmax attention told to be unnormalised: |v|^2 is then not what the energy gains."""
    example = STATEMENTS["energy-usa"].example()
    one_head = example.flow.heads
    causal = af.SphereAttention(one_head, af.Unnormalised(1.0), af.masks.causal)

    assert not measured("energy-usa", causal, example.tokens, example.times).met


def test_unnormalised_offset_rescales_the_identity():
    example = STATEMENTS["energy-usa"].example()
    flow = af.SphereAttention(IDENTITY(3), af.Unnormalised(1.0, offset=1.0))

    assert STATEMENTS["energy-usa"].check_instance(dataclasses.replace(example, flow=flow)).verdict == "holds"


def test_close_tokens_that_repel_are_slower_than_the_bound():
    head = af.Head(query=np.eye(3), key=np.eye(3), value=-np.eye(3))
    tokens = np.array([0.0, 0.0, 1.0]) + 0.01 * af.initial.gaussian(6, 3, rng=0)
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    assert not measured("cone-speed", af.SphereAttention(head), tokens, np.linspace(0, 0.5, 11)).met


def test_cone_is_left_where_tokens_repel():
    example = STATEMENTS["hemisphere-cone"].example()
    head = af.Head(query=np.eye(3), key=np.eye(3), value=-np.eye(3))

    found = measured("hemisphere-cone", af.SphereAttention(head, af.Softmax(1.0)), example.tokens, example.times)

    assert found.value > 0.01


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_unnormalised_rate_is_the_exponential_of_beta(offset):
    example = STATEMENTS["hemisphere-rate"].example()
    flow = af.SphereAttention(IDENTITY(3), af.Unnormalised(1.0, offset))
    times = np.linspace(0, 20 if offset else 8, 161)

    verdict = STATEMENTS["hemisphere-rate"].check_instance(dataclasses.replace(example, flow=flow, times=times))

    assert verdict.verdict == "holds", verdict.explanation()


def test_rate_is_not_that_of_another_beta():
    example = STATEMENTS["hemisphere-rate"].example()
    told = af.SphereAttention(IDENTITY(3), af.Unnormalised(1.01))
    flow = af.SphereAttention(IDENTITY(3), af.Unnormalised(1.0))

    assert not measured("hemisphere-rate", flow, example.tokens, np.linspace(0, 8, 161), told).met


def test_rate_of_a_short_run_is_undecided():
    example = dataclasses.replace(STATEMENTS["hemisphere-rate"].example(), times=np.linspace(0, 0.5, 81))

    verdict = STATEMENTS["hemisphere-rate"].check_instance(example)

    assert verdict.verdict == "undecided"
    assert "saved times" in verdict.explanation()


@pytest.mark.parametrize("name", ["equiangular-sa", "equiangular-usa"])
def test_scalar_equation_is_that_of_its_beta(name):
    """A thousandth more beta is seen, so the comparison has teeth."""
    example = STATEMENTS[name].example()
    rule = type(example.flow.attention)
    told = af.SphereAttention(IDENTITY(8), rule(float(example.flow.attention.beta) * 1.001))

    assert not measured(name, example.flow, example.tokens, example.times, told).met


def test_equiangular_tokens_that_part():
    example = STATEMENTS["equiangular-sa"].example()
    head = af.Head(query=np.eye(8), key=np.eye(8), value=np.diag(np.linspace(-0.5, 1, 8)))

    found = measured("equiangular-sa", af.SphereAttention(head, af.Softmax(2.0)), example.tokens, example.times)

    assert found.value > 0.05


def test_simplex_is_refused():
    tokens = af.initial.equiangular(8, 8, -1 / 7 + 1e-9)
    example = dataclasses.replace(STATEMENTS["equiangular-sa"].example(), tokens=tokens)

    assert STATEMENTS["equiangular-sa"].check_instance(example).verdict == "not_applicable"


def test_low_dimension_does_not_follow_the_curve():
    control = STATEMENTS["phase-curve"].control()
    told = af.SphereAttention(IDENTITY(256), af.Softmax(1.0))

    assert not measured("phase-curve", control.flow, control.tokens, control.times, told).met


def test_one_cluster_takes_time():
    example = dataclasses.replace(STATEMENTS["single-cluster"].example(), times=np.linspace(0, 2, 5))

    verdict = STATEMENTS["single-cluster"].check_instance(example)

    assert verdict.verdict == "undecided"
    assert "at t = 2 it is" in verdict.explanation()


def test_antipodes_never_meet():
    control = STATEMENTS["single-cluster"].control()

    assert measured("single-cluster", control.flow, control.tokens, control.times).value > 1


def test_repelled_by_negative_beta_the_circle_keeps_its_tokens_apart():
    control = STATEMENTS["single-cluster-circle"].control()

    assert measured("single-cluster-circle", control.flow, control.tokens, control.times).value > 1


@pytest.mark.parametrize(("rule", "mode"), [(af.Softmax(4.0), 2), (af.Unnormalised(4.0, offset=1.0), 4)])
def test_other_modes_and_rules_grow_as_predicted(rule, mode):
    example = STATEMENTS["fourier-growth"].example()
    angles = 2 * np.pi * np.arange(32) / 32
    changed = dataclasses.replace(
        example,
        flow=af.SphereAttention(IDENTITY(2), rule),
        tokens=af.initial.on_circle(angles + 1e-6 * np.sin(mode * angles)),
        times=np.linspace(0, 4, 21),
    )

    verdict = STATEMENTS["fourier-growth"].check_instance(changed)

    assert verdict.verdict == "holds", verdict.explanation()


def test_growth_is_not_that_of_another_beta():
    example = STATEMENTS["fourier-growth"].example()
    told = af.SphereAttention(IDENTITY(2), af.Unnormalised(4.01))

    found = measured("fourier-growth", example.flow, example.tokens, example.times, told, example.solver)

    assert not found.met


def test_number_of_clusters_is_not_that_of_another_beta():
    example = STATEMENTS["cluster-number"].example()
    told = af.SphereAttention(IDENTITY(2), af.Softmax(40.0))

    assert measured("cluster-number", example.flow, example.tokens, example.times, told).value > 1


def test_number_before_anything_formed_is_undecided():
    example = dataclasses.replace(STATEMENTS["cluster-number"].example(), times=np.linspace(0, 10, 21))

    assert STATEMENTS["cluster-number"].check_instance(example).verdict == "undecided"


def test_wendel_fails_for_a_law_with_a_mean():
    _, measure = STATEMENTS["wendel"].evaluate(n=6, d=3, shift=0.5)

    assert not measure().met


@pytest.mark.parametrize(("n", "d"), [(3, 3), (12, 4)])
def test_wendel_in_other_dimensions(n, d):
    assert STATEMENTS["wendel"].check(n=n, d=d, samples=200).verdict == "holds"


UNUSUAL = {
    "hardmax": (af.SphereAttention(IDENTITY(2), af.Hardmax(), af.masks.others), af.initial.circle(4, rng=0)),
    "one token": (af.SphereAttention(IDENTITY(3), af.Softmax(1.0)), af.initial.sphere(1, 3, rng=0)),
    "two points": (af.SphereAttention(IDENTITY(1), af.Softmax(1.0)), np.array([[1.0], [-1.0]])),
    "in R^d": (af.EuclideanAttention(IDENTITY(2)), af.initial.gaussian(4, 2, rng=0)),
    "all equal": (af.SphereAttention(IDENTITY(2), af.Softmax(5.0)), np.tile([[0.6, 0.8]], (5, 1))),
    "two equal": (af.SphereAttention(IDENTITY(2), af.Softmax(5.0)), np.tile([[0.6, 0.8]], (2, 1))),
    "two heads": (af.SphereAttention([IDENTITY(2)] * 2), af.initial.circle(4, rng=0)),
    "negative beta": (af.SphereAttention(IDENTITY(2), af.Softmax(-3.0)), af.initial.circle(40, rng=0)),
    "no beta": (af.SphereAttention(IDENTITY(2), af.Softmax(0.0)), af.initial.circle(4, rng=0)),
    "lengths": (af.SphereAttention(IDENTITY(2), normalisation=af.Pre()), af.initial.gaussian(4, 2, rng=0)),
    "redrawn": (
        af.SphereAttention(af.PiecewiseHead([1.0], [IDENTITY(2), IDENTITY(2)])),
        af.initial.circle(4, rng=0),
    ),
}


@pytest.mark.parametrize("name", [name for name, one in ALL.items() if hasattr(one, "hypotheses")])
@pytest.mark.parametrize("case", UNUSUAL)
def test_hypotheses_answer_for_any_flow(name, case):
    """Never an error; where they all hold, never `fails`."""
    flow, tokens = UNUSUAL[case]
    hypotheses = ALL[name].hypotheses(flow, tokens)

    assert all(isinstance(hypothesis.holds, bool | np.bool_) for hypothesis in hypotheses)
    if all(hypothesis.holds for hypothesis in hypotheses):
        run = af.simulate(flow, tokens, np.linspace(0, 2, 9), progress=False)
        verdict = ALL[name].check(flow, run)
        assert verdict.verdict in ("holds", "undecided"), verdict.explanation()


@pytest.mark.parametrize("name", [name for name in STATEMENTS if name not in ("wendel", "noisy-threshold")])
def test_a_run_without_two_snapshots_is_undecided(name):
    example = STATEMENTS[name].example()
    run = example.simulate()
    run.tokens[1:] = np.nan

    assert STATEMENTS[name].check(example.flow, run).verdict == "undecided"


def test_a_rate_needs_five_saved_times_of_the_tail():
    flow, tokens = af.SphereAttention(IDENTITY(3)), af.initial.hemisphere(8, 3, rng=0)
    run = af.simulate(flow, tokens, np.r_[0.0, np.arange(7.0, 12.0)], progress=False)
    whole, shorter = (STATEMENTS["hemisphere-rate"].measure(flow, one) for one in (run, run.isel(time=slice(0, 5))))
    assert (whole.open, np.isfinite(whole.value)) == ("", True)
    assert "only 4 saved times" in shorter.open


def test_the_speed_of_the_farthest_token_is_towards_the_unit_vector_of_the_mean():
    """Tokens of unequal places, saved before they meet: the value by NumPy from the equation of the flow."""
    flow, tokens = af.SphereAttention(IDENTITY(3)), np.array([[1, 0, 0.6], [1, 0.1, 0], [1, 0, 0.1], [1, 0.5, 0]])
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    run = af.simulate(flow, tokens, [0.0, 0.01], progress=False)
    last = run.tokens.values[-1]
    centre = last.mean(axis=0) / np.linalg.norm(last.mean(axis=0))
    ratios = []
    for x in run.tokens.values:
        weights = np.exp(x @ x.T)
        pull = weights @ x / weights.sum(axis=1, keepdims=True)
        speeds = (pull - np.sum(pull * x, axis=1, keepdims=True) * x) @ centre
        farthest = np.argmin(x @ centre)
        assert x[farthest] @ centre > 0.9
        ratios.append(speeds[farthest] * 2 * 4 * np.exp(2) / (1 - x[farthest] @ centre))
    assert STATEMENTS["cone-speed"].measure(flow, run).value == pytest.approx(min(ratios), rel=1e-9)


def test_tokens_that_left_the_linear_regime_at_once_leave_the_growth_undecided():
    example = STATEMENTS["fourier-growth"].example()
    verdict = STATEMENTS["fourier-growth"].check_instance(dataclasses.replace(example, times=np.array([0.0, 500.0])))
    assert verdict.verdict == "undecided"
    assert "before the second saved time" in verdict.explanation()
