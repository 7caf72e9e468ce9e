"""GPT-J: attention and MLP side by side after one norm, rotary positions of neighbouring coordinates."""

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow.models import parts
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.norm import Norm
from attnflow.models.rotary import rotation
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("gptj",)
ANCHOR = "wte.weight"


def read_config(entries: Entries) -> Config:
    """The config of a GPT-J."""
    width, heads = entries.count("n_embd"), entries.count("n_head")
    head_width = entries.head_width("n_embd", "n_head")
    rotated = entries.count("rotary_dim", head_width)
    return Config(
        family="gptj",
        layers=entries.count("n_layer"),
        heads=heads,
        key_heads=heads,
        head_width=head_width,
        width=width,
        embedding_width=width,
        mlp_width=entries.count("n_inner", 4 * width),
        vocabulary=entries.count("vocab_size"),
        positions=entries.count("n_positions"),
        is_causal=True,
        norm="layer",
        norm_place="pre",
        norm_epsilon=entries.number("layer_norm_epsilon", 1e-5),
        activation=entries.word("activation_function", "gelu_new"),
        initializer_range=entries.number("initializer_range", 0.02),
        raw=entries.raw,
        rotary=rotation(entries, head_width, part=rotated / head_width),
        is_parallel=True,
        has_query_bias=False,
        has_output_bias=False,
    )


def embed(tensors: Tensors, config: Config, ids: np.ndarray, with_positions: bool) -> Tokens:
    """Word vectors; positions enter in the attention, as rotations."""
    del with_positions
    return tensors.rows(ANCHOR, ids, (config.vocabulary, config.width))


def stem(config: Config, layer: int) -> str:
    """The prefix of the names of a block's tensors."""
    del config
    return f"h.{layer}."


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer; both parts read the same normalised tokens."""
    own, norm = stem(config, layer), read_attention_norm(tensors, config, layer)
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=parts.feed_forward(tensors, config, f"{own}mlp.fc_in", f"{own}mlp.fc_out"),
        attention_norm=norm,
        mlp_norm=norm,
        norm_place=config.norm_place,
        is_parallel=True,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer, with coordinates 0, 2, 4, ... of queries and keys before 1, 3, 5, ... where they turn.

    The model rotates planes (2i, 2i + 1), `Rotation` planes (i, i + r/2). Inner products do not depend on the order.
    """
    own, d, k = f"{stem(config, layer)}attn.", config.width, config.head_width
    maps = parts.separate(tensors, config, f"{own}q_proj", f"{own}k_proj", f"{own}v_proj")
    rotated = 2 * len(config.rotary.frequencies) if config.rotary else 0
    order = np.r_[0:rotated:2, 1:rotated:2, rotated:k]
    queries, keys = (one.reshape(-1, k, d)[:, order].reshape(-1, d) for one, _ in maps[:2])
    output = parts.linear(tensors, f"{own}out_proj", d, d, has_bias=False)
    return parts.attention(config, layer, ((queries, None), (keys, None), maps[2]), output)


def read_attention_norm(tensors: Tensors, config: Config, layer: int) -> Norm:
    """The norm before both parts of one layer."""
    return parts.norm(tensors, f"{stem(config, layer)}ln_1", config)


def last_norm(tensors: Tensors, config: Config) -> Norm:
    """The norm after the last layer."""
    return parts.norm(tensors, "ln_f", config)


def deviation(config: Config, name: str) -> float:
    """`initializer_range`, the same for all matrices."""
    del name
    return config.initializer_range
