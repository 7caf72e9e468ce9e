"""Statements about R^d: examples hold, controls do not, and every measurement can fail."""

import numpy as np
import pytest

import attnflow as af
from attnflow.theorems.moving_frame import box, instance, with_value
from attnflow.theorems.statement import Instance
from attnflow.theorems.statements import eigendirections, euclidean, line

FAMILIES = (euclidean, line, eigendirections)
STATEMENTS = {statement.id: statement for family in FAMILIES for statement in family.STATEMENTS}
LINE = af.initial.box(20, 1, -1.0, 1.0, rng=0)
EYE = np.eye(2)


@pytest.fixture(scope="module")
def polygon():
    """The run that most statements about V = I share."""
    shared = STATEMENTS["polytope"].example()
    return shared.flow, shared.simulate()


def with_scores(scores, value, tokens, end=20.0):
    return instance(af.Head.bilinear(scores, value), tokens, end)


def measured(name, case):
    return STATEMENTS[name].measure(case.flow, case.simulate())


@pytest.mark.parametrize("name", STATEMENTS)
def test_the_example_holds(name):
    verdict = STATEMENTS[name].verify()
    assert verdict.verdict == "holds", verdict.explanation()


@pytest.mark.parametrize("name", STATEMENTS)
def test_the_control_does_not_apply(name):
    verdict = STATEMENTS[name].verify_control()
    assert verdict.verdict == "not_applicable"
    assert "not met" in verdict.explanation()


def test_only_the_codimension_statement_is_a_conjecture():
    assert [name for name, statement in STATEMENTS.items() if not statement.proved] == ["codimension-k"]


def slow(scores, value):
    flow = af.EuclideanAttention(af.Head.bilinear(scores, value))
    return Instance(flow, box(2), np.r_[0.0, np.geomspace(0.1, 1000.0, 40)])


