"""Figures of trained weights: spectra of heads, the flow of one head, and a prompt on its way through the layers."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow.analyse import clusters
from attnflow.dynamics import SphereAttention
from attnflow.figures.figure import Figure
from attnflow.heads import Head
from attnflow.integrate import simulate
from attnflow.models import Model, load
from attnflow.progress import Progress
from attnflow.show import trajectories
from attnflow.show.board import Line, Lines, board
from attnflow.show.style import OKABE_ITO
from attnflow.solvers import Adaptive

SOURCE = "Sugolov and Aubry 2023, slides; arXiv:2312.10794, trained ALBERT"
OTHER_MODEL = "The slides and the paper use ALBERT; this is all-MiniLM-L6-v2, which comes with the extra [minilm]."
KINDS = ("trained", "untrained")
PROMPT = (
    "The tokens of a sentence attract each other, and layer after layer they gather into a few clusters of meaning."
)
CLOSE = 0.1
SOLVER = Adaptive(rtol=1e-5, atol=1e-8)


def both(name: str, seed: int) -> tuple[Model, Model]:
    """A trained model, and its twin with fresh weights."""
    model = load(name)
    return model, model.reinitialised(seed)


def spectrum(head: Head) -> np.ndarray:
    """The eigenvalues of V = W_O W_V that need not vanish: those of the small matrix W_V W_O."""
    if head.output is None:
        return np.linalg.eigvals(np.asarray(head.value))
    return np.linalg.eigvals(np.asarray(head.value) @ np.asarray(head.output))


# -- Spectra -----------------------------------------------------------------------------------------------------------


def measure_spectra(progress: Progress, *, model: str, layer: int, seed: int) -> xr.Dataset:
    """Eigenvalues of every head's V, trained and untrained."""
    found = [[spectrum(head) for head in one.heads(layer)] for one in both(model, seed)]
    if callable(progress):
        progress(1.0, "eigenvalues")
    dims = ("kind", "head", "eigenvalue")
    variables = {"real_part": (dims, np.real(found)), "imaginary_part": (dims, np.imag(found))}
    return xr.Dataset(variables, {"kind": list(KINDS)}, {"model": model, "layer": layer})


def draw_spectra(dataset: xr.Dataset) -> Any:
    """Both clouds in the complex plane, and the leading eigenvalue of every head."""
    clouds = [_cloud(dataset.sel(kind=kind), kind) for kind in KINDS]
    heads = np.arange(dataset.sizes["head"])
    leading = [
        Line(heads, dataset.real_part.sel(kind=kind).max("eigenvalue"), kind, OKABE_ITO[k], "", "oD"[k])
        for k, kind in enumerate(KINDS)
    ]
    panel = Lines(leading, "head", "largest real part", "Leading eigenvalues", levels={"0": 0.0})
    title = f"Eigenvalues of V, {dataset.attrs['model']}, layer {dataset.attrs['layer']}"
    return board([[*clouds, panel]], title, "A colour is a head.", width=3.6, heights=[3.7])


def spectra_numbers(dataset: xr.Dataset) -> dict[str, float | int | str]:
    """Heads whose leading eigenvalue is real and positive, and the sizes of the clouds."""
    found: dict[str, float | int | str] = {}
    for kind in KINDS:
        one = dataset.sel(kind=kind)
        first = one.real_part.argmax("eigenvalue")
        is_real = np.abs(one.imaginary_part.isel(eigenvalue=first)) < 1e-9
        is_positive = one.real_part.isel(eigenvalue=first) > 0
        found[f"heads with a real positive leading eigenvalue, {kind}"] = int((is_real & is_positive).sum())
        found[f"largest modulus, {kind}"] = float(np.hypot(one.real_part, one.imaginary_part).max())
    return found


def _cloud(one: xr.Dataset, kind: str) -> Lines:
    lines = [
        Line(one.real_part[head], one.imaginary_part[head], "", OKABE_ITO[head % len(OKABE_ITO)], "", "o", alpha=0.6)
        for head in range(one.sizes["head"])
    ]
    most = 1.1 * float(np.hypot(one.real_part, one.imaginary_part).max())
    box: dict[str, Any] = {"xlim": (-most, most), "ylim": (-most, most), "is_square": True}
    return Lines(lines, "real part", "imaginary part", kind.capitalize(), **box)


# -- The flow of one head ----------------------------------------------------------------------------------------------


def follow_head(
    progress: Progress, *, model: str, layer: int, head: int, prompt: str, end: float, saves: int
) -> xr.Dataset:
    """The embedded prompt on the sphere of radius one, under the weights of one head for ever."""
    loaded = load(model)
    weights = loaded.heads(layer)[head]
    tokens = loaded.embed(prompt)
    size = np.linalg.norm(tokens, axis=1, keepdims=True)
    # Scores of unit tokens are those of the model if Q and K carry the tokens' length.
    scaled = Head(np.asarray(weights.query) * float(np.mean(size**2)), weights.key, weights.value, weights.output)
    times = np.linspace(0, end, saves)
    return simulate(SphereAttention(scaled), tokens / size, times, solver=SOLVER, progress=progress)


