"""Theorems about limits: `predict` and `verify` share their hypotheses, each hypothesis can be broken alone, and what
follows for V = c I, for beta Q^T K and for exceptional starts is tested on both functions."""

import re

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.optimize import brentq

import attnflow as af
from attnflow.theorems.catalogue import catalogue
from attnflow.theorems.prediction.limit_rules import RULES
from attnflow.theorems.prediction.predict import predict
from attnflow.theorems.statement import Instance

THEOREMS = {rule.theorem.id: rule.theorem for rule in RULES}
SHARED = sorted(THEOREMS.keys() & catalogue().keys())
MIX = "polytope-times-hyperplane"


def test_predict_and_verify_hold_the_same_records():
    assert len(SHARED) == 15
    for name in SHARED:
        assert catalogue()[name].theorem is THEOREMS[name]


@pytest.mark.parametrize("name", SHARED)
def test_predict_applies_a_theorem_to_the_example_that_verify_checks(name):
    example = catalogue()[name].example()
    assert name in {result.id for result in predict(example.flow, example.tokens).results}


@pytest.mark.parametrize("name", THEOREMS)
def test_changing_weights_and_several_heads_are_outside_every_theorem(name):
    changing = af.PiecewiseHead([1.0], [af.Head.identity(2), af.Head.identity(2)])
    for heads in (changing, [af.Head.identity(2)] * 2):
        for kind in (af.EuclideanAttention, af.SphereAttention):
            assert not all(one.holds for one in THEOREMS[name].hypotheses(kind(heads), None))


# Flows


def flat(value, scores=None, beta=1.0, **options):
    value = np.asarray(value, dtype=float)
    head = af.Head.bilinear(np.eye(len(value)) if scores is None else scores, value)
    return af.RescaledAttention(head, options.pop("attention", af.Softmax(beta)), **options)


def round_(value, scores=None, beta=1.0, mask=af.masks.full, **options):
    value = np.asarray(value, dtype=float)
    head = af.Head.bilinear(np.eye(len(value)) if scores is None else scores, value)
    return af.SphereAttention(head, options.pop("attention", af.Softmax(beta)), mask, **options)


def causal(value, scores=None, beta=1.0, **options):
    return round_(value, scores, beta, af.masks.causal, **options)


I1, I2, I3, I4 = (np.eye(d) for d in range(1, 5))
BOX1, BOX2, BOX3, BOX4 = (af.initial.box(6, d, rng=0) for d in range(1, 5))
S1, S2, S3 = (af.initial.sphere(6, d, rng=0) for d in range(2, 5))
HEMISPHERE = af.initial.hemisphere(6, 3, rng=0)
TRIANGLE = af.initial.on_circle(2 * np.pi * np.arange(3) / 3)
SIMPLEX = af.initial.equiangular(4, 3, -1 / 3)
MASSES = np.arange(1.0, 7.0)
INDEFINITE = np.diag([1.0, -1.0])
STRETCHED = np.diag([1.0, 2.0, 1.0])
PAIR = af.values.complex_pair(1.0, 2.0)
SHEARED = np.array([[0.5, 5.0], [0.0, 0.5]])  # eigenvalues 0.5, but <Vz, z> up to 3 |z|^2
TWO_POINTS = np.array([[1.0], [1.0]])


def moved(tokens, **rows):
    """The tokens with some of them replaced: x1 is token 1."""
    changed = np.array(tokens)
    for name, row in rows.items():
        changed[int(name[1:]) - 1] = row
    return changed


def interior_equilibrium(first, second, beta, d):
    """Two tokens at rest under a causal mask: e_1 and alpha e_1 + sqrt(1 - alpha^2) e_d.

    alpha = -e^{beta (alpha - 1)} lambda_1 / (lambda_1 - lambda_d), where lambda_1 and lambda_d belong to e_1 and e_d.
    """
    alpha = brentq(lambda a: a + np.exp(beta * (a - 1)) * first / (first - second), -1, 1, xtol=1e-15)
    tokens = np.zeros((2, d))
    tokens[0, 0], tokens[1, 0], tokens[1, -1] = 1.0, alpha, np.sqrt(1 - alpha**2)
    return tokens


