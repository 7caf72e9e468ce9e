"""Noise of single tokens and of all alike, weights of many heads, and frozen tokens."""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest

import attnflow as af
from attnflow._common.precision import cast, double
from attnflow.model.dynamics import MAX_UNROLLED_HEADS, State

TOKENS = af.initial.sphere(4, 3, rng=0)
INCREMENTS = np.random.default_rng(1).normal(size=(4, 3))


def moves(flow):
    with double():
        state = State(jnp.asarray(TOKENS))
        return np.asarray(cast(flow, "float64").noise_part(jnp.asarray(0.0), state, jnp.asarray(INCREMENTS)).tokens)


@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize("space", [af.EuclideanAttention, af.SphereAttention])
def test_each_token_has_its_own_noise_or_all_have_that_of_the_first(space, common):
    flow = space(af.Head.identity(3), noise=af.Noise(0.3, common=common), frozen=np.array([False, False, True, False]))
    drawn = np.repeat(INCREMENTS[:1], 4, axis=0) if common else INCREMENTS
    strength = np.sqrt(2 / 0.3)
    expected = strength * drawn
    if space is af.SphereAttention:
        expected = expected - np.sum(expected * TOKENS, axis=1, keepdims=True) * TOKENS
    expected[2] = 0.0

    np.testing.assert_allclose(moves(flow), expected, atol=1e-14)


@pytest.mark.parametrize("count", [1, 2, MAX_UNROLLED_HEADS, MAX_UNROLLED_HEADS + 1])
def test_the_velocity_of_many_heads_is_the_sum_of_theirs(count):
    rng = np.random.default_rng(count)
    heads = [af.Head(*rng.normal(size=(3, 3, 3))) for _ in range(count)]
    alone = sum(af.velocity(af.EuclideanAttention(head), TOKENS) for head in heads)

    np.testing.assert_allclose(af.velocity(af.EuclideanAttention(heads), TOKENS), alone, atol=1e-12)


@pytest.mark.parametrize("n", [4, 700])  # joined in large products, and one head after the other for many tokens
@pytest.mark.parametrize("mask", [af.masks.full, af.masks.causal])
def test_the_velocity_of_many_heads_with_outputs_is_the_sum_of_theirs(n, mask):
    rng = np.random.default_rng(n)
    sizes = {"query": (2, 3), "key": (2, 3), "value": (2, 3), "output": (3, 2)}
    heads = [af.Head(**{name: rng.normal(size=size) for name, size in sizes.items()}) for _ in range(4)]
    tokens, rule = af.initial.sphere(n, 3, rng=0), af.Softmax(2.0)
    alone = sum(af.velocity(af.EuclideanAttention(head, rule, mask), tokens) for head in heads)

    np.testing.assert_allclose(af.velocity(af.EuclideanAttention(heads, rule, mask), tokens), alone, atol=1e-12)


@pytest.mark.parametrize("flow", [af.EuclideanAttention, af.RescaledAttention, af.SphereAttention])
def test_heads_attention_and_mask_are_given_by_place_and_all_else_by_name(flow):
    arguments = inspect.signature(flow).parameters.values()
    assert [one.name for one in arguments if one.kind is not inspect.Parameter.KEYWORD_ONLY] == [
        "heads",
        "attention",
        "mask",
    ]
