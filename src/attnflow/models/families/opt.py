"""OPT: causal, learned positions, ReLU, a norm before each part (in the 350M model after each sum)."""

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow.models import parts
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.feed_forward import affine
from attnflow.models.norm import Norm
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("opt",)
ANCHOR = "embed_tokens.weight"
FIRST_POSITION = 2  # row of the position table; those before it are not used


def read_config(entries: Entries) -> Config:
    """The config of an OPT."""
    entries.refuse_unless("layer_norm_elementwise_affine", True)
    width, heads = entries.count("hidden_size"), entries.count("num_attention_heads")
    has_bias = bool(entries.raw.get("enable_bias", True))
    return Config(
        family="opt",
        layers=entries.count("num_hidden_layers"),
        heads=heads,
        key_heads=heads,
        head_width=entries.head_width("hidden_size", "num_attention_heads"),
        width=width,
        embedding_width=entries.count("word_embed_proj_dim", width),
        mlp_width=entries.count("ffn_dim"),
        vocabulary=entries.count("vocab_size"),
        positions=entries.count("max_position_embeddings"),
        first_position=FIRST_POSITION,
        is_causal=True,
        norm="layer",
        norm_place="pre" if entries.raw.get("do_layer_norm_before", True) else "post",
        norm_epsilon=1e-5,
        activation=entries.word("activation_function", "relu"),
        initializer_range=entries.number("init_std", 0.02),
        raw=entries.raw,
        has_query_bias=has_bias,
        has_output_bias=has_bias,
        has_mlp_bias=has_bias,
    )


def embed(tensors: Tensors, config: Config, ids: np.ndarray, with_positions: bool) -> Tokens:
    """Word vectors, mapped to the width of the tokens where they are narrower, and position vectors."""
    words = tensors.rows(ANCHOR, ids, (config.vocabulary, config.embedding_width))
    if config.embedding_width != config.width:
        words = affine(words, tensors.read("project_in.weight", (config.width, config.embedding_width)), None)
    if not with_positions:
        return words
    table = (config.first_position + config.positions, config.width)
    return words + tensors.rows("embed_positions.weight", config.first_position + np.arange(len(ids)), table)


def stem(config: Config, layer: int) -> str:
    """The prefix of the names of a block's tensors."""
    del config
    return f"layers.{layer}."


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer."""
    own = stem(config, layer)
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=parts.feed_forward(tensors, config, f"{own}fc1", f"{own}fc2"),
        attention_norm=read_attention_norm(tensors, config, layer),
        mlp_norm=parts.norm(tensors, f"{own}final_layer_norm", config),
        norm_place=config.norm_place,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer."""
    own, d = f"{stem(config, layer)}self_attn.", config.width
    maps = parts.separate(tensors, config, f"{own}q_proj", f"{own}k_proj", f"{own}v_proj")
    output = parts.linear(tensors, f"{own}out_proj", d, d, config.has_output_bias)
    return parts.attention(config, layer, maps, output)


def read_attention_norm(tensors: Tensors, config: Config, layer: int) -> Norm:
    """The norm before the heads of one layer, or after their sum."""
    return parts.norm(tensors, f"{stem(config, layer)}self_attn_layer_norm", config)


def last_norm(tensors: Tensors, config: Config) -> Norm | None:
    """The norm after the last layer; None where blocks end with one."""
    is_left_out = config.norm_place == "post" or config.raw.get("_remove_final_layer_norm", False)
    return None if is_left_out else parts.norm(tensors, "final_layer_norm", config)


def deviation(config: Config, name: str) -> float:
    """`init_std`, the same for all matrices."""
    del name
    return config.initializer_range
