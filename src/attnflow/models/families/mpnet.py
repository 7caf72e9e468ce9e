"""MPNet: BERT's block with scores of relative positions, the same in all layers."""

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow.models import parts
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.families import bert
from attnflow.models.norm import Norm
from attnflow.models.relative_positions import RelativePositions
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("mpnet",)
ANCHOR = bert.ANCHOR
FIRST_POSITION = 2  # row of the position table, after the padding id 1
CLASSES, FARTHEST = 32, 128  # classes of distances, and the distance from which all are in one class


def read_config(entries: Entries) -> Config:
    """The config of an MPNet."""
    entries.refuse_unless("relative_attention_num_buckets", CLASSES)
    return Config(
        family="mpnet",
        positions=entries.count("max_position_embeddings", least=FIRST_POSITION + 1) - FIRST_POSITION,
        first_position=FIRST_POSITION,
        embedding_width=entries.count("hidden_size"),
        **bert.encoder_entries(entries, activation="gelu"),
    )


def embed(tensors: Tensors, config: Config, ids: np.ndarray, with_positions: bool) -> Tokens:
    """Word and position vectors, added and normalised."""
    return bert.words_and_positions(tensors, config, ids, with_positions)


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer."""
    own = bert.stem(config, layer)
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=parts.feed_forward(tensors, config, f"{own}intermediate.dense", f"{own}output.dense"),
        attention_norm=read_attention_norm(tensors, config, layer),
        mlp_norm=parts.norm(tensors, f"{own}output.LayerNorm", config),
        norm_place=config.norm_place,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer."""
    own, d = f"{bert.stem(config, layer)}attention.attn.", config.width
    table = tensors.read("encoder.relative_attention_bias.weight", (CLASSES, config.heads))
    maps = parts.separate(tensors, config, f"{own}q", f"{own}k", f"{own}v")
    output = parts.linear(tensors, f"{own}o", d, d)
    return parts.attention(config, layer, maps, output, relative=RelativePositions(table.T, FARTHEST))


def read_attention_norm(tensors: Tensors, config: Config, layer: int) -> Norm:
    """The norm after the sum of a layer's tokens and heads."""
    return parts.norm(tensors, f"{bert.stem(config, layer)}attention.LayerNorm", config)


stem, last_norm, deviation = bert.stem, bert.last_norm, bert.deviation
