"""ALBERT: one layer used repeatedly, and narrow embeddings mapped to the width of the tokens."""

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow.models import bert
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config, Entries
from attnflow.models.feed_forward import FeedForward, affine
from attnflow.models.slices import norm
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
    matrix = tensors.read(f"{name}.weight", (config.width, config.embedding_width))
    return affine(narrow, matrix, tensors.read(f"{name}.bias", (config.width,)))


def stem(config: Config, layer: int) -> str:
    """The prefix of the names of a block's tensors."""
    groups = config.raw.get("num_hidden_groups") or 1
    group = layer * groups // config.layers if groups > 1 else 0
    return f"encoder.albert_layer_groups.{group}.albert_layers.0."


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer, shared by its group of layers (usually one group)."""
    own, d, m = stem(config, layer), config.width, config.mlp_width
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=FeedForward(
            inward=tensors.read(f"{own}ffn.weight", (m, d)),
            inward_bias=tensors.read(f"{own}ffn.bias", (m,)),
            outward=tensors.read(f"{own}ffn_output.weight", (d, m)),
            outward_bias=tensors.read(f"{own}ffn_output.bias", (d,)),
            activation=config.activation,
        ),
        attention_norm=norm(tensors, f"{own}attention.LayerNorm", config),
        mlp_norm=norm(tensors, f"{own}full_layer_layer_norm", config),
        norm_place=config.norm_place,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer."""
    own = f"{stem(config, layer)}attention."
    return bert.separate_heads(tensors, config, own, f"{own}dense")


last_norm = bert.last_norm
residual_factor = bert.residual_factor
