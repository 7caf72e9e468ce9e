"""Symmetries that hold for every instance, searched for counterexamples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ortho_group

import attnflow as af

TIMES = np.array([0.0, 0.4, 1.0])
TIGHT = af.Adaptive(rtol=1e-10, atol=1e-12)
CLOSE = 1e-8  # a hundred times the solver's tolerance, for errors that add up over one unit of time

SEEDS = st.integers(0, 2**16)
BETAS = st.floats(-3, 5)
# Sizes stay fixed: each shape compiles its own code.
N, D = 5, 3
EXAMPLES = settings(max_examples=20, deadline=None, derandomize=True)


def random_head(seed, d=D, k=2):
    rng = np.random.default_rng(seed)
    return af.Head(rng.normal(size=(k, d)), rng.normal(size=(k, d)), rng.normal(size=(d, d)) / 2)


def final(flow, tokens):
    return af.simulate(flow, tokens, TIMES, solver=TIGHT).final_tokens.values


@pytest.mark.parametrize(
    "mask", [af.masks.full, af.masks.causal, af.masks.window(2), af.masks.causal & af.masks.alibi(0.7)]
)
@pytest.mark.parametrize("rule", [af.Softmax, af.Sinkhorn])
@EXAMPLES
@given(seed=SEEDS, beta=BETAS)
def test_rows_of_attention_sum_to_one(rule, mask, seed, beta):
    flow = af.EuclideanAttention(random_head(seed), rule(beta), mask)

    weights = af.attention_matrix(flow, af.initial.gaussian(N, D, rng=seed))

    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-14)
    assert np.all(weights >= 0)


@EXAMPLES
@given(seed=SEEDS)
def test_rows_of_hardmax_sum_to_one_with_equal_weights_on_ties(seed):
    tokens = af.initial.with_duplicates(af.initial.gaussian(N, D, rng=seed), 2)

    weights = af.attention_matrix(af.EuclideanAttention(random_head(seed), af.Hardmax()), tokens)

    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-14)
    np.testing.assert_array_equal(weights[:, 0], weights[:, N])


def test_rows_of_unnormalised_attention_do_not_sum_to_one():
    """Negative control: only rules that divide by the row's sum have rows that sum to one."""
    weights = af.attention_matrix(af.EuclideanAttention(random_head(0), af.Unnormalised(1.0)), np.eye(3))

    assert np.max(np.abs(weights.sum(axis=1) - 1)) > 0.1


@pytest.mark.parametrize("space", [af.EuclideanAttention, af.RescaledAttention, af.SphereAttention])
@EXAMPLES
@given(seed=SEEDS, beta=BETAS)
def test_permuting_the_tokens_permutes_the_answer(space, seed, beta):
    tokens = af.initial.sphere(N, D, rng=seed)
    order = np.random.default_rng(seed).permutation(N)
    flow = space(random_head(seed), af.Softmax(beta))

    np.testing.assert_allclose(final(flow, tokens[order]), final(flow, tokens)[order], atol=CLOSE, rtol=CLOSE)


def test_permuting_the_tokens_of_a_causal_flow_changes_the_answer():
    """Negative control: a causal mask orders the tokens."""
    tokens = af.initial.sphere(N, D, rng=0)
    flow = af.SphereAttention(af.Head.identity(D), af.Softmax(2.0), af.masks.causal)

    assert np.max(np.abs(final(flow, tokens[::-1]) - final(flow, tokens)[::-1])) > 0.1


@pytest.mark.parametrize("space", [af.EuclideanAttention, af.RescaledAttention, af.SphereAttention])
@EXAMPLES
@given(seed=SEEDS, beta=BETAS)
def test_rotating_the_tokens_rotates_the_answer(space, seed, beta):
    """Hypothesis: Q^T K and V commute with rotations, as multiples of the identity do."""
    tokens = af.initial.sphere(N, D, rng=seed)
    rotation = ortho_group.rvs(D, random_state=seed)
    flow = space(af.Head.bilinear(1.5 * np.eye(D), 0.7 * np.eye(D)), af.Softmax(beta))

    np.testing.assert_allclose(final(flow, tokens @ rotation), final(flow, tokens) @ rotation, atol=CLOSE, rtol=CLOSE)


def test_rotating_the_tokens_of_a_general_head_changes_the_answer():
    """Negative control: V = diag(2, 1, 0) prefers an axis."""
    tokens, rotation = af.initial.sphere(N, D, rng=0), ortho_group.rvs(D, random_state=0)
    flow = af.SphereAttention(af.Head.bilinear(np.eye(D), np.diag([2.0, 1.0, 0.0])))

    assert np.max(np.abs(final(flow, tokens @ rotation) - final(flow, tokens) @ rotation)) > 0.1


@pytest.mark.parametrize("d", [2, 3])
@EXAMPLES
@given(seed=SEEDS, beta=BETAS)
def test_tokens_stay_on_the_sphere(d, seed, beta):
    run = af.simulate(
        af.SphereAttention(random_head(seed, d), af.Softmax(beta)),
        af.initial.sphere(N, d, rng=seed),
        [0.0, 1.0, 7.0, 20.0],
    )

    assert np.max(np.abs(np.linalg.norm(run.tokens, axis=-1) - 1)) < 1e-12
    assert run.drift < 1e-6  # before the projection a step may leave it by about the tolerance