def flow_numbers(run: xr.Dataset) -> dict[str, float | int | str]:
    """Clusters at the start and at the end, and how alike tokens have become."""
    first, last = (run.tokens.values[place] for place in (0, -1))
    return {
        "tokens": len(first),
        f"clusters within {CLOSE} at the start": int(clusters.labels(first, CLOSE).max() + 1),
        f"clusters within {CLOSE} at the end": int(clusters.labels(last, CLOSE).max() + 1),
        "mean cosine at the start": mean_cosine(first),
        "mean cosine at the end": mean_cosine(last),
    }


def mean_cosine(tokens: np.ndarray) -> float:
    """Over all pairs of distinct tokens."""
    unit = tokens / np.linalg.norm(tokens, axis=-1, keepdims=True)
    return float((unit @ unit.T)[~np.eye(len(unit), dtype=bool)].mean())


# -- A prompt through the layers ---------------------------------------------------------------------------------------


def follow_prompt(progress: Progress, *, model: str, prompt: str, seed: int) -> xr.Dataset:
    """Cosines between all tokens after every layer, trained and untrained."""
    found = []
    for one in both(model, seed):
        tokens = one.trajectory(prompt, progress=progress).tokens.values
        unit = tokens / np.linalg.norm(tokens, axis=-1, keepdims=True)
        pairs = np.triu_indices(tokens.shape[1], 1)
        found.append(np.einsum("tid,tjd->tij", unit, unit)[:, pairs[0], pairs[1]])
    return xr.Dataset({"cosine": (("kind", "layer", "pair"), np.stack(found))}, {"kind": list(KINDS)}, {"model": model})


def draw_prompt(dataset: xr.Dataset) -> Any:
    """Mean cosine with its 0.1 and 0.9 quantiles, layer by layer."""
    layers = np.arange(dataset.sizes["layer"])
    lines = []
    for k, kind in enumerate(KINDS):
        one = dataset.cosine.sel(kind=kind)
        band = tuple(one.quantile(share, "pair").values for share in (0.1, 0.9))
        lines.append(Line(layers, one.mean("pair"), kind, OKABE_ITO[k], marker="o", band=band))
    panel = Lines(lines, "after layer", "cosine between tokens", levels={"all alike": 1.0}, columns=3)
    title = f"A prompt through the layers of {dataset.attrs['model']}"
    return board([[panel]], title, "Bands: from the 0.1 to the 0.9 quantile over pairs.", width=6.5, heights=[4.2])


def prompt_numbers(dataset: xr.Dataset) -> dict[str, float | int | str]:
    """Mean cosines before the first and after the last layer."""
    means = dataset.cosine.mean("pair")
    return {
        f"mean cosine {moment}, {kind}": float(means.sel(kind=kind)[place])
        for kind in KINDS
        for moment, place in (("before the first layer", 0), ("after the last layer", -1))
    }


FIGURES = (
    Figure(
        id="trained-spectra",
        source=f"{SOURCE}: eigenvalues of V",
        title="Eigenvalues of the value matrices of a trained model",
        shows="Every dot is an eigenvalue of V = W_O W_V of a head. Training moves them away from the disc that fresh "
        "weights fill; the sign and size of the leading one say which geometry a head would lead to.",
        deviates=OTHER_MODEL,
        compute=measure_spectra,
        draw=draw_spectra,
        numbers=spectra_numbers,
        settings={"model": "minilm", "layer": 0, "seed": 0},
        quick={},
        seconds=(3, 3),
        needs="minilm",
    ),
    Figure(
        id="trained-flow",
        source=f"{SOURCE}: the flow of one head",
        title="A sentence under one trained head for ever",
        shows="The tokens of a sentence follow the weights of one head of a trained model, on the sphere. Two "
        "principal components show where they gather, the histogram how alike they become.",
        deviates=f"{OTHER_MODEL} Biases and norms are left out.",
        compute=follow_head,
        draw=lambda run: trajectories(run, title="Under one trained head", distance=CLOSE),
        numbers=flow_numbers,
        settings={"model": "minilm", "layer": 0, "head": 4, "prompt": PROMPT, "end": 20.0, "saves": 61},
        quick={"saves": 31},
        seconds=(10, 5),
        needs="minilm",
    ),
    Figure(
        id="trained-prompt",
        source=f"{SOURCE}: inner products, layer by layer",
        title="How alike the tokens of a sentence become",
        shows="Cosines between the tokens of a sentence, layer by layer, in a trained model and in its twin with fresh "
        "weights. Where tokens gather, cosines go to one.",
        deviates=OTHER_MODEL,
        compute=follow_prompt,
        draw=draw_prompt,
        numbers=prompt_numbers,
        settings={"model": "minilm", "prompt": PROMPT, "seed": 0},
        quick={},
        seconds=(4, 4),
        needs="minilm",
    ),
)
