"""Figures of trained weights: spectra of heads, flows of one head and of several, a prompt through the layers.

They are made with all-MiniLM-L6-v2; `attnflow reproduce --model DIR` makes them with another model, and every
picture says on which one.
"""

from typing import Any

import numpy as np
import xarray as xr

from attnflow import trained
from attnflow._common.progress import Progress, parts_of
from attnflow.analyse import order
from attnflow.figures.figure import Figure
from attnflow.models import load
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model
from attnflow.show import head_spectra
from attnflow.show.parts.animation import Movie
from attnflow.show.parts.panels import Line, Lines, panel_figure
from attnflow.show.parts.principal_components import principal_movie
from attnflow.show.parts.scene import Snapshot
from attnflow.show.parts.style import OKABE_ITO
from attnflow.show.trained.by_layer import layer_panel
from attnflow.show.trained.head_counts import against_count, counted_heads
from attnflow.show.trained.head_kinds import alignment_panel, path_panel
from attnflow.show.trained.prompt import density_panel
from attnflow.trained import head_flows
from attnflow.trained.head_tables import KINDS
from attnflow.trained.measures import directions

SLIDES = "Sugolov and Aubry 2023, slides"
OTHER_MODEL = "Published on ALBERT; made here with all-MiniLM-L6-v2, or with any model by --model DIR."
BARE = "Biases and norms are left out. A model without a tokenizer starts from random ids instead of a sentence."
PROMPT = (
    "The tokens of a sentence attract each other, and layer after layer they gather into a few clusters of meaning."
)
RANDOM_IDS = 24  # that stand for a sentence where a model has no tokenizer
ITERATED = 48  # layers of a model whose layers are all the same, as published for ALBERT
ALIGNED = 1e-6  # of one minus the mean squared cosine: nothing more is to be seen


def opening(model: Model, prompt: Prompt) -> tuple[Prompt, str]:
    """What enters the model, and what to call it: the prompt, or random ids where the model cannot read text."""
    if not isinstance(prompt, str):
        return prompt, f"{len(prompt)} ids"
    if model.reads_text:
        return prompt, "a sentence"
    count = min(RANDOM_IDS, model.config.positions)
    return np.random.default_rng(0).integers(model.config.vocabulary, size=count).tolist(), f"{count} random ids"


# -- Spectra -----------------------------------------------------------------------------------------------------------


def measure_spectra(progress: Progress, *, model: str, runs: int, seed: int) -> xr.Dataset:
    """The table of heads, and the eigenvalues of a freshly initialised twin."""
    loaded = load(model)
    twin = trained.eigenvalues_of_heads(loaded.reinitialised(seed))
    table = trained.head_table(loaded, runs=runs, seed=seed, progress=progress)
    dims = ("layer", "head", "eigenvalue")
    return table.assign(untrained_real=(dims, np.real(twin)), untrained_imaginary=(dims, np.imag(twin)))


def draw_spectra(table: xr.Dataset) -> Any:
    """All eigenvalues, and a cell for each head."""
    return head_spectra(table, untrained=_twin(table))


def spectra_numbers(table: xr.Dataset) -> dict[str, float | int | str]:
    """How many heads are of each kind, how large their eigenvalues are, and how often simulations agree."""
    kinds, agreement = table.kind.values, table.agreement.values
    found: dict[str, float | int | str] = {f"heads, {kind}": int(np.sum(kinds == kind)) for kind in KINDS}
    found |= {
        "largest modulus, trained": float(table.radius.max()),
        "largest modulus, untrained": float(np.abs(_twin(table)).max()),
        "effective beta, median": float(table.effective_beta.median()),
    }
    decided = np.isfinite(agreement)
    if decided.any():
        found["simulations that do as predicted"] = f"{int(np.sum(agreement[decided] == 1))} of {int(decided.sum())}"
    return found


def _twin(table: xr.Dataset) -> np.ndarray:
    return table.untrained_real.values + 1j * table.untrained_imaginary.values


# -- The flow of one head of each kind ---------------------------------------------------------------------------------