OUTSIDE = {
    # With V = -1 they return.
    "escaping-tokens": lambda: with_value(np.array([[-1.0]]), LINE * 5, 2.0),
    # With V = -I tokens approach each other.
    "growing-distances": lambda: with_value(-EYE, box(2), 2.0),
    # With V = -1 weights become equal.
    "boolean-limit": lambda: with_value(np.array([[-1.0]]), LINE, 3.0),
    "boolean-rate": lambda: with_value(np.array([[-0.1]]), LINE, 20.0),
    # A direction with a negative eigenvalue grows in the frame.
    "shrinking-hull": lambda: with_value(np.diag([1.0, -0.5]), box(2), 5.0),
    # With V = diag(1, 0) tokens rest on two lines, also inside edges.
    "polytope": lambda: with_value(np.diag([1.0, 0.0]), box(2), 20.0),
    # With V = -I there are many directions of attention left at t = 2.
    "rank-bound": lambda: with_value(-EYE, box(2), 2.0),
    # Rows of attention that sum to more than one push outwards.
    "eigen-coordinates": lambda: Instance(
        af.RescaledAttention(af.Head.identity(2), af.Unnormalised(1.0)), box(2) / 3.3, np.linspace(0, 0.02, 41)
    ),
    # With a double eigenvalue the coordinates of polygon vertices have many levels.
    "hyperplanes": lambda: with_value(EYE, box(2), 20.0),
    # Too early.
    "polytope-times-hyperplane": lambda: with_value(np.diag([1.0, 1.0, -0.5]), box(3), 3.0),
    # With V = I every vertex of the polytope is a subspace of its own.
    "codimension-k": lambda: with_value(np.eye(3), box(3), 20.0),
    # With V = diag(-1, -2) the second variance is half the first.
    "minus-identity": lambda: slow(EYE, np.diag([-1.0, -2.0])),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_outside_the_hypotheses_the_measurement_fails(name):
    found = measured(name, OUTSIDE[name]())
    assert np.isfinite(found.value)
    assert not found.met


def test_polytopes_at_rest_outside_s_fail_and_do_not_stay_open():
    found = measured("polytope", OUTSIDE["polytope"]())
    assert found.value > 0.01
    assert found.open == ""


@pytest.mark.parametrize(
    "name", ["polytope", "hyperplanes", "polytope-times-hyperplane", "boolean-limit", "codimension-k"]
)
def test_a_run_that_ends_early_decides_nothing(name):
    example = STATEMENTS[name].example()
    early = Instance(example.flow, example.tokens, np.linspace(0.0, 1.0, 41))
    verdict = STATEMENTS[name].check_instance(early)
    assert verdict.verdict == "undecided"
    assert "t = " in verdict.explanation()


def test_the_flow_of_x_gets_the_verdict_of_the_flow_of_z():
    case = STATEMENTS["polytope"].example()
    plain = Instance(af.EuclideanAttention(case.flow.heads), case.tokens, case.times)
    run = plain.simulate()
    for name in ("polytope", "shrinking-hull", "growing-distances", "rank-bound"):
        assert STATEMENTS[name].check(plain.flow, run).verdict == "holds", name


def test_missing_tokens_leave_every_statement_undecided(polygon):
    flow, run = polygon
    gap = run.copy(deep=True)
    gap.tokens[3, 2, 0] = np.nan
    for name in ("growing-distances", "shrinking-hull", "polytope", "rank-bound"):
        verdict = STATEMENTS[name].check(flow, gap)
        assert verdict.verdict == "undecided"
        assert np.isnan(verdict.measurement.value)


def test_a_hull_that_grows_once_fails(polygon):
    """Mutation: one token of one snapshot is put a thousandth outside."""
    flow, run = polygon
    changed = run.copy(deep=True)
    changed.tokens[20] = 1.001 * run.tokens[0].values
    assert STATEMENTS["shrinking-hull"].check(flow, changed).verdict == "fails"


def test_two_tokens_that_meet_fail(polygon):
    flow, run = polygon
    changed = run.copy(deep=True)
    changed.tokens[5, 1] = run.tokens[5, 0].values
    assert STATEMENTS["growing-distances"].check(flow, changed).verdict == "fails"


def test_the_wrong_leader_fails():
    """Mutation: the first tokens are recorded in another order than they run in."""
    case = STATEMENTS["boolean-limit"].example()
    run = case.simulate()
    relabelled = run.copy(deep=True)
    relabelled.initial_tokens[:] = np.roll(run.initial_tokens.values, 1, axis=0)
    assert STATEMENTS["boolean-limit"].check(case.flow, relabelled).verdict == "fails"


def test_hypotheses_name_what_is_missing():
    two_heads = af.RescaledAttention([af.Head.identity(2), af.Head.identity(2)])
    sphere = af.SphereAttention(af.Head.identity(2))
    for name, statement in STATEMENTS.items():
        for flow in (two_heads, sphere):
            hypotheses = statement.hypotheses(flow, box(2))
            assert not all(one.holds for one in hypotheses), name


def test_a_changing_head_is_refused_without_a_traceback():
    head = af.PiecewiseHead([1.0], [af.Head.identity(2), af.Head.identity(2)])
    flow = af.EuclideanAttention(head)
    for name, statement in STATEMENTS.items():
        assert not all(one.holds for one in statement.hypotheses(flow, box(2))), name


def test_scores_that_mix_the_two_spaces_are_outside():
    """The published proof of the mixed case needs F and G orthogonal for Q^T K."""
    scores = np.array([[1.0, 0.5], [0.5, 1.0]])
    case = with_scores(scores, np.diag([1.0, 0.0]), box(2))
    verdict = STATEMENTS["polytope-times-hyperplane"].check_instance(case)
    assert [one.says for one in verdict.broken] == [
        "the spaces F and G of leading and of other generalised eigenvectors of V are orthogonal for Q^T K"
    ]


def test_a_defective_leading_block_is_outside():
    case = with_value(af.values.jordan_block(1.0, 2), box(2), 5.0)
    verdict = STATEMENTS["polytope-times-hyperplane"].check_instance(case)
    assert verdict.verdict == "not_applicable"
    assert STATEMENTS["codimension-k"].check_instance(case).verdict == "not_applicable"


def test_a_complex_pair_of_positive_real_part_is_counted_whole():
    """The published 3-d V with eigenvalues 1.078 and 0.099 +- 0.082i: the codimension is 3."""
    value = [
        [0.18608476, 0.34391026, 0.13905949],
        [0.35244288, 0.6694859, 0.39992145],
        [0.46685606, 0.17094454, 0.42092308],
    ]
    found = measured("codimension-k", with_value(np.array(value), box(3), 2.0))
    assert "codimension 3" in found.quantity


def test_one_token_is_no_trouble():
    one = np.array([[2.0, 1.0]])
    for name in ("shrinking-hull", "polytope", "rank-bound"):
        case = with_value(EYE, one, 5.0)
        assert STATEMENTS[name].check_instance(case).verdict == "holds", name
    assert STATEMENTS["growing-distances"].check_instance(with_value(EYE, one, 5.0)).verdict == "not_applicable"
    assert STATEMENTS["boolean-limit"].check_instance(with_value(np.eye(1), one[:, :1], 5.0)).verdict == "holds"
    assert STATEMENTS["boolean-rate"].check_instance(with_value(np.eye(1), one[:, :1], 5.0)).verdict == "not_applicable"


def test_all_tokens_equal():
    same = np.full((6, 2), 1.5)
    for name in ("shrinking-hull", "polytope", "rank-bound", "growing-distances"):
        assert STATEMENTS[name].check_instance(with_value(EYE, same, 5.0)).verdict == "holds", name


def test_the_exceptional_row_is_allowed():
    """Symmetric triple: the middle row is (1/3, 1/3, 1/3) for ever, until rounding decides; it is the one that may."""
    triple = np.array([[-1.0], [0.0], [1.0]])
    verdict = STATEMENTS["boolean-limit"].check_instance(with_value(np.eye(1), triple, 12.0))
    assert verdict.verdict == "holds"


@pytest.mark.parametrize("name", ["hyperplanes", "polytope-times-hyperplane", "codimension-k"])
def test_eigenvalues_that_attention_has_not_separated_yet_decide_nothing(name):
    """With a gap of 1e-6 tokens rest at the vertices of a polygon, as if V = I, until times of 1e6."""
    close, far = (with_scores(EYE, np.diag([1.0, 1.0 - gap]), af.initial.box(25, 2, rng=3)) for gap in (1e-6, 1.3))
    found = [STATEMENTS[name].check(case.flow, case.simulate()) for case in (close, far)]

    assert found[0].measurement.value > found[0].measurement.tolerance
    assert "r = 1.0e-06" in found[0].explanation()
    assert [one.verdict for one in found] == ["undecided", "holds"]


def test_coordinates_of_a_tiny_eigenvalue_have_not_converged():
    """Along 1e-7 rescaled tokens need times of 1e7; the control is a measurement after which nothing is open."""
    slow = with_scores(EYE, np.diag([1.0, 1e-7]), af.initial.box(25, 2, rng=3))
    verdict = STATEMENTS["codimension-k"].check(slow.flow, slow.simulate())

    assert verdict.verdict == "undecided"
    assert verdict.measurement.value > 3
    assert not measured("codimension-k", with_scores(EYE, np.diag([2.0, 0.9]), box(2))).open


def test_the_rate_on_the_line_from_close_to_the_origin_is_not_decided_early():
    """Tokens of size 1e-6 have equal weights until t = 14; a fit that begins before says nothing of the late rate."""
    start = 1e-6 * af.initial.box(20, 1, rng=3)
    case = Instance(af.RescaledAttention(af.Head.identity(1)), start, np.linspace(0, 30, 81))
    verdict = STATEMENTS["boolean-rate"].check(case.flow, case.simulate())

    assert verdict.measurement.value > 0.1
    assert verdict.verdict == "undecided"


def test_the_rate_of_a_faster_flow_is_in_units_of_v():
    verdict = STATEMENTS["boolean-rate"].check_instance(with_value(np.array([[2.0]]), LINE, 6.0))
    assert verdict.verdict == "holds", verdict.explanation()


@pytest.mark.parametrize("tokens", [[-1.0, 1.0], [-1.0, 0.0, 1.0], [-1.0, -0.9, 1.0], [-1.0, 0.2, 0.3, 0.9, 1.0]])
def test_the_rate_is_twice_as_large_where_the_best_match_stays_alone(tokens):
    """-log(1 - P) is e^{2Vt} z_i (z_best - z_next): z_next meets z_best like e^{-Vt}, or stays away from it.

    Against the exact weights: the slope of the last row is 1 with another token at its limit, 2 without.
    """
    case = with_value(np.eye(1), np.array(tokens)[:, None], 16.0)
    run = case.simulate()
    x = np.exp(run.time.values[:, None]) * run.tokens.values[..., 0]
    depth = x[:, -1] * (x[:, -1] - x[:, -2])  # of 1 - P = e^{-depth}
    slope = np.log(depth[-1] / depth[-9]) / (run.time.values[-1] - run.time.values[-9])
    meets = abs(run.tokens.values[-1, -1, 0] - run.tokens.values[-1, -2, 0]) < 0.1
    assert slope == pytest.approx(1.0 if meets else 2.0, abs=0.01)

    verdict = STATEMENTS["boolean-rate"].check(case.flow, run)

    assert verdict.verdict == "holds", verdict.explanation()


def test_the_rate_is_not_decided_while_a_token_leaves_zero():
    """The middle token lingers at 0, so that the best match is alone at first and not at the end."""
    case = with_value(np.eye(1), np.array([[-1.0], [1e-300], [1.0]]), 30.0)
    run = case.simulate()
    tokens = run.tokens.values.copy()
    leaves = np.clip((run.time.values - 20) / 5, 0, 1)
    tokens[:, 1, 0] = leaves * (tokens[:, 2, 0] - 1e-3)
    moved = run.assign(tokens=(run.tokens.dims, tokens))
    assert STATEMENTS["boolean-rate"].check(case.flow, moved).verdict == "undecided"


def test_a_short_run_from_far_away_is_not_held_against_the_rate():
    """1 - P is tiny from the start, but the least token is still on its way."""
    far = np.linspace(1.0, 100.0, 20)[:, None]
    verdict = STATEMENTS["boolean-rate"].check_instance(with_value(np.eye(1), far, 2.0))
    assert verdict.verdict == "undecided"
    assert verdict.measurement.value > 0.01


def test_high_dimension_needs_no_qhull():
    tokens = af.initial.box(20, 9, rng=0)
    case = with_value(np.eye(9), tokens, 20.0)
    run = case.simulate()
    for name in ("shrinking-hull", "polytope", "rank-bound"):
        assert STATEMENTS[name].check(case.flow, run).verdict == "holds", name
    verdict = STATEMENTS["polytope-times-hyperplane"].check(case.flow, run)
    assert verdict.verdict == "undecided"  # the boundary is found by Qhull, up to six dimensions


def test_long_runs_in_one_dimension_do_not_fit_rounding():
    """From t = 20 on the distance to the leader is solver noise; those times must be left out."""
    verdict = STATEMENTS["boolean-rate"].check_instance(with_value(np.eye(1), LINE, 30.0))
    assert verdict.verdict == "holds", verdict.explanation()


def test_the_published_matrices_have_the_published_spectra():
    found = np.sort(np.linalg.eigvals(eigendirections.PUBLISHED_CODIMENSION))
    np.testing.assert_allclose(found, [-0.222, 0.253, 1.963], atol=1e-3)
    np.testing.assert_allclose(
        np.sort(np.linalg.eigvals(eigendirections.PUBLISHED_HYPERPLANES)), [-0.068, 1.348], atol=1e-3
    )


def test_the_rate_on_the_line_where_tokens_meet_before_the_end():
    """Two tokens that tie at the last time do not swap the best match; the verdict names what is missing."""
    flow = af.EuclideanAttention(af.Head.bilinear(np.eye(1), 2 * np.eye(1)))
    run = af.simulate(flow, af.initial.box(8, 1, rng=0), np.linspace(0, 20, 41))
    (found,) = af.verify(run, only=["boolean-rate"])
    assert not found.note
    assert found.measurement is not None
