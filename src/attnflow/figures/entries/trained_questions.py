"""Figures of the flow under trained heads: number of heads, number of tokens, and law of the start, with controls."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.models import load
from attnflow.show.parts.interval_dots import IntervalDots
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.trained.studies import flow_questions
from attnflow.trained.studies.bootstrap import MeanInterval, mean_interval
from attnflow.trained.studies.flow_questions import QUANTITIES
from attnflow.trained.studies.prompt_sets import prompts_for

VISIBLE = 0.01  # difference of cosines below which two dots of a picture coincide


def compute_heads(
    progress: Progress, *, model: str, layer: int, counts: list[int], n: int, runs: int, end: float, seed: int
) -> xr.Dataset:
    """Ends of flows with random subsets of heads, a subset and a start a run."""
    loaded, layer = _opened(model, layer)
    settings = flow_questions.head_settings(loaded, counts, n, runs, seed)
    found = flow_questions.flow_ends(loaded, layer, settings, end, progress)
    return found.assign_attrs(model=loaded.name, layer=layer, end=end, n=n)


def compute_tokens(
    progress: Progress, *, model: str, layer: int, n: list[int], runs: int, end: float, seed: int
) -> xr.Dataset:
    """Ends of flows of all heads from several numbers of tokens."""
    loaded, layer = _opened(model, layer)
    settings = flow_questions.token_settings(loaded, n, runs, seed)
    found = flow_questions.flow_ends(loaded, layer, settings, end, progress)
    return found.assign_attrs(model=loaded.name, layer=layer, end=end)


def compute_starts(
    progress: Progress, *, model: str, layer: int, starts: list[str], n: int, runs: int, end: float, seed: int
) -> xr.Dataset:
    """Ends of flows of all heads from tokens of several laws."""
    loaded, layer = _opened(model, layer)
    settings = flow_questions.start_settings(loaded, layer, starts, n, runs, seed, prompts_for(loaded))
    found = flow_questions.flow_ends(loaded, layer, settings, end, progress)
    return found.assign_attrs(model=loaded.name, layer=layer, end=end, n=n)


def draw_heads(dataset: xr.Dataset) -> Picture:
    """Draw the quantities at the end against the number of heads."""
    words = f"{dataset.attrs['n']} tokens under random subsets of heads"
    return _against_number(dataset, "number of heads", words, "heads")


def draw_tokens(dataset: xr.Dataset) -> Picture:
    """Draw the quantities at the end against the number of tokens."""
    return _against_number(dataset, "number of tokens n", "More and more tokens under all heads", "tokens")


def draw_starts(dataset: xr.Dataset) -> Picture:
    """Draw the quantities at the end for every law of the start."""
    names = [str(name) for name in dataset.setting.values]
    panels = []
    for quantity, words in QUANTITIES.items():
        found = {variant: interval_of(dataset[quantity], variant) for variant in dataset.variant.values}
        series = {name: (one.mean, one.low, one.high) for name, one in found.items()}
        least = None if quantity == "mean_cosine" else 0.0
        panels.append(IntervalDots(names, series, title=words, least=least))
    title = f"Where tokens start, under all heads of {_place(dataset)}"
    caption = f"{_runs_sentence(dataset)} {_betas_sentence(dataset)} {differing_sentence(dataset, 'starts')}"
    return panel_picture([panels], title, caption, width=3.6, heights=[4.2])


def question_numbers(dataset: xr.Dataset) -> dict[str, float | int | str]:
    """Mean and interval of the cosine and of the clusters at the end, for every setting and variant."""
    numbers: dict[str, float | int | str] = {"runs of every kind": dataset.sizes["run"]}
    for quantity in ("mean_cosine", "clusters"):
        for variant in dataset.variant.values:
            found = interval_of(dataset[quantity], variant)
            for place, setting in enumerate(dataset.setting.values):
                name = f"{QUANTITIES[quantity]}, {setting}, {variant}"
                numbers[name] = in_words(found, place)
    return numbers


def interval_of(values: xr.DataArray, variant: str) -> MeanInterval:
    """Mean over runs with its bootstrap interval, over settings, within the range that the quantity can have."""
    bounds = (-1.0, 1.0) if values.name == "mean_cosine" else (1.0, np.inf)
    return mean_interval(values.sel(variant=variant).transpose("run", "setting").values, within=bounds)


def in_words(found: MeanInterval, place: int) -> str:
    """A mean with its interval as text.

    Examples
    --------
    >>> in_words(mean_interval(np.ones((6, 1))), 0)
    '1 (1 to 1)'
    """
    mean, low, high = (float(np.ravel(one)[place]) for one in (found.mean, found.low, found.high))
    return f"{mean:.3g}" if np.isnan(low) else f"{mean:.3g} ({low:.3g} to {high:.3g})"


def differing_sentence(dataset: xr.Dataset, what: str) -> str:
    """For each control, the number of settings whose mean cosine at the end differs from the trained heads'.

    A difference counts where its paired 95 % interval over runs excludes zero and it is larger than 0.01.
    """
    if dataset.sizes["run"] < 5:
        return "Fewer than five runs have no intervals."
    own, parts = dataset.mean_cosine.sel(variant="trained", drop=True), []
    for variant in dataset.variant.values[1:]:
        gap = mean_interval(
            (own - dataset.mean_cosine.sel(variant=variant, drop=True)).transpose("run", "setting").values
        )
        count = int(np.sum(((gap.low > 0) | (gap.high < 0)) & (np.abs(gap.mean) > VISIBLE)))
        parts.append(f"{variant}: {count} of {dataset.sizes['setting']}")
    counts = "; ".join(parts)
    return (
        f"Numbers of {what} at which the final cosine of a control differs by more than {VISIBLE:g} and the 95 % "
        f"interval of the difference excludes 0 (not corrected for their number): {counts}."
    )


def _against_number(dataset: xr.Dataset, xlabel: str, words: str, what: str) -> Picture:
    numbers = dataset.setting.values.astype(float)
    panels = []
    for quantity, name in QUANTITIES.items():
        lines = []
        for variant in dataset.variant.values:
            found = interval_of(dataset[quantity], variant)
            lines.append(Line(numbers, found.mean, str(variant), marker="o", band=(found.low, found.high)))
        scale: dict[str, Any] = {"xscale": "log", "xticks": numbers.tolist()}
        if quantity != "mean_cosine":  # counts, whose differences matter beside their size
            scale |= {"ylim": (0, None)}
        panels.append(Lines(lines, xlabel=xlabel, title=name, **scale))
    caption = f"{_runs_sentence(dataset)} {differing_sentence(dataset, 'settings' if what == 'heads' else what)}"
    return panel_picture([panels], f"{words} of {_place(dataset)}", caption, width=3.5, heights=[4.0])


def _runs_sentence(dataset: xr.Dataset) -> str:
    return (
        f"Attention alone on the unit sphere at t = {dataset.attrs['end']:g}: means over {dataset.sizes['run']} runs, "
        "95 % bootstrap intervals. Controls have the same V with other Q and K."
    )


def _betas_sentence(dataset: xr.Dataset) -> str:
    """The inverse temperature of every start."""
    values = "; ".join(f"{name}: {float(dataset.beta.sel(setting=name)):.3g}" for name in dataset.setting.values)
    return f"The inverse temperature β is the mean squared length of the tokens that heads read ({values})."


def _place(dataset: xr.Dataset) -> str:
    return f"{dataset.attrs['model']}, layer {dataset.attrs['layer']}"


def _opened(model: str, layer: int) -> tuple[Any, int]:
    """The model, and the layer or the last one where it has fewer."""
    loaded = load(model)
    return loaded, min(layer, loaded.config.layers - 1)