@pytest.mark.parametrize("rule", [af.Softmax(2.0), af.Unnormalised(1.0), af.Hardmax()])
@pytest.mark.parametrize("space", [af.EuclideanAttention, af.SphereAttention])
def test_adding_a_token_to_a_causal_flow_changes_nothing_before_it(space, rule):
    """Unnormalised attention divides by n, which counts the new token: its time is rescaled."""
    tokens = af.initial.sphere(N + 1, D, rng=4)
    flow = space(random_head(5), rule, af.masks.causal)
    scale = (N + 1) / N if isinstance(rule, af.Unnormalised) else 1.0

    short = af.simulate(flow, tokens[:N], TIMES, solver=TIGHT).tokens.values
    long = af.simulate(flow, tokens, TIMES * scale, solver=TIGHT).tokens.values

    np.testing.assert_allclose(long[:, :N], short, atol=CLOSE, rtol=CLOSE)


def test_adding_a_token_to_a_full_flow_changes_earlier_tokens():
    """Negative control."""
    tokens = af.initial.sphere(N + 1, D, rng=4)
    flow = af.SphereAttention(random_head(5))

    assert np.max(np.abs(final(flow, tokens)[:N] - final(flow, tokens[:N]))) > 1e-2


@pytest.mark.parametrize("rule", [af.Softmax(2.0), af.Unnormalised(0.5), af.Hardmax(), af.Sinkhorn(1.0, 7)])
@pytest.mark.parametrize("space", [af.EuclideanAttention, af.RescaledAttention, af.SphereAttention])
def test_a_token_of_mass_three_is_three_tokens(space, rule):
    tokens = af.initial.sphere(N, D, rng=4)
    masses = np.array([3.0, 1.0, 1.0, 2.0, 1.0])
    copies = np.repeat(tokens, masses.astype(int), axis=0)
    firsts = np.array([0, 3, 4, 5, 7])

    light = final(space(random_head(5), rule), copies)
    heavy = final(space(random_head(5), rule, masses=masses), tokens)

    np.testing.assert_allclose(heavy, light[firsts], atol=CLOSE, rtol=CLOSE)
    # Masses do matter, except where one token alone is the best match.
    changed = np.max(np.abs(heavy - final(space(random_head(5), rule), tokens)))
    assert changed > 1e-3 or isinstance(rule, af.Hardmax)


def test_a_frozen_token_keeps_its_bits_and_is_seen():
    tokens = af.initial.sphere(N, D, rng=2)
    frozen = np.array([True, False, False, False, False])
    flow = af.SphereAttention(af.Head.identity(D), af.Softmax(2.0), frozen=frozen)

    run = af.simulate(flow, tokens, [0.0, 200.0])

    np.testing.assert_array_equal(run.final_tokens[0], tokens[0])
    # all other tokens converge to it
    np.testing.assert_allclose(run.final_tokens, np.tile(tokens[0], (N, 1)), atol=1e-3)


def test_antipodes_stand_still_and_a_small_push_frees_them():
    """Antipodal pairs are stationary, but not stable."""
    pair = af.initial.with_antipodes(np.array([[1.0, 0.0]]), 1)
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(1.0))
    pushed = af.initial.on_circle([0.0, np.pi - 1e-6])

    np.testing.assert_allclose(final(flow, pair), pair, atol=1e-15)
    cosine = np.prod(af.simulate(flow, pushed, [0.0, 100.0]).final_tokens.values, axis=0).sum()
    assert cosine > 0.99


@pytest.mark.parametrize("scheme", [af.NGPT(), af.Peri()])
def test_a_zero_attention_output_moves_no_token(scheme):
    """Antipodes at beta = 0 receive exactly zero, which has no direction to normalise."""
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(0.0), normalisation=scheme)

    np.testing.assert_array_equal(af.velocity(flow, [[1.0, 0.0], [-1.0, 0.0]]), 0.0)


def test_a_flow_says_its_beta_its_space_and_whether_it_is_causal():
    """Hardmax has no beta; a mask is causal when no token sees a later one, however the mask is written."""
    head = af.Head.identity(2)
    assert af.SphereAttention(head, af.Unnormalised(beta=3.0)).beta == 3.0
    assert af.SphereAttention(head, af.Hardmax()).beta is None
    assert af.SphereAttention(head).is_on_sphere
    assert not af.EuclideanAttention(head).is_on_sphere
    causal = (af.masks.causal, af.masks.strictly_causal, af.masks.alibi(0.5) & af.masks.causal, np.tri(3) > 0)
    others = (af.masks.full, af.masks.others, af.masks.window(1), af.masks.alibi(0.5), np.ones((3, 3)) > 0)
    for expected, masks in ((True, causal), (False, others)):
        for mask in masks:
            mask = af.masks.boolean(mask) if isinstance(mask, np.ndarray) else mask
            assert af.EuclideanAttention(head, mask=mask).is_causal is expected
