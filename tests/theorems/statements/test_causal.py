"""Statements on causal attention: examples hold, controls do not, and every measurement can fail."""

import dataclasses

import numpy as np
import pytest

import attnflow as af
from attnflow.analyse import renyi
from attnflow.theorems.statement import Instance
from attnflow.theorems.statements import causal as causal_statements
from attnflow.theorems.statements import causal_centres, causal_energy, centre_formulas

STATEMENTS = (
    *causal_statements.STATEMENTS,
    *causal_energy.STATEMENTS,
    *centre_formulas.STATEMENTS,
    *causal_centres.STATEMENTS,
)
BY_ID = {statement.id: statement for statement in STATEMENTS}
IDS = [
    "first-token", "first-token-jordan", "identity-value", "conjecture-1", "conjecture-2", "sequential-gradient", "interaction-peak",
    "interaction-bounds", "interaction-peak-bracket", "renyi-count", "renyi-exponent", "renyi-scaling", "strong-renyi-count", "quasi-stationary", "frozen-centres",
]  # fmt: skip


def test_these_are_all_the_statements():
    assert list(BY_ID) == IDS


@pytest.mark.parametrize("name", IDS)
def test_the_example_holds_and_the_control_does_not(name):
    verdict, control = BY_ID[name].verify(), BY_ID[name].verify_control()
    assert verdict.verdict == "holds", verdict.explanation()
    assert all(hypothesis.holds for hypothesis in verdict.hypotheses)
    assert control.verdict == "not_applicable"
    assert control.broken


def measured(name, instance):
    """The measurement with the hypotheses bypassed."""
    return BY_ID[name].measure(instance.flow, instance.simulate())


def changed(name, **changes):
    return dataclasses.replace(BY_ID[name].example(), **changes)


def causal(value, query_key, beta=1.0):
    return af.SphereAttention(af.Head.bilinear(query_key, value), af.Softmax(beta), af.masks.causal)


@pytest.mark.parametrize(
    ("name", "worst"),
    [("first-token", 1e-3), ("identity-value", 0.1), ("quasi-stationary", 2.0), ("frozen-centres", 2.0)],
)
def test_outside_the_hypotheses_the_measurement_fails(name, worst):
    """No mask, another V, or frozen tokens side by side break each conclusion by a wide margin."""
    example = BY_ID[name].example()
    if name == "first-token":
        broken = changed(name, flow=af.SphereAttention(example.flow.heads[0], example.flow.attention))
    elif name == "frozen-centres":
        tokens = example.tokens.copy()
        tokens[1] = af.initial.on_circle(np.array(0.4))  # two frozen tokens 1.6 beta^-1/2 apart
        broken = changed(name, tokens=tokens)
    elif name == "quasi-stationary":
        broken = changed(name, flow=causal(np.diag([2.0, 1.0]), np.eye(2), 64.0))
    else:
        broken = BY_ID[name].control()
    found = measured(name, broken)
    assert not found.met
    assert found.value > worst


def test_the_slow_first_token_needs_the_jordan_block():
    example = changed("first-token-jordan", flow=causal(np.diag([0.6, 0.5, 0.4]) + 0.01 * np.eye(3, k=1), np.eye(3)))
    assert not measured("first-token-jordan", example).met  # the rate is exponential: t * distance -> 0
    early = changed("first-token-jordan", times=np.array([0.0, 2.0]))
    verdict = BY_ID["first-token-jordan"].check_instance(early)
    assert verdict.verdict == "undecided"
    assert "like 1/t" in verdict.explanation()


def test_a_limit_not_reached_is_undecided():
    verdict = BY_ID["identity-value"].check_instance(changed("identity-value", times=np.array([0.0, 1.0])))
    assert verdict.verdict == "undecided"
    assert "at t = 1 tokens move" in verdict.explanation()


