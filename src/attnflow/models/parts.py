"""Norms, heads and MLPs, cut out of stored tensors."""

import math
from typing import Any

import numpy as np

from attnflow.models.attention_part import AttentionPart
from attnflow.models.config import Config
from attnflow.models.feed_forward import FeedForward
from attnflow.models.norm import Norm, VectorNorm
from attnflow.models.tensors import Tensors

Linear = tuple[np.ndarray, np.ndarray | None]  # matrix and bias


def norm(tensors: Tensors, name: str, config: Config, width: int | None = None) -> Norm:
    """The norm of this name."""
    shape = (width or config.width,)
    centres = config.norm == "layer"
    shift = tensors.read(f"{name}.bias", shape) if centres and config.norm_has_shift else None
    return Norm(gain(tensors, name, config, shape[0]), shift, config.norm_epsilon, centres)


def gain(tensors: Tensors, name: str, config: Config, width: int) -> np.ndarray:
    """The gain of the norm of this name."""
    stored = tensors.read(f"{name}.weight", (width,))
    return stored + np.asarray(config.gain_offset, stored.dtype) if config.gain_offset else stored


def linear(tensors: Tensors, name: str, rows: int, columns: int, has_bias: bool = True) -> Linear:
    """The matrix and the bias of this name."""
    matrix = tensors.read(f"{name}.weight", (rows, columns))
    return matrix, tensors.read(f"{name}.bias", (rows,)) if has_bias else None


def separate(tensors: Tensors, config: Config, query: str, key: str, value: str) -> tuple[Linear, Linear, Linear]:
    """Queries, keys and values that are stored under separate names."""
    d, k = config.width, config.head_width

    def read(name: str, heads: int) -> Linear:
        return linear(tensors, name, heads * k, d, config.has_query_bias)

    return read(query, config.heads), read(key, config.key_heads), read(value, config.key_heads)


def attention(
    config: Config, layer: int, maps: tuple[Linear, Linear, Linear], output: Linear, **others: Any
) -> AttentionPart:
    """The heads of a layer from maps of queries, keys and values, each of all heads, and their output.

    Mask, scale, rotary positions, norms of queries and keys, and bounds are those of the config, unless they are
    among the `others`.
    """
    counts = (config.heads, config.key_heads, config.key_heads)
    W_Q, W_K, W_V = (inward(matrix, count) for (matrix, _), count in zip(maps, counts, strict=True))
    b_q, b_k, b_v = (
        None if bias is None else bias.reshape(count, -1) for (_, bias), count in zip(maps, counts, strict=True)
    )
    of_config = {
        "mask": config.mask(layer),
        "scale": 1 / math.sqrt(config.head_width) if config.score_scale is None else config.score_scale,
        "rotary": config.rotation(layer),
        "softcap": config.softcap,
        "clip": config.clip,
    }
    return AttentionPart(
        W_Q, W_K, W_V, outward(output[0], config.heads), b_q, b_k, b_v, output[1], **of_config | others
    )


def query_key_norms(
    tensors: Tensors, config: Config, query: str, key: str, maps: tuple[Linear, Linear, Linear]
) -> dict[str, VectorNorm]:
    """The norms of queries and keys under these names, as arguments of `attention`; empty if the model has none."""
    if not config.query_norm:
        return {}
    k, is_joint, found = config.head_width, config.query_norm == "layer", {}
    counts = (config.heads, config.key_heads)
    for name, count, (matrix, bias), field in zip((query, key), counts, maps, ("query_norm", "key_norm"), strict=False):
        own = gain(tensors, name, config, count * k if is_joint else k)
        own = own.reshape(count, 1, k) if is_joint else np.tile(own, (count, 1, 1))
        found[field] = VectorNorm(own, config.norm_epsilon, *((matrix, bias) if is_joint else ()))
    return found


def feed_forward(
    tensors: Tensors, config: Config, inward_name: str, outward_name: str, gate_name: str | None = None
) -> FeedForward:
    """The MLP whose matrices have these names."""
    d, m, has_bias = config.width, config.mlp_width, config.has_mlp_bias
    enter, enter_bias = linear(tensors, inward_name, m, d, has_bias)
    leave, leave_bias = linear(tensors, outward_name, d, m, has_bias)
    gate, gate_bias = (None, None) if gate_name is None else linear(tensors, gate_name, m, d, has_bias)
    return FeedForward(enter, leave, config.activation, enter_bias, leave_bias, gate, gate_bias)


def inward(matrix: np.ndarray, heads: int) -> np.ndarray:
    """(heads k, d) -> (heads, k, d): the maps that heads read with."""
    return matrix.reshape(heads, -1, matrix.shape[1])


def outward(matrix: np.ndarray, heads: int) -> np.ndarray:
    """(d, heads k) -> (heads, d, k): the output maps of the heads."""
    return np.moveaxis(matrix.reshape(len(matrix), heads, -1), 1, 0)
