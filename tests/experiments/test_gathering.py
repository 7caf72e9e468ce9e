"""Parallel subspaces of tokens: their equations, and tokens that lie on none."""

import numpy as np
import pytest

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
