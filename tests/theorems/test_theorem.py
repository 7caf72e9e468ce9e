"""The record of a theorem: where its hypotheses are measured, and those of single theorems."""

import numpy as np
import pytest

import attnflow as af
from attnflow.theorems import hypotheses, limit_theorems

EYE, TOKENS = np.eye(2), af.initial.circle(5, rng=0)


def test_in_another_space_only_the_setting_is_measured():
    sphere, space = (kind(af.Head(EYE, EYE, 2 * EYE)) for kind in (af.SphereAttention, af.EuclideanAttention))
    theorem = limit_theorems.POLYTOPE
    assert theorem.hypotheses(sphere, TOKENS) == tuple(theorem.setting(sphere))
    assert len(theorem.hypotheses(space, TOKENS)) > len(theorem.setting(space))


@pytest.mark.parametrize(
    ("scores", "value", "is_met"),
    [(EYE, EYE, True), (EYE, np.diag([1.0, 0.5]), False), (np.diag([1.0, -1.0]), EYE, False)],
)
def test_the_polytope_needs_the_identity_and_definite_scores(scores, value, is_met):
    flow = af.RescaledAttention(af.Head.bilinear(scores, value))
    assert all(one.holds for one in limit_theorems.POLYTOPE.hypotheses(flow, TOKENS)) is is_met


@pytest.mark.parametrize(
    "extra",
    [{"noise": af.Noise(10.0)}, {"frozen": np.arange(5) == 0}, {"masses": np.arange(1.0, 6.0)}],
    ids=lambda extra: next(iter(extra)),
)
def test_a_plain_flow_has_no_further_parts(extra):
    plain, further = (af.SphereAttention(af.Head.identity(2), **given) for given in ({}, extra))
    assert hypotheses.plain(plain).holds
    assert not hypotheses.plain(further).holds
