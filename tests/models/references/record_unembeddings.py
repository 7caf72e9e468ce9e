"""Records the logits of tiny language models as torch and transformers compute them, once, for `test_unembedding.py`.

    python -m venv VENV && VENV/bin/pip install torch==2.13.0 transformers
    VENV/bin/python tests/models/references/record_unembeddings.py

Writes unembeddings.json (configs and shapes of masked models with their output layer) and unembeddings.npz (logits of
the last three tokens, of those and of the causal families in families.json).
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import record  # noqa: F401, sets float32 to mean float64, before transformers is loaded
import torch
import transformers
from record_families import saved_config

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "helpers"))
import family_models  # noqa: E402

ENCODER = family_models.ENCODER | {"pad_token_id": 0}
MASKED = {
    "bert": ENCODER | {"model_type": "bert", "hidden_act": "relu"},
    "roberta": ENCODER | {"model_type": "roberta", "pad_token_id": 1},
    "albert": ENCODER | {"model_type": "albert", "embedding_size": 8},
    **{name: family_models.CONFIGS[name] for name in ("distilbert", "mpnet", "electra", "modernbert")},
    "bert_untied": ENCODER | {"model_type": "bert", "tie_word_embeddings": False},
    "gemma2_bounded": family_models.CONFIGS["gemma2"] | {"final_logit_softcapping": 2.0},
    "gpt2": family_models.GPT | {"model_type": "gpt2"},
}
TIED = ("lm_head.weight", "lm_head.decoder.weight", "predictions.decoder.weight", "cls.predictions.decoder.weight")
TIED += ("vocab_projector.weight", "generator_lm_head.weight", "decoder.weight")
COPIED = ("lm_head.decoder.bias", "predictions.decoder.bias", "cls.predictions.decoder.bias")


def made(config):
    """The model of a config with its output layer."""
    entries = {name: value for name, value in config.items() if name != "model_type"}
    settings = transformers.AutoConfig.for_model(config["model_type"], **entries)
    is_causal = config["model_type"] in ("gpt2", "gemma2")
    kind = transformers.AutoModelForCausalLM if is_causal else transformers.AutoModelForMaskedLM
    return kind.from_config(settings)


def logits(directory, kind):
    """Logits of the last three tokens."""
    model = kind.from_pretrained(directory, dtype=torch.float64, attn_implementation="eager").eval()
    with torch.no_grad():
        return model(torch.tensor([family_models.IDS])).logits[0, -3:].numpy()


if __name__ == "__main__":
    described, kept = {}, {}
    for name, config in MASKED.items():
        model = made(config)
        shapes = {key: list(value.shape) for key, value in model.state_dict().items() if value.is_floating_point()}
        for key in (*TIED, *COPIED) if model.config.tie_word_embeddings else ():
            shapes.pop(key, None)
        described[name] = {"config": saved_config(model), "shapes": shapes}
        with tempfile.TemporaryDirectory() as folder:
            family_models.write(name, folder, **described[name])
            kept[name] = logits(folder, type(model))
    for name in family_models.CONFIGS:
        config = family_models.recorded_config(name)
        kind = getattr(transformers, config["architectures"][0])
        if config["architectures"][0].endswith("CausalLM"):
            with tempfile.TemporaryDirectory() as folder:
                family_models.write(name, folder)
                kept[name] = logits(folder, kind)
    (HERE / "unembeddings.json").write_text(json.dumps(described, indent=1))
    np.savez_compressed(HERE / "unembeddings.npz", **kept)
    print({name: value.shape for name, value in kept.items()})
