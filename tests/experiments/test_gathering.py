"""Parallel subspaces of tokens: their equations, and tokens that lie on none."""

import numpy as np
import pytest

import attnflow as af
from attnflow.experiments import scenarios
from attnflow.experiments.gathering import gathering


def on_subspaces(value, codimension, levels, n=30):
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
    flow = scenarios.build(scenarios.get(name).settings).flow
    tokens = on_subspaces(np.asarray(flow.heads[0].value_matrix), codimension, levels)

    found = gathering(flow, tokens, 0.05)

    assert (len(found.rows), found.count) == (codimension, len(levels))
    np.testing.assert_allclose(tokens @ found.rows.T, found.levels[found.labels], atol=1e-9)


def test_scattered_tokens_lie_on_no_subspaces():
    flow = scenarios.build(scenarios.get("codim2").settings).flow

    assert gathering(flow, np.random.default_rng(0).normal(size=(30, 3)), 0.05).dimension == 0


def test_as_many_clusters_as_lines_are_clusters():
    """Two places on two lines; a third place on one of them makes the lines fewer."""
    flow = af.RescaledAttention(af.Head.bilinear(np.eye(2), np.diag([1.0, -0.5])))
    places = np.array([[-1.0, 0.3], [1.0, 0.7], [1.0, -2.0]])

    two, three = (
        gathering(flow, np.repeat(places[:2], 3, axis=0), 0.05),
        gathering(flow, np.repeat(places, 3, axis=0), 0.05),
    )

    assert (two.words, three.words) == ("2 clusters", "2 parallel lines")
