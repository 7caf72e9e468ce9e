"""Qwen 2, 2.5 and 3: Llama's block with biases of queries, keys and values (2), or norms of queries and keys (3)."""

from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.families import llama

MODEL_TYPES = ("qwen2", "qwen3")
ANCHOR = llama.ANCHOR


def read_config(entries: Entries) -> Config:
    """The config of a Qwen."""
    is_third = entries.raw["model_type"] == "qwen3"
    found = llama.decoder_entries(entries.with_defaults(head_dim=128) if is_third else entries)
    has_bias = bool(entries.raw.get("attention_bias", False))
    found |= {"has_query_bias": has_bias if is_third else True, "has_output_bias": has_bias and is_third}
    found["query_norm"] = "head" if is_third else ""
    layers = found["layers"]
    if entries.raw.get("use_sliding_window", False):
        first = entries.count("max_window_layers", layers, least=0)
        found["windows"] = llama.windows(entries, layers, tuple(layer >= first for layer in range(layers)))
    return Config(**found)


embed, stem = llama.embed, llama.stem
read_block, read_attention, read_attention_norm = llama.read_block, llama.read_attention, llama.read_attention_norm
last_norm, deviation = llama.last_norm, llama.deviation
