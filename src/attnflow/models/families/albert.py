"""ALBERT: one layer used repeatedly, and narrow embeddings mapped to the width of the tokens."""

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow.models import parts
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.families import bert
from attnflow.models.feed_forward import affine
from attnflow.models.norm import Norm
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("albert",)
ANCHOR = bert.ANCHOR


def read_config(entries: Entries) -> Config:
    """The config of an ALBERT."""
    entries.refuse_unless("position_embedding_type", "absolute")
    entries.refuse_unless("inner_group_num", 1)
    return Config(
        family="albert",
        positions=entries.count("max_position_embeddings"),
        embedding_width=entries.count("embedding_size", 128),
        shares_layers=entries.count("num_hidden_groups", 1) == 1,
        **bert.encoder_entries(entries, activation="gelu_new"),
    )


def embed(tensors: Tensors, config: Config, ids: np.ndarray, with_positions: bool) -> Tokens:
    """BERT's embedding in fewer coordinates, followed by one affine map to the full width."""
    narrow = bert.embed(tensors, config, ids, with_positions)
    name = "encoder.embedding_hidden_mapping_in"
    return affine(narrow, *parts.linear(tensors, name, config.width, config.embedding_width))


def stem(config: Config, layer: int) -> str:
    """The prefix of the names of a block's tensors."""
    groups = config.raw.get("num_hidden_groups") or 1
    group = layer * groups // config.layers if groups > 1 else 0
    return f"encoder.albert_layer_groups.{group}.albert_layers.0."


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer, shared by its group of layers (usually one group)."""
    own = stem(config, layer)
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=parts.feed_forward(tensors, config, f"{own}ffn", f"{own}ffn_output"),
        attention_norm=read_attention_norm(tensors, config, layer),
        mlp_norm=parts.norm(tensors, f"{own}full_layer_layer_norm", config),
        norm_place=config.norm_place,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer."""
    own, d = f"{stem(config, layer)}attention.", config.width
    maps = parts.separate(tensors, config, f"{own}query", f"{own}key", f"{own}value")
    return parts.attention(config, layer, maps, parts.linear(tensors, f"{own}dense", d, d))


def read_attention_norm(tensors: Tensors, config: Config, layer: int) -> Norm:
    """The norm after the sum of a layer's tokens and heads."""
    return parts.norm(tensors, f"{stem(config, layer)}attention.LayerNorm", config)


last_norm = bert.last_norm
deviation = bert.deviation
