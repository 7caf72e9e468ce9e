"""Figures of trained weights: the prompt that enters a model, and its cosines layer by layer."""

import os
from dataclasses import replace

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress, parts_of
from attnflow.analyse import order
from attnflow.models import load
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model
from attnflow.show.parts.panels import Line, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.show.trained.by_layer import layer_panel
from attnflow.show.trained.prompt import density_panel
from attnflow.trained.measures import directions

ITERATED_LAYERS = 48  # of a model whose layers are all the same, as published for ALBERT


def prompt_or_ids(model: Model, prompt: Prompt) -> tuple[Prompt, str]:
    """The prompt and its name in titles; 24 random ids for a text where the model has no tokenizer."""
    if isinstance(prompt, os.PathLike):
        return prompt, os.path.basename(prompt)
    if not isinstance(prompt, str):
        return prompt, f"{len(prompt)} ids"
    if model.reads_text:
        return prompt, "a sentence"
    count = min(24, model.config.positions)
    return np.random.default_rng(0).integers(model.config.vocabulary, size=count).tolist(), f"{count} random ids"


def compute_prompt(progress: Progress, *, model: str, prompt: Prompt, seed: int) -> xr.Dataset:
    """Histograms of the cosines between tokens after every layer, trained and freshly initialised."""
    loaded = load(model)
    given, words = prompt_or_ids(loaded, prompt)
    layers = ITERATED_LAYERS if loaded.config.shares_layers else None
    models = {"trained": loaded, "freshly initialised": loaded.reinitialised(seed)}
    measures = []
    for one, share in zip(models.values(), parts_of(progress, 2), strict=True):
        units = directions(one.trajectory(given, layers, progress=share))
        measured = {"density": order.cosine_histogram(units), "mean_cosine": order.mean_cosine(units)}
        measures.append(xr.Dataset(measured))
    joined = xr.concat(measures, "kind").assign_coords(kind=list(models))
    return joined.assign_attrs(model=loaded.name, words=words)


def draw_prompt(dataset: xr.Dataset) -> Picture:
    """Draw a histogram for every layer, with trained and with fresh weights."""
    drawn = [
        replace(density_panel(dataset.density.sel(kind=kind), dataset.mean_cosine.sel(kind=kind)), title=str(kind))
        for kind in dataset.kind.values
    ]
    lines = [
        Line(dataset.time, dataset.mean_cosine.sel(kind=kind), str(kind), line_colour(place), marker=".")
        for place, kind in enumerate(dataset.kind.values)
    ]
    lowest = min(0.0, float(dataset.mean_cosine.min()))
    means = layer_panel(lines, "Mean cosine", ylim=(lowest, 1.02))
    title = f"Cosines between the tokens of {dataset.attrs['words']}, layer by layer, in {dataset.attrs['model']}"
    return panel_picture([[*drawn, means]], title, width=3.4, heights=[4.6])


def prompt_numbers(dataset: xr.Dataset) -> dict[str, float | int | str]:
    """Mean cosines of the embedding and after the last layer, with trained and with fresh weights."""
    return {
        f"mean cosine, {moment}, {kind}": float(dataset.mean_cosine.sel(kind=kind)[place])
        for kind in dataset.kind.values
        for moment, place in (("embedding", 0), ("last layer", -1))
    }
