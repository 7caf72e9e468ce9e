"""ViT, DeiT and DINOv2: patches of an image as tokens, a norm before each part."""

import dataclasses

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow.models import parts
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.feed_forward import FeedForward
from attnflow.models.norm import Norm
from attnflow.models.patches import enlarged, patch_vectors
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("vit", "deit", "dinov2")
ANCHOR = "embeddings.patch_embeddings.projection.weight"
# The first tokens, which are not patches, with the names of their vectors.
FIRST = {
    "vit": {"[CLS]": "cls_token"},
    "deit": {"[CLS]": "cls_token", "[DIST]": "distillation_token"},
    "dinov2": {"[CLS]": "cls_token"},
}


def read_config(entries: Entries) -> Config:
    """The config of a ViT, a DeiT or a DINOv2."""
    entries.refuse_unless("num_channels", 3)
    entries.refuse_unless("use_swiglu_ffn", False)
    family, width = str(entries.raw["model_type"]), entries.count("hidden_size")
    ratio = entries.number("mlp_ratio", 4.0)
    return Config(
        family=family,
        **image_entries(entries, tuple(FIRST[family])),
        norm_epsilon=entries.number("layer_norm_eps", 1e-6 if family == "dinov2" else 1e-12),
        mlp_width=int(ratio * width) if family == "dinov2" else entries.count("intermediate_size"),
        activation=entries.word("hidden_act", "gelu"),
        has_query_bias=bool(entries.raw.get("qkv_bias", True)),
        may_resize_positions=family == "dinov2",
    )


def image_entries(entries: Entries, first: tuple[str, ...]) -> dict:
    """The entries that models of images have under the same names."""
    width, heads = entries.count("hidden_size"), entries.count("num_attention_heads")
    side, patch = entries.count("image_size"), entries.count("patch_size")
    return {
        "layers": entries.count("num_hidden_layers"),
        "heads": heads,
        "key_heads": heads,
        "head_width": entries.head_width("hidden_size", "num_attention_heads"),
        "width": width,
        "embedding_width": width,
        "vocabulary": 1,
        "positions": len(first) + (side // patch) ** 2,
        "is_causal": False,
        "norm": "layer",
        "norm_place": "pre",
        "initializer_range": entries.number("initializer_range", 0.02),
        "raw": entries.raw,
        "anchor_shape": (width, 3, patch, patch),
        "patch": patch,
        "image": side,
        "first_tokens": first,
    }


def embed(tensors: Tensors, config: Config, pixels: np.ndarray, with_positions: bool) -> Tokens:
    """The vectors of the first tokens and of the patches, with position vectors."""
    matrix = tensors.read(ANCHOR, config.patch_shape)
    bias = tensors.read(ANCHOR.replace("weight", "bias"), (config.width,))
    firsts = [tensors.read(f"embeddings.{name}", (1, 1, config.width))[0] for name in FIRST[config.family].values()]
    tokens = np.concatenate([*firsts, patch_vectors(pixels, matrix) + bias])
    if not with_positions:
        return tokens
    table = tensors.read("embeddings.position_embeddings", (1, config.positions, config.width))[0]
    return tokens + enlarged(table, len(firsts), (pixels.shape[1] // config.patch, pixels.shape[2] // config.patch))


def stem(config: Config, layer: int) -> str:
    """The prefix of the names of a block's tensors."""
    del config
    return f"encoder.layer.{layer}."


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer."""
    own, is_dino = stem(config, layer), config.family == "dinov2"
    names = (f"{own}mlp.fc1", f"{own}mlp.fc2") if is_dino else (f"{own}intermediate.dense", f"{own}output.dense")
    mlp = parts.feed_forward(tensors, config, *names)
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=_scaled_mlp(mlp, tensors, config, f"{own}layer_scale2.lambda1") if is_dino else mlp,
        attention_norm=read_attention_norm(tensors, config, layer),
        mlp_norm=parts.norm(tensors, f"{own}{'norm2' if is_dino else 'layernorm_after'}", config),
        norm_place=config.norm_place,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer; the factors of DINOv2 on the coordinates of their output are part of W_O."""
    own, d = f"{stem(config, layer)}attention.", config.width
    inner = f"{own}attention."
    maps = parts.separate(tensors, config, f"{inner}query", f"{inner}key", f"{inner}value")
    matrix, bias = parts.linear(tensors, f"{own}output.dense", d, d)
    if config.family == "dinov2" and bias is not None:
        factors = tensors.read(f"{stem(config, layer)}layer_scale1.lambda1", (d,))
        matrix, bias = factors[:, None] * matrix, factors * bias
    return parts.attention(config, layer, maps, (matrix, bias))


def read_attention_norm(tensors: Tensors, config: Config, layer: int) -> Norm:
    """The norm before the heads of one layer."""
    name = "norm1" if config.family == "dinov2" else "layernorm_before"
    return parts.norm(tensors, f"{stem(config, layer)}{name}", config)


def last_norm(tensors: Tensors, config: Config) -> Norm:
    """The norm after the last layer."""
    return parts.norm(tensors, "layernorm", config)


def deviation(config: Config, name: str) -> float:
    """`initializer_range`, the same for all matrices."""
    del name
    return config.initializer_range


def _scaled_mlp(mlp: FeedForward, tensors: Tensors, config: Config, name: str) -> FeedForward:
    """The MLP with a factor on each coordinate of its output."""
    factors = tensors.read(name, (config.width,))
    return dataclasses.replace(
        mlp, outward=factors[:, None] * np.asarray(mlp.outward), outward_bias=factors * np.asarray(mlp.outward_bias)
    )
