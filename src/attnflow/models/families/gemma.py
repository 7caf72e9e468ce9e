"""Gemma 1 to 3: scaled word vectors, gains stored less one; norms after each part and windows (2, 3)."""

import math

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow.models import parts
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.families import llama
from attnflow.models.rotary import Rotation, rotation
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("gemma", "gemma2", "gemma3_text")
ANCHOR = llama.ANCHOR


def read_config(entries: Entries) -> Config:
    """The config of a Gemma; its heads are 256 wide unless config.json says otherwise."""
    family = entries.raw["model_type"]
    found = llama.decoder_entries(_without_tables(entries).with_defaults(head_dim=256))
    has_bias = bool(entries.raw.get("attention_bias", False))
    found |= {"gain_offset": 1.0, "has_query_bias": has_bias, "has_output_bias": has_bias}
    found["activation"] = _activation(entries)
    if family != "gemma":
        found |= {
            "has_output_norms": True,
            "score_scale": 1 / math.sqrt(entries.number("query_pre_attn_scalar", 256)),
            "softcap": _softcap(entries, default=50.0 if family == "gemma2" else None),
        }
    if family == "gemma2":  # a window in every other layer
        found["windows"] = _windows(entries, found["layers"], period=2)
    if family == "gemma3_text":
        entries.refuse_unless("use_bidirectional_attention", False)
        period = entries.count("sliding_window_pattern", 6)  # a window in all layers but every sixth
        found |= {"windows": _windows(entries, found["layers"], period), "query_norm": "head"}
        found["rotary"], found["local_rotary"] = _rotations(entries, found["head_width"])
    return Config(**found)


def embed(tensors: Tensors, config: Config, ids: np.ndarray, with_positions: bool) -> Tokens:
    """Word vectors times sqrt(d)."""
    words = llama.embed(tensors, config, ids, with_positions)
    return words * np.asarray(math.sqrt(config.width), words.dtype)


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer."""
    if not config.has_output_norms:
        return llama.read_block(tensors, config, layer)
    own = llama.stem(config, layer)
    mlp = f"{own}mlp."
    return Block(
        attention=llama.read_attention(tensors, config, layer),
        mlp=parts.feed_forward(tensors, config, f"{mlp}up_proj", f"{mlp}down_proj", gate_name=f"{mlp}gate_proj"),
        attention_norm=llama.read_attention_norm(tensors, config, layer),
        mlp_norm=parts.norm(tensors, f"{own}pre_feedforward_layernorm", config),
        norm_place=config.norm_place,
        attention_output_norm=parts.norm(tensors, f"{own}post_attention_layernorm", config),
        mlp_output_norm=parts.norm(tensors, f"{own}post_feedforward_layernorm", config),
    )


def _windows(entries: Entries, layers: int, period: int) -> tuple[int | None, ...]:
    return llama.windows(
        entries.with_defaults(sliding_window=4096), layers, tuple((layer + 1) % period > 0 for layer in range(layers))
    )


def _rotations(entries: Entries, width: int) -> tuple[Rotation, Rotation]:
    """The rotary positions of layers without a window and of those with one; config.json has two forms of them."""
    if "full_attention" in entries.table("rope_parameters").raw:
        far = rotation(entries, width, theta=1e6, table="full_attention")
        return far, rotation(entries, width, table="sliding_attention")
    near = entries.with_values(rope_theta=entries.number("rope_local_base_freq", 10000.0), rope_scaling=None)
    return rotation(entries, width, theta=1e6), rotation(near, width)


def _without_tables(entries: Entries) -> Entries:
    """The entries without rotary positions by kind of layer, which are read apart."""
    is_nested = "full_attention" in entries.table("rope_parameters").raw
    return entries.with_values(rope_parameters=None) if is_nested else entries


def _activation(entries: Entries) -> str:
    """The activation of the MLP; "gelu" in early files of Gemma 1 stands for the approximate GELU."""
    is_first = entries.raw["model_type"] == "gemma"
    named = entries.word("hidden_act" if is_first else "hidden_activation", "gelu_pytorch_tanh")
    return "gelu_pytorch_tanh" if is_first and named == "gelu" else named


def _softcap(entries: Entries, default: float | None) -> float | None:
    name = "attn_logit_softcapping"
    if name in entries.raw and entries.raw[name] is None:
        return None
    return default if name not in entries.raw else entries.number(name)


stem, read_attention, read_attention_norm = llama.stem, llama.read_attention, llama.read_attention_norm
last_norm, deviation = llama.last_norm, llama.deviation