def in_flat_space(flow, attention, tokens):
    """Cases that break one hypothesis of the setting in R^d; `flow` makes the flow with its matrices."""
    d = tokens.shape[1]
    on_sphere = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
    return [
        ("tokens move in R^d", af.SphereAttention(flow().heads, flow().attention), on_sphere),
        ("x or z", flow(rescaling=2 * np.eye(d)), tokens),
        ("one head", flow(masses=MASSES), tokens),
        ("attention", flow(attention=attention), tokens),
        ("full mask", flow(mask=af.masks.causal), tokens),
    ]


def on_the_sphere(flow, tokens, mask="full", scheme=None):
    """Cases that break one hypothesis of the setting on the sphere."""
    other = af.masks.causal if mask == "full" else af.masks.full
    return [
        ("on the unit sphere", af.EuclideanAttention(flow().heads, mask=flow().mask), tokens),
        ("normalisation", flow(normalisation=scheme or af.Pre()), tokens),
        ("one head", flow(noise=af.Noise(1.0)), tokens),
        ("attention", flow(attention=af.Sinkhorn(1.0)), tokens),
        (f"{mask} mask", flow(mask=other), tokens),
    ]


def with_options(make, *matrices, **fixed):
    return lambda **options: make(*matrices, **{**fixed, **options})


def sphere_with_mask(value, scores=None, beta=1.0, mask=af.masks.full, **options):
    return round_(value, scores, beta, mask, **options)


