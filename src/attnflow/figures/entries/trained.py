"""Figures of trained weights: spectra of heads, flows of one head and of several, a prompt through the layers.

They are made with all-MiniLM-L6-v2; `attnflow reproduce --model DIR` makes them with another model, whose name is in
the title of every picture.
"""

import numpy as np
import xarray as xr

from attnflow import trained
from attnflow._common.progress import Progress
from attnflow.figures.drawing import described
from attnflow.figures.entries import (
    trained_architectures,
    trained_flows,
    trained_linearity,
    trained_merging,
    trained_prompts,
    trained_questions,
    trained_studies,
)
from attnflow.figures.entries.trained_prompts import ITERATED_LAYERS
from attnflow.figures.figure import Figure
from attnflow.models import load
from attnflow.show import head_spectra
from attnflow.show.parts.picture import Picture
from attnflow.trained.head_limits import KINDS

SLIDES = "Sugolov and Aubry 2023, slides"
OTHER_MODEL = "Published on ALBERT; made here with all-MiniLM-L6-v2, or with any model by --model DIR."
BARE = "Biases and norms are left out. A model without a tokenizer starts from random ids instead of a sentence."
ALONE = "Biases, norms and MLP are left out. Other layers and times (--set layer=0, --set end=10) can differ."
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
        title="Tokens under more and more trained heads",
        shows="Random subsets of the heads of one layer, up to all of them, act on tokens of the sphere: cosines, "
        "clusters and the rank of attention at the end, with intervals over subsets and starts. Controls have the same "
        "V with other Q and K.",
        deviates=f"{OTHER_MODEL} {ALONE}",
        compute=trained_questions.compute_heads,
        draw=trained_questions.draw_heads,
        numbers=trained_questions.question_numbers,
        settings={"model": "minilm", "layer": 3, "counts": [1, 2, 4, 8], "n": 16, "runs": 10, "end": 5.0, "seed": 0},
        quick={"counts": [1, 4], "n": 8, "runs": 5, "end": 1.0},
        seconds=(120, 25),
        needs="minilm",
    ),
    Figure(
        id="trained-tokens",
        source=f"{SLIDES}: more tokens",
        title="More and more tokens under the heads of a trained layer",
        shows="Cosines, clusters and the rank of attention at the end against the number of tokens, with intervals "
        "over starts. Controls have the same V with other Q and K.",
        deviates=f"{OTHER_MODEL} {ALONE}",
        compute=trained_questions.compute_tokens,
        draw=trained_questions.draw_tokens,
        numbers=trained_questions.question_numbers,
        settings={"model": "minilm", "layer": 3, "n": [4, 8, 16, 32, 64], "runs": 10, "end": 5.0, "seed": 0},
        quick={"n": [4, 8], "runs": 5, "end": 1.0},
        seconds=(150, 20),
        needs="minilm",
    ),
    Figure(
        id="trained-starts",
        source=f"{SLIDES}: other starts",
        title="Where tokens start, under the heads of a trained layer",
        shows="Cosines, clusters and the rank of attention at the end from tokens on the sphere (the directions of "
        "isotropic Gaussian tokens), on a circle, Gaussian with the mean and covariance of embeddings, embeddings of "
        "random ids, and prompts. Intervals are over starts; in the controls Q and K are replaced.",
        deviates=f"{OTHER_MODEL} {ALONE}",
        compute=trained_questions.compute_starts,
        draw=trained_questions.draw_starts,
        numbers=trained_questions.question_numbers,
        settings={
            "model": "minilm", "layer": 3, "starts": ["sphere", "circle", "gaussian", "embeddings", "prompts"], "n": 16,
            "runs": 10, "end": 5.0, "seed": 0,
        },
        quick={"starts": ["sphere", "prompts"], "n": 8, "runs": 5, "end": 1.0},
        seconds=(90, 20),
        needs="minilm",
    ),
    Figure(
        id="trained-steps",
        source=f"{SLIDES}: residual steps",
        title="Every trained layer in several smaller steps",
        shows="Every layer is taken in m steps of 1/m of its displacement. Cosines of the last layer, and the distance "
        "from the model, against m, with intervals over prompts and two controls.",
        deviates=OTHER_MODEL,
        compute=trained_studies.compute_steps,
        draw=trained_studies.draw_steps,
        numbers=trained_studies.steps_numbers,
        settings={"model": "minilm", "steps": [1, 2, 4, 8, 16], "prompts": 40, "length": 16, "seed": 0},
        quick={"steps": [1, 2], "prompts": 6},
        seconds=(25, 8),
        needs="minilm",
    ),
    Figure(
        id="trained-architectures",
        source=f"{SLIDES}: other architectures",
        title="Trained models beside controls",
        shows="Four measures of the last layer of every model that is installed, on the same prompts, with intervals, "
        "beside random initial weights and equal attention. The numbers are the table over models.",
        deviates="The slides have ALBERT only.",
        compute=trained_architectures.compute,
        draw=trained_architectures.draw,
        numbers=trained_architectures.numbers,
        settings={
            "model": "minilm", "others": ["smollm2", "rxnmapper", "rxnfp", "rxnfp-ft", "antiberty"], "prompts": 16,
            "seed": 0,
        },
        quick={"others": ["rxnmapper"], "prompts": 5},
        seconds=(80, 12),
        needs="minilm",
    ),
    Figure(
        id="trained-collapse",
        source=f"{SLIDES}: neural collapse",
        title="Neural collapse over prompts, on classes known beforehand",
        shows="Tokens of all prompts form classes by their id, or by that of the next token. The variability within "
        "classes over that between them, relative to permuted classes, by layer, with intervals over prompts and "
        "three controls.",
        deviates=OTHER_MODEL,
        compute=trained_studies.compute_collapse,
        draw=trained_studies.draw_collapse,
        numbers=trained_studies.collapse_numbers,
        settings={"model": "minilm", "prompts": 64, "seed": 0},
        quick={"prompts": 12},
        seconds=(16, 8),
        needs="minilm",
    ),
    Figure(
        id="trained-frozen",
        source=f"{SLIDES}: the master equation",
        title="Frozen attention on prompts, and how many layers it lasts",
        shows="The attention of one layer stands for that of the next ones; the error of the tokens against the number "
        "of layers ahead. Beside it: the linear master equation, and controls with other weights.",
        deviates=f"{OTHER_MODEL} The slides freeze attention in a flow; values, norms and MLPs are those of the model.",
        compute=trained_studies.compute_frozen,
        draw=trained_studies.draw_frozen,
        numbers=trained_studies.frozen_numbers,
        settings={"model": "minilm", "prompts": 40, "length": 16, "seed": 0},
        quick={"prompts": 6},
        seconds=(6, 5),
        needs="minilm",
    ),
    Figure(
        id="trained-merging",
        source="Own; the reduction of the cost of attention by clusters, hoped for in talks on arXiv:2312.10794",
        title="Attention over merged keys: error against cost",
        shows="In every head keys that are close, measured by the change of scores, stand as one of their mass. Error "
        "of the hidden states against the share of pairs that is left, by layer, and processor time; the control has "
        "random groups of the same sizes.",
        deviates="Not published. --model smollm2 --set n=4096 takes thousands of tokens, some minutes.",
        compute=trained_merging.compute,
        draw=trained_merging.draw,
        numbers=trained_merging.numbers,
        settings={"model": "minilm", "n": 512, "score_changes": [0.25, 0.5, 1.0, 2.0, 4.0], "layers": 100, "seed": 0},
        quick={"n": 200, "score_changes": [0.5, 2.0]},
        seconds=(8, 4),
        needs="minilm",
    ),
    Figure(
        id="trained-linearity",
        source="Razzhigaev et al. 2024, arXiv:2405.12250",
        title="How linear the layers of a trained model are",
        shows="The share of the tokens after a layer, and of what the layer adds, that a linear map of the tokens "
        "before it explains, on tokens pooled over prompts. Permuted tokens and two controls stand beside it.",
        deviates=f"{OTHER_MODEL} The published models are larger, and their texts longer.",
        compute=trained_linearity.compute,
        draw=trained_linearity.draw,
        numbers=trained_linearity.numbers,
        settings={"model": "minilm", "layers": 100, "seed": 0},
        quick={"layers": 2},
        seconds=(18, 10),
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
