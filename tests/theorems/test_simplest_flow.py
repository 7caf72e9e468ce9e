"""Flows under another name, in another frame, and at large beta: what `predict` and `verify` recognise."""

import dataclasses

import numpy as np
import pytest

import attnflow as af
from attnflow.theorems import hypotheses
from attnflow.theorems.catalogue import catalogue
from attnflow.theorems.simplest_flow import simplest

HEAD, SPHERE, BOX = af.Head.identity(3), af.initial.sphere(5, 3, rng=0), af.initial.box(5, 2, rng=0)
FULL = {
    "frozen": {"frozen": [False] * 5},
    "masses": {"masses": np.ones(5)},
    "alibi": {"mask": af.masks.alibi(0.0)},
    "window": {"mask": af.masks.window(5)},
    "two masks": {"mask": af.masks.full & af.masks.window(4)},
    "sinkhorn": {"attention": af.Sinkhorn(iterations=1)},
}


@pytest.mark.parametrize("name", FULL)
def test_parts_that_change_nothing_are_no_obstacle(name):
    assert af.predict(af.SphereAttention(HEAD, **FULL[name]), SPHERE).proved


@pytest.mark.parametrize("mask", [af.masks.causal & af.masks.full, af.masks.causal & af.masks.window(4)])
def test_a_causal_mask_under_another_name(mask):
    flow = af.SphereAttention(HEAD, mask=mask)
    assert af.predict(flow, SPHERE).limit == "first-token"
    run = af.simulate(flow, SPHERE, np.linspace(0, 40, 21))
    assert af.verify(run, only=["identity-value"])[0].verdict == "holds"


@pytest.mark.parametrize(
    "changes",
    [
        {"frozen": [True] + [False] * 4},
        {"mask": af.masks.alibi(0.1)},
        {"mask": af.masks.window(3)},
        {"attention": af.Sinkhorn(iterations=3)},
    ],
    ids=["frozen", "alibi", "window", "sinkhorn"],
)
def test_parts_that_change_something_are(changes):
    assert not af.predict(af.SphereAttention(HEAD, **changes), SPHERE).proved


def test_in_another_frame_nothing_is_promised():
    still = af.RescaledAttention(af.Head(np.eye(2), np.eye(2), np.zeros((2, 2))), rescaling=np.diag([1.0, 0.5]))
    assert np.abs(af.velocity(still, BOX)).max() > 0.1
    assert not af.predict(still, BOX).results
    for attention in (af.Softmax(), af.Hardmax()):
        frame = np.diag([3.0, -1.0])
        assert not af.predict(af.RescaledAttention(af.Head.identity(2), attention, rescaling=frame), BOX).results


@pytest.mark.parametrize("frame", [np.eye(2), np.zeros((2, 2))], ids=["V", "zero"])
def test_the_frame_of_v_and_no_frame_are_recognised(frame):
    assert af.predict(af.RescaledAttention(af.Head.identity(2), rescaling=frame), BOX).limit == "polytope"


@pytest.mark.parametrize("beta", [1.0, 40.0, 400.0])
def test_slow_tokens_at_large_beta_are_not_at_rest(beta):
    tokens = af.initial.on_circle(np.array([0.0, 2.0, 4.0]))
    assert af.predict(af.SphereAttention(af.Head.identity(2), af.Softmax(beta)), tokens).limit == "point"
    causal = af.SphereAttention(af.Head.identity(3), af.Softmax(beta), af.masks.causal)
    assert af.predict(causal, np.eye(3)).limit == "first-token"
    triangle = af.initial.on_circle(2 * np.pi / 3 * np.arange(3))  # at rest for every beta
    assert af.predict(af.SphereAttention(af.Head.identity(2), af.Softmax(beta)), triangle).limit == "unknown"


