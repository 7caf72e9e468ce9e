"""Figures of many prompts through trained models: residual step, architectures, neural collapse, frozen attention."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.figures.entries.trained_questions import in_words
from attnflow.models import load
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.show.trained.by_layer import layer_panel
from attnflow.trained.studies import frozen_layers, pooled_classes, residual_steps
from attnflow.trained.studies.bootstrap import MeanInterval, mean_interval
from attnflow.trained.studies.equal_lengths import prompts_of_length
from attnflow.trained.studies.prompt_sets import own_ids, prompts_for

Numbers = dict[str, float | int | str]

# -- Residual step -----------------------------------------------------------------------------------------------------


def compute_steps(
    progress: Progress, *, model: str, steps: list[int], prompts: int, length: int, seed: int
) -> xr.Dataset:
    """Last tokens of prompts with every layer taken in several steps."""
    loaded = load(model)
    ids = prompts_of_length(loaded, prompts_for(loaded), length, prompts, seed)
    return residual_steps.residual_steps(loaded, ids, steps, seed=seed, progress=progress).assign_attrs(
        model=loaded.name, length=length
    )


def draw_steps(dataset: xr.Dataset) -> Picture:
    """Draw cosines and distance from the model against the number of steps a layer."""
    titles = {
        "mean_cosine": "mean cosine, last layer",
        "centred_cosine": "the same about the mean direction",
        "distance": "relative distance from one step",
    }
    ticks = dataset.steps.values.astype(float).tolist()
    panels = []
    for name, words in titles.items():
        lines = []
        for variant in dataset.variant.values:
            found = _over_prompts(dataset[name].sel(variant=variant), "steps")
            lines.append(Line(dataset.steps, found.mean, str(variant), marker="o", band=(found.low, found.high)))
        panels.append(Lines(lines, "steps a layer m, of size 1/m", "", words, xscale="log", xticks=ticks))
    title = f"Are layers steps of a flow? Every layer of {dataset.attrs['model']} taken in m steps"
    caption = f"x ← x + (F(x) − x)/m, m times a layer; m = 1 is the model. {steps_sentence(dataset)}"
    return panel_picture([panels], title, caption, width=3.5, heights=[3.9])


def steps_sentence(dataset: xr.Dataset) -> str:
    """How far tokens with the most steps are from the model, for every variant, with intervals."""
    most = int(dataset.steps[-1])
    parts = [
        f"{variant} {in_words(_over_prompts(dataset.distance.sel(variant=variant), 'steps'), -1)}"
        for variant in dataset.variant.values
    ]
    return (
        f"Relative distance of the last tokens between m = {most} and the model: {', '.join(parts)}; means over "
        f"{dataset.sizes['prompt']} prompts of {dataset.attrs['length']} tokens, 95 % intervals."
    )


def steps_numbers(dataset: xr.Dataset) -> Numbers:
    """Cosine and distance for every number of steps and variant."""
    return {
        f"{name}, m = {int(count)}, {variant}": in_words(_over_prompts(dataset[key].sel(variant=variant), "steps"), k)
        for key, name in (("mean_cosine", "mean cosine"), ("distance", "distance from one step"))
        for variant in dataset.variant.values
        for k, count in enumerate(dataset.steps.values)
    }


# -- Neural collapse ---------------------------------------------------------------------------------------------------


def compute_collapse(progress: Progress, *, model: str, prompts: int, seed: int) -> xr.Dataset:
    """Variability within classes of pooled tokens by layer, trained and controls."""
    loaded = load(model)
    ids = own_ids(loaded, prompts, seed)
    found = pooled_classes.pooled_collapse(loaded, ids, seed=seed, progress=progress)
    return found.assign_attrs(model=loaded.name, prompts=len(ids))


def draw_collapse(dataset: xr.Dataset) -> Picture:
    """Draw the variability by layer relative to that of permuted classes, a panel for each kind of class."""
    panels = []
    for classes in dataset.classes.values:
        lines = []
        for place, variant in enumerate(dataset.variant.values):
            one = dataset.sel(classes=classes, variant=variant)
            mean, low, high = one.relative.transpose("bound", "layer").values
            lines.append(Line(dataset.layer, mean, str(variant), line_colour(place), marker=".", band=(low, high)))
        count = int(dataset["count"].sel(classes=classes))
        panels.append(
            layer_panel(
                lines, f"{classes}: {count} classes", ylabel="variability / permuted classes", ylim=(0, None), columns=2
            )
        )
    title = f"Neural collapse in {dataset.attrs['model']}, on classes known before the model is run"
    caption = (
        "Variability within classes over that between them, relative to permuted classes: 0 is collapse, 1 is "
        f"chance. {dataset.attrs['prompts']} prompts, 95 % jackknife intervals over prompts; one draw of untrained "
        f"weights. {collapse_sentence(dataset)}"
    )
    return panel_picture([panels], title, caption, width=5.0, heights=[4.2])


def collapse_sentence(dataset: xr.Dataset) -> str:
    """Whether the trained model's relative variability falls or rises from the embedding to the last layer.

    A change is stated where the two intervals are apart, which is stricter than the interval of the difference.
    """
    parts = []
    for classes in dataset.classes.values:
        one = dataset.relative.sel(classes=classes, variant="trained")
        first, last = one.isel(layer=0), one.isel(layer=-1)
        if not np.isfinite(last).all():
            parts.append(f"{classes}: fewer than two classes")
            continue
        is_less, is_more = (
            last.sel(bound="high") < first.sel(bound="low"),
            last.sel(bound="low") > first.sel(bound="high"),
        )
        change = "less" if is_less else "more" if is_more else "the same within intervals"
        parts.append(f"{classes}: {float(first[0]):.2g} to {float(last[0]):.2g}, {change}")
    return f"From the embedding to the last layer of the trained model: {'; '.join(parts)}."


def collapse_numbers(dataset: xr.Dataset) -> Numbers:
    """Variability of the first and the last layer, for every kind of classes and variant."""
    return {
        f"{classes}, {variant}, {moment}": _bounds_in_words(
            dataset.variability.sel(classes=classes, variant=variant).isel(layer=place)
        )
        for classes in dataset.classes.values
        for variant in dataset.variant.values
        for moment, place in (("embedding", 0), ("last layer", -1))
    }


def _bounds_in_words(values: xr.DataArray) -> str:
    value, low, high = (float(one) for one in values)
    return f"{value:.3g} ({low:.3g} to {high:.3g})"


# -- Frozen attention --------------------------------------------------------------------------------------------------


def compute_frozen(progress: Progress, *, model: str, prompts: int, length: int, seed: int) -> xr.Dataset:
    """Errors of the prediction with the attention of every layer kept, and of its controls."""
    loaded = load(model)
    ids = prompts_of_length(loaded, prompts_for(loaded), length, prompts, seed)
    found = frozen_layers.frozen_errors(loaded, ids, progress=progress)
    return found.assign_attrs(model=loaded.name, length=length)


def draw_frozen(dataset: xr.Dataset) -> Picture:
    """Draw the error against layers ahead from the first layer, the same from all, and how long each lasts."""
    first, every = [], []
    for place, variant in enumerate(dataset.variant.values):
        errors = dataset.error.sel(variant=variant)
        style: dict[str, Any] = {"marker": ".", "colour": line_colour(place)}
        one, mean = _over_prompts(errors.isel(start=0), "ahead"), _over_prompts(errors.mean("start"), "ahead")
        first.append(Line(dataset.ahead, one.mean, str(variant), band=(one.low, one.high), **style))
        every.append(Line(dataset.ahead, mean.mean, str(variant), band=(mean.low, mean.high), **style))
    panels = [
        Lines(
            first, "layers ahead", "relative error", "Attention of the first layer kept", has_integer_x=True, columns=2
        ),
        Lines(
            every, "layers ahead", "relative error", "Mean over all layers that are kept", has_integer_x=True, columns=2
        ),
    ]
    title = f"The attention of one layer in place of that of the next ones: {dataset.attrs['model']}"
    caption = (
        "Values, norms and MLPs are those of every layer; one layer ahead frozen attention is exact by construction. "
        f"{frozen_sentence(dataset)}"
    )
    return panel_picture([panels], title, caption, width=4.6, heights=[4.6])


def frozen_sentence(dataset: xr.Dataset) -> str:
    """Number of layers that each prediction lasts, and until where it is better than the best control."""
    lasting = frozen_layers.lasting_layers(dataset.error).mean("start")
    parts = [
        f"{variant} {in_words(_over_prompts(lasting.sel(variant=variant).expand_dims('one'), 'one'), 0)}"
        for variant in dataset.variant.values
    ]
    ahead, possible = better_until(dataset), (dataset.sizes["start"] + 1) / 2
    return (
        f"Layers within {100 * frozen_layers.TOLERANCE:g} %, of {possible:g} after a kept layer on average: "
        f"{', '.join(parts)} ({dataset.sizes['prompt']} prompts of {dataset.attrs['length']} tokens, "
        "95 % intervals). In the mean over kept layers it is better "
        f"than attention of another prompt up to {ahead} layer{'' if ahead == 1 else 's'} ahead."
    )


def better_until(dataset: xr.Dataset) -> int:
    """Layers ahead up to which the error is below that with another prompt's attention, its paired interval too."""
    errors = dataset.error.mean("start")
    gap = errors.sel(variant=frozen_layers.CONTROLS[1]) - errors.sel(variant=frozen_layers.FROZEN)
    is_better = _over_prompts(gap, "ahead").low > 0
    return int(np.cumprod(is_better).sum())


def frozen_numbers(dataset: xr.Dataset) -> Numbers:
    """Error two layers ahead, and layers that the prediction lasts, for every variant."""
    lasting = frozen_layers.lasting_layers(dataset.error).mean("start")
    numbers: Numbers = {"layers ahead with an advantage over another prompt's attention": better_until(dataset)}
    for variant in dataset.variant.values:
        errors = _over_prompts(dataset.error.sel(variant=variant).mean("start"), "ahead")
        numbers[f"error two layers ahead, {variant}"] = in_words(errors, min(1, dataset.sizes["ahead"] - 1))
        one = lasting.sel(variant=variant).expand_dims("one")
        numbers[f"layers within 10 %, {variant}"] = in_words(_over_prompts(one, "one"), 0)
    return numbers


def _over_prompts(values: xr.DataArray, axis: str) -> MeanInterval:
    """Mean over prompts with its bootstrap interval, over one axis."""
    return mean_interval(values.transpose("prompt", axis).values)
