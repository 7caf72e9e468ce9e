"""Each obstruction on a case that it forbids, and beside it a flow that does the same once its hypothesis is dropped."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError

FULL = af.control.FlowFamily()
CAUSAL = af.control.FlowFamily(mask=af.masks.causal)
TURN = np.array([[0.0, -1.0], [1.0, 0.0]])


def kinds(family, tokens, targets):
    return [one.kind for one in af.control.obstructions(family, tokens, targets)]


def last_tokens(flow, tokens, end=1.5):
    return af.simulate(flow, tokens, [0.0, end]).final_tokens.values


def test_the_order_on_the_circle_names_the_pair():
    tokens = af.initial.on_circle(np.linspace(0.0, 6.0, 9))
    targets = tokens.copy()
    targets[[3, 7]] = tokens[[7, 3]]

    (found,) = af.control.obstructions(FULL, tokens, targets)

    assert (found.kind, found.tokens) == ("order", (3, 7))
    assert str(found).startswith("impossible: order of tokens 3 and 7")
    with pytest.raises(InputError, match="order of tokens 3 and 7"):
        af.control.steer_circle(tokens, targets)
    assert kinds(FULL, tokens, np.roll(tokens, 2, axis=0)) == []  # a rotation keeps the cyclic order
    assert kinds(FULL, tokens, targets[::-1]) != []


def test_order_on_the_line():
    line = af.control.FlowFamily(space="euclidean")
    assert kinds(line, [[0.0], [1.0], [2.0]], [[0.0], [5.0], [4.0]]) == ["order"]
    assert kinds(line, [[0.0], [1.0], [2.0]], [[-1.0], [4.0], [5.0]]) == []
    assert kinds(line, [[0.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]) == []  # in the plane there is no order


def test_a_causal_mask_changes_the_order_that_full_attention_keeps():
    """V turns: where tokens 1 and 2 meet, they have the speeds (1 + c)/2 and (2 + c)/3, c the cosine to token 0."""
    tokens = af.initial.on_circle(np.array([0.0, 2.5, 2.3]))
    ends = {
        mask: last_tokens(af.SphereAttention(af.Head(value=TURN), af.Softmax(0.0), mask), tokens)
        for mask in (af.masks.full, af.masks.causal)
    }
    assert kinds(FULL, tokens, ends[af.masks.full]) == []
    assert kinds(FULL, tokens, ends[af.masks.causal]) == ["order"]
    assert kinds(CAUSAL, tokens, ends[af.masks.causal]) == []


def test_equal_tokens_stay_equal_unless_a_mask_tells_them_apart():
    tokens = af.initial.sphere(3, 3, rng=0)
    tokens[2] = tokens[1]
    flows = {
        mask: af.SphereAttention(af.Head.identity(3), af.Softmax(1.0), mask)
        for mask in (af.masks.full, af.masks.causal)
    }
    full, causal = (last_tokens(flow, tokens) for flow in flows.values())

    assert np.abs(full[1] - full[2]).max() < 1e-12
    assert np.abs(causal[1] - causal[2]).max() > 0.01
    assert kinds(FULL, tokens, causal) == ["equal tokens"]
    assert kinds(CAUSAL, tokens, causal) == []


def test_distinct_tokens_do_not_meet_in_finite_time_but_discrete_layers_join_them():
    tokens = af.initial.hemisphere(3, 3, rng=0)
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(0.0))
    joined = af.simulate(flow, tokens, [0.0, 1.0], solver=af.Layers(1.0, residual=0.0)).final_tokens.values
    assert kinds(FULL, tokens, np.tile(joined[:1], (3, 1))) == ["merging"]
    assert kinds(FULL, tokens, last_tokens(flow, tokens)) == []


def test_a_prefix_does_not_know_what_follows_under_a_causal_mask():
    tokens = af.initial.sphere(8, 3, rng=0).reshape(2, 4, 3)
    tokens[1, :2] = tokens[0, :2]
    full, causal = (
        np.array([last_tokens(af.SphereAttention(af.Head.identity(3), af.Softmax(1.0), mask), one) for one in tokens])
        for mask in (af.masks.full, af.masks.causal)
    )
    assert np.abs(causal[0, :2] - causal[1, :2]).max() < 1e-8  # steps differ
    np.testing.assert_array_less(0.01, np.abs(full[0, :2] - full[1, :2]).max())
    (found,) = af.control.obstructions(CAUSAL, tokens, full)
    assert (found.kind, found.tokens) == ("prefix", (0,))
    assert kinds(FULL, tokens, full) == []


def test_the_cone_is_invariant_for_the_identity_and_not_for_a_rotation():
    family = af.control.FlowFamily(perceptron=False, value="identity")
    tokens = af.initial.on_circle(np.array([0.0, 0.5, 1.2]))
    inside = last_tokens(af.SphereAttention(af.Head.identity(2), af.Softmax(1.0)), tokens)
    outside = last_tokens(af.SphereAttention(af.Head(value=TURN), af.Softmax(1.0)), tokens)
    assert kinds(family, tokens, inside) == []
    assert kinds(family, tokens, outside) == ["cone"]
    assert kinds(FULL, tokens, outside) == []


def test_bad_input():
    tokens = af.initial.sphere(3, 3, rng=0)
    with pytest.raises(InputError, match=r"`targets` must lie on the unit sphere"):
        af.control.obstructions(FULL, tokens, 2 * tokens)
    with pytest.raises(InputError, match=r"`targets` must have the shape \(3, 3\)"):
        af.control.steer(tokens, tokens[:2])
    with pytest.raises(InputError, match="'planar' is not known"):
        af.control.FlowFamily(space="planar")
