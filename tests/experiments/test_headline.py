"""Headlines: their numbers are those of the run, and they claim nothing that the run does not show."""

import re
from dataclasses import replace

import numpy as np
import pytest

import attnflow as af
from attnflow.experiments import run_summary, scenarios
from attnflow.experiments.gathering import Gathering, cluster_distance, gathering
from attnflow.experiments.headline import RunOutcome, _range_words, _words_of_limit, coalescing_headline, headline
from attnflow.experiments.model_words import model_words
from attnflow.theorems.prediction.limits import ObservedLimit, Quantity


def run(name, **changes):
    """The flow of a scenario with settings changed, its run, and the headline."""
    settings = replace(scenarios.get(name).settings, **changes)
    setup = scenarios.build(settings)
    result = af.simulate(setup.flow, setup.tokens, setup.times, solver=setup.solver, rng=setup.rng, progress=False)
    return setup.flow, result, headline(setup.flow, result)


def test_a_defective_matrix_is_named_with_its_eigenvalues():
    """First-order errors of defective eigenvalues are infinite; parts below them are not to be called 0."""
    value = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.3]])
    flow = af.RescaledAttention(af.Head(value=value))
    assert "V of eigenvalues 1, 1, 0.3" in model_words(flow, 4)
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    words = model_words(af.RescaledAttention(af.Head(value=turned @ value @ turned.T)), 4)
    assert "V of eigenvalues 1, 1, 0.3" in words
    skew = np.array([[0.0, -1.0], [1.0, 0.0]])  # the real parts of a pair on the axis are rounding errors
    assert "eigenvalues 0+1i, 0-1i" in model_words(af.RescaledAttention(af.Head(value=skew)), 4)


CHANGED = [
    ("renyi", {"beta": 100.0, "n": 60, "end": 50.0}),
    ("sphere", {"d": 16, "n": 20, "runs": 3, "mask": "causal+window:8"}),
    ("sphere", {"beta": 20.0}),
    ("polytope", {"value": "pair:0.5"}),
    ("polytope", {"beta": -1.0}),
    ("polytope", {"value": "minus-identity", "end": 1.0}),
    ("hyperplanes", {"value": "identity"}),
    ("boolean", {"n": 7}),
    ("minus-identity", {"n": 9, "end": 10.0}),
    ("noisy", {"n": 50, "kappa": 0.5, "end": 5.0}),
    ("layernorm-pre", {"normalisation": "ngpt:0.7", "start": "sphere", "end": 5.0}),
    ("hardmax", {"n": 6}),
    ("causal", {"end": 0.5}),
]
IDS = [f"{name} {changes}" for name, changes in CHANGED]


@pytest.mark.parametrize(("name", "changes"), CHANGED, ids=IDS)
def test_numbers_of_a_headline_are_those_of_the_run(name, changes):
    flow, result, text = run(name, **changes)
    summary = run_summary.summarise(flow, result)

    assert text.startswith(f"{result.sizes['token']} ")
    betas = [float(number) for number in re.findall(r"beta = (-?[\d.]+)", text)]
    assert betas == ([] if flow.beta is None else [flow.beta])
    assert ("causal" in text) == flow.is_causal
    assert re.findall(r"R\^(\d+)", text) in ([], [str(flow.dimension)])
    is_identity = np.array_equal(flow.heads[0].value_matrix, np.eye(flow.dimension))
    assert ("V = I" in text) == is_identity
    assert f"t = {np.max(result.final_time):.4g}" in text
    counts = [int(number) for number in re.findall(r"(\d+) clusters", text)]
    assert set(counts) <= set(np.atleast_1d(summary["clusters"]))
    assert ("one cluster" not in text) or np.all(np.atleast_1d(summary["clusters"]) == 1)


@pytest.mark.parametrize(("name", "changes"), CHANGED, ids=IDS)
def test_a_changed_run_claims_nothing_of_the_scenario(name, changes):
    _, _, text = run(name, **changes)

    for claim in ("polygon", "beta = 64", "gathers all tokens", "parallel lines", "Pre-LN"):
        assert claim not in text


