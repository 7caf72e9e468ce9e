"""The figure of linearity between the layers of a trained model, with its null and controls."""

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.models import load
from attnflow.show.parts.panels import Line, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.show.trained.by_layer import layer_panel
from attnflow.trained.studies import linear_layers

TITLES = {"layer": "tokens after the layer", "update": "what the layer adds"}


def compute(progress: Progress, *, model: str, layers: int, seed: int) -> xr.Dataset:
    """Linearity scores of all layers on all prompts in the language of the model."""
    loaded = load(model)
    return linear_layers.linearity(
        loaded, layers=min(layers, loaded.config.layers), seed=seed, progress=progress
    ).assign_attrs(model=loaded.name)


def draw(dataset: xr.Dataset) -> Picture:
    """Draw the scores by layer and their null, a panel for the tokens and one for the update."""
    panels = []
    for quantity, words in TITLES.items():
        lines = []
        for place, variant in enumerate(dataset.variant.values):
            one = dataset.sel(quantity=quantity, variant=variant)
            mean, low, high = one.score.transpose("bound", "layer").values
            lines.append(Line(dataset.layer, mean, str(variant), line_colour(place), marker=".", band=(low, high)))
        null = dataset.null.sel(quantity=quantity, variant="trained", bound="value").values
        lines.append(Line(dataset.layer, null, "trained, tokens permuted", line_colour(4), ":", marker="."))
        panels.append(layer_panel(lines, words, ylabel="linearity score", ylim=(0, 1.03), columns=2))
    caption = (
        f"Share of the tokens' variance that a linear map of the tokens before the layer explains: "
        f"{dataset.attrs['tokens']} tokens of {dataset.attrs['prompts']} prompts in d = {dataset.attrs['width']}; 95 % "
        f"jackknife intervals over prompts; one draw of untrained weights. {linearity_sentence(dataset)}"
    )
    title = f"How linear are the layers of {dataset.attrs['model']}?"
    return panel_picture([panels], title, caption, width=5.0, heights=[4.2])


def linearity_sentence(dataset: xr.Dataset) -> str:
    """The range of the trained scores over layers, the null, and in how many layers the update exceeds its null."""
    own = dataset.sel(variant="trained")
    scores, updates = (own.score.sel(quantity=name, bound="value").values for name in ("layer", "update"))
    null = float(own.null.sel(bound="value").mean())
    above = own.score.sel(quantity="update", bound="low").values > own.null.sel(quantity="update", bound="high").values
    return (
        f"Trained: {_range(scores)} for the tokens, {_range(updates)} for the update, which exceeds permuted tokens "
        f"({null:.2f}) beyond both intervals in {int(above.sum())} of {len(above)} layers."
    )


def numbers(dataset: xr.Dataset) -> dict[str, float | int | str]:
    """Mean over layers of every score and null."""
    found: dict[str, float | int | str] = {"tokens": int(dataset.attrs["tokens"])}
    for quantity in dataset.quantity.values:
        for variant in dataset.variant.values:
            one = dataset.sel(quantity=quantity, variant=variant, bound="value")
            found[f"{quantity}, {variant}"] = float(one.score.mean())
            found[f"{quantity}, {variant}, tokens permuted"] = float(one.null.mean())
    return found


def _range(values: np.ndarray) -> str:
    least, most = float(np.min(values)), float(np.max(values))
    return f"{least:.3f} to {most:.3f}"
