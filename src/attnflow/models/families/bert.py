"""BERT and related encoders (MiniLM, RoBERTa, ELECTRA): separate query, key and value maps, a norm after each sum."""

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow.models import parts
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.feed_forward import affine
from attnflow.models.norm import Norm
from attnflow.models.tensors import Tensors

MODEL_TYPES = ("bert", "roberta", "xlm-roberta", "camembert", "electra")
ANCHOR = "embeddings.word_embeddings.weight"


def read_config(entries: Entries) -> Config:
    """The config of a BERT, a RoBERTa or an ELECTRA."""
    entries.refuse_unless("position_embedding_type", "absolute")
    entries.refuse_unless("is_decoder", False)
    model_type = entries.raw["model_type"]
    is_roberta = model_type not in ("bert", "electra")
    first = entries.count("pad_token_id", 1, least=0) + 1 if is_roberta else 0
    narrow = entries.count("embedding_size", 128) if model_type == "electra" else entries.count("hidden_size")
    return Config(
        family="roberta" if is_roberta else model_type,
        positions=entries.count("max_position_embeddings", least=first + 1) - first,
        first_position=first,
        embedding_width=narrow,
        **encoder_entries(entries, activation="gelu"),
    )


def encoder_entries(entries: Entries, activation: str) -> dict:
    """The entries that BERT, ALBERT and MPNet have under the same names."""
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
    """Word, sentence-type and position vectors, added and normalised; ELECTRA maps them to the width of the tokens."""
    types = config.raw.get("type_vocab_size") or 2
    kind = tensors.rows("embeddings.token_type_embeddings.weight", [0], (types, config.embedding_width))
    narrow = words_and_positions(tensors, config, ids, with_positions, kind)
    if config.family != "electra" or config.embedding_width == config.width:
        return narrow
    return affine(narrow, *parts.linear(tensors, "embeddings_project", config.width, config.embedding_width))


def words_and_positions(
    tensors: Tensors, config: Config, ids: np.ndarray, with_positions: bool, added: np.ndarray | float = 0.0
) -> Tokens:
    """Word vectors, position vectors and what is `added` to all, normalised."""
    width = config.embedding_width
    total = tensors.rows(ANCHOR, ids, (config.vocabulary, width)) + added
    if with_positions:
        table = (config.first_position + config.positions, width)
        total = total + tensors.rows("embeddings.position_embeddings.weight", _places(ids, config), table)
    return parts.norm(tensors, "embeddings.LayerNorm", config, width)(total)


def stem(config: Config, layer: int) -> str:
    """The prefix of the names of a block's tensors."""
    del config
    return f"encoder.layer.{layer}."


def read_block(tensors: Tensors, config: Config, layer: int) -> Block:
    """The block of one layer."""
    own = stem(config, layer)
    return Block(
        attention=read_attention(tensors, config, layer),
        mlp=parts.feed_forward(tensors, config, f"{own}intermediate.dense", f"{own}output.dense"),
        attention_norm=read_attention_norm(tensors, config, layer),
        mlp_norm=parts.norm(tensors, f"{own}output.LayerNorm", config),
        norm_place=config.norm_place,
    )


def read_attention(tensors: Tensors, config: Config, layer: int) -> AttentionPart:
    """The heads of one layer."""
    own, d = f"{stem(config, layer)}attention.", config.width
    maps = parts.separate(tensors, config, f"{own}self.query", f"{own}self.key", f"{own}self.value")
    return parts.attention(config, layer, maps, parts.linear(tensors, f"{own}output.dense", d, d))


def read_attention_norm(tensors: Tensors, config: Config, layer: int) -> Norm:
    """The norm after the sum of a layer's tokens and heads."""
    return parts.norm(tensors, f"{stem(config, layer)}attention.output.LayerNorm", config)


def last_norm(tensors: Tensors, config: Config) -> None:
    """None: the last block ends with its own norm."""
    del tensors, config


def deviation(config: Config, name: str) -> float:
    """`initializer_range`, the same for all matrices."""
    del name
    return config.initializer_range


def _places(ids: np.ndarray, config: Config) -> np.ndarray:
    """Rows of the position table: RoBERTa counts from after its padding id, whose own row padding tokens have."""
    if config.first_position == 0:
        return np.arange(len(ids))
    padding = config.first_position - 1
    counts = ids != padding
    return np.cumsum(counts) * counts + padding