def follow_heads(
    progress: Progress, *, model: str, prompt: Prompt, n: int, end: float, saves: int, seed: int
) -> xr.Dataset:
    """The strongest head of each kind, found by the table, from a sentence and from a circle of tokens."""
    loaded = load(model)
    given, words = opening(loaded, prompt)
    table = trained.head_table(loaded, runs=0, progress=False)
    found = {kind: place for kind in KINDS if (place := trained.strongest(table, kind)) is not None}
    settings = {"end": end, "saves": saves, "seed": seed}
    starts: dict[str, dict[str, Any]] = {"prompt": {"prompt": given}, "circle": {"n": n}}
    kept: dict[str, Any] = {}
    for (start, of_start), part in zip(starts.items(), parts_of(progress, 2), strict=True):
        for (kind, (layer, head)), share in zip(found.items(), parts_of(part, len(found)), strict=True):
            run = trained.head_flow(loaded, layer, [head], start=start, progress=share, **settings, **of_start)
            kept[f"{start}, {kind}"] = (("time", f"token_{start}", "coordinate"), run.tokens.values)
            kept[f"misalignment, {start}, {kind}"] = ("time", head_flows.misalignment(run))
    places = {kind: f"layer {layer}, head {head}" for kind, (layer, head) in found.items()}
    return xr.Dataset(kept, {"time": run.time.values}, {"model": loaded.name, "words": words} | places)


def draw_heads(dataset: xr.Dataset) -> Any:
    """Principal components from the sentence (above) and the circle (below), and how aligned tokens become."""
    kinds = [kind for kind in KINDS if kind in dataset.attrs]
    rows: list[list[Any]] = []
    for start in ("prompt", "circle"):
        drawn = [_panel(dataset, start, kind) for kind in kinds]
        apart = {kind: (dataset.time.values, dataset[f"misalignment, {start}, {kind}"].values) for kind in kinds}
        rows.append([*drawn, alignment_panel(apart, has_legend=start == "circle")])
    caption = (
        f"Two principal components of tokens on the unit sphere. Above: from {dataset.attrs['words']}. Below: from a "
        "circle in the plane of V's leading eigenvectors."
    )
    title = f"One trained head for ever: the strongest of each kind in {dataset.attrs['model']}"
    return panel_figure(rows, title, caption, width=2.9, heights=[3.0, 3.0])


def _panel(dataset: xr.Dataset, start: str, kind: str) -> Snapshot:
    return path_panel(_one(dataset, start, kind), f"{kind}: {dataset.attrs[kind]}" if start == "prompt" else kind)


def _one(dataset: xr.Dataset, start: str, kind: str) -> xr.Dataset:
    tokens = dataset[f"{start}, {kind}"].rename({f"token_{start}": "token"})
    return xr.Dataset({"tokens": tokens})


def flow_numbers(dataset: xr.Dataset) -> dict[str, float | int | str]:
    """How alike tokens have become under each head."""
    found: dict[str, float | int | str] = {}
    for kind in (kind for kind in KINDS if kind in dataset.attrs):
        run = _one(dataset, "prompt", kind)
        found[f"{kind}: head"] = dataset.attrs[kind]
        found[f"{kind}: mean cosine at the end"] = float(order.mean_cosine(run.tokens[-1]))
        found[f"{kind}: 1 - mean squared cosine at the end"] = max(float(head_flows.misalignment(run)[-1]), 0.0)
    return found


def flow_movie(dataset: xr.Dataset) -> Movie:
    """The sentence under the first kind there is: real and positive, in every model known; until all are one."""
    kind = next(kind for kind in KINDS if kind in dataset.attrs)
    met = np.flatnonzero(dataset[f"misalignment, prompt, {kind}"] < ALIGNED)
    until = float(dataset.time[met[0]]) if len(met) else np.inf
    title = f"{_capital(dataset)} under {dataset.attrs[kind]}, {kind}"
    return principal_movie(_one(dataset, "prompt", kind), title, until=until)


