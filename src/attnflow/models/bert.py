"""BERT and related encoders (MiniLM, RoBERTa): separate query, key and value maps, a norm after each sum."""

import math

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow.model import masks
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config, Entries
from attnflow.models.feed_forward import FeedForward
from attnflow.models.slices import inward, norm, outward
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("bert", "roberta", "xlm-roberta", "camembert")
ANCHOR = "embeddings.word_embeddings.weight"


def read_config(entries: Entries) -> Config:
    """The config of a BERT or a RoBERTa."""
    entries.refuse_unless("position_embedding_type", "absolute")
    entries.refuse_unless("is_decoder", False)
    is_bert = entries.raw["model_type"] == "bert"
    first = 0 if is_bert else entries.count("pad_token_id", 1, least=0) + 1
    return Config(
        family="bert" if is_bert else "roberta",
        positions=entries.count("max_position_embeddings", least=first + 1) - first,
        first_position=first,
        embedding_width=entries.count("hidden_size"),
        **encoder_entries(entries, activation="gelu"),
    )


def encoder_entries(entries: Entries, activation: str) -> dict:
    """The entries that BERT and ALBERT have under the same names."""
    entries.count("type_vocab_size", 2)
    return {
        "layers": entries.count("num_hidden_layers"),
        "heads": entries.count("num_attention_heads"),
        "key_heads": entries.count("num_attention_heads"),
        "head_width": entries.head_width("hidden_size", "num_attention_heads"),
        "width": entries.count("hidden_size"),
        "mlp_width": entries.count("intermediate_size"),
        "vocabulary": entries.count("vocab_size"),
        "is_causal": False,
        "norm": "layer",
        "norm_place": "post",
        "norm_epsilon": entries.number("layer_norm_eps", 1e-12),
        "activation": entries.word("hidden_act", activation),
        "initializer_range": entries.number("initializer_range", 0.02),
        "raw": entries.raw,
    }


def embed(tensors: Tensors, config: Config, ids: np.ndarray, with_positions: bool) -> Tokens:
    """Word, sentence-type and position vectors, added and normalised."""
    width, types = config.embedding_width, config.raw.get("type_vocab_size") or 2
    total = tensors.rows(ANCHOR, ids, (config.vocabulary, width))
    total = total + tensors.rows("embeddings.token_type_embeddings.weight", [0], (types, width))
    if with_positions:
        table = (config.first_position + config.positions, width)
        total = total + tensors.rows("embeddings.position_embeddings.weight", _places(ids, config), table)
    return norm(tensors, "embeddings.LayerNorm", config, width)(total)


def stem(config: Config, layer: int) -> str:
    """The prefix of the names of a block's tensors."""
    del config
    return f"encoder.layer.{layer}."


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer."""
    own, d, m = stem(config, layer), config.width, config.mlp_width
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=FeedForward(
            inward=tensors.read(f"{own}intermediate.dense.weight", (m, d)),
            inward_bias=tensors.read(f"{own}intermediate.dense.bias", (m,)),
            outward=tensors.read(f"{own}output.dense.weight", (d, m)),
            outward_bias=tensors.read(f"{own}output.dense.bias", (d,)),
            activation=config.activation,
        ),
        attention_norm=norm(tensors, f"{own}attention.output.LayerNorm", config),
        mlp_norm=norm(tensors, f"{own}output.LayerNorm", config),
        norm_place=config.norm_place,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer."""
    own = f"{stem(config, layer)}attention."
    return separate_heads(tensors, config, f"{own}self.", f"{own}output.dense")


def separate_heads(tensors: Tensors, config: Config, own: str, out: str) -> AttentionPart:
    """Heads from a query, a key and a value map with biases, and an output map."""
    d, h = config.width, config.heads
    return AttentionPart(
        W_Q=inward(tensors.read(f"{own}query.weight", (d, d)), h),
        W_K=inward(tensors.read(f"{own}key.weight", (d, d)), h),
        W_V=inward(tensors.read(f"{own}value.weight", (d, d)), h),
        W_O=outward(tensors.read(f"{out}.weight", (d, d)), h),
        b_q=tensors.read(f"{own}query.bias", (d,)).reshape(h, -1),
        b_k=tensors.read(f"{own}key.bias", (d,)).reshape(h, -1),
        b_v=tensors.read(f"{own}value.bias", (d,)).reshape(h, -1),
        b_o=tensors.read(f"{out}.bias", (d,)),
        mask=masks.full,
        scale=1 / math.sqrt(config.head_width),
    )


def last_norm(tensors: Tensors, config: Config) -> None:
    """None: the last block ends with its own norm."""
    del tensors, config


def residual_factor(config: Config) -> float:
    """One: all matrices have the same initial deviation."""
    del config
    return 1.0


def _places(ids: np.ndarray, config: Config) -> np.ndarray:
    """Rows of the position table: RoBERTa counts from after its padding id, whose own row padding tokens have."""
    if config.first_position == 0:
        return np.arange(len(ids))
    padding = config.first_position - 1
    counts = ids != padding
    return np.cumsum(counts) * counts + padding