EQUAL = {
    "masses": {"masses": 3 * np.ones(5)},
    "scores": {"heads": af.Head.bilinear(2 * np.eye(3), np.eye(3)), "attention": af.Softmax(0.5)},
    "both signs": {"heads": af.Head.bilinear(-np.eye(3), np.eye(3)), "attention": af.Softmax(-1.0)},
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_flows_have_equal_velocities_and_verdicts(name):
    plain = af.SphereAttention(HEAD)
    flow = af.SphereAttention(**({"heads": HEAD} | EQUAL[name]))
    assert np.allclose(af.velocity(flow, SPHERE), af.velocity(plain, SPHERE), atol=1e-14)
    assert af.predict(flow, SPHERE).limit == af.predict(plain, SPHERE).limit
    run = af.simulate(flow, SPHERE, np.linspace(0, 6, 31))
    verdicts = {one.id: one.verdict for one in af.verify(run)}
    assert verdicts["energy-sa"] == "holds"  # it asks for Q^T K = I and beta > 0
    same = af.verify(plain, af.simulate(plain, SPHERE, np.linspace(0, 6, 31)))
    assert verdicts == {one.id: one.verdict for one in same}


@pytest.mark.parametrize(
    "rule",
    [
        af.Unnormalised(2.0, 0.5),
        af.Unnormalised(-0.5, 1.0),
        af.Sinkhorn(2.0, 3),
        af.Unnormalised(0.0, 3.0),
        af.Hardmax(),
    ],
)
@pytest.mark.parametrize("scores", [np.eye(3), -np.eye(3), 3 * np.eye(3), np.zeros((3, 3)), np.diag([1.0, 2.0, 1.0])])
def test_the_simplest_flow_has_the_same_velocities(rule, scores):
    flow = af.SphereAttention(af.Head.bilinear(scores, np.diag([1.0, 2.0, 0.5])), rule)
    assert np.allclose(af.velocity(simplest(flow, 5), SPHERE), af.velocity(flow, SPHERE), rtol=1e-12, atol=1e-14)


def test_examples_and_single_checks_see_the_simplest_flow():
    """`Statement.check` and `check_instance` recognise a setting under another name, as `verify` does."""
    statement = catalogue()["single-cluster"]
    example = statement.example()
    flow = dataclasses.replace(example.flow, mask=af.masks.window(8), masses=np.ones(8), frozen=np.zeros(8, bool))
    instance = dataclasses.replace(example, flow=flow)
    assert statement.check_instance(instance).verdict == "holds"
    assert statement.check(flow, instance.simulate()).verdict == "holds"


def test_repelling_scores_on_the_circle_and_under_a_causal_mask():
    """Full attention meets in one point for beta >= -0.16 on the circle, causal attention with V = I for every beta."""
    circle, points = af.Head.identity(2), af.initial.circle(6, rng=0)
    flow = af.SphereAttention(circle, af.Softmax(-0.1))
    assert "single-cluster-circle" in {one.id for one in af.predict(flow, points).results}
    run = af.simulate(flow, points, np.linspace(0, 80, 21))
    assert af.verify(run, only=["single-cluster-circle"])[0].verdict == "holds"
    assert "single-cluster-circle" not in {
        one.id for one in af.predict(af.SphereAttention(circle, af.Softmax(-0.17)), points).results
    }
    causal = af.SphereAttention(HEAD, af.Softmax(-2.0), af.masks.causal)
    assert af.predict(causal, SPHERE).limit == "first-token"
    run = af.simulate(causal, SPHERE, np.linspace(0, 400, 21))
    assert af.verify(run, only=["identity-value"])[0].verdict == "holds"


@pytest.mark.parametrize("n", [3, 1000])
def test_tokens_at_rest_are_recognised_however_many_there_are(n):
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(1.0))
    resting = np.outer(np.where(np.arange(n) % 2, 1.0, -1.0), [0.0, 0.6, 0.8])

    assert not hypotheses.not_at_rest(flow, resting).holds
    assert hypotheses.not_at_rest(flow, af.initial.sphere(n, 3, rng=0)).holds
