"""Statements about hardmax: examples hold, controls do not, and every measurement can fail."""

import numpy as np
import pytest

import attnflow as af
from attnflow.theorems.statement import Instance
from attnflow.theorems.statements import hardmax

STATEMENTS = {statement.id: statement for statement in hardmax.STATEMENTS}
BOX = af.initial.box(20, 2, rng=0)
# Token 2 follows token 0, which runs away to token 1 and leaves it to lead itself.
EMERGING = np.array([[-0.171, 0.366], [0.806, 0.892], [-0.235, 0.153]])


def flowing(tokens, flow=None, end=20.0):
    return Instance(flow or af.RescaledAttention(af.Head.identity(2), af.Hardmax()), tokens, np.linspace(0, end, 41))


def measured(name, case):
    return STATEMENTS[name].measure(case.flow, case.simulate())


@pytest.mark.parametrize("name", STATEMENTS)
def test_the_example_holds(name):
    verdict = STATEMENTS[name].verify()
    assert verdict.verdict == "holds", verdict.explanation()


@pytest.mark.parametrize("name", STATEMENTS)
def test_the_control_does_not_apply(name):
    assert STATEMENTS[name].verify_control().verdict == "not_applicable"


@pytest.mark.parametrize("name", ["frank-wolfe-flow", "frank-wolfe-layers"])
def test_where_a_vertex_does_not_own_its_cell_the_formula_fails(name):
    found = measured(name, STATEMENTS[name].control())
    assert found.value > 0.1
    assert not found.met


def test_under_softmax_leaders_move():
    soft = af.RescaledAttention(af.Head.identity(2), af.Softmax(beta=0.01))
    assert measured("hardmax-leaders", flowing(BOX, soft, 5.0)).value > 0.1


def test_with_another_value_matrix_tokens_end_elsewhere():
    flow = af.RescaledAttention(af.Head.bilinear(np.eye(2), np.diag([1.0, 0.0])), af.Hardmax())
    found = measured("hardmax-limits", flowing(BOX, flow))
    assert found.value > 0.1
    assert found.open == ""


@pytest.mark.parametrize("seed", range(3))
def test_leaders_and_limits_in_continuous_time(seed):
    case = flowing(af.initial.box(20, 2, rng=seed))
    run = case.simulate()
    for name in ("hardmax-leaders", "hardmax-limits"):
        verdict = STATEMENTS[name].check(case.flow, run)
        assert verdict.verdict == "holds", verdict.explanation()


def test_an_emerging_leader_is_named_and_decides_nothing():
    flow = af.RescaledAttention(af.Head.identity(2), af.Hardmax())
    case = Instance(flow, EMERGING, 0.25 * np.arange(121), af.Layers(step=0.25))
    verdict = STATEMENTS["hardmax-limits-layers"].check_instance(case)
    assert verdict.verdict == "undecided"
    assert "token 3 became a leader" in verdict.explanation()
    assert STATEMENTS["hardmax-leaders-layers"].check_instance(case).verdict == "holds"


def test_a_short_run_says_that_tokens_still_move():
    verdict = STATEMENTS["hardmax-limits"].check_instance(flowing(BOX, end=1.0))
    assert verdict.verdict == "undecided"
    assert "still move" in verdict.explanation()


def test_a_leader_that_ties_at_first_is_none():
    """Token 0 ties with token 3, so that it moves; the statement is about tokens that are alone at the top."""
    tied = np.array([[-0.4, 0.2], [0.1, 0.6], [0.1, -0.4], [-0.2, 0.6], [0.3, 0.9], [-0.3, 0.1]])
    assert STATEMENTS["hardmax-leaders"].check_instance(flowing(tied)).verdict == "holds"


@pytest.mark.parametrize("name", ["hardmax-leaders", "hardmax-leaders-layers"])
def test_a_leader_that_is_moved_fails(name):
    """Mutation: one leader of one snapshot is put a hundredth aside."""
    case = STATEMENTS[name].example()
    run = case.simulate()
    leader = int(np.argmax(np.linalg.norm(case.tokens, axis=1)))
    run.tokens[10, leader] += 0.01
    assert STATEMENTS[name].check(case.flow, run).verdict == "fails"


