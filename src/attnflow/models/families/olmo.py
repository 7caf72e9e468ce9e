"""OLMo 1 (LayerNorm without gain) and 2 (norms after each part, and norms of queries and keys)."""

import numpy as np

from attnflow.models import parts
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.families import llama
from attnflow.models.norm import Norm
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("olmo", "olmo2")
ANCHOR = llama.ANCHOR


def read_config(entries: Entries) -> Config:
    """The config of an OLMo."""
    found = llama.decoder_entries(entries)
    has_bias = bool(entries.raw.get("attention_bias", False))
    found |= {"has_query_bias": has_bias, "has_output_bias": has_bias}
    if found["family"] == "olmo2":
        found |= {"norm_place": "output", "query_norm": "layer"}
        return Config(**found)
    clip = entries.number("clip_qkv") if entries.raw.get("clip_qkv") is not None else None
    found |= {"norm": "layer", "norm_epsilon": 1e-5, "norm_has_shift": False, "clip": clip}
    return Config(**found)


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer."""
    own, is_second = llama.stem(config, layer), config.norm_place == "output"
    mlp = f"{own}mlp."
    return Block(
        attention=llama.read_attention(tensors, config, layer),
        mlp=parts.feed_forward(tensors, config, f"{mlp}up_proj", f"{mlp}down_proj", gate_name=f"{mlp}gate_proj"),
        attention_norm=_norm(tensors, config, f"{own}post_attention_layernorm"),
        mlp_norm=_norm(tensors, config, f"{own}post_feedforward_layernorm"),
        norm_place="output" if is_second else "pre",
    )


def read_attention_norm(tensors: Tensors, config: Config, layer: int) -> Norm:
    """The norm before the heads of one layer (OLMo 1), or after them."""
    return _norm(tensors, config, f"{llama.stem(config, layer)}post_attention_layernorm")


def last_norm(tensors: Tensors, config: Config) -> Norm:
    """The norm after the last layer."""
    return _norm(tensors, config, "norm")


def _norm(tensors: Tensors, config: Config, name: str) -> Norm:
    """The norm of this name; the LayerNorms of OLMo 1 are not stored, since they have gain one and no shift."""
    if config.norm_place == "output":
        return parts.norm(tensors, name, config)
    return Norm(np.ones(config.width, tensors.dtype), None, config.norm_epsilon, centres=True)


embed, stem, read_attention, deviation = llama.embed, llama.stem, llama.read_attention, llama.deviation
