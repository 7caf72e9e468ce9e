"""Measurements of the explorer: cluster distances, subspaces, attention images, the second curve, verdicts."""

from dataclasses import replace

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.experiments import scenarios
from attnflow.experiments.gathering import gathering
from attnflow.experiments.scenarios import CATALOGUE
from attnflow.explorer import descriptions
from attnflow.explorer.measure import attention_image, second_curve
from attnflow.explorer.measure.cluster_colours import ClusterColours, cluster_distance
from attnflow.explorer.measure.flow_measurements import FlowMeasurements
from attnflow.explorer.measure.model_facts import leading_direction
from attnflow.explorer.measure.prediction_check import check_cluster_count, check_limit
from attnflow.explorer.recording import Frame
from attnflow.explorer.steer_scenarios import STEER


def flow_of(name, **changes):
    return scenarios.build(replace(scenarios.get(name).settings, runs=None, **changes)).flow


def test_the_subspaces_of_the_panel_are_those_of_the_headline():
    """Two planes of V, drawn by the explorer from the same computation as the words of a run."""
    flow = flow_of("hyperplanes-3d")
    value = np.asarray(flow.heads[0].value_matrix)
    row = np.real(np.linalg.eig(value.T)[1][:, np.argmax(np.linalg.eigvals(value).real)])
    rng = np.random.default_rng(0)
    tokens = 5 * rng.normal(size=(30, 3))
    tokens -= np.outer(tokens @ row - rng.choice([-2.0, 3.0], 30), row) / (row @ row)

    planes = FlowMeasurements(flow, None, Frame(0, 0.0, tokens)).numbers(Frame(0, 0.0, tokens))["planes"]

    found = gathering(flow, tokens, 0.03 * np.linalg.norm(tokens, axis=1).max())
    assert planes == {"rows": found.rows.tolist(), "levels": found.levels.tolist()}
    assert len(planes["levels"]) == 2
    sphere = FlowMeasurements(flow_of("sphere"), None, Frame(0, 0.0, tokens))
    assert sphere.numbers(Frame(0, 0.0, tokens))["planes"] is None


def test_few_first_tokens_are_within_the_cluster_distance():
    for name in ("sphere", "polytope", "renyi"):
        tokens = scenarios.build(scenarios.get(name).settings).tokens
        size = 1.0 if name != "polytope" else np.linalg.norm(tokens, axis=1).max()
        distance = cluster_distance(tokens, size)
        apart = np.linalg.norm(tokens[:, None] - tokens, axis=2)
        has_neighbour = (apart + np.eye(len(tokens)) * 10 * size).min(axis=1) < distance
        # Half of what a quarter has; on a tokensed circle it is the smallest distance that is used at all.
        assert has_neighbour.mean() <= 0.25 or distance == pytest.approx(0.01 * size)
        assert distance <= 0.1 * size


def test_a_pair_among_many_tokens_has_no_colour():
    tokens = np.arange(200.0)[:, None]
    tokens[:2], tokens[10:20] = 0.0, 10.0

    colours = ClusterColours(0.1).update(tokens).colours

    assert set(colours[10:20]) == {1}
    assert not colours[:2].any()


def test_the_leading_direction_is_an_eigenvector_and_the_identity_has_none():
    flow = flow_of("conjecture1")
    np.testing.assert_allclose(np.abs(leading_direction(flow)), [1.0, 0.0], atol=1e-12)
    assert leading_direction(flow_of("sphere")) is None


@pytest.mark.parametrize(("beta", "name", "height"), [(0.0, "order", 0.5), (2.0, "energy", None)])
def test_the_second_curve_is_the_order_at_beta_zero(beta, name, height):
    tokens = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    flow = flow_of("kuramoto", beta=beta)
    if height is None:  # pairs that agree count 1, others e^{-2 beta}
        height = (10 + 6 * np.exp(-2 * beta)) / 16

    assert second_curve.name(flow) == name
    assert FlowMeasurements(flow, None, Frame(0, 0.0, tokens)).numbers(Frame(0, 0.0, tokens))[
        "height"
    ] == pytest.approx(height)


def test_every_paper_has_a_title():
    assert {scenario.paper for scenario in CATALOGUE.values()} == {*descriptions.PAPERS} - {STEER.paper}


