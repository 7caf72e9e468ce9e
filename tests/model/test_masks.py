"""Masks pair by pair, alone and joined, with their sizes and reaches."""

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError

N = 6
ROWS, COLUMNS = np.meshgrid(np.arange(N), np.arange(N), indexing="ij")
SEEN = np.random.default_rng(0).random((N, N)) < 0.5  # not symmetric
PAIRS = {
    "causal": (af.masks.causal, lambda i, j: j <= i),
    "strictly causal": (af.masks.strictly_causal, lambda i, j: j < i),
    "others": (af.masks.others, lambda i, j: j != i),
    "window": (af.masks.window(2), lambda i, j: abs(i - j) <= 2),
    "boolean": (af.masks.boolean(SEEN), lambda i, j: SEEN[i, j]),
    "causal & window": (af.masks.causal & af.masks.window(2), lambda i, j: i - 2 <= j <= i),
    "causal & boolean": (af.masks.causal & af.masks.boolean(SEEN), lambda i, j: j <= i and SEEN[i, j]),
    "boolean & alibi": (af.masks.boolean(SEEN) & af.masks.alibi(0.3), lambda i, j: SEEN[i, j]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_token_sees_the_tokens_of_the_definition(name):
    mask, sees = PAIRS[name]
    expected = [[bool(sees(i, j)) for j in range(N)] for i in range(N)]

    np.testing.assert_array_equal(mask.visible(ROWS, COLUMNS), expected)


@pytest.mark.parametrize("mask", [af.masks.full, af.masks.alibi(0.3), af.masks.full & af.masks.alibi(0.3)])
def test_masks_that_hide_nothing_say_so(mask):
    assert mask.visible(ROWS, COLUMNS) is None


def test_weights_fall_with_the_distance_and_joined_slopes_add_up():
    both = af.masks.alibi(0.5) & (af.masks.causal & af.masks.alibi(0.25))

    np.testing.assert_allclose(af.masks.alibi(0.5).log_weight(ROWS, COLUMNS), -0.5 * np.abs(ROWS - COLUMNS))
    np.testing.assert_allclose(both.log_weight(ROWS, COLUMNS), -0.75 * np.abs(ROWS - COLUMNS))
    assert af.masks.causal.log_weight(ROWS, COLUMNS) is None


def test_joined_masks_have_the_size_of_the_one_that_has_a_size():
    boolean = af.masks.boolean(np.ones((3, 3), bool))

    assert (af.masks.causal & boolean).size() == (boolean & af.masks.causal).size() == 3
    assert (af.masks.causal & af.masks.window(3)).size() is None
    with pytest.raises(InputError, match="not 3 and 4"):
        boolean & af.masks.boolean(np.ones((4, 4), bool))


def test_a_mask_of_another_size_is_refused_also_where_it_is_joined():
    flow = af.EuclideanAttention(af.Head.identity(2), mask=af.masks.causal & af.masks.boolean(np.ones((3, 3), bool)))

    assert af.velocity(flow, np.ones((3, 2))).shape == (3, 2)
    with pytest.raises(InputError, match="made for 3 tokens, but there are 4"):
        af.velocity(flow, np.ones((4, 2)))


@pytest.mark.parametrize(
    ("mask", "is_causal"),
    [
        (af.masks.causal, True),
        (af.masks.strictly_causal, True),
        (af.masks.window(0), True),
        (af.masks.window(1), False),
        (af.masks.full, False),
        (af.masks.others, False),
        (af.masks.boolean(np.tri(N, dtype=bool)), True),
        (af.masks.boolean(np.tri(N, k=1, dtype=bool)), False),
        (af.masks.window(1) & af.masks.causal, True),
        (af.masks.boolean(SEEN) & af.masks.causal, True),
        (af.masks.window(1) & af.masks.boolean(SEEN), False),
    ],
)
def test_a_mask_is_causal_where_no_token_sees_a_later_one(mask, is_causal):
    assert mask.is_causal is is_causal


def test_the_reach_of_joined_masks_is_the_smaller_in_each_direction():
    assert (af.masks.window(3) & af.masks.causal).reach() == (3, 0)
    assert (af.masks.strictly_causal & af.masks.window(2)).reach() == (2, -1)
    assert (af.masks.others & af.masks.causal).reach() is None


def test_a_token_that_sees_no_token_is_refused_unless_it_is_frozen():
    tokens, head = np.eye(3), af.Head.identity(3)
    mask = af.masks.strictly_causal

    with pytest.raises(InputError, match="hides everything from token 1"):
        af.velocity(af.EuclideanAttention(head, mask=mask), tokens)
    frozen = np.array([True, False, False])
    assert af.velocity(af.EuclideanAttention(head, mask=mask, frozen=frozen), tokens).shape == (3, 3)