def _capital(dataset: xr.Dataset) -> str:
    words = dataset.attrs["words"]
    return words[0].upper() + words[1:]


# -- Several heads -----------------------------------------------------------------------------------------------------


def follow_counts(
    progress: Progress, *, model: str, layer: int, counts: list[int], prompt: Prompt, end: float, saves: int
) -> xr.Dataset:
    """The sentence under the first heads of a layer, more and more of them."""
    loaded = load(model)
    layer = min(layer, loaded.config.layers - 1)
    given, words = opening(loaded, prompt)
    counts = [count for count in counts if count < loaded.config.heads] + [loaded.config.heads]
    curves, rows = [], []
    for count, share in zip(counts, parts_of(progress, len(counts)), strict=True):
        settings = {"start": "prompt", "prompt": given, "end": end, "saves": saves}
        run = trained.head_flow(loaded, layer, range(count), progress=share, **settings)
        curves.append(head_flows.misalignment(run))
        rows.append(trained.flow_summary(run))
    columns = {name: [np.nan if row[name] is None else row[name] for row in rows] for name in ("rate", "clusters")}
    columns["attention_rank"] = [row["attention_rank"] for row in rows]
    variables: dict[str, Any] = {name: ("heads", np.array(values, dtype=float)) for name, values in columns.items()}
    variables["misalignment"] = (("heads", "time"), np.stack(curves))
    attributes = {"model": loaded.name, "layer": layer, "words": words}
    return xr.Dataset(variables, {"heads": counts, "time": run.time.values}, attributes)


def draw_counts(dataset: xr.Dataset) -> Any:
    """Alignment over time, and its rate, the clusters and the rank of P against the number of heads."""
    curves = [
        Line(
            dataset.time,
            np.maximum(dataset.misalignment.sel(heads=count), 1e-12),
            counted_heads(count),
        )
        for count in dataset["heads"].values
    ]
    over_time = Lines(curves, ylabel="1 − mean squared cosine", yscale="log", ylim=(1e-8, 2), columns=2)
    columns = {name: dataset[name].values for name in ("rate", "clusters", "attention_rank")}
    panels = [over_time, *against_count(dataset["heads"].values, **columns)]
    title = f"{_capital(dataset)} under more and more heads of {dataset.attrs['model']}, layer {dataset.attrs['layer']}"
    return panel_figure([panels], title, "On the unit sphere, attention alone.", width=3.5, heights=[3.9])


def count_numbers(dataset: xr.Dataset) -> dict[str, float | int | str]:
    """The rate with every number of heads."""
    counts = dataset["heads"].values
    return {f"rate with {counted_heads(int(count))}": _rate_in_words(dataset.sel(heads=count)) for count in counts}


def _rate_in_words(one: xr.Dataset) -> float | str:
    """Of one number of heads: the rate, or why there is none."""
    if np.isfinite(one.rate.item()):
        return one.rate.item()
    is_aligned = one.misalignment[-1].item() < head_flows.FITTED[0]
    return "tokens align between two kept times" if is_aligned else "tokens do not align at one rate"


# -- A prompt through the layers ---------------------------------------------------------------------------------------


def follow_prompt(progress: Progress, *, model: str, prompt: Prompt, seed: int) -> xr.Dataset:
    """Histograms of the cosines between tokens after every layer, trained and freshly initialised."""
    loaded = load(model)
    given, words = opening(loaded, prompt)
    layers = ITERATED if loaded.config.shares_layers else None
    twins = {"trained": loaded, "freshly initialised": loaded.reinitialised(seed)}
    found = []
    for one, share in zip(twins.values(), parts_of(progress, 2), strict=True):
        units = directions(one.trajectory(given, layers, progress=share))
        measured = {"density": order.cosine_histogram(units), "mean_cosine": order.mean_cosine(units)}
        found.append(xr.Dataset(measured))
    joined = xr.concat(found, "kind").assign_coords(kind=list(twins))
    return joined.assign_attrs(model=loaded.name, words=words)