@pytest.mark.parametrize(
    ("query_key", "beta", "value", "angle"),
    [
        (np.diag([-1.0, 1.0]), 4.0, np.diag([2.0, 1.0]), 109.337),
        (np.diag([0.05, 4.0]), 1.0, np.diag([2.0, 1.0]), 155.210),
        (np.eye(2), 0.2, np.array([[1.0, -0.5 * np.sqrt(3)], [0.0, 0.5]]), 167.668),
    ],
    ids=["indefinite", "positive", "not-normal"],
)
def test_conjecture_1_fails_for_other_scores_and_values(query_key, beta, value, angle):
    """The second token rests at a stable equilibrium away from +-xi: not open, but false."""
    flow, tokens = causal(value, query_key, beta), af.initial.on_circle(np.radians([1.0, angle - 2.0]))
    instance = Instance(flow, tokens, np.array([0.0, 300.0]))
    found = measured("conjecture-1", instance)
    assert found.value == pytest.approx(2 * np.sin(np.radians(180 - angle) / 2), abs=1e-4)
    assert found.value > 0.1
    assert found.open == ""
    assert BY_ID["conjecture-1"].check_instance(instance).verdict == "not_applicable"


def test_resting_where_small_changes_grow_decides_nothing():
    """Two tokens opposite each other rest, but not stably."""
    flow = causal(np.eye(3), np.eye(3))
    tokens = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    found = measured("conjecture-2", Instance(flow, tokens, np.array([0.0, 1.0])))
    assert found.value == pytest.approx(2.0)
    assert "grow at the rate" in found.open


def test_conjecture_2_needs_a_positive_eigenvalue():
    assert measured("conjecture-2", changed("conjecture-2", flow=causal(-np.eye(3), np.eye(3)))).value > 0.1


def test_conjecture_2_in_a_rotated_basis():
    value = af.values.from_spectrum([1.0, 1.0, -0.5], rng=3)
    verdict = BY_ID["conjecture-2"].check_instance(changed("conjecture-2", flow=causal(value, np.eye(3))))
    assert verdict.verdict == "holds"


@pytest.mark.parametrize("beta", [1.0, 3.0, 100.0, 1e4])
def test_the_peak_for_many_betas(beta):
    assert BY_ID["interaction-peak"].check(beta=beta).verdict == "holds"
    assert BY_ID["interaction-peak-bracket"].check(beta=beta).verdict == "holds"


def test_a_wrong_formula_or_slope_is_found(monkeypatch):
    """Mutations: the end of the bracket instead of tau*, and the slope of another beta."""
    monkeypatch.setattr(renyi, "interaction_peak", lambda beta: beta**-0.5)
    assert BY_ID["interaction-peak"].verify().verdict == "fails"
    slope = renyi.interaction_slope
    monkeypatch.setattr(renyi, "interaction_slope", lambda x, beta: slope(x, 1.05 * beta))
    assert BY_ID["interaction-peak-bracket"].verify().verdict == "fails"


def test_counts_of_other_laws_are_rejected():
    _, measure = BY_ID["strong-renyi-count"].evaluate(**BY_ID["strong-renyi-count"].control)
    assert measure().value > 10
    _, measure = BY_ID["renyi-count"].evaluate(**BY_ID["renyi-count"].control)
    assert measure().value > 10


def test_the_second_condition_of_frozen_centres_has_a_sign():
    """With heavy frozen tokens the condition with its minus sign is missed; without it nothing would be."""
    example = BY_ID["frozen-centres"].example()
    masses = np.where(np.arange(64) < 3, 1e9, 1.0)
    flow = af.SphereAttention(
        af.Head.identity(2), af.Softmax(16.0), af.masks.causal, frozen=example.flow.frozen, masses=masses
    )
    broken = BY_ID["frozen-centres"].check_instance(dataclasses.replace(example, flow=flow)).broken
    assert any("g((c" in hypothesis.says for hypothesis in broken)
    c = 4.0 * (2 * np.pi - 4.2)
    assert renyi.interaction_slope((c - 0.2) / 4, 16.0) < 0