def test_a_run_that_is_cut_short_is_not_settled():
    assert "not settled, " in run("sphere", end=1.0)[2]
    assert "not settled" not in run("sphere", end=40.0)[2]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hyperplanes", "2 parallel lines at t = 15"),
        ("hyperplanes-3d", "2 parallel planes at t = 15"),
        ("codim2", "2 parallel lines at t = 20"),
        ("mixed", "5 parallel lines at t = 20"),
        ("causal", "one cluster, where the first token started, at t = 300"),
        ("polytope", "5 clusters, hull with 5 vertices, at t = 20"),
    ],
)
def test_scenarios_show_their_outcome(name, words):
    assert run(name)[2].endswith(words)


def test_the_first_token_is_named_only_where_tokens_meet_there():
    assert "first token" not in run("sphere", end=40.0)[2]


@pytest.mark.parametrize("name", ["hyperplanes", "hyperplanes-3d", "codim2", "mixed"])
def test_tokens_lie_on_the_subspaces_of_their_group(name):
    flow, result, _ = run(name)
    tokens = result.final_tokens.values

    distance = cluster_distance(flow, result)
    groups = gathering(flow, tokens, distance)

    np.testing.assert_allclose(tokens @ groups.rows.T, groups.levels[groups.labels], atol=2 * distance)
    assert len(groups.rows) + groups.dimension == tokens.shape[1]


def test_tokens_spread_at_random_lie_on_no_subspaces():
    """The control: the same V, tokens that no flow has moved."""
    flow, result, _ = run("hyperplanes", end=0.1)

    groups = gathering(flow, result.initial_tokens.values, 0.05)

    assert (groups.dimension, groups.count) == (0, 40)


def test_a_long_chain_of_close_tokens_is_no_subspace():
    """Under V = diag(2, 1) lines are x = const. A chain of steps of one distance is wider than two distances."""
    flow = af.RescaledAttention(af.Head(np.eye(2), np.eye(2), np.diag([2.0, 1.0])))
    across = np.linspace(-1, 1, 12)
    lines = np.stack([np.repeat([0.0, 0.5], 6), across], axis=1)
    chain = np.stack([0.009 * np.arange(12), across], axis=1)

    assert (gathering(flow, lines, 0.01).dimension, gathering(flow, lines, 0.01).count) == (1, 2)
    assert (gathering(flow, chain, 0.01).dimension, gathering(flow, chain, 0.01).count) == (0, 12)


def test_tokens_that_are_as_many_points_as_lines_are_points():
    flow = af.RescaledAttention(af.Head(np.eye(2), np.eye(2), np.diag([2.0, 1.0])))
    apart = np.array([[0.0, 0.3], [1.0, -0.2], [2.0, 0.9]])

    assert gathering(flow, apart, 0.01).words == "3 clusters"


def test_runs_without_groups_leave_the_counts_of_the_others():
    """Of three runs one failed: the range is that of the two with groups, or of the two lengths of the mean."""
    group = lambda count: Gathering(np.arange(count), 0, np.empty((0, 2)), np.empty((0, 0)))
    shown = [RunOutcome("", group(2), True), RunOutcome("", group(5), False)]
    noisy = [RunOutcome("", None, False, mean_length=length) for length in (0.31, 0.52)]
    failed = RunOutcome("failed", None, False, has_failed=True)

    assert _range_words([*shown, failed]) == "2 to 5 clusters, 1 failed, 1 not settled,"
    assert _range_words([*noisy, failed]) == "mean of the tokens of length 0.31 to 0.52, 1 failed,"
    assert _range_words(noisy) == "mean of the tokens of length 0.31 to 0.52"


@pytest.mark.parametrize(("vertices", "words"), [(2, "3 clusters"), (3, "3 clusters, hull with 3 vertices,")])
def test_a_hull_has_three_vertices_at_least(vertices, words):
    gathered = Gathering(np.arange(3), 0, np.empty((0, 2)), np.empty((0, 0)))

    flow = af.RescaledAttention(af.Head.identity(2))

    assert _words_of_limit(flow, ObservedLimit("polytope", {Quantity.VERTICES: vertices}), gathered) == words


