"""Norms and rotations against their formulas, with numbers that do not vanish beside others."""

import jax.numpy as jnp
import numpy as np
import pytest

from attnflow._common.checks import InputError
from attnflow._common.precision import double
from attnflow.models import rotary
from attnflow.models.config_entries import Entries
from attnflow.models.families import bert, gpt_neo, llama
from attnflow.models.norm import Norm

TOKENS = np.random.default_rng(0).normal(1.0, 2.0, size=(4, 5))
GAIN, SHIFT = np.linspace(0.5, 2.0, 5), np.linspace(-1.0, 1.0, 5)


@pytest.mark.parametrize("centres", [True, False])
def test_tokens_are_divided_by_the_root_of_mean_square_plus_epsilon(centres):
    """With epsilon = 3, of the size of the mean square."""
    centred = TOKENS - TOKENS.mean(axis=1, keepdims=True) if centres else TOKENS
    expected = GAIN * centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 3.0) + SHIFT

    with double():
        found = Norm(jnp.asarray(GAIN), jnp.asarray(SHIFT), 3.0, centres)(jnp.asarray(TOKENS))

    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("centres", [True, False])
def test_a_matrix_with_the_norm_folded_in_reads_tokens_that_are_only_divided(centres):
    matrices = np.random.default_rng(1).normal(size=(2, 3, 5))
    norm = Norm(GAIN, None, 1e-12, centres)
    with double():
        expected = np.einsum("hkd,nd->hnk", matrices, np.asarray(norm(jnp.asarray(TOKENS))))
    centred = TOKENS - TOKENS.mean(axis=1, keepdims=True) if centres else TOKENS
    divided = TOKENS / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)

    np.testing.assert_allclose(np.einsum("hkd,nd->hnk", norm.folded(matrices), divided), expected, rtol=1e-10)


def frequencies(k=8, **rotation):
    entries = Entries({"rope_theta": 100.0, "rope_scaling": rotation}, "a test")
    return np.array(rotary.rotation(entries, k).frequencies)


def test_rotations_are_powers_of_theta_and_linear_scaling_divides_them():
    plain = 100.0 ** (-np.array([0, 2, 4, 6]) / 8)

    np.testing.assert_allclose(frequencies(rope_type="default"), plain)
    np.testing.assert_allclose(frequencies(rope_type="linear", factor=4.0), plain / 4)


def test_slow_planes_of_llama_3_rotate_slower_by_the_factor_with_a_linear_ramp():
    """Turns in 100 positions: 15.9, 5.0, 1.6, 0.5. Above 8 they stay, below 1 they are divided by 4."""
    plain = 100.0 ** (-np.array([0, 2, 4, 6]) / 8)
    turns = 100 * plain / (2 * np.pi)
    found = frequencies(
        rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=8.0, original_max_position_embeddings=100
    )

    assert found[0] == pytest.approx(plain[0])
    assert found[3] == pytest.approx(plain[3] / 4)
    for plane in (1, 2):
        kept = (turns[plane] - 1) / 7
        assert found[plane] == pytest.approx(plain[plane] * (kept + (1 - kept) / 4))


@pytest.mark.parametrize(("k", "fits"), [(rotary.MAX_HEAD_WIDTH, True), (rotary.MAX_HEAD_WIDTH + 2, False), (7, False)])
def test_widths_of_heads_are_even_and_bounded(k, fits):
    if fits:
        assert len(frequencies(k)) == k // 2
    else:
        with pytest.raises(InputError, match=r"even number|width of at most"):
            frequencies(k)


LLAMA = {
    "model_type": "llama", "num_attention_heads": 4, "hidden_size": 32, "num_hidden_layers": 2,
    "intermediate_size": 64, "vocab_size": 100, "max_position_embeddings": 128,
}  # fmt: skip


def test_what_a_config_leaves_out_has_the_value_of_the_published_models():
    config = llama.read_config(Entries(LLAMA, "a test"))

    assert (config.norm_epsilon, config.activation, config.key_heads, config.head_width) == (1e-6, "silu", 4, 8)
    assert config.initializer_range == 0.02
    neo = {"model_type": "gpt_neo", "hidden_size": 8, "num_layers": 2, "num_heads": 2, "vocab_size": 9}
    config = gpt_neo.read_config(Entries(neo | {"max_position_embeddings": 16}, "a test"))
    assert (config.initializer_range, config.activation, config.windows) == (0.02, "gelu_new", (None, 255))


@pytest.mark.parametrize(("kind", "pad", "first"), [("bert", 3, 0), ("roberta", 1, 2), ("roberta", 4, 5)])
def test_positions_of_a_roberta_begin_after_its_padding_and_are_fewer_by_that(kind, pad, first):
    raw = LLAMA | {"model_type": kind, "pad_token_id": pad, "max_position_embeddings": 130}
    config = bert.read_config(Entries(raw, "a test"))

    assert (config.first_position, config.positions) == (first, 130 - first)


@pytest.mark.parametrize("value", [0, -1, True, 2.0, "2", None])
def test_counts_of_a_config_are_whole_numbers_of_at_least_one(value):
    with pytest.raises(InputError, match="must have a whole number `num_hidden_layers`, at least 1"):
        llama.read_config(Entries(LLAMA | {"num_hidden_layers": value}, "a test"))
