"""Phi-3: Llama's block with queries, keys and values in one matrix, and gate and MLP in another."""

import numpy as np

from attnflow.models import parts
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.families import llama
from attnflow.models.feed_forward import FeedForward
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("phi3",)
ANCHOR = llama.ANCHOR


def read_config(entries: Entries) -> Config:
    """The config of a Phi-3."""
    found = llama.decoder_entries(entries, part=1.0)
    found["windows"] = llama.windows(entries, found["layers"])
    return Config(**found)


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer."""
    own, d, m = llama.stem(config, layer), config.width, config.mlp_width
    gate, enter = np.split(tensors.read(f"{own}mlp.gate_up_proj.weight", (2 * m, d)), 2)
    leave = tensors.read(f"{own}mlp.down_proj.weight", (d, m))
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=FeedForward(enter, leave, config.activation, gate=gate),
        attention_norm=read_attention_norm(tensors, config, layer),
        mlp_norm=parts.norm(tensors, f"{own}post_attention_layernorm", config),
        norm_place=config.norm_place,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer."""
    own, d = f"{llama.stem(config, layer)}self_attn.", config.width
    first, other = config.heads * config.head_width, config.key_heads * config.head_width
    fused = tensors.read(f"{own}qkv_proj.weight", (first + 2 * other, d))
    queries, keys, values = np.split(fused, [first, first + other])
    output = parts.linear(tensors, f"{own}o_proj", d, first, has_bias=False)
    return parts.attention(config, layer, ((queries, None), (keys, None), (values, None)), output)


embed, stem, read_attention_norm = llama.embed, llama.stem, llama.read_attention_norm
last_norm, deviation = llama.last_norm, llama.deviation
