"""GPT-Neo (TinyStories): GPT-2's block with separate maps, scores without 1/sqrt(k), and windows in some layers."""

import itertools

import numpy as np

from attnflow._common.checks import InputError
from attnflow.models import parts
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.families import gpt2, gpt_j
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("gpt_neo",)
ANCHOR = gpt2.ANCHOR


def read_config(entries: Entries) -> Config:
    """The config of a GPT-Neo."""
    width, heads = entries.count("hidden_size"), entries.count("num_heads")
    layers = entries.count("num_layers")
    return Config(
        family="gpt_neo",
        layers=layers,
        heads=heads,
        key_heads=heads,
        head_width=entries.head_width("hidden_size", "num_heads"),
        width=width,
        embedding_width=width,
        mlp_width=entries.count("intermediate_size", 4 * width),
        vocabulary=entries.count("vocab_size"),
        positions=entries.count("max_position_embeddings"),
        is_causal=True,
        norm="layer",
        norm_place="pre",
        norm_epsilon=entries.number("layer_norm_epsilon", 1e-5),
        activation=entries.word("activation_function", "gelu_new"),
        initializer_range=entries.number("initializer_range", 0.02),
        raw=entries.raw,
        windows=_windows(entries, layers),
        score_scale=1.0,
        has_query_bias=False,
    )


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer."""
    own = gpt2.stem(config, layer)
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=parts.feed_forward(tensors, config, f"{own}mlp.c_fc", f"{own}mlp.c_proj"),
        attention_norm=gpt2.read_attention_norm(tensors, config, layer),
        mlp_norm=parts.norm(tensors, f"{own}ln_2", config),
        norm_place=config.norm_place,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer."""
    own, d = f"{gpt2.stem(config, layer)}attn.attention.", config.width
    maps = parts.separate(tensors, config, f"{own}q_proj", f"{own}k_proj", f"{own}v_proj")
    return parts.attention(config, layer, maps, parts.linear(tensors, f"{own}out_proj", d, d))


def _windows(entries: Entries, layers: int) -> tuple[int | None, ...]:
    """The windows that `attention_types` lists: pairs of kinds and a number of repetitions."""
    width = entries.count("window_size", 256) - 1
    types = entries.raw.get("attention_types") or [[["global", "local"], layers // 2]]
    try:
        kinds = list(itertools.chain.from_iterable(list(kinds) * min(int(times), layers) for kinds, times in types))
    except (TypeError, ValueError):
        kinds = []
    if len(kinds) != layers or not set(kinds) <= {"global", "local"}:
        raise InputError(
            f"`attention_types` in {entries.where} must list global or local for each of {layers} layers, but it is "
            f"{str(types)[:80]}."
        )
    return tuple(width if kind == "local" else None for kind in np.array(kinds))


embed, stem = gpt2.embed, gpt2.stem
read_attention_norm, last_norm, deviation = gpt2.read_attention_norm, gpt2.last_norm, gpt_j.deviation