@pytest.mark.parametrize("name", [one.id for one in STATEMENTS if hasattr(one, "measure")])
def test_other_flows_are_not_applicable(name):
    """Flat space, changing weights, hardmax, one token, d = 1: an answer, never a traceback."""
    changing = af.PiecewiseHead([1.0], [af.Head.identity(2), af.Head.identity(2)])
    flows = [
        (af.EuclideanAttention(af.Head.identity(2)), np.array([[3.0, 1.0], [0.0, 2.0]])),
        (af.SphereAttention(changing, mask=af.masks.causal), np.eye(2)),
        (af.SphereAttention(af.Head.identity(2), af.Hardmax(), af.masks.causal), np.eye(2)),
        (af.SphereAttention(af.Head.identity(1), mask=af.masks.causal), np.array([[1.0], [-1.0]])),
        (af.SphereAttention(af.Head.identity(2), normalisation=af.Pre(), mask=af.masks.causal), 2 * np.eye(2)),
    ]
    for flow, tokens in flows:
        verdict = BY_ID[name].check_instance(Instance(flow, tokens, np.array([0.0, 1.0])))
        expected = (
            ("holds", "not_applicable") if name in ("first-token",) and flow.dimension == 1 else ("not_applicable",)
        )
        assert verdict.verdict in expected, verdict


def test_the_lower_bound_of_the_attraction_is_false_beyond_pi():
    _, measure = BY_ID["interaction-bounds"].evaluate(beta=0.5, end=2 * np.pi - 0.1)
    assert not measure().met


def test_wide_caps_do_not_grow_with_the_exponent():
    _, measure = BY_ID["renyi-exponent"].evaluate(d=4, betas=(20.0, 100.0))
    assert not measure().met


SCALING_CHANGES = {
    "uniform tokens": {"law": "circle"},
    "d >= 2": {"d": 1},
    "delta <= 0.5, so that caps are nearly flat": {"deltas": (1.4, 0.5)},
    "delta is halved at least": {"deltas": (0.3, 0.25)},
    "a token per cap or more": {"attempts": 0.1},
    "at least 20 runs": {"runs": 5},
}


@pytest.mark.parametrize("says", SCALING_CHANGES)
def test_the_scaling_of_centres_names_each_hypothesis(says):
    verdict = BY_ID["renyi-scaling"].check(**{"d": 3} | SCALING_CHANGES[says])
    assert [one.says for one in verdict.broken] == [says]


@pytest.mark.parametrize(("d", "exponent"), [(2, 0.5), (3, 1.0)])
def test_the_scaling_of_centres_rejects_other_exponents(d, exponent):
    assert BY_ID["renyi-scaling"].check(d=d).verdict == "holds"
    _, measure = BY_ID["renyi-scaling"].evaluate(d=d, law="circle")  # a great circle: exponent 1/2 in every dimension
    found = measure()
    assert found.met == (d == 2)
    assert found.value == pytest.approx(exponent - 0.5, abs=0.05)


# The sequence of gradient flows


def test_the_descent_is_the_gradient_written_out():
    """Against the formula of Lemma 5.3 with its sums and sines, in loops."""
    angles, masses, beta = np.array([0.3, 2.0, 1.1, -2.5]), np.array([1.0, 3.0, 1.0, 2.0]), 3.0
    expected = np.zeros(4)
    for k in range(4):
        weights = [masses[j] * np.exp(beta * (np.cos(angles[k] - angles[j]) - 1)) for j in range(k + 1)]
        pulls = [weight * np.sin(angles[j] - angles[k]) for j, weight in enumerate(weights)]
        expected[k] = sum(pulls) / sum(weights)
    np.testing.assert_allclose(causal_energy.descent_velocity(angles, beta, masses), expected, rtol=1e-13)


