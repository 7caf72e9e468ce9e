"""The two towers of CLIP: texts (causal) and images, each a transformer with a norm before each part."""

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow._common.checks import InputError
from attnflow.models import parts
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.families.vit import image_entries
from attnflow.models.norm import Norm
from attnflow.models.patches import patch_vectors
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("clip_text_model", "clip_vision_model")
ANCHOR = "embeddings.position_embedding.weight"
TOWERS = {"text": "clip_text_model", "vision": "clip_vision_model"}


def read_config(entries: Entries) -> Config:
    """The config of one tower."""
    common = {
        "norm_epsilon": entries.number("layer_norm_eps", 1e-5),
        "mlp_width": entries.count("intermediate_size"),
        "activation": entries.word("hidden_act", "quick_gelu"),
    }
    if entries.raw["model_type"] == "clip_vision_model":
        entries.refuse_unless("num_channels", 3)
        found = image_entries(entries, ("[CLS]",)) | common
        found["anchor_shape"] = (found["positions"], found["width"])
        return Config(family="clip_vision", **found)
    width, heads = entries.count("hidden_size"), entries.count("num_attention_heads")
    return Config(
        family="clip_text",
        layers=entries.count("num_hidden_layers"),
        heads=heads,
        key_heads=heads,
        head_width=entries.head_width("hidden_size", "num_attention_heads"),
        width=width,
        embedding_width=width,
        vocabulary=entries.count("vocab_size"),
        positions=entries.count("max_position_embeddings"),
        anchor_shape=(entries.count("max_position_embeddings"), width),
        is_causal=True,
        norm="layer",
        norm_place="pre",
        initializer_range=entries.number("initializer_range", 0.02),
        raw=entries.raw,
        **common,
    )


def tower(entries: Entries, name: str | None) -> Entries:
    """The entries of one tower of a CLIP with both; the entries themselves where they are of one tower."""
    if entries.raw.get("model_type") != "clip":
        if name is not None and entries.raw.get("model_type") != TOWERS.get(name):
            raise InputError(
                f"`tower` is for CLIP, whose towers are {' and '.join(TOWERS)}, but it is {name!r} for a model of type "
                f"{entries.raw.get('model_type')!r}."
            )
        return entries
    if name not in TOWERS:
        raise InputError(
            f"A CLIP has two towers: `tower` (on the command line --tower) must be text or vision, but it is {name!r}."
        )
    return entries.table(f"{name}_config").with_values(model_type=TOWERS[name])


def embed(tensors: Tensors, config: Config, given: np.ndarray, with_positions: bool) -> Tokens:
    """Word vectors of ids, or vectors of the first token and of patches, with positions; those of images normalised."""
    d = config.width
    if config.patch:
        first = tensors.read("embeddings.class_embedding", (d,))[None]
        vectors = patch_vectors(given, tensors.read("embeddings.patch_embedding.weight", config.patch_shape))
        tokens = np.concatenate([first, vectors])
    else:
        tokens = tensors.rows("embeddings.token_embedding.weight", given, (config.vocabulary, d))
    if with_positions:
        tokens = tokens + tensors.rows(ANCHOR, np.arange(len(tokens)), (config.positions, d))
    return parts.norm(tensors, "pre_layrnorm", config)(tokens) if config.patch else tokens


def stem(config: Config, layer: int) -> str:
    """The prefix of the names of a block's tensors."""
    del config
    return f"encoder.layers.{layer}."


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer."""
    own = stem(config, layer)
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=parts.feed_forward(tensors, config, f"{own}mlp.fc1", f"{own}mlp.fc2"),
        attention_norm=read_attention_norm(tensors, config, layer),
        mlp_norm=parts.norm(tensors, f"{own}layer_norm2", config),
        norm_place=config.norm_place,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer."""
    own, d = f"{stem(config, layer)}self_attn.", config.width
    maps = parts.separate(tensors, config, f"{own}q_proj", f"{own}k_proj", f"{own}v_proj")
    return parts.attention(config, layer, maps, parts.linear(tensors, f"{own}out_proj", d, d))


def read_attention_norm(tensors: Tensors, config: Config, layer: int) -> Norm:
    """The norm before the heads of one layer."""
    return parts.norm(tensors, f"{stem(config, layer)}layer_norm1", config)


def last_norm(tensors: Tensors, config: Config) -> Norm:
    """The norm after the last layer, of which CLIP uses one token: that of the image, or the end of the text."""
    return parts.norm(tensors, "post_layernorm" if config.patch else "final_layer_norm", config)


def deviation(config: Config, name: str) -> float:
    """`initializer_range`, the same for all matrices."""
    del name
    return config.initializer_range