BROKEN = {
    "polytope": [
        *in_flat_space(with_options(flat, I2), af.Unnormalised(1.0), BOX2),
        ("multiple of I", flat(np.diag([2.0, 1.0])), BOX2),
        ("positive", flat(-I2), BOX2),
        ("positive definite", flat(I2, INDEFINITE), BOX2),
        ("positive definite", flat(I2, I2 + 0.1 * np.eye(2, k=1)), BOX2),  # not symmetric
        ("positive definite", flat(I2, beta=-1.0), BOX2),
    ],
    "boolean-limit": [
        *in_flat_space(with_options(flat, I1), af.Unnormalised(1.0), BOX1),
        ("d = 1", flat(I2), BOX2),
        ("positive", flat(-I1), BOX1),
        ("positive definite", flat(I1, -I1), BOX1),
        ("distinct", flat(I1), moved(BOX1, x2=BOX1[0])),
    ],
    "minus-identity": [
        *in_flat_space(with_options(flat, -I2), af.Unnormalised(1.0), BOX2),
        ("multiple of I", flat(np.diag([-1.0, -2.0])), BOX2),
        ("negative", flat(I2), BOX2),
        ("positive definite", flat(-I2, INDEFINITE), BOX2),
        ("variance", flat(-I2), BOX1 * [[1.0, 2.0]]),
    ],
    "hyperplanes": [
        *in_flat_space(with_options(flat, np.diag([2.0, 1.0])), af.Unnormalised(1.0), BOX2),
        ("larger than all others", flat(np.diag([1.0, -1.0])), BOX2),
        ("<Q phi_1, K phi_1> > 0", flat(np.diag([2.0, 1.0]), -INDEFINITE), BOX2),
    ],
    MIX: [
        *in_flat_space(with_options(flat, np.diag([1.0, 1.0, 0.5])), af.Unnormalised(1.0), BOX3),
        ("is real", flat(block_diag(PAIR, 0.5)), BOX3),
        ("no Jordan block", flat(af.values.jordan_block(1.0, 2)), BOX2),
        ("larger than the others", flat(np.diag([1.0, 1.0, -1.5])), BOX3),
        ("positive definite", flat(np.diag([1.0, 1.0, 0.5]), np.diag([1.0, 1.0, -1.0])), BOX3),
        ("orthogonal", flat(np.diag([1.0, 1.0, 0.5]), I3 + 0.2), BOX3),
    ],
    "hardmax-limits": [
        *in_flat_space(with_options(flat, I2, attention=af.Hardmax()), af.Softmax(1.0), BOX2),
        ("ties", flat(I2, attention=af.Hardmax(1e-3)), BOX2),
        ("multiple of I", flat(np.diag([2.0, 1.0]), attention=af.Hardmax()), BOX2),
        ("positive", flat(-I2, attention=af.Hardmax()), BOX2),
        ("positive definite", flat(I2, INDEFINITE, attention=af.Hardmax()), BOX2),
    ],
    "codimension-k": [
        *in_flat_space(with_options(flat, np.diag([2.0, 1.0])), af.Unnormalised(1.0), BOX2),
        ("real and simple", flat(block_diag(PAIR, -0.5)), BOX3),
        ("positive", flat(np.diag([-1.0, -2.0])), BOX2),
        ("all eigenvalues", flat(np.diag([2.0, 1.0, 1.0])), BOX3),
    ],
    "identity-value": [
        *on_the_sphere(with_options(sphere_with_mask, I3, mask=af.masks.causal), S2, "causal"),
        ("d >= 2", causal(I1), TWO_POINTS),
        ("multiple of I", causal(np.diag([2.0, 1.0, 1.0])), S2),
        ("positive", causal(-I3), S2),
        ("antipodal", causal(I3), moved(S2, x2=-S2[0])),
    ],
    "hemisphere-rate": [
        *on_the_sphere(with_options(sphere_with_mask, I3), HEMISPHERE),
        ("multiple of I", round_(np.diag([2.0, 1.0, 1.0])), HEMISPHERE),
        ("positive", round_(-I3), HEMISPHERE),
        ("hemisphere", round_(I3), moved(HEMISPHERE, x2=-HEMISPHERE[0])),
    ],
    "single-cluster": [
        *on_the_sphere(with_options(sphere_with_mask, I3), S2),
        ("d >= 3", round_(I2), S1),
        ("V is a multiple of I", round_(np.diag([2.0, 1.0, 1.0])), S2),
        ("positive", round_(-I3), S2),
        ("Q^T K is a multiple of I", round_(I3, STRETCHED), S2),
        ("beta k >= 0", round_(I3, beta=-1.0), S2),
        ("antipodal", round_(I3), moved(S2, x2=-S2[0])),
        ("at rest", round_(I3), SIMPLEX),
    ],
    "single-cluster-circle": [
        *on_the_sphere(with_options(sphere_with_mask, I2), S1),
        ("d = 2", round_(I3), S2),
        ("V is a multiple of I", round_(np.diag([2.0, 1.0])), S1),
        ("positive", round_(-I2), S1),
        ("Q^T K is a multiple of I", round_(I2, np.diag([1.0, 2.0])), S1),
        ("beta k >= -0.16", round_(I2, beta=-0.17), S1),
        ("antipodal", round_(I2), moved(S1, x2=-S1[0])),
        ("at rest", round_(I2), TRIANGLE),
    ],
    "synchronisation": [
        *on_the_sphere(with_options(sphere_with_mask, I3, normalisation=af.NGPT()), S2),
        ("d >= 2", round_(I1, normalisation=af.NGPT()), TWO_POINTS),
        ("V is a multiple of I", round_(np.diag([2.0, 1.0, 1.0])), S2),
        ("positive", round_(-I3, normalisation=af.Sqrt()), S2),
        ("Q^T K is a multiple of I", round_(I3, STRETCHED), S2),
        ("beta k >= 0", round_(I3, beta=-1.0, normalisation=af.NGPT()), S2),
        ("antipodal", round_(I3), moved(S2, x2=-S2[0])),
        ("at rest", round_(I3), SIMPLEX),
    ],
    "synchronisation-with-lengths": [
        *on_the_sphere(with_options(sphere_with_mask, I3, beta=3.0, normalisation=af.Pre()), S2, scheme=af.Post()),
        ("d >= 2", round_(I1, normalisation=af.Pre()), TWO_POINTS),
        ("V is a multiple of I", round_(np.diag([2.0, 1.0, 1.0]), beta=3.0, normalisation=af.Pre()), S2),
        ("positive", round_(-I3, beta=3.0, normalisation=af.Pre()), S2),
        ("Q^T K is a multiple of I", round_(I3, STRETCHED, beta=3.0, normalisation=af.Peri()), S2),
        ("beta k >= 0", round_(I3, beta=-3.0, normalisation=af.Pre()), S2),
        ("n <= e^(beta k)", round_(I3, beta=1.0, normalisation=af.Pre()), S2),
        ("antipodal", round_(I3, beta=3.0, normalisation=af.Mix(1.0)), moved(2 * S2, x2=-S2[0])),
        ("at rest", round_(I3, beta=3.0, normalisation=af.Pre()), SIMPLEX),
    ],
    "conjecture-2": [
        *on_the_sphere(with_options(sphere_with_mask, np.diag([1.0, 1.0, 0.5]), mask=af.masks.causal), S2, "causal"),
        ("is real", causal(block_diag(PAIR, PAIR)), S3),
        ("positive", causal(np.diag([-1.0, -1.0, -2.0])), S2),
        ("dimension 2 or more", causal(np.diag([2.0, 1.0, 0.5])), S2),
        ("no Jordan block", causal(block_diag(af.values.jordan_block(1.0, 2), 1.0)), S2),
        ("into itself", causal([[1.0, 0.0, 3.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.5]]), S2),
        ("<Vz, z>", causal(block_diag(I2, SHEARED)), S3),
        ("part in the leading space", causal(np.diag([1.0, 1.0, 0.5])), moved(S2, x1=[0.0, 0.0, 1.0])),
        ("antipodal", causal(np.diag([1.0, 1.0, 0.5])), moved(S2, x2=-S2[0])),
        ("at rest", causal(np.diag([1.0, 1.0, -0.5]), beta=5.0), interior_equilibrium(1.0, -0.5, 5.0, 3)),
    ],
    "conjecture-1": [
        *on_the_sphere(with_options(sphere_with_mask, np.diag([2.0, 1.0, 0.5]), mask=af.masks.causal), S2, "causal"),
        ("d >= 2", causal(I1), TWO_POINTS),
        ("real and simple", causal(block_diag(PAIR, 0.5)), S2),
        ("positive", causal(np.diag([-1.0, -2.0, -3.0])), S2),
        ("into itself", causal([[2.0, 3.0], [0.0, 1.0]]), S1),
        ("<Vz, z>", causal(block_diag(1.0, SHEARED)), S2),
        ("Q^T K is a multiple of I", causal(np.diag([2.0, 1.0, 0.5]), STRETCHED), S2),
        ("beta k >= 0", causal(np.diag([2.0, 1.0, 0.5]), beta=-1.0), S2),
        ("part in the leading space", causal(np.diag([2.0, 1.0])), moved(S1, x1=[0.0, 1.0])),
        ("at rest", causal(np.diag([1.0, -0.5]), beta=5.0), interior_equilibrium(1.0, -0.5, 5.0, 2)),
    ],
}
CASES = [(name, *case) for name, cases in BROKEN.items() for case in cases]


