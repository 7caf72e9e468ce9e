"""Llama and related decoders (SmolLM): causal, RMSNorm before each part, rotary positions, grouped keys."""

import math

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow._common.checks import InputError
from attnflow.model import masks
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config, Entries
from attnflow.models.feed_forward import FeedForward
from attnflow.models.norm import Norm
from attnflow.models.slices import inward, norm, outward
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("llama",)
ANCHOR = "embed_tokens.weight"
MAX_HEAD_WIDTH = 2**16  # a damaged config.json must not allocate more


def read_config(entries: Entries) -> Config:
    """The config of a Llama."""
    heads, width = entries.count("num_attention_heads"), entries.count("hidden_size")
    head_width = entries.count("head_dim", width // heads)
    return Config(
        family="llama",
        layers=entries.count("num_hidden_layers"),
        heads=heads,
        key_heads=entries.count("num_key_value_heads", heads),
        head_width=head_width,
        width=width,
        embedding_width=width,
        mlp_width=entries.count("intermediate_size"),
        vocabulary=entries.count("vocab_size"),
        positions=entries.count("max_position_embeddings"),
        is_causal=True,
        norm="rms",
        norm_place="pre",
        norm_epsilon=entries.number("rms_norm_eps", 1e-6),
        activation=entries.word("hidden_act", "silu"),
        initializer_range=entries.number("initializer_range", 0.02),
        raw=entries.raw,
        frequencies=tuple(_frequencies(entries, head_width).tolist()),
    )


def embed(tensors: Tensors, config: Config, ids: np.ndarray, with_positions: bool) -> Tokens:
    """Word vectors; positions enter in the attention, as rotations."""
    del with_positions
    return tensors.rows(ANCHOR, ids, (config.vocabulary, config.width))


def stem(config: Config, layer: int) -> str:
    """The prefix of the names of a block's tensors."""
    del config
    return f"layers.{layer}."


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer."""
    own, d, m = stem(config, layer), config.width, config.mlp_width
    has_bias = config.raw.get("mlp_bias", False)
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=FeedForward(
            inward=tensors.read(f"{own}mlp.up_proj.weight", (m, d)),
            inward_bias=_bias(tensors, f"{own}mlp.up_proj", m, has_bias),
            outward=tensors.read(f"{own}mlp.down_proj.weight", (d, m)),
            outward_bias=_bias(tensors, f"{own}mlp.down_proj", d, has_bias),
            gate=tensors.read(f"{own}mlp.gate_proj.weight", (m, d)),
            gate_bias=_bias(tensors, f"{own}mlp.gate_proj", m, has_bias),
            activation=config.activation,
        ),
        attention_norm=read_attention_norm(tensors, config, layer),
        mlp_norm=norm(tensors, f"{own}post_attention_layernorm", config),
        norm_place=config.norm_place,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer."""
    own, d, k = f"{stem(config, layer)}self_attn.", config.width, config.head_width
    has_bias = config.raw.get("attention_bias", False)

    def maps(name, heads):
        bias = _bias(tensors, f"{own}{name}_proj", heads * k, has_bias)
        matrix = tensors.read(f"{own}{name}_proj.weight", (heads * k, d))
        return inward(matrix, heads), None if bias is None else bias.reshape(heads, k)

    W_Q, b_q = maps("q", config.heads)
    W_K, b_k = maps("k", config.key_heads)
    W_V, b_v = maps("v", config.key_heads)
    return AttentionPart(
        W_Q=W_Q,
        W_K=W_K,
        W_V=W_V,
        W_O=outward(tensors.read(f"{own}o_proj.weight", (d, config.heads * k)), config.heads),
        b_q=b_q,
        b_k=b_k,
        b_v=b_v,
        b_o=_bias(tensors, f"{own}o_proj", d, has_bias),
        mask=masks.causal,
        scale=1 / math.sqrt(k),
        frequencies=np.array(config.frequencies, tensors.dtype),
    )


def read_attention_norm(tensors: Tensors, config: Config, layer: int) -> Norm:
    """The norm before the heads of one layer."""
    return norm(tensors, f"{stem(config, layer)}input_layernorm", config)


def last_norm(tensors: Tensors, config: Config) -> Norm:
    """The norm after the last layer."""
    return norm(tensors, "norm", config)


def residual_factor(config: Config) -> float:
    """One: all matrices have the same initial deviation."""
    del config
    return 1.0


def _bias(tensors: Tensors, name: str, size: int, has_bias: bool) -> np.ndarray | None:
    return tensors.read(f"{name}.bias", (size,)) if has_bias else None


def _frequencies(entries: Entries, k: int) -> np.ndarray:
    """Rotation of each plane in radians a position; models with long contexts rescale the small ones."""
    if k % 2 or k > MAX_HEAD_WIDTH:
        raise InputError(
            f"Heads with rotary positions must have an even width, at most {MAX_HEAD_WIDTH}, but config.json says {k}."
        )
    rotation = entries.table("rope_parameters" if entries.raw.get("rope_parameters") else "rope_scaling")
    for table in (entries, rotation):
        table.refuse_unless("partial_rotary_factor", 1)
    plain = rotation.number("rope_theta", entries.number("rope_theta", 10000.0)) ** (-np.arange(0, k, 2) / k)
    kind = rotation.word("rope_type", rotation.word("type", "default"))
    if kind == "default":
        return plain
    if kind == "linear":
        return plain / rotation.number("factor")
    if kind == "llama3":
        return _rescaled(plain, rotation)
    raise InputError(
        f"config.json has rotary positions of type {kind!r}, which is not supported; known: default, linear, llama3."
    )


def _rescaled(plain: np.ndarray, rotation: Entries) -> np.ndarray:
    """Llama 3: planes with few turns within the original context rotate `factor` times slower, with a linear ramp."""
    slow, fast = rotation.number("low_freq_factor"), rotation.number("high_freq_factor")
    if fast <= slow:
        raise InputError(f"`high_freq_factor` in config.json must be above `low_freq_factor`, {slow}, but is {fast}.")
    turns = rotation.number("original_max_position_embeddings") * plain / (2 * np.pi)
    kept = np.clip((turns - slow) / (fast - slow), 0, 1)
    return plain * (kept + (1 - kept) / rotation.number("factor"))
