"""Figures of trained weights: a prompt under one head of each kind."""

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow import trained
from attnflow._common.plain import number_with_error
from attnflow._common.progress import Progress, parts_of
from attnflow.analyse import order
from attnflow.figures.entries.trained_prompts import prompt_or_ids
from attnflow.models import load
from attnflow.models.tokenizer import Prompt
from attnflow.show.parts.animation import Movie
from attnflow.show.parts.panels import panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.principal_components import DOT_DISTANCE, principal_scene
from attnflow.show.parts.scene import Scene, Snapshot, scene_movie, scene_of
from attnflow.show.trained.head_kinds import SAME_COLOUR_DISTANCE, alignment_panel
from attnflow.trained import head_flows
from attnflow.trained.head_limits import KINDS

# -- The flow of one head of each kind ---------------------------------------------------------------------------------


def compute_heads(
    progress: Progress, *, model: str, prompt: Prompt, n: int, end: float, saves: int, seed: int
) -> xr.Dataset:
    """Flows of the strongest head of each kind, from a prompt and from tokens on a circle.

    Two principal components of the tokens are kept, their clusters in all components, and their misalignment.
    """
    loaded = load(model)
    given, words = prompt_or_ids(loaded, prompt)
    table = trained.head_table(loaded, runs=0, progress=False)
    heads = {kind: strongest for kind in KINDS if (strongest := trained.strongest(table, kind)) is not None}
    settings = {"end": end, "saves": saves, "seed": seed}
    starts: dict[str, dict[str, Any]] = {"prompt": {"prompt": given}, "circle": {"n": n}}
    variables: dict[str, Any] = {"place": ("kind", [f"layer {layer}, head {head}" for layer, head in heads.values()])}
    apart, cosines, times = [], [], np.empty(0)
    for (start, of_start), part in zip(starts.items(), parts_of(progress, 2), strict=True):
        runs = [
            trained.head_flow(loaded, layer, [head], start=start, progress=share, **settings, **of_start)
            for (layer, head), share in zip(heads.values(), parts_of(part, len(heads)), strict=True)
        ]
        drawn = [principal_scene(run, distance=SAME_COLOUR_DISTANCE).drawn for run in runs]
        points = np.stack([one.tokens for one in drawn])
        variables[f"{start}_tokens"] = (("kind", "time", f"{start}_token", "component"), points)
        variables[f"{start}_cluster"] = (("kind", f"{start}_token"), np.stack([one.labels for one in drawn]))
        apart.append([head_flows.misalignment(run) for run in runs])
        cosines.append([float(order.mean_cosine(run.tokens[-1])) for run in runs])
        times = runs[0].time.values
    variables |= {"misalignment": (("start", "kind", "time"), apart), "mean_cosine": (("start", "kind"), cosines)}
    coordinates = {"time": times, "kind": list(heads), "start": list(starts)}
    return xr.Dataset(variables, coordinates, {"model": loaded.name, "words": words})


def draw_heads(dataset: xr.Dataset) -> Picture:
    """Draw principal components from the prompt (above) and the circle (below), and the misalignment over time."""
    kinds, last = dataset.kind.values.tolist(), dataset.sizes["time"] - 1
    rows: list[list[Any]] = []
    for start in dataset.start.values.tolist():
        place = lambda kind, shown=start == "prompt": f"\n{dataset.place.sel(kind=kind).item()}" if shown else ""
        drawn = [Snapshot(_scene(dataset, start, kind), last, f"{kind}{place(kind)}") for kind in kinds]
        apart = {kind: (dataset.time.values, dataset.misalignment.sel(start=start, kind=kind).values) for kind in kinds}
        rows.append([*drawn, alignment_panel(apart, has_legend=start != "prompt")])
    caption = (
        f"Two principal components of tokens on the unit sphere. Above: from {dataset.attrs['words']}. Below: from a "
        f"circle in the plane of V's leading eigenvectors. Tokens closer than {SAME_COLOUR_DISTANCE:g} at the end "
        "share a colour."
    )
    title = f"The flow of one trained head: the strongest of each kind in {dataset.attrs['model']}"
    return panel_picture(rows, title, caption, width=3.0, heights=[3.5, 3.5], least=1.75)


def _scene(dataset: xr.Dataset, start: str, kind: str) -> Scene:
    """Tokens from one start under one head in two principal components, coloured by cluster."""
    points = dataset[f"{start}_tokens"].sel(kind=kind, drop=True)
    run = xr.Dataset({"tokens": points.rename({f"{start}_token": "token", "component": "coordinate"})})
    scene = scene_of(run, distance=DOT_DISTANCE, names=("1st component", "2nd component"), reach=1.08)
    labels = dataset[f"{start}_cluster"].sel(kind=kind).values
    return replace(scene, drawn=replace(scene.drawn, labels=labels, is_sphere=False))


def flow_numbers(dataset: xr.Dataset) -> dict[str, float | int | str]:
    """Mean cosine and misalignment at the end under each head, from the prompt."""
    numbers: dict[str, float | int | str] = {}
    for kind in dataset.kind.values.tolist():
        one = dataset.sel(kind=kind, start="prompt")
        numbers[f"{kind}: head"] = one.place.item()
        numbers[f"{kind}: mean cosine at the end"] = float(one.mean_cosine)
        numbers[f"{kind}: 1 - mean squared cosine at the end"] = number_with_error(
            float(one.misalignment[-1]), head_flows.MISALIGNMENT_ERROR
        )
    return numbers


def flow_movie(dataset: xr.Dataset) -> Movie:
    """Movie of the prompt under the first kind of head, until the misalignment is below 1e-6."""
    kind = dataset.kind.values.tolist()[0]
    aligned = np.flatnonzero(dataset.misalignment.sel(start="prompt", kind=kind) < 1e-6)
    until = float(dataset.time[aligned[0]]) if len(aligned) else np.inf
    title = f"{_capital(dataset)} under {dataset.place.sel(kind=kind).item()}, {kind}"
    return scene_movie(_scene(dataset, "prompt", kind), title, "Two principal components.", until=until)


def _capital(dataset: xr.Dataset) -> str:
    words = dataset.attrs["words"]
    return words[0].upper() + words[1:]