def test_a_coalescing_run_agrees_when_one_cluster_is_left():
    assert check_cluster_count(1, 380.25) == {
        "answer": "agrees",
        "summary": "The tokens are in one place at log t = 380.2",
        "evidence": "",
        "says": "The tokens are in one place at log t = 380.2.",
        "limit": "point",
    }
    assert check_cluster_count(2, 380.25)["limit"] == "undecided"
    assert check_cluster_count(3, 2.0)["answer"] == "not-yet"
    assert "3 places at log t = 2." in check_cluster_count(3, 2.0)["says"]


def test_a_run_is_compared_with_its_prediction():
    """Several points are no argument against one point, which comes later; two poles are one against a polytope."""
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=60.0))
    rest = np.repeat(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])[None], 6, axis=0)
    start = af.initial.on_circle(np.array([0.0, 0.3, 1.2, 1.5]))[None]
    path, times = np.concatenate([start, rest]), np.arange(7.0)

    answers = [
        check_limit(flow, promised, times, path)["answer"]
        for promised in (["point"], ["several-points"], ["rotation"], ["unknown"])
    ]

    assert answers == ["not-yet", "agrees", "differs", "none"]


def test_convergence_to_zero_is_seen_although_rescaled_tokens_overflow():
    """V = -I for so long that z = e^t x is infinite. Tokens that grow are no limit that could be seen then."""
    flow = af.EuclideanAttention(af.Head(np.eye(2), np.eye(2), -np.eye(2)))
    times = np.concatenate([[0.0], np.geomspace(0.1, 1000.0, 20)])
    sizes = np.sqrt(1 + 2 * times)[:, None, None]
    start = af.initial.gaussian(8, 2, rng=0)

    falling, growing = (check_limit(flow, ["zero"], times, path) for path in (start / sizes, start * sizes))

    assert falling["answer"] == "agrees"
    assert "it goes like t to the power -0.5" in falling["says"]
    assert growing["answer"] == "not-yet"
    assert "not finite" in growing["says"]


def test_layers_in_space_are_rescaled_by_the_layers():
    """After k layers x = (I + step V)^k z; e^{-tV} x would have no limit. Control: the same tokens in continuous time."""
    flow, solver = af.EuclideanAttention(af.Head(value=2 * np.eye(2))), af.Layers(0.5)
    times = 0.5 * np.arange(41)
    path = af.simulate(flow, af.initial.gaussian(8, 2, rng=0), times, solver=solver, progress=False).tokens.values
    first = Frame(0, 0.0, path[0])

    in_layers, continuous = (
        FlowMeasurements(flow, one, first).verdict(["polytope"], times, path) for one in (solver, af.Adaptive())
    )

    assert (in_layers["answer"], in_layers["limit"]) == ("agrees", "polytope")
    assert continuous["limit"] != "polytope"


@pytest.mark.parametrize("mask", [af.masks.full, af.masks.causal])
def test_attention_of_many_tokens_is_rows_of_the_whole_matrix(mask):
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(beta=4.0), mask=mask)
    tokens = af.initial.sphere(50, 3, rng=0)
    whole = af.attention_matrix(flow, tokens)
    blocks = np.arange(50) * 7 // 50

    image = attention_image.attention_image(flow, Frame(0, 0.0, tokens), 7)
    attended = attention_image.attended_tokens(flow, Frame(0, 0.0, tokens), 30)
    from_image = attention_image.attended_tokens(flow, Frame(0, 0.0, tokens), 30, whole)

    expected = [[whole[row, blocks == block].sum() for block in range(7)] for row in (3, 10, 17, 25, 32, 39, 46)]
    np.testing.assert_allclose(image, expected, rtol=1e-12)
    assert attended == from_image
    assert attended[0] == [30, round(whole[30].max(), 6)]  # oneself first
    with pytest.raises(InputError, match="`rows` must be numbers of tokens, 0 to 49"):
        af.attention_matrix(flow, tokens, rows=[50])


def test_the_energy_of_many_tokens_is_that_of_all_pairs(monkeypatch):
    """600 of 3,000 uniform tokens have 180,000 pairs: 1% is several standard errors."""
    tokens = af.initial.sphere(3000, 3, rng=0)
    monkeypatch.setattr(second_curve, "MAX_ENERGY_TOKENS", 600)

    found = second_curve.estimated_energy(tokens, 30.0)

    uniform = (1 - np.exp(-60.0)) / 60.0  # the mean of e^{30 (c - 1)} over c in [-1, 1]
    assert found == pytest.approx(1 / 3000 + (1 - 1 / 3000) * uniform, rel=0.02)
    assert second_curve.estimated_energy(tokens[:500], 30.0) == pytest.approx(1 / 500 + uniform, rel=0.05)
