"""Hypotheses on V and Q^T K: which theorems matrices built to order meet, and by how much they miss the others."""

import numpy as np
import pytest

from attnflow.model import values
from attnflow.theorems.prediction.limit_rules import RULES
from attnflow.theorems.spectral_hypotheses import Weights, leading_outgrows

I2, I3 = np.eye(2), np.eye(3)
INDEFINITE = np.diag([-1.0, 1.0])
MIX = "polytope-times-hyperplane"
IDENTITY = {"identity-value", "hemisphere-rate", "conjecture-2"}  # of V = c I, c > 0, with any Q^T K
ONE_POINT = {"single-cluster", "single-cluster-circle", "synchronisation", "synchronisation-with-lengths"}
LINE = {"boolean-limit"}  # on the line only, by its setting: here it asks for V and Q^T K positive
MET = [
    (I2, I2, {"polytope", "hardmax-limits", MIX} | IDENTITY | ONE_POINT | LINE),
    (3 * I2, INDEFINITE, IDENTITY),
    (-I2, I2, {"minus-identity", "table-1-cloud"}),
    (np.diag([2.0, 1.0]), I2, {"hyperplanes", MIX, "codimension-k", "conjecture-1"} | LINE),
    (np.diag([2.0, 1.0]), INDEFINITE, {"codimension-k"}),
    (np.diag([2.0, 1.0]), np.diag([0.05, 4.0]), {"hyperplanes", MIX, "codimension-k"} | LINE),
    (np.array([[2.0, 3.0], [0.0, 1.0]]), I2, {"hyperplanes", "codimension-k"} | LINE),  # not normal: V does not split
    (np.diag([1.0, 2.0]), INDEFINITE, {"hyperplanes", "codimension-k"}),
    (np.diag([1.0, -1.0]), I2, {"codimension-k", "conjecture-1"} | LINE),  # equal moduli: none is the largest
    (np.diag([1.0, -2.0]), I2, {"codimension-k", "conjecture-1"} | LINE),
    (np.diag([2.0, 1.0, 1.0]), I3, {"hyperplanes", MIX, "conjecture-1"} | LINE),  # 1 is not simple
    (np.diag([-1.0, -2.0]), I2, {"table-1-two-clouds"}),
    (values.complex_pair(1.0, 1.0), I2, LINE),
    (values.jordan_block(1.0, 2), I2, LINE),
    (0 * I2, I2, {"zero-value"}),
    (np.diag([1.0, 1.0, 0.5]), I3, {MIX, f"{MIX}-general", "conjecture-2"} | LINE),
    (np.diag([1.0, 1.0, 0.5]), I3 + 0.2, {f"{MIX}-general", "conjecture-2"} | LINE),
    (np.diag([1.0, 1.0, -2.0]), I3, {"conjecture-2"} | LINE),
    (np.array([[1.0, 0, 3], [0, 1, 0], [0, 0, 0.5]]), I3, {f"{MIX}-general"} | LINE),  # V does not split
    (I2, -0.1 * I2, IDENTITY | {"single-cluster-circle"}),
    (I2, -0.2 * I2, IDENTITY),
]


def hypotheses(value, scores):
    """The hypotheses of every theorem about limits on V and Q^T K, by its id."""
    weights = Weights.of_matrices(value, scores)
    theorems = [rule.theorem for rule in RULES]
    return {theorem.id: [hypothesis(weights) for hypothesis in theorem.spectral] for theorem in theorems}


@pytest.mark.parametrize(("value", "scores", "expected"), MET)
def test_which_theorems_are_met(value, scores, expected):
    found = hypotheses(value, scores)
    assert {name for name, asked in found.items() if all(one.holds for one in asked)} == expected


def test_margins_say_by_how_much():
    found = hypotheses(np.diag([2.0, 1.5]), np.diag([0.25, 4.0]))
    dominates, attends = found["hyperplanes"]
    np.testing.assert_allclose(dominates.margin, 0.5, atol=1e-6)
    np.testing.assert_allclose(attends.margin, 0.25)
    isotropic, _, definite = found["polytope"]
    np.testing.assert_allclose(definite.margin, 0.25)
    np.testing.assert_allclose(isotropic.margin, -0.25, atol=1e-6)


def test_scores_of_another_size_are_refused():
    with pytest.raises(ValueError, match="scores"):
        Weights.of_matrices(np.eye(2), np.eye(3))


def test_rounding_does_not_make_singular_scores_definite():
    rows = np.random.default_rng(0).normal(size=(2, 6))
    assert not hypotheses(np.eye(6), rows.T @ rows)["polytope"][-1].holds  # rank 2: least eigenvalue 0 up to rounding
    assert hypotheses(np.eye(6), rows.T @ rows + 1e-12 * np.eye(6))["polytope"][-1].holds


def test_every_hypothesis_says_which_matrix_it_restricts():
    for asked in hypotheses(np.diag([2.0, 1.0]), I2).values():
        assert {one.kind for one in asked} <= {"value", "isotropy", "scores"}


def test_a_hypothesis_on_the_real_part_of_a_complex_pair_says_so():
    hypothesis = leading_outgrows(Weights.of_matrices(values.complex_pair(0.5, 2.0), np.eye(2)))

    assert hypothesis.holds
    assert hypothesis.says.startswith("the real part of")