def test_every_shared_theorem_has_its_cases():
    assert sorted(BROKEN) == SHARED


@pytest.mark.parametrize(("name", "says", "flow", "tokens"), CASES, ids=[f"{case[0]}: {case[1]}" for case in CASES])
def test_each_hypothesis_can_be_broken_alone(name, says, flow, tokens):
    """It is the only one that is missed; neither function applies the theorem then."""
    (missed,) = [one for one in THEOREMS[name].hypotheses(flow, tokens) if not one.holds]
    assert says in missed.says
    assert name not in {result.id for result in predict(flow, tokens).results}
    verdict = catalogue()[name].check_instance(Instance(flow, tokens, np.array([0.0, 1.0])))
    assert (verdict.verdict, verdict.broken) == ("not_applicable", (missed,))


@pytest.mark.parametrize("name", SHARED)
def test_no_hypothesis_is_left_without_a_case(name):
    example = catalogue()[name].example()
    asked = THEOREMS[name].hypotheses(example.flow, example.tokens)
    assert all(one.holds for one in asked)
    broken = {
        one.says for _, flow, tokens in BROKEN[name] for one in THEOREMS[name].hypotheses(flow, tokens) if not one.holds
    }
    assert {one.says for one in asked} <= broken


# V = c I, and beta as a part of Q^T K: `predict` and `verify` on the same flow


def assert_agreed(name, instance, verdict="holds"):
    """`predict` applies the theorem, and `verify` gives the verdict."""
    assert name in {result.id for result in predict(instance.flow, instance.tokens).results}
    found = catalogue()[name].check_instance(instance)
    assert found.verdict == verdict, found.explanation()
    return found


DEFINITE = np.array([[2.0, 0.5], [0.5, 1.0]])


