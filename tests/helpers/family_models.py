"""Tiny checkpoints of families and their variants, with names and shapes that transformers itself made.

`references/record_families.py` wrote the shapes to `families.json` and the outputs to `families.npz`. Needs only NumPy
and safetensors, so that the script can use it where attnflow is not installed.
"""

import json
import zlib
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

REFERENCES = Path(__file__).parents[1] / "models" / "references"
IDS = [5, 17, 3, 39, 17, 0, 22, 30, 8, 11]
SIZES = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 40}
ENCODER = SIZES | {"intermediate_size": 20, "max_position_embeddings": 16}
DECODER = ENCODER | {
    "num_key_value_heads": 2, "head_dim": 6, "hidden_act": "silu", "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GPT = {
    "vocab_size": 40,
    "n_positions": 16,
    "n_embd": 16,
    "n_layer": 3,
    "n_head": 4,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GEMMA = DECODER | {"hidden_activation": "gelu_pytorch_tanh", "sliding_window": 4, "query_pre_attn_scalar": 5}
OPT = SIZES | {"max_position_embeddings": 16, "ffn_dim": 20, "word_embed_proj_dim": 16, "activation_function": "relu"}
T5 = {
    "vocab_size": 40, "d_model": 16, "d_kv": 6, "d_ff": 20, "num_layers": 3, "num_heads": 4, "is_encoder_decoder": False,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 6,
}  # fmt: skip
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 100.0, "short_factor": [1.0, 1.3], "long_factor": [1.5, 4.0],
    "original_max_position_embeddings": 8, "factor": 2.0,
}  # fmt: skip


def rotary(kind, **numbers):
    """Rotary positions of a kind, with a base at which ten positions tell planes apart."""
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 50.0, **numbers}}


def layers(*kinds):
    """The kinds of three layers."""
    return {"layer_types": [f"{kind}_attention" for kind in kinds]}


CONFIGS = {
    "gpt_neox": ENCODER | {"model_type": "gpt_neox", "rotary_pct": 0.5} | rotary("default", partial_rotary_factor=0.5),
    "gpt_neox_sequential": ENCODER | {"model_type": "gpt_neox", "rotary_pct": 1.0, "use_parallel_residual": False}
    | {"attention_bias": False} | rotary("default", partial_rotary_factor=1.0),
    "qwen2": DECODER | {"model_type": "qwen2"} | rotary("default"),
    "qwen2_windows": DECODER | {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 3}
    | {"max_window_layers": 1} | layers("full", "sliding", "sliding") | rotary("default"),
    "qwen3": DECODER | {"model_type": "qwen3"} | rotary("default"),
    "mistral": DECODER | {"model_type": "mistral", "sliding_window": 3} | rotary("default"),
    "gemma": DECODER | {"model_type": "gemma", "hidden_activation": "gelu_pytorch_tanh"} | rotary("default"),
    "gemma2": GEMMA | {"model_type": "gemma2", "attn_logit_softcapping": 3.0}
    | layers("sliding", "full", "sliding") | rotary("default"),
    "gemma3": GEMMA | {"model_type": "gemma3_text"} | layers("sliding", "sliding", "full")
    | {"rope_parameters": {
        "full_attention": {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
    }},
    "phi": ENCODER | {"model_type": "phi", "hidden_act": "gelu_new"} | rotary("default", partial_rotary_factor=0.5),
    "phi3": DECODER | {"model_type": "phi3", "sliding_window": 4, "original_max_position_embeddings": 8}
    | rotary("default"),
    "olmo": DECODER | {"model_type": "olmo", "clip_qkv": 2.0, "head_dim": 4} | rotary("default"),
    "olmo2": DECODER | {"model_type": "olmo2", "head_dim": 4} | rotary("default"),
    "opt": OPT | {"model_type": "opt"},
    "opt_post": OPT | {"model_type": "opt", "do_layer_norm_before": False},
    "gpt_neo": {
        "model_type": "gpt_neo", "vocab_size": 40, "max_position_embeddings": 16, "hidden_size": 16, "num_layers": 3,
        "num_heads": 4, "window_size": 3, "attention_types": [[["global", "local"], 1], [["local"], 1]],
    },
    "gptj": GPT | {"model_type": "gptj", "rotary_dim": 2},
    "distilbert": {
        "model_type": "distilbert", "vocab_size": 40, "max_position_embeddings": 16, "dim": 16, "n_layers": 3,
        "n_heads": 4, "hidden_dim": 20,
    },
    "mpnet": ENCODER | {"model_type": "mpnet", "max_position_embeddings": 18},
    "electra": ENCODER | {"model_type": "electra", "embedding_size": 10},
    "modernbert": ENCODER | {"model_type": "modernbert", "pad_token_id": 0, "local_attention": 4, "global_attn_every_n_layers": 2}
    | layers("full", "sliding", "full") | {"rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 500.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
    }},
    "t5": T5 | {"model_type": "t5"},
    "t5_gated": T5 | {"model_type": "t5", "feed_forward_proj": "gated-gelu"},
    "yarn": DECODER | {"model_type": "llama"}
    | rotary("yarn", factor=2.0, original_max_position_embeddings=8, beta_fast=2.0, beta_slow=0.2),
    "dynamic": DECODER | {"model_type": "llama", "max_position_embeddings": 8} | rotary("dynamic", factor=2.0),
    "longrope": DECODER | {"model_type": "phi3", "head_dim": 4, "original_max_position_embeddings": 8, "rope_parameters": LONGROPE},
    "longrope_short": DECODER | {"model_type": "phi3", "head_dim": 4, "original_max_position_embeddings": 12}
    | {"rope_parameters": LONGROPE | {"original_max_position_embeddings": 12}},
}  # fmt: skip


def recorded_config(name):
    """config.json as transformers writes it."""
    return _recorded()[name]["config"]


def tensors(name, dtype="float64", shapes=None):
    """Random weights, large enough that attention is far from uniform; gains are near one, biases not zero."""
    shapes = shapes or _recorded()[name]["shapes"]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    found = {}
    for key, shape in shapes.items():
        drawn = rng.standard_normal(shape)
        is_gain = len(shape) == 1 and key.endswith("weight")
        found[key] = np.ascontiguousarray(1 + 0.3 * drawn if is_gain else 0.7 * drawn, dtype=dtype)
    return found


def write(name, folder, dtype="float64", config=None, shapes=None):
    """The checkpoint as a directory; returns it."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config or recorded_config(name)))
    save_file(tensors(name, dtype, shapes), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _recorded():
    return json.loads((REFERENCES / "families.json").read_text())