@pytest.mark.parametrize("value", ["pair:0.5,2", "minus-identity"])
def test_what_is_said_of_x_is_not_said_of_rescaled_tokens(value):
    """For V of eigenvalues 0.5 +- 2i z comes to rest while x turns; for V = -I z grows like e^t / t^(1/2) and x falls."""
    flow, result, text = run("polytope", value=value)
    z = result.tokens.values

    if value == "minus-identity":
        assert np.abs(z[-1]).max() > 1e5
        assert "x = e^(tV) z of size 0." in text
    else:
        assert np.abs(z[-1] - z[-10]).max() < 1e-3
        assert "x = e^(tV) z rotates" in text
    euclidean = af.EuclideanAttention(flow.heads)
    plain = af.simulate(euclidean, result.initial_tokens.values, np.linspace(0, 5, 101), progress=False)
    assert "e^(tV)" not in headline(euclidean, plain)


@pytest.mark.parametrize(
    ("eigenvalues", "above", "words"),
    [([14.0, 0.0, 0.0], 0.0, "14, 0, 0"), ([1.0, 1.0, 1.0], 1.0, "1, 1, 1"), ([0.0, 0.0, 0.0], 1.0, "0, 0, 0"),
     ([1.0, 1e-7, -1e-9], 0.0, "1, 1e-07, -1e-09")],
)  # fmt: skip
def test_eigenvalues_below_their_rounding_error_are_zero(eigenvalues, above, words):
    """In a turned basis the zeros of V are 1e-16, and the eigenvalues of a Jordan block of size 3 differ by 1e-5."""
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    value = basis @ (np.diag(eigenvalues) + above * np.eye(3, k=1)) @ basis.T

    assert model_words(af.RescaledAttention(af.Head(value=value)), 5).endswith(f"V of eigenvalues {words}")


def test_one_sinkhorn_iteration_is_not_called_doubly_stochastic():
    """It is softmax, whose columns do not add up to one."""
    words = [model_words(af.SphereAttention(af.Head.identity(3), af.Sinkhorn(1.0, count)), 9) for count in (1, 9)]

    assert ["Sinkhorn attention of one iteration," in words[0], "of 9 iterations," in words[1]] == [True, True]
    assert not any("doubly stochastic" in one for one in words)


def test_an_ensemble_has_the_range_of_its_runs():
    flow, result, text = run("sphere", beta=20.0, runs=4)

    counts = run_summary.summarise(flow, result)["clusters"]
    assert f"{min(counts)} to {max(counts)} clusters" in text
    assert "in 4 runs" in text


def test_a_run_that_failed_says_so():
    assert ": failed at t = 0" in run("sphere-usa", n=4, beta=800.0)[2]


def test_a_coalescing_run_counts_its_merges():
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(30.0))
    tokens = af.initial.circle(9, rng=0)

    whole, cut = (af.coalesce(flow, tokens, log_end=end, progress=False) for end in (np.inf, 1.0))

    assert coalescing_headline(flow, whole).startswith(
        "9 tokens on the circle, softmax attention, beta = 30, V = I: 8 "
    )
    assert f"{cut.sizes['merge']} merge" in coalescing_headline(flow, cut)
    assert f"{int(cut.clusters[-1])} clusters at log t = 1" in coalescing_headline(flow, cut)


def test_weights_and_parts_of_a_model_are_named():
    heads = [af.Head.bilinear(scale * np.eye(2), np.diag([2.0, 1.0])) for scale in (1, 2)]
    flow = af.SphereAttention(heads, mask=af.masks.window(3), noise=af.Noise(2.5))

    assert model_words(flow, 1) == (
        "1 token on the circle, softmax attention, beta = 1, window 3 mask, 2 heads, V of eigenvalues 2, 1, "
        "another Q^T K in each head, noise of kappa = 2.5"
    )