@pytest.mark.parametrize("kind", [af.RescaledAttention, af.EuclideanAttention])
def test_polytopes_of_another_unit_of_time(kind):
    flow = kind(af.Head.bilinear(DEFINITE, 4 * I2))
    instance = Instance(flow, af.initial.box(20, 2, rng=0), np.linspace(0, 5, 41))
    assert_agreed("polytope", instance)
    assert catalogue()["rank-bound"].check_instance(instance).verdict == "holds"


def test_a_slow_polytope_is_not_judged_before_its_time():
    """At t = 20 tokens under V = I / 4 are where those under V = I are at t = 5, and move as much in a unit of ct."""
    tokens = af.initial.box(20, 2, rng=0)
    early = Instance(flat(0.25 * I2), tokens, np.linspace(0, 20, 41))
    assert "still move" in assert_agreed("polytope", early, "undecided").explanation()
    assert_agreed("polytope", Instance(flat(0.25 * I2), tokens, np.linspace(0, 80, 41)))


def test_minus_identity_in_other_coordinates_and_units_of_time():
    flow = af.EuclideanAttention(af.Head.bilinear(DEFINITE, -2 * I2), af.Softmax(0.5))
    times = np.r_[0.0, np.geomspace(0.1, 500.0, 40)]
    assert_agreed("minus-identity", Instance(flow, af.initial.box(20, 2, rng=0), times))


@pytest.mark.parametrize("kind", [af.RescaledAttention, af.EuclideanAttention])
def test_hardmax_in_another_unit_of_time(kind):
    flow = kind(af.Head.bilinear(I2, 2 * I2), af.Hardmax())
    box, square = af.initial.box(20, 2, rng=0), catalogue()["frank-wolfe-flow"].example().tokens
    assert_agreed("hardmax-limits", Instance(flow, box, np.linspace(0, 10, 41)))
    for name in ("hardmax-leaders", "frank-wolfe-flow"):
        verdict = catalogue()[name].check_instance(Instance(flow, square, np.linspace(0, 5, 41)))
        assert verdict.verdict == "holds", verdict.explanation()
    layers = Instance(flow, square, 0.25 * np.arange(21), af.Layers(0.25))
    verdict = catalogue()["frank-wolfe-layers"].check_instance(layers)
    assert verdict.verdict == "holds", verdict.explanation()


def test_a_leading_complex_pair_is_outside_the_codimension_conjecture():
    """1 +- 2i and -0.5: the two turning coordinates gather in more than three places."""
    value = block_diag(PAIR, -0.5)
    instance = Instance(flat(value), af.initial.box(20, 3, rng=0), np.linspace(0, 20, 41))
    assert predict(instance.flow, instance.tokens).limit == "unknown"
    assert catalogue()["codimension-k"].check_instance(instance).verdict == "not_applicable"
    assert catalogue()["codimension-k"].measure(instance.flow, instance.simulate()).value > 3


def test_eigenvalues_that_do_not_grow_may_be_multiple_in_the_codimension_conjecture():
    flow = flat(np.diag([1.0, -1.0, -1.0]))
    assert_agreed("codimension-k", Instance(flow, af.initial.box(12, 3, rng=0), np.linspace(0, 20, 41)))


@pytest.mark.parametrize("value", [np.diag([2.0, 1.0]), 2 * I2], ids=["F is a line", "F is the whole space"])
def test_the_mixed_case_includes_its_ends(value):
    assert_agreed(MIX, Instance(flat(value), af.initial.box(12, 2, rng=0), np.linspace(0, 15, 41)))
    assert predict(flat(value)).limit != MIX  # Theorems 4.2 and 3.1 say more


@pytest.mark.parametrize("beta", [-1.0, 1.0])
def test_causal_tokens_meet_at_the_first_whatever_the_sign_of_the_scores(beta):
    flow = causal(2 * I3, np.random.default_rng(1).normal(size=(3, 3)), beta)
    assert_agreed("identity-value", Instance(flow, S2, np.linspace(0, 300, 11)))


def test_causal_tokens_antipodal_to_each_other_but_not_to_the_first_meet():
    assert_agreed("identity-value", Instance(causal(I3), moved(S2, x3=-S2[1]), np.linspace(0, 300, 11)))