def by_hand(tokens, gamma, layers):
    """The published recursion, written out."""
    for _ in range(layers):
        best = np.argmax(tokens @ tokens.T, axis=1)
        tokens = (1 - gamma) * tokens + gamma * tokens[best]
    return tokens


@pytest.mark.parametrize(
    ("flow", "residual", "gamma"),
    [
        (af.RescaledAttention(af.Head.identity(2), af.Hardmax()), 1.0, 1 / 3),
        (af.EuclideanAttention(af.Head.identity(2), af.Hardmax()), 0.5, 1 / 2),
        (af.EuclideanAttention(af.Head.identity(2), af.Hardmax()), 1.0, 1 / 3),
    ],
)  # fmt: skip
def test_all_kinds_of_layers_are_the_recursion_and_the_formula(flow, residual, gamma):
    """alpha = 1/2 is gamma = 1/3; plain layers without a frame are the same up to a common factor."""
    tokens = STATEMENTS["frank-wolfe-layers"].example().tokens
    case = Instance(flow, tokens, 0.5 * np.arange(11), af.Layers(step=0.5, residual=residual))
    run = case.simulate()

    z, share = hardmax.places(flow, run)

    np.testing.assert_allclose(z[-1], by_hand(tokens, gamma, 10), atol=1e-14)
    np.testing.assert_allclose(share[-1], (1 - gamma) ** 10, rtol=1e-12)
    assert STATEMENTS["frank-wolfe-layers"].check(flow, run).verdict == "holds"


def test_a_run_of_the_flow_is_not_one_of_layers():
    case = STATEMENTS["frank-wolfe-flow"].example()
    run = case.simulate()
    assert STATEMENTS["frank-wolfe-layers"].check(case.flow, run).verdict == "not_applicable"
    layers = STATEMENTS["frank-wolfe-layers"].example()
    assert STATEMENTS["frank-wolfe-flow"].check(layers.flow, layers.simulate()).verdict == "not_applicable"


def test_missing_tokens_and_single_tokens():
    case = flowing(BOX)
    run = case.simulate()
    run.tokens[2, 1] = np.nan
    for name in ("hardmax-leaders", "hardmax-limits"):
        assert STATEMENTS[name].check(case.flow, run).verdict == "undecided"
    alone = flowing(np.array([[1.0, 2.0]]))
    assert STATEMENTS["hardmax-leaders"].check_instance(alone).verdict == "holds"
    assert STATEMENTS["hardmax-limits"].check_instance(alone).verdict == "holds"
    assert STATEMENTS["frank-wolfe-flow"].check_instance(alone).verdict == "not_applicable"


@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_a_token_beyond_a_leader_is_measured_in_units_of_the_scores(scale):
    """The last place of a follower is 1.5 z, z the longest token: its score exceeds |z|^2 by a third of itself."""
    case = flowing(scale * BOX, end=1.0)
    run = case.simulate()
    places, longest = run.tokens.values.copy(), np.linalg.norm(BOX, axis=1).argmax()
    places[-1, np.linalg.norm(BOX, axis=1).argmin()] = 1.5 * scale * BOX[longest]
    found = STATEMENTS["hardmax-leaders"].measure(case.flow, run.assign(tokens=run.tokens.copy(data=places)))
    assert found.value == pytest.approx(1 / 3)
    assert not found.met


def test_the_formula_takes_queries_on_the_left_of_the_scores():
    """The largest <z_i, B z_j> over j, for a B that is not symmetric; at short times no best match changes."""
    scores = np.array([[1.0, 2.0], [-1.5, 1.0]])
    case = flowing(BOX, af.RescaledAttention(af.Head.bilinear(scores, np.eye(2)), af.Hardmax()), 1e-4)
    assert measured("frank-wolfe-flow", case).value < 1e-6
    transposed = np.argmax(BOX @ scores.T @ BOX.T, axis=1) != np.argmax(BOX @ scores @ BOX.T, axis=1)
    assert transposed.sum() > 5
