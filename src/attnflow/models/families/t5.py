"""The encoder of T5: RMSNorm before each part, scores without 1/sqrt(k), and scores of relative positions."""

import math

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow._common.checks import InputError
from attnflow.models import parts
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.norm import Norm
from attnflow.models.relative_positions import RelativePositions
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("t5",)
ANCHOR = "shared.weight"
LONGEST = 1 << 16  # tokens; T5 has no longest prompt of its own


def read_config(entries: Entries) -> Config:
    """The config of a T5, whose decoder is not read."""
    heads, width = entries.count("num_heads"), entries.count("d_model")
    entries.count("relative_attention_num_buckets", 32, least=4)
    return Config(
        family="t5",
        layers=entries.count("num_layers"),
        heads=heads,
        key_heads=heads,
        head_width=entries.count("d_kv", 64),
        width=width,
        embedding_width=width,
        mlp_width=entries.count("d_ff"),
        vocabulary=entries.count("vocab_size"),
        positions=LONGEST,
        is_causal=False,
        norm="rms",
        norm_place="pre",
        norm_epsilon=entries.number("layer_norm_epsilon", 1e-6),
        activation=_activation(entries),
        initializer_range=entries.number("initializer_factor", 1.0),
        raw=entries.raw,
        score_scale=1.0,
        has_query_bias=False,
        has_output_bias=False,
        has_mlp_bias=False,
    )


def embed(tensors: Tensors, config: Config, ids: np.ndarray, with_positions: bool) -> Tokens:
    """Word vectors; positions enter in the attention, as scores."""
    del with_positions
    return tensors.rows(ANCHOR, ids, (config.vocabulary, config.width))


def stem(config: Config, layer: int) -> str:
    """The prefix of the names of a block's tensors."""
    del config
    return f"encoder.block.{layer}.layer."


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer."""
    own = stem(config, layer)
    mlp, is_gated = f"{own}1.DenseReluDense.", _is_gated(config.raw)
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=parts.feed_forward(
            tensors, config, f"{mlp}wi_1" if is_gated else f"{mlp}wi", f"{mlp}wo", f"{mlp}wi_0" if is_gated else None
        ),
        attention_norm=read_attention_norm(tensors, config, layer),
        mlp_norm=parts.norm(tensors, f"{own}1.layer_norm", config),
        norm_place=config.norm_place,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer; scores of relative positions are stored in the first and used in all."""
    own, inner = f"{stem(config, layer)}0.SelfAttention.", config.heads * config.head_width
    classes = config.raw.get("relative_attention_num_buckets") or 32
    name = f"{stem(config, 0)}0.SelfAttention.relative_attention_bias.weight"
    table = tensors.read(name, (classes, config.heads))
    maps = parts.separate(tensors, config, f"{own}q", f"{own}k", f"{own}v")
    output = parts.linear(tensors, f"{own}o", config.width, inner, has_bias=False)
    farthest = config.raw.get("relative_attention_max_distance") or 128
    return parts.attention(config, layer, maps, output, relative=RelativePositions(table.T, farthest))


def read_attention_norm(tensors: Tensors, config: Config, layer: int) -> Norm:
    """The norm before the heads of one layer."""
    return parts.norm(tensors, f"{stem(config, layer)}0.layer_norm", config)


def last_norm(tensors: Tensors, config: Config) -> Norm:
    """The norm after the last layer."""
    return parts.norm(tensors, "encoder.final_layer_norm", config)


def deviation(config: Config, name: str) -> float:
    """`initializer_factor` over the root of the number of coordinates that a map reads; queries have 1/sqrt(k) too."""
    d, k = config.width, config.head_width
    if name == ANCHOR:
        return config.initializer_range
    read = {"q": d * k, "o": config.heads * k, "wo": config.mlp_width}.get(name.split(".")[-2], d)
    return config.initializer_range / math.sqrt(read)


def _is_gated(raw) -> bool:
    return str(raw.get("feed_forward_proj") or "relu").startswith("gated-")


def _activation(entries: Entries) -> str:
    """The activation that `feed_forward_proj` names; "gated-gelu" stands for the approximate GELU."""
    named = entries.word("feed_forward_proj", "relu")
    if named.count("-") > 1:
        raise InputError(
            f"`feed_forward_proj` in {entries.where} must be such as 'relu' or 'gated-gelu', but is {named!r}."
        )
    return "gelu_new" if named == "gated-gelu" else named.removeprefix("gated-")
