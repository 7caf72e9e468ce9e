"""DistilBERT: BERT's block under other names, without sentence types."""

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow.models import parts
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.families import bert
from attnflow.models.norm import Norm
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("distilbert",)
ANCHOR = bert.ANCHOR


def read_config(entries: Entries) -> Config:
    """The config of a DistilBERT; its sinusoidal positions are stored like learned ones."""
    width, heads = entries.count("dim"), entries.count("n_heads")
    return Config(
        family="distilbert",
        layers=entries.count("n_layers"),
        heads=heads,
        key_heads=heads,
        head_width=entries.head_width("dim", "n_heads"),
        width=width,
        embedding_width=width,
        mlp_width=entries.count("hidden_dim"),
        vocabulary=entries.count("vocab_size"),
        positions=entries.count("max_position_embeddings"),
        is_causal=False,
        norm="layer",
        norm_place="post",
        norm_epsilon=1e-12,
        activation=entries.word("activation", "gelu"),
        initializer_range=entries.number("initializer_range", 0.02),
        raw=entries.raw,
    )


def embed(tensors: Tensors, config: Config, ids: np.ndarray, with_positions: bool) -> Tokens:
    """Word and position vectors, added and normalised."""
    return bert.words_and_positions(tensors, config, ids, with_positions)


def stem(config: Config, layer: int) -> str:
    """The prefix of the names of a block's tensors."""
    del config
    return f"transformer.layer.{layer}."


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer."""
    own = stem(config, layer)
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=parts.feed_forward(tensors, config, f"{own}ffn.lin1", f"{own}ffn.lin2"),
        attention_norm=read_attention_norm(tensors, config, layer),
        mlp_norm=parts.norm(tensors, f"{own}output_layer_norm", config),
        norm_place=config.norm_place,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer."""
    own, d = f"{stem(config, layer)}attention.", config.width
    maps = parts.separate(tensors, config, f"{own}q_lin", f"{own}k_lin", f"{own}v_lin")
    return parts.attention(config, layer, maps, parts.linear(tensors, f"{own}out_lin", d, d))


def read_attention_norm(tensors: Tensors, config: Config, layer: int) -> Norm:
    """The norm after the sum of a layer's tokens and heads."""
    return parts.norm(tensors, f"{stem(config, layer)}sa_layer_norm", config)


last_norm, deviation = bert.last_norm, bert.deviation