def draw_prompt(dataset: xr.Dataset) -> Any:
    """A histogram for every layer, trained and not."""
    drawn = [density_panel(dataset.density.sel(kind=kind), dataset.mean_cosine.sel(kind=kind)) for kind in dataset.kind]
    lines = [
        Line(dataset.time, dataset.mean_cosine.sel(kind=kind), str(kind), OKABE_ITO[place], marker=".")
        for place, kind in enumerate(dataset.kind.values)
    ]
    lowest = min(0.0, float(dataset.mean_cosine.min()))
    means = layer_panel(lines, "Mean cosine", ylim=(lowest, 1.02))
    title = f"Cosines between the tokens of {dataset.attrs['words']}, layer by layer, in {dataset.attrs['model']}"
    caption = "Left: trained. Middle: its twin with fresh weights. Marks: means."
    return panel_figure([[*drawn, means]], title, caption, width=3.4, heights=[4.6])


def prompt_numbers(dataset: xr.Dataset) -> dict[str, float | int | str]:
    """Mean cosines of the embedding and after the last layer."""
    return {
        f"mean cosine, {moment}, {kind}": float(dataset.mean_cosine.sel(kind=kind)[place])
        for kind in dataset.kind.values
        for moment, place in (("embedding", 0), ("last layer", -1))
    }


FIGURES = (
    Figure(
        id="trained-spectra",
        source=f"{SLIDES}; arXiv:2411.04990, Figures 5 and 6, trained weights",
        title="Eigenvalues of the value matrices of a trained model",
        shows="Every dot is an eigenvalue of V = W_O W_V of a head; training moves them far out of the disc that fresh "
        "weights fill. A cell is a head: what its leading eigenvalue predicts, and whether a simulation does so.",
        deviates=OTHER_MODEL,
        compute=measure_spectra,
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
        title="A sentence under one trained head for ever",
        shows="A sentence, and a circle of tokens, under the strongest heads with a real positive, a real negative and "
        "a complex leading eigenvalue. Under the first tokens gather at one pole or at two opposite ones, under the "
        "second they stay apart or in loose groups, under the third they turn on their way.",
        deviates=f"{OTHER_MODEL} {BARE}",
        compute=follow_heads,
        draw=draw_heads,
        numbers=flow_numbers,
        settings={"model": "minilm", "prompt": PROMPT, "n": 24, "end": 30.0, "saves": 121, "seed": 0},
        quick={"saves": 21, "end": 15.0},
        seconds=(14, 6),
        movie=flow_movie,
        needs="minilm",
    ),
    Figure(
        id="trained-heads",
        source=f"{SLIDES}: several heads",
        title="A sentence under more and more trained heads",
        shows="One, two, four and more heads of one layer pull together. Where tokens align, the more heads the "
        "faster, and attention ends with rank one.",
        deviates=f"{OTHER_MODEL} {BARE}",
        compute=follow_counts,
        draw=draw_counts,
        numbers=count_numbers,
        settings={
            "model": "minilm", "layer": 5, "counts": [1, 2, 4, 8], "prompt": PROMPT, "end": 20.0, "saves": 81,
        },
        quick={"counts": [1, 4], "end": 10.0, "saves": 41},
        seconds=(15, 15),
        needs="minilm",
    ),
    Figure(
        id="trained-prompt",
        source="arXiv:2312.10794, histograms of ALBERT by layer",
        title="How alike the tokens of a sentence become",
        shows="Cosines between the tokens of a sentence, layer by layer, in a trained model and in its twin with fresh "
        "weights. Where tokens gather, cosines go to one.",
        deviates=f"{OTHER_MODEL} Shared layers are iterated to {ITERATED}, as published. A model without a tokenizer "
        "gets random ids instead of a sentence.",
        compute=follow_prompt,
        draw=draw_prompt,
        numbers=prompt_numbers,
        settings={"model": "minilm", "prompt": PROMPT, "seed": 0},
        quick={},
        seconds=(5, 5),
        needs="minilm",
    ),
)  # fmt: skip
