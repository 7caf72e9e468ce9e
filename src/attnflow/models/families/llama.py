"""Llama, Mistral and related decoders (SmolLM): causal, RMSNorm before each part, rotary positions, grouped keys.

`decoder_entries`, `read_block` and `read_attention` serve other families too, whose configs turn parts of them on.
"""

from typing import Any

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow._common.checks import InputError
from attnflow.models import parts
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.norm import Norm
from attnflow.models.rotary import rotation
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("llama", "mistral")
ANCHOR = "embed_tokens.weight"


def read_config(entries: Entries) -> Config:
    """The config of a Llama or a Mistral."""
    found = decoder_entries(entries)
    if found["family"] == "llama":
        has_bias = bool(entries.raw.get("attention_bias", False))
        found |= {"has_query_bias": has_bias, "has_output_bias": has_bias}
        found["has_mlp_bias"] = bool(entries.raw.get("mlp_bias", False))
    else:
        found["windows"] = windows(entries, found["layers"])
    return Config(**found)


def decoder_entries(entries: Entries, *, part: float | None = None) -> dict[str, Any]:
    """The entries that these decoders have under the same names.

    `part` is the usual rotated share of a head; None: whole heads, and config.json must not say otherwise.
    """
    heads, width = entries.count("num_attention_heads"), entries.count("hidden_size")
    head_width = entries.count("head_dim", width // heads)
    if part is None:
        for table in (entries, entries.table("rope_parameters"), entries.table("rope_scaling")):
            table.refuse_unless("partial_rotary_factor", 1)
    rotary = rotation(entries, head_width, part=part or 1.0)
    positions = entries.count("max_position_embeddings")
    return {
        "family": str(entries.raw["model_type"]),
        "layers": entries.count("num_hidden_layers"),
        "heads": heads,
        "key_heads": entries.count("num_key_value_heads", heads),
        "head_width": head_width,
        "width": width,
        "embedding_width": width,
        "mlp_width": entries.count("intermediate_size"),
        "vocabulary": entries.count("vocab_size"),
        "positions": int(positions * rotary.growth),
        "is_causal": True,
        "norm": "rms",
        "norm_place": "pre",
        "norm_epsilon": entries.number("rms_norm_eps", 1e-6),
        "activation": entries.word("hidden_act", "silu"),
        "initializer_range": entries.number("initializer_range", 0.02),
        "raw": entries.raw,
        "rotary": rotary,
        "has_query_bias": False,
        "has_output_bias": False,
        "has_mlp_bias": False,
    }


def windows(entries: Entries, layers: int, local: tuple[bool, ...] | None = None) -> tuple[int | None, ...]:
    """The window of each layer: `sliding_window` tokens, the own one included, in the layers that are `local`.

    `layer_types` in config.json says which layers those are; without it `local` does, and without both all are.
    """
    if entries.raw.get("sliding_window") is None:
        return ()
    width = entries.count("sliding_window") - 1
    named = entries.raw.get("layer_types")
    if named is not None:
        kinds = {"sliding_attention": True, "full_attention": False}
        if not isinstance(named, list) or len(named) != layers or any(one not in kinds for one in named):
            raise InputError(
                f"`layer_types` in {entries.where} must name {' or '.join(kinds)} for each of {layers} layers, "
                f"but it is {str(named)[:80]}."
            )
        local = tuple(kinds[one] for one in named)
    return tuple(width if is_local else None for is_local in (local or (True,) * layers))


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
    own = stem(config, layer)
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=parts.feed_forward(
            tensors, config, f"{own}mlp.up_proj", f"{own}mlp.down_proj", gate_name=f"{own}mlp.gate_proj"
        ),
        attention_norm=read_attention_norm(tensors, config, layer),
        mlp_norm=parts.norm(tensors, f"{own}post_attention_layernorm", config),
        norm_place=config.norm_place,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer."""
    own = f"{stem(config, layer)}self_attn."
    maps = parts.separate(tensors, config, f"{own}q_proj", f"{own}k_proj", f"{own}v_proj")
    rows, columns = config.width, config.heads * config.head_width
    output = parts.linear(tensors, f"{own}o_proj", rows, columns, config.has_output_bias)
    norms = parts.query_key_norms(tensors, config, f"{own}q_norm", f"{own}k_norm", maps)
    return parts.attention(config, layer, maps, output, **norms)


def read_attention_norm(tensors: Tensors, config: Config, layer: int) -> Norm:
    """The norm before the heads of one layer."""
    return parts.norm(tensors, f"{stem(config, layer)}input_layernorm", config)


def last_norm(tensors: Tensors, config: Config) -> Norm:
    """The norm after the last layer."""
    return parts.norm(tensors, "norm", config)


def deviation(config: Config, name: str) -> float:
    """`initializer_range`, the same for all matrices."""
    del name
    return config.initializer_range