def test_the_energy_of_a_token_decreases_while_the_tokens_before_it_rest():
    """E_k along the motion of token k alone; with all tokens in motion some E_k increases."""
    example = BY_ID["sequential-gradient"].example()
    angles_of = lambda run: np.arctan2(run.tokens[..., 1], run.tokens[..., 0]).values
    energy = lambda angles: causal_energy.prefix_energy(angles, angles, 4.0, np.asarray(example.flow.masses)[:12])[-1]
    prefix = dataclasses.replace(example.flow, frozen=np.arange(12) < 11, masses=np.asarray(example.flow.masses)[:12])
    alone = af.simulate(prefix, example.tokens[:12], example.times, progress=False)
    assert np.diff([energy(angles) for angles in angles_of(alone)]).max() < 1e-9
    together = angles_of(example.simulate())
    energies = [
        causal_energy.prefix_energy(angles, angles, 4.0, np.asarray(example.flow.masses)) for angles in together
    ]
    assert np.diff(energies, axis=0).max() > 1e-3


GRADIENT_CHANGES = {
    "causal mask": {"mask": af.masks.full},
    "softmax attention": {"attention": af.Unnormalised(4.0)},
    "one head with constant weights; no noise, no MLP": {"noise": af.Noise(1e3)},
    "Q^T K = I": {"heads": (af.Head.bilinear(np.diag([1.0, 0.9]), np.eye(2)),)},
    "V = I": {"heads": (af.Head.bilinear(np.eye(2), np.diag([1.0, 0.9])),)},
}


@pytest.mark.parametrize("says", GRADIENT_CHANGES)
def test_the_gradient_needs_each_hypothesis(says):
    """Each change breaks one hypothesis alone, and the measurement by far."""
    example = BY_ID["sequential-gradient"].example()
    instance = dataclasses.replace(example, flow=dataclasses.replace(example.flow, **GRADIENT_CHANGES[says]))
    assert [one.says for one in BY_ID["sequential-gradient"].check_instance(instance).broken] == [says]
    assert measured("sequential-gradient", instance).value > 0.1


def test_the_gradient_is_asked_only_where_the_lemma_speaks():
    statement = BY_ID["sequential-gradient"]
    sphere = af.SphereAttention(af.Head.identity(3), af.Softmax(4.0), af.masks.causal)
    uniform = af.SphereAttention(af.Head.identity(2), af.Softmax(0.0), af.masks.causal)
    times = np.linspace(0.0, 1.0, 41)
    cases = {
        "d = 2": Instance(sphere, af.initial.sphere(4, 3, rng=0), times),
        "beta > 0": Instance(uniform, af.initial.circle(4, rng=0), times),
        "n >= 2": Instance(dataclasses.replace(uniform, attention=af.Softmax(1.0)), np.array([[1.0, 0.0]]), times),
    }
    for says, instance in cases.items():
        assert [one.says for one in statement.check_instance(instance).broken] == [says]


def test_saved_times_too_far_apart_decide_nothing_about_the_gradient():
    statement, example = BY_ID["sequential-gradient"], BY_ID["sequential-gradient"].example()
    verdict = statement.check_instance(dataclasses.replace(example, times=np.linspace(0.0, 20.0, 21)))
    assert verdict.verdict == "undecided"
    assert "too far apart" in verdict.explanation()
    few = statement.check_instance(dataclasses.replace(example, times=np.array([0.0, 1.0])))
    assert few.verdict == "undecided"


@pytest.mark.parametrize(("share", "count"), [(1.1, 1), (1.3, 2)])
def test_strong_centres_are_farther_apart_than_their_lifetime_needs(share, count):
    """At c (1 + 2 epsilon) / sqrt(beta) = 1.2 c / sqrt(beta)."""
    beta = 64.0
    angle = share * centre_formulas.SEPARATION / np.sqrt(beta)
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta), af.masks.causal)
    [hypothesis] = causal_centres._two_strong_centres(flow, af.initial.on_circle(np.array([0.0, angle])))
    assert hypothesis.holds == (count == 2)
