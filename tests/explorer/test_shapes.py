"""What the server measures for the drawing: cluster distances, subspaces, the leading eigenvector, the second curve."""

from dataclasses import replace

import numpy as np
import pytest

from attnflow.experiments import scenarios
from attnflow.experiments.scenarios import CATALOGUE
from attnflow.explorer import descriptions
from attnflow.explorer.measure import panels
from attnflow.explorer.measure.cluster_colours import Slots, cluster_distance
from attnflow.explorer.recording import Moment


def flow_of(name, **changes):
    return scenarios.build(replace(scenarios.get(name).settings, runs=None, **changes)).flow


def on_lines(value, codimension, levels, n=30):
    """Tokens whose coordinates along the first left eigenvectors of V are among the levels, elsewhere anything."""
    rng = np.random.default_rng(0)
    eigenvalues, vectors = np.linalg.eig(value.T)
    rows = np.real(vectors.T[np.argsort(-eigenvalues.real)])
    wanted = rng.normal(size=(n, len(value)))
    wanted[:, :codimension] = np.asarray(levels)[rng.integers(0, len(levels), n)]
    return np.linalg.solve(rows, wanted.T).T


@pytest.mark.parametrize(
    ("name", "codimension", "levels"),
    [("hyperplanes", 1, [[-2.0], [3.0]]), ("codim2", 2, [[1.0, 2.0], [-1.0, 0.5], [0.0, 0.0]])],
)
def test_tokens_satisfy_the_equations_of_their_subspaces(name, codimension, levels):
    flow = flow_of(name)
    tokens = on_lines(np.asarray(flow.heads[0].value_matrix), codimension, levels)

    found = panels.planes_of(flow, tokens, tolerance=0.05)

    assert found is not None
    assert len(found["rows"]) == codimension
    assert len(found["levels"]) == len(levels)
    apart = np.abs(tokens @ np.transpose(found["rows"]) - np.asarray(found["levels"])[:, None]).max(axis=2).min(axis=0)
    assert apart.max() < 1e-9


def test_scattered_tokens_lie_on_no_subspaces():
    assert panels.planes_of(flow_of("codim2"), np.random.default_rng(0).normal(size=(30, 3)), 0.05) is None


def test_few_tokens_are_neighbours_at_the_start():
    for name in ("sphere", "polytope", "renyi"):
        tokens = scenarios.build(scenarios.get(name).settings).tokens
        size = 1.0 if name != "polytope" else np.linalg.norm(tokens, axis=1).max()
        distance = cluster_distance(tokens, size)
        apart = np.linalg.norm(tokens[:, None] - tokens, axis=2)
        has_neighbour = (apart + np.eye(len(tokens)) * 10 * size).min(axis=1) < distance
        # Half of what a quarter has; on a crowded circle it is the smallest distance that is used at all.
        assert has_neighbour.mean() <= 0.25 or distance == pytest.approx(0.01 * size)
        assert distance <= 0.1 * size


def test_of_many_tokens_a_pair_has_no_colour():
    crowd = np.arange(200.0)[:, None]
    crowd[:2], crowd[10:20] = 0.0, 10.0

    slots = Slots(0.1).update(crowd)

    assert set(slots[10:20]) == {1}
    assert not slots[:2].any()


def test_the_leading_direction_is_an_eigenvector_and_the_identity_has_none():
    flow = flow_of("conjecture1")
    np.testing.assert_allclose(np.abs(panels.leading_direction(flow)), [1.0, 0.0], atol=1e-12)
    assert panels.leading_direction(flow_of("sphere")) is None


@pytest.mark.parametrize(("beta", "name", "height"), [(0.0, "order", 0.5), (2.0, "energy", None)])
def test_at_beta_zero_the_curve_is_the_order(beta, name, height):
    tokens = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    flow = flow_of("kuramoto", beta=beta)
    if height is None:  # pairs that agree count 1, others e^{-2 beta}
        height = (10 + 6 * np.exp(-2 * beta)) / 16

    assert panels.height_name(flow) == name
    assert panels.numbers_of(flow, Moment(0, 0.0, tokens), tokens)["height"] == pytest.approx(height)


def test_every_paper_has_a_title():
    assert {scenario.paper for scenario in CATALOGUE.values()} == set(descriptions.PAPERS)
