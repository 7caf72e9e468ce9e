"""Flows under another name, in another frame, and at large beta: what `predict` and `verify` recognise."""

import numpy as np
import pytest

import attnflow as af

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
