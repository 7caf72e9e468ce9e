"""Records tiny models of more families as torch and transformers compute them, once, for `helpers/family_models.py`.

    python -m venv VENV && VENV/bin/pip install torch==2.13.0 transformers
    VENV/bin/python tests/models/references/record_families.py

Writes families.json (config.json as transformers saves it, and names and shapes of its tensors) and families.npz.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import record  # noqa: F401, sets float32 to mean float64, before transformers is loaded
import torch
import transformers

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "helpers"))
import family_models  # noqa: E402

WITHOUT_OUTPUT_LAYER = ("distilbert", "mpnet", "electra", "modernbert")


def made(config):
    """The model of a config, with the output layer of a language model where the family has one."""
    entries = {name: value for name, value in config.items() if name != "model_type"}
    settings = transformers.AutoConfig.for_model(config["model_type"], **entries)
    if config["model_type"] == "t5":
        return transformers.T5EncoderModel(settings)
    if config["model_type"] not in WITHOUT_OUTPUT_LAYER:
        return transformers.AutoModelForCausalLM.from_config(settings)
    return transformers.AutoModel.from_config(settings)


def saved_config(model):
    """config.json without entries that name versions or are null."""
    entries = model.config.to_dict() | {"architectures": [type(model).__name__]}
    dropped = {"transformers_version", "torch_dtype", "dtype", "_name_or_path"}
    return {name: value for name, value in entries.items() if name not in dropped and value is not None}


def states(directory, kind):
    """Hidden states of every layer and attention matrices; the last state is after the model's last norm."""
    model = kind.from_pretrained(directory, dtype=torch.float64, attn_implementation="eager").eval()
    model = model.base_model if kind is not transformers.T5EncoderModel else model
    with torch.no_grad():
        found = model(torch.tensor([family_models.IDS]), output_hidden_states=True, output_attentions=True)
    return torch.cat(found.hidden_states).numpy(), torch.cat(found.attentions).numpy()


if __name__ == "__main__":
    described, kept = {}, {}
    for name, config in family_models.CONFIGS.items():
        model = made(config)
        shapes = {key: list(value.shape) for key, value in model.state_dict().items() if value.is_floating_point()}
        shapes.pop("lm_head.weight" if model.config.tie_word_embeddings else "", None)
        shapes.pop("encoder.embed_tokens.weight" if config["model_type"] == "t5" else "", None)
        described[name] = {"config": saved_config(model), "shapes": shapes}
        with tempfile.TemporaryDirectory() as folder:
            family_models.write(name, folder, config=described[name]["config"], shapes=shapes)
            kept[f"{name}_hidden"], kept[f"{name}_attention"] = states(folder, type(model))
        print(name, kept[f"{name}_hidden"].shape, kept[f"{name}_attention"].shape, flush=True)
    (HERE / "families.json").write_text(json.dumps(described, indent=1))
    np.savez_compressed(HERE / "families.npz", **kept)
