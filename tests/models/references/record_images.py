"""Records tiny models of images as torch and transformers compute them, once, for `helpers/image_models.py`.

    VENV/bin/python tests/models/references/record_images.py

VENV is that of record_families.py. Writes images.json (config.json, names and shapes of tensors) and images.npz.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import record  # noqa: F401, sets float32 to mean float64, before transformers is loaded
import torch
import transformers
from safetensors import safe_open

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "helpers"))
import image_models  # noqa: E402


def described(config, folder):
    """config.json and the shapes of the file that transformers writes."""
    entries = {name: value for name, value in config.items() if name != "model_type"}
    model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(config["model_type"], **entries))
    model.save_pretrained(folder)
    with safe_open(Path(folder) / "model.safetensors", framework="np") as file:
        shapes = {key: file.get_slice(key).get_shape() for key in file.keys()}  # noqa: SIM118
    saved = json.loads((Path(folder) / "config.json").read_text())
    dropped = {"transformers_version", "dtype", "torch_dtype", "id2label", "label2id"}
    return type(model), {"config": {key: one for key, one in saved.items() if key not in dropped}, "shapes": shapes}


def states(model, **given):
    """Hidden states, the last state after the last norm (where all tokens have it), and attention."""
    with torch.no_grad():
        found = model(**given, output_hidden_states=True, output_attentions=True)
    hidden = torch.cat(found.hidden_states).numpy()
    return {
        "hidden": hidden,
        "last": found.last_hidden_state[0].numpy(),
        "attention": torch.cat(found.attentions).numpy(),
    }


if __name__ == "__main__":
    texts, kept = {}, {}
    for name, config in image_models.CONFIGS.items():
        with tempfile.TemporaryDirectory() as folder:
            kind, texts[name] = described(config, folder)
            image_models.write(name, folder, texts[name]["config"], texts[name]["shapes"])
            model = kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
            pixels = torch.tensor(image_models.PIXELS[name])[None]
            tower = model.vision_model if name == "clip" else model
            made = states(tower, pixel_values=pixels)
            if name == "clip":
                text = states(model.text_model, input_ids=torch.tensor([image_models.IDS]))
                kept |= {f"clip_text_{key}": one for key, one in text.items()}
            kept |= {f"{name}_{key}": one for key, one in made.items()}
        print(name, flush=True)
    (HERE / "images.json").write_text(json.dumps(texts, indent=1))
    np.savez_compressed(HERE / "images.npz", **kept)
