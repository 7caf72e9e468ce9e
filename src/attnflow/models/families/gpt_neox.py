"""GPT-NeoX and Pythia: attention and MLP side by side, rotary positions in a part of each head."""

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

MODEL_TYPES = ("gpt_neox",)
ANCHOR = "embed_in.weight"


def read_config(entries: Entries) -> Config:
    """The config of a GPT-NeoX."""
    width, heads = entries.count("hidden_size"), entries.count("num_attention_heads")
    head_width, has_bias = entries.head_width("hidden_size", "num_attention_heads"), _flag(entries, "attention_bias")
    rotary = rotation(
        entries,
        head_width,
        theta=entries.number("rotary_emb_base", 10000.0),
        part=entries.number("rotary_pct", 0.25),
    )
    return Config(
        family="gpt_neox",
        layers=entries.count("num_hidden_layers"),
        heads=heads,
        key_heads=heads,
        head_width=head_width,
        width=width,
        embedding_width=width,
        mlp_width=entries.count("intermediate_size", 4 * width),
        vocabulary=entries.count("vocab_size"),
        positions=entries.count("max_position_embeddings"),
        is_causal=True,
        norm="layer",
        norm_place="pre",
        norm_epsilon=entries.number("layer_norm_eps", 1e-5),
        activation=entries.word("hidden_act", "gelu"),
        initializer_range=entries.number("initializer_range", 0.02),
        raw=entries.raw,
        rotary=rotary,
        is_parallel=_flag(entries, "use_parallel_residual"),
        has_query_bias=has_bias,
        has_output_bias=has_bias,
    )


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
        mlp=parts.feed_forward(tensors, config, f"{own}mlp.dense_h_to_4h", f"{own}mlp.dense_4h_to_h"),
        attention_norm=read_attention_norm(tensors, config, layer),
        mlp_norm=parts.norm(tensors, f"{own}post_attention_layernorm", config),
        norm_place=config.norm_place,
        is_parallel=config.is_parallel,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer; query, key and value of each head are stored one after another."""
    own, d, h = f"{stem(config, layer)}attention.", config.width, config.heads
    fused, bias = parts.linear(tensors, f"{own}query_key_value", 3 * d, d, config.has_query_bias)
    matrices = fused.reshape(h, 3, -1, d).swapaxes(0, 1).reshape(3, d, d)
    biases = (None,) * 3 if bias is None else bias.reshape(h, 3, -1).swapaxes(0, 1).reshape(3, d)
    queries, keys, values = zip(matrices, biases, strict=True)
    output = parts.linear(tensors, f"{own}dense", d, d, config.has_output_bias)
    return parts.attention(config, layer, (queries, keys, values), output)


def read_attention_norm(tensors: Tensors, config: Config, layer: int) -> Norm:
    """The norm before the heads of one layer."""
    return parts.norm(tensors, f"{stem(config, layer)}input_layernorm", config)


def last_norm(tensors: Tensors, config: Config) -> Norm:
    """The norm after the last layer."""
    return parts.norm(tensors, "final_layer_norm", config)


def deviation(config: Config, name: str) -> float:
    """`initializer_range`, the same for all matrices."""
    del name
    return config.initializer_range


def _flag(entries: Entries, name: str) -> bool:
    """A yes or no of config.json that is yes where it is absent."""
    return bool(entries.raw.get(name, True))
