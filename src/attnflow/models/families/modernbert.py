"""ModernBERT: an encoder with a norm before each part, rotary positions, a gated MLP, and windows in most layers."""

import math

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow.models import parts
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.feed_forward import FeedForward
from attnflow.models.norm import Norm
from attnflow.models.rotary import Rotation, rotation
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("modernbert",)
ANCHOR = "embeddings.tok_embeddings.weight"


def read_config(entries: Entries) -> Config:
    """The config of a ModernBERT."""
    layers, heads = entries.count("num_hidden_layers"), entries.count("num_attention_heads")
    head_width = entries.head_width("hidden_size", "num_attention_heads")
    rotary, local_rotary = _rotations(entries, head_width)
    has_bias = bool(entries.raw.get("attention_bias", False))
    return Config(
        family="modernbert",
        layers=layers,
        heads=heads,
        key_heads=heads,
        head_width=head_width,
        width=entries.count("hidden_size"),
        embedding_width=entries.count("hidden_size"),
        mlp_width=entries.count("intermediate_size"),
        vocabulary=entries.count("vocab_size"),
        positions=entries.count("max_position_embeddings"),
        is_causal=False,
        norm="layer",
        norm_place="pre",
        norm_epsilon=entries.number("norm_eps", 1e-5),
        activation=entries.word("hidden_activation", "gelu"),
        initializer_range=entries.number("initializer_range", 0.02),
        raw=entries.raw,
        norm_has_shift=bool(entries.raw.get("norm_bias", False)),
        rotary=rotary,
        local_rotary=local_rotary,
        windows=_windows(entries, layers),
        has_query_bias=has_bias,
        has_output_bias=has_bias,
        has_mlp_bias=bool(entries.raw.get("mlp_bias", False)),
    )


def embed(tensors: Tensors, config: Config, ids: np.ndarray, with_positions: bool) -> Tokens:
    """Word vectors, normalised; positions enter in the attention, as rotations."""
    del with_positions
    words = tensors.rows(ANCHOR, ids, (config.vocabulary, config.width))
    return parts.norm(tensors, "embeddings.norm", config)(words)


def stem(config: Config, layer: int) -> str:
    """The prefix of the names of a block's tensors."""
    del config
    return f"layers.{layer}."


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer; the first matrix of the MLP holds the gate and then the map that is multiplied by it."""
    own, d, m = stem(config, layer), config.width, config.mlp_width
    fused, bias = parts.linear(tensors, f"{own}mlp.Wi", 2 * m, d, config.has_mlp_bias)
    leave, leave_bias = parts.linear(tensors, f"{own}mlp.Wo", d, m, config.has_mlp_bias)
    biases = (None, None) if bias is None else (bias[m:], bias[:m])
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=FeedForward(fused[m:], leave, config.activation, biases[0], leave_bias, fused[:m], biases[1]),
        attention_norm=read_attention_norm(tensors, config, layer),
        mlp_norm=parts.norm(tensors, f"{own}mlp_norm", config),
        norm_place=config.norm_place,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer."""
    own, d = f"{stem(config, layer)}attn.", config.width
    fused, bias = parts.linear(tensors, f"{own}Wqkv", 3 * d, d, config.has_query_bias)
    biases = (None,) * 3 if bias is None else np.split(bias, 3)
    queries, keys, values = zip(np.split(fused, 3), biases, strict=True)
    output = parts.linear(tensors, f"{own}Wo", d, d, config.has_output_bias)
    return parts.attention(config, layer, (queries, keys, values), output)


def read_attention_norm(tensors: Tensors, config: Config, layer: int) -> Norm | None:
    """The norm before the heads of one layer; the first layer reads the normalised word vectors as they are."""
    return parts.norm(tensors, f"{stem(config, layer)}attn_norm", config) if layer else None


def last_norm(tensors: Tensors, config: Config) -> Norm:
    """The norm after the last layer."""
    return parts.norm(tensors, "final_norm", config)


def deviation(config: Config, name: str) -> float:
    """`initializer_range`, divided by sqrt(2 layers) for matrices that add to the residual stream."""
    writes = name.endswith("Wo.weight")
    return config.initializer_range / (math.sqrt(2 * config.layers) if writes else 1.0)


def _windows(entries: Entries, layers: int) -> tuple[int | None, ...]:
    """Half of `local_attention` positions on each side, in all but every third layer."""
    period, width = entries.count("global_attn_every_n_layers", 3), entries.count("local_attention", 128) // 2
    return tuple(width if layer % period else None for layer in range(layers))


def _rotations(entries: Entries, width: int) -> tuple[Rotation, Rotation]:
    """The rotary positions of layers without a window and of those with one; config.json has two forms of them."""
    if "full_attention" in entries.table("rope_parameters").raw:
        far = rotation(entries, width, theta=160000.0, table="full_attention")
        return far, rotation(entries, width, table="sliding_attention")
    bases = {"global": entries.number("global_rope_theta", 160000.0), "local": 10000.0}
    if entries.raw.get("local_rope_theta") is not None:
        bases["local"] = entries.number("local_rope_theta")
    return rotation(entries, width, theta=bases["global"]), rotation(entries, width, theta=bases["local"])
