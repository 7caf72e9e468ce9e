"""Tiny models of images, with names and shapes that transformers itself wrote (`references/record_images.py`)."""

import json
import zlib
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

REFERENCES = Path(__file__).parents[1] / "models" / "references"
SIZES = {
    "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 20, "image_size": 12,
    "patch_size": 4,
}  # fmt: skip
TEXT = SIZES | {
    "vocab_size": 40,
    "max_position_embeddings": 16,
    "eos_token_id": 2,
    "bos_token_id": 1,
    "pad_token_id": 0,
}
CONFIGS = {
    "vit": SIZES | {"model_type": "vit"},
    "deit": SIZES | {"model_type": "deit", "qkv_bias": False},
    "dinov2": SIZES | {"model_type": "dinov2", "mlp_ratio": 2},
    "clip": {"model_type": "clip", "text_config": TEXT, "vision_config": SIZES, "projection_dim": 8},
}
IDS = [1, 5, 17, 3, 39, 17, 2]
# One model takes an image that is not square, with interpolated positions.
PIXELS = {name: np.random.default_rng(3).standard_normal((3, 12, 12)) for name in CONFIGS}
PIXELS["dinov2"] = np.random.default_rng(3).standard_normal((3, 16, 20))


def tensors(name, shapes=None):
    """Random weights, large enough that attention is far from uniform."""
    shapes = shapes or _recorded()[name]["shapes"]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    drawn = {key: np.array(rng.standard_normal(shape)) for key, shape in sorted(shapes.items())}
    gains = ("norm", "lambda")
    return {
        key: np.array(1 + 0.3 * one if any(word in key for word in gains) and one.ndim == 1 else 0.5 * one)
        for key, one in drawn.items()
    }


def write(name, folder, config=None, shapes=None):
    """The checkpoint as a directory; returns it."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config or _recorded()[name]["config"]))
    save_file(tensors(name, shapes), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _recorded():
    return json.loads((REFERENCES / "images.json").read_text())
