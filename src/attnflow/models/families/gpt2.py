"""GPT-2: causal, a norm before each part, query, key and value in one matrix that is stored transposed."""

import math

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow.models import parts
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.feed_forward import FeedForward
from attnflow.models.norm import Norm
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("gpt2",)
ANCHOR = "wte.weight"


def read_config(entries: Entries) -> Config:
    """The config of a GPT-2."""
    width, heads = entries.count("n_embd"), entries.count("n_head")
    return Config(
        family="gpt2",
        layers=entries.count("n_layer"),
        heads=heads,
        key_heads=heads,
        head_width=entries.head_width("n_embd", "n_head"),
        width=width,
        embedding_width=width,
        mlp_width=entries.count("n_inner", 4 * width),
        vocabulary=entries.count("vocab_size"),
        positions=entries.count("n_positions"),
        is_causal=True,
        norm="layer",
        norm_place="pre",
        norm_epsilon=entries.number("layer_norm_epsilon", 1e-5),
        activation=entries.word("activation_function", "gelu_new"),
        initializer_range=entries.number("initializer_range", 0.02),
        raw=entries.raw,
    )


def embed(tensors: Tensors, config: Config, ids: np.ndarray, with_positions: bool) -> Tokens:
    """Word and position vectors, added."""
    words = tensors.rows(ANCHOR, ids, (config.vocabulary, config.width))
    if not with_positions:
        return words
    return words + tensors.rows("wpe.weight", np.arange(len(ids)), (config.positions, config.width))


def stem(config: Config, layer: int) -> str:
    """The prefix of the names of a block's tensors."""
    del config
    return f"h.{layer}."


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer."""
    own, d, m = stem(config, layer), config.width, config.mlp_width
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=FeedForward(
            inward=tensors.read(f"{own}mlp.c_fc.weight", (d, m)).T,
            inward_bias=tensors.read(f"{own}mlp.c_fc.bias", (m,)),
            outward=tensors.read(f"{own}mlp.c_proj.weight", (m, d)).T,
            outward_bias=tensors.read(f"{own}mlp.c_proj.bias", (d,)),
            activation=config.activation,
        ),
        attention_norm=read_attention_norm(tensors, config, layer),
        mlp_norm=parts.norm(tensors, f"{own}ln_2", config),
        norm_place=config.norm_place,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer."""
    own, d = f"{stem(config, layer)}attn.", config.width
    matrices = np.split(tensors.read(f"{own}c_attn.weight", (d, 3 * d)).T, 3)
    biases = np.split(tensors.read(f"{own}c_attn.bias", (3 * d,)), 3)
    queries, keys, values = zip(matrices, biases, strict=True)
    output = tensors.read(f"{own}c_proj.weight", (d, d)).T, tensors.read(f"{own}c_proj.bias", (d,))
    scale = 1 / math.sqrt(config.head_width) if config.raw.get("scale_attn_weights", True) else 1.0
    by_layer = layer + 1 if config.raw.get("scale_attn_by_inverse_layer_idx", False) else 1
    return parts.attention(config, layer, (queries, keys, values), output, scale=scale / by_layer)


def read_attention_norm(tensors: Tensors, config: Config, layer: int) -> Norm:
    """The norm before the heads of one layer."""
    return parts.norm(tensors, f"{stem(config, layer)}ln_1", config)


def last_norm(tensors: Tensors, config: Config) -> Norm:
    """The norm after the last layer."""
    return parts.norm(tensors, "ln_f", config)


def deviation(config: Config, name: str) -> float:
    """`initializer_range`, over the root of their number for matrices that write to the residual stream."""
    writes = name.endswith("c_proj.weight")
    return config.initializer_range / (math.sqrt(2 * config.layers) if writes else 1.0)
