"""Tiny checkpoints of every family in the Hugging Face layout, the same numbers wherever they are made.

Needs only NumPy and safetensors, so that `references/record.py` can use it where attnflow is not installed.
"""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

VOCABULARY, POSITIONS, WIDTH, MLP_WIDTH, LAYERS, HEADS = 40, 16, 12, 20, 3, 4
IDS = [5, 17, 3, 39, 17, 0, 22]

ENCODER = {
    "vocab_size": VOCABULARY, "max_position_embeddings": POSITIONS, "hidden_size": WIDTH, "intermediate_size": MLP_WIDTH,
    "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "type_vocab_size": 2, "layer_norm_eps": 1e-5,
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": VOCABULARY, "hidden_size": WIDTH,
    "intermediate_size": MLP_WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": 2,
    "head_dim": 6, "max_position_embeddings": POSITIONS, "rms_norm_eps": 1e-5, "hidden_act": "silu",
}  # fmt: skip
CONFIGS = {
    "bert": ENCODER | {"model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu"},
    "roberta": ENCODER
    | {"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "hidden_act": "gelu", "pad_token_id": 1}
    | {"type_vocab_size": 1},
    "albert": ENCODER
    | {"model_type": "albert", "architectures": ["AlbertModel"], "hidden_act": "gelu_new", "embedding_size": 8},
    "gpt2": {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": VOCABULARY, "n_positions": POSITIONS,
        "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "activation_function": "gelu_new",
    },
    "llama": LLAMA | {"rope_theta": 50.0},
    "llama3": LLAMA
    | {"attention_bias": True, "mlp_bias": True}
    | {"rope_theta": 500.0, "rope_scaling": {
        "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 0.5, "high_freq_factor": 2.0,
        "original_max_position_embeddings": 8,
    }},
}  # fmt: skip


def shapes(name):
    """The tensors of a tiny model, by the names that the real ones have."""
    config = CONFIGS[name]
    return {"albert": _albert, "gpt2": _gpt2, "llama": _llama}.get(config["model_type"], _bert)(config)


def _bert(config):
    d, m = WIDTH, MLP_WIDTH
    found = _embeddings(config, d)
    for layer in range(LAYERS):
        stem = f"encoder.layer.{layer}."
        found |= _linear(f"{stem}attention.output.dense", d, d) | _linear(f"{stem}intermediate.dense", m, d)
        found |= _linear(f"{stem}output.dense", d, m)
        for map_name in ("query", "key", "value"):
            found |= _linear(f"{stem}attention.self.{map_name}", d, d)
        found |= _norm(f"{stem}attention.output.LayerNorm") | _norm(f"{stem}output.LayerNorm")
    prefix = "roberta." if config["model_type"] == "roberta" else ""
    return {prefix + key: shape for key, shape in found.items()}


def _albert(config):
    d, m, stem = WIDTH, MLP_WIDTH, "encoder.albert_layer_groups.0.albert_layers.0."
    found = _embeddings(config, config["embedding_size"])
    found |= _linear("encoder.embedding_hidden_mapping_in", d, config["embedding_size"])
    for map_name in ("query", "key", "value", "dense"):
        found |= _linear(f"{stem}attention.{map_name}", d, d)
    found |= _linear(f"{stem}ffn", m, d) | _linear(f"{stem}ffn_output", d, m)
    return found | _norm(f"{stem}attention.LayerNorm") | _norm(f"{stem}full_layer_layer_norm")


def _gpt2(config):
    del config
    d = WIDTH
    found = {"wte.weight": (VOCABULARY, d), "wpe.weight": (POSITIONS, d)} | _norm("ln_f")
    for layer in range(LAYERS):
        stem = f"h.{layer}."
        found |= _norm(f"{stem}ln_1") | _norm(f"{stem}ln_2")
        for map_name, rows, columns in (
            ("attn.c_attn", d, 3 * d), ("attn.c_proj", d, d), ("mlp.c_fc", d, 4 * d), ("mlp.c_proj", 4 * d, d),
        ):  # fmt: skip
            found |= {f"{stem}{map_name}.weight": (rows, columns), f"{stem}{map_name}.bias": (columns,)}
    return {f"transformer.{key}": shape for key, shape in found.items()}


def _llama(config):
    d, m, k = WIDTH, MLP_WIDTH, config["head_dim"]
    has_bias = config.get("attention_bias", False)
    found = {"embed_tokens.weight": (VOCABULARY, d), "norm.weight": (d,)}
    for layer in range(LAYERS):
        stem = f"layers.{layer}."
        found |= {f"{stem}input_layernorm.weight": (d,), f"{stem}post_attention_layernorm.weight": (d,)}
        for map_name, rows, columns in (
            ("self_attn.q_proj", HEADS * k, d), ("self_attn.k_proj", 2 * k, d), ("self_attn.v_proj", 2 * k, d),
            ("self_attn.o_proj", d, HEADS * k), ("mlp.gate_proj", m, d), ("mlp.up_proj", m, d), ("mlp.down_proj", d, m),
        ):  # fmt: skip
            found |= _linear(stem + map_name, rows, columns, has_bias)
    return {f"model.{key}": shape for key, shape in found.items()}


def _embeddings(config, width):
    stem = "embeddings."
    return {
        f"{stem}word_embeddings.weight": (VOCABULARY, width),
        f"{stem}position_embeddings.weight": (POSITIONS, width),
        f"{stem}token_type_embeddings.weight": (config["type_vocab_size"], width),
    } | _norm(f"{stem}LayerNorm", width)


def _linear(name, rows, columns, has_bias=True):
    return {f"{name}.weight": (rows, columns)} | ({f"{name}.bias": (rows,)} if has_bias else {})


def _norm(name, width=WIDTH):
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def tensors(name, dtype="float64"):
    """Random weights, large enough that attention is far from uniform; gains are near one, biases not zero."""
    rng = np.random.default_rng(sorted(CONFIGS).index(name))
    found = {}
    for key, shape in shapes(name).items():
        drawn = rng.standard_normal(shape)
        is_gain = len(shape) == 1 and key.endswith("weight")
        found[key] = np.ascontiguousarray(1 + 0.3 * drawn if is_gain else 0.7 * drawn, dtype=dtype)
    return found


def write(name, folder, dtype="float64"):
    """The checkpoint as a directory; returns it."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIGS[name]))
    save_file(tensors(name, dtype), folder / "model.safetensors", metadata={"format": "pt"})
    return folder