@pytest.mark.parametrize("attention", [af.Softmax(1.0), af.Unnormalised(1.0), af.Unnormalised(1.0, offset=1.0)])
def test_the_rate_in_a_hemisphere_for_other_weights(attention):
    scores = np.array([[1.0, 0.3, 0.0], [-0.2, 0.5, 0.4], [0.1, 0.0, -0.3]])
    flow = round_(2 * I3, scores, attention=attention)
    assert_agreed("hemisphere-rate", Instance(flow, HEMISPHERE, np.linspace(0, 12, 241)))
    wrong = round_(2.2 * I3, scores, attention=attention)
    run = Instance(flow, HEMISPHERE, np.linspace(0, 12, 241)).simulate()
    assert not catalogue()["hemisphere-rate"].measure(wrong, run).met


def test_one_cluster_for_multiples_of_the_identity():
    assert_agreed("single-cluster", Instance(round_(3 * I3, 2 * I3, 0.5), S2, np.linspace(0, 20, 41)))
    assert_agreed("single-cluster-circle", Instance(round_(3 * I2, 2 * I2, -0.05), S1, np.linspace(0, 60, 41)))


def test_tokens_in_one_point_are_one_cluster():
    together = np.tile(S2[:1], (4, 1))
    assert_agreed("single-cluster", Instance(round_(I3), together, np.linspace(0, 5, 11)))


@pytest.mark.parametrize("scheme", [af.Post(), af.NGPT(), af.Sqrt()])
def test_synchronisation_in_another_unit_of_time(scheme):
    flow = round_(2 * I3, 0.5 * I3, 2.0, normalisation=scheme)
    assert_agreed("synchronisation", Instance(flow, S2, np.linspace(0, 100, 121)))


@pytest.mark.parametrize("scheme", [af.Pre(), af.Mix(2.0), af.Peri()])
def test_synchronisation_with_lengths_counts_tokens_by_the_scores(scheme):
    """Six tokens at beta k = 2 are fewer than e^2, at beta = 1 alone they would be more than e."""
    flow = round_(2 * I3, 2 * I3, 1.0, normalisation=scheme)
    tokens = af.initial.gaussian(6, 3, rng=1)
    assert_agreed("synchronisation-with-lengths", Instance(flow, tokens, np.r_[0.0, np.geomspace(1e-2, 1e5, 60)]))


def test_repelling_scores_are_outside_the_first_conjecture():
    """Q^T K = I with beta < 0, or Q^T K = -I with beta > 0: the same flow, and the same answers."""
    value = np.diag([2.0, 1.0, 0.5])
    for flow in (causal(value, beta=-1.0), causal(value, -I3)):
        assert predict(flow, S2).limit == "unknown"
        instance = Instance(flow, S2, np.array([0.0, 1.0]))
        assert catalogue()["conjecture-1"].check_instance(instance).verdict == "not_applicable"
    assert_agreed("conjecture-1", Instance(causal(value, -I3, -1.0), S2, np.linspace(0, 60, 11)))


def test_tokens_at_both_poles_are_at_their_limit():
    poles = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert_agreed("conjecture-1", Instance(causal(np.diag([3.0, 1.0, 0.5]), beta=2.0), poles, np.array([0.0, 1.0])))


def test_the_second_conjecture_includes_the_identity():
    assert_agreed("conjecture-2", Instance(causal(I3), S2, np.linspace(0, 300, 11)))
    assert predict(causal(I3)).limit == "first-token"


def test_a_theorem_that_needs_the_first_tokens_says_so():
    hypotheses = THEOREMS["hemisphere-rate"].hypotheses(round_(I3), None)
    (missed,) = [one for one in hypotheses if not one.holds]
    assert "pass `tokens`" in missed.says
    assert missed.kind == "start"


def test_sentences_say_what_their_spaces_are():
    """F and G are those of leading and of other generalised eigenvectors, which every sentence that names them says."""
    naming = [one for one in THEOREMS.values() if re.search(r"\bF\b", one.says)]
    assert {one.id for one in naming} == {"polytope-times-hyperplane", "polytope-times-hyperplane-general"}
    assert all("leading eigenvectors" in one.says and "other generalised eigenvectors" in one.says for one in naming)
