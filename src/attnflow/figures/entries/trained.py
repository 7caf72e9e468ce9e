"""Figures of trained weights: spectra of heads, flows of one head and of several, a prompt through the layers.

They are made with all-MiniLM-L6-v2; `attnflow reproduce --model DIR` makes them with another model, whose name is in
the title of every picture.
"""

import numpy as np
import xarray as xr

from attnflow import trained
from attnflow._common.progress import Progress
from attnflow.figures.drawing import described
from attnflow.figures.entries import trained_flows, trained_prompts
from attnflow.figures.entries.trained_prompts import ITERATED_LAYERS
from attnflow.figures.figure import Figure
from attnflow.models import load
from attnflow.show import head_spectra
from attnflow.show.parts.picture import Picture
from attnflow.trained.head_limits import KINDS

SLIDES = "Sugolov and Aubry 2023, slides"
OTHER_MODEL = "Published on ALBERT; made here with all-MiniLM-L6-v2, or with any model by --model DIR."
BARE = "Biases and norms are left out. A model without a tokenizer starts from random ids instead of a sentence."
PROMPT = (
    "The tokens of a sentence attract each other, and layer after layer they gather into a few clusters of meaning."
)


def compute_spectra(progress: Progress, *, model: str, runs: int, seed: int) -> xr.Dataset:
    """The table of heads, and the eigenvalues of the freshly initialised model."""
    loaded = load(model)
    untrained = trained.eigenvalues_of_heads(loaded.reinitialised(seed))
    table = trained.head_table(loaded, runs=runs, seed=seed, progress=progress)
    dims = ("layer", "head", "eigenvalue")
    return table.assign(untrained_real=(dims, np.real(untrained)), untrained_imaginary=(dims, np.imag(untrained)))


def draw_spectra(table: xr.Dataset) -> Picture:
    """Draw all eigenvalues, and a cell for each head."""
    return described(head_spectra, table, untrained=_untrained_eigenvalues(table))


def spectra_numbers(table: xr.Dataset) -> dict[str, float | int | str]:
    """Number of heads of each kind, size of their eigenvalues, and simulations that agree, with their controls."""
    kinds = table.kind.values
    numbers: dict[str, float | int | str] = {f"heads, {kind}": int(np.sum(kinds == kind)) for kind in KINDS}
    numbers |= {
        "largest modulus, trained": float(table.radius.max()),
        "largest modulus, untrained": float(np.abs(_untrained_eigenvalues(table)).max()),
        "effective beta, median": float(table.effective_beta.median()),
    }
    return numbers | {
        f"simulations with the predicted limit, {row['control']}": f"{row['agreeing']} of {row['runs']}"
        for row in trained.control_rows(table)
    }


def _untrained_eigenvalues(table: xr.Dataset) -> np.ndarray:
    return table.untrained_real.values + 1j * table.untrained_imaginary.values


FIGURES = (
    Figure(
        id="trained-spectra",
        source=f"{SLIDES}; arXiv:2411.04990, Figures 5 and 6, trained weights",
        title="Eigenvalues of the value matrices of a trained model",
        shows="Every dot is an eigenvalue of V = W_O W_V of a head, beside those of the same model with fresh weights. "
        "A cell is a head: what its leading eigenvalue predicts, and whether a simulation does so.",
        deviates=OTHER_MODEL,
        compute=compute_spectra,
        draw=draw_spectra,
        numbers=spectra_numbers,
        settings={"model": "minilm", "runs": 1, "seed": 0},
        quick={"runs": 0},
        seconds=(4, 2),
        needs="minilm",
    ),
    Figure(
        id="trained-flow",
        source=f"{SLIDES}: the flow of one head of ALBERT",
        title="A sentence under one trained head",
        shows="A sentence, and a circle of tokens, under the strongest heads with a real positive, a real negative "
        "and a complex leading eigenvalue. The last panel shows how far tokens are from one line over time.",
        deviates=f"{OTHER_MODEL} {BARE}",
        compute=trained_flows.compute_heads,
        draw=trained_flows.draw_heads,
        numbers=trained_flows.flow_numbers,
        settings={"model": "minilm", "prompt": PROMPT, "n": 24, "end": 30.0, "saves": 121, "seed": 0},
        quick={"saves": 61, "end": 15.0},
        seconds=(14, 6),
        movie=trained_flows.flow_movie,
        needs="minilm",
    ),
    Figure(
        id="trained-heads",
        source=f"{SLIDES}: several heads",
        title="A sentence under more and more trained heads",
        shows="More and more heads of one layer act together, up to all of them, added in a random order that the "
        "caption gives. Panels show how far tokens are from one line, the rate at which they align, the number of "
        "clusters and the rank of attention.",
        deviates=f"{OTHER_MODEL} {BARE}",
        compute=trained_flows.compute_counts,
        draw=trained_flows.draw_counts,
        numbers=trained_flows.count_numbers,
        settings={
            "model": "minilm", "layer": 5, "counts": [1, 2, 4, 8], "prompt": PROMPT, "end": 20.0, "saves": 81,
            "seed": 0,
        },
        quick={"counts": [1, 4], "end": 10.0, "saves": 41},
        seconds=(15, 15),
        needs="minilm",
    ),
    Figure(
        id="trained-prompt",
        source="arXiv:2312.10794, histograms of ALBERT by layer",
        title="Cosines between the tokens of a sentence, layer by layer",
        shows="Histograms of the cosines between the tokens of a sentence, layer by layer, in a trained model and in "
        "the same model with fresh weights. The last panel compares their means.",
        deviates=f"{OTHER_MODEL} Shared layers are iterated to {ITERATED_LAYERS}, as published. A model without a "
        "tokenizer gets random ids instead of a sentence.",
        compute=trained_prompts.compute_prompt,
        draw=trained_prompts.draw_prompt,
        numbers=trained_prompts.prompt_numbers,
        settings={"model": "minilm", "prompt": PROMPT, "seed": 0},
        quick={},
        seconds=(5, 5),
        needs="minilm",
    ),
)  # fmt: skip
