"""`study`: measures of many prompts by layer, trained and controls, or several models."""

import json
import os
from collections.abc import Sequence
from typing import Any, Unpack

import xarray as xr

from attnflow._common.checks import InputError, require_known
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import HEADLINE, Picture, Title
from attnflow.show.parts.style import line_colour
from attnflow.show.parts.tables import Table
from attnflow.show.trained.by_layer import layer_panel
from attnflow.trained.studies.bootstrap import intervals_in_words
from attnflow.trained.studies.layer_measures import OF_PATHS, OVER_BETA, WORDS
from attnflow.trained.studies.rows import baseline_sentence, measure_summary
from attnflow.trained.studies.study import require_study
from attnflow.trained.studies.variants import CONTROLS, TRAINED

PANELS = ("mean_cosine", "centred_cosine", "clusters", "effective_rank", "second_eigenvalue", "sink_share")
PANELS_IN_A_ROW = 3
CONTROL_WORDS = {
    TRAINED: "the model",
    "untrained": "random initial weights",
    "equal attention": "Q = K = 0",
    "swapped heads": "Q and K of the next head",
    "shuffled tokens": "words in another order",
}


@draws
def study(
    found: xr.Dataset,
    path: str | os.PathLike | None = None,
    *,
    measures: Sequence[str] = PANELS,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw the means of measures over prompts by layer, with 95 % intervals as bands.

    One model has a line for every variant; several models have a line each.

    Parameters
    ----------
    found
        Made by `trained.study`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    measures
        The measures, a panel each; energies are drawn at their middle beta.
    title
        Instead of the usual title; None: no title and no caption.

    Examples
    --------
    >>> from attnflow import trained
    >>> prompts = [[5, 17, 3, 5], [7, 7, 3], [1, 2, 3], [9, 8], [4, 4]]
    >>> figure = study(trained.study(model, prompts, controls=[]), measures=["mean_cosine"], size="column")
    >>> len(figure.axes)  # a panel, and the table of variants
    2
    """
    require_study(found)
    for name in measures:
        require_known(name, WORDS, "measures")
        if name in OF_PATHS:
            raise InputError(f"`measures` must be measures of layers, but {name} is one number for all layers.")
    panels = [_panel(found, name) for name in measures]
    rows: list[list[Any]] = [
        panels[first : first + PANELS_IN_A_ROW] for first in range(0, len(panels), PANELS_IN_A_ROW)
    ]
    names = _line_names(found)
    table = Table(*_legend(found, names), (2, 3), [_colour(place, name) for place, name in enumerate(names)])
    is_single = found.sizes["model"] == 1
    caption = (
        f"Means over {found.sizes['prompt']} prompts ({found.attrs['prompts']}); bands: "
        f"{intervals_in_words(found.sizes['prompt'])}. Layer 0 is the embedding."
    )
    if "centred_cosine" in measures:
        caption += f" Centred cosine: {baseline_sentence(found)}."
    has_controls = bool(set(CONTROLS) & set(found.variant.values.tolist()))
    beside = (
        " beside its controls" if has_controls else " and the rungs of its ladder" if found.sizes["variant"] > 1 else ""
    )
    heading = f"{found.model.values[0]}{beside}" if is_single else "Trained models on the same prompts"
    heights = [*[2.9] * len(rows), 0.26 * (len(names) + 3)]
    return panel_picture([*rows, [table]], heading, caption, width=3.4, heights=heights)


def _line_names(found: xr.Dataset) -> list[str]:
    """The variants of a single model, or the models."""
    names = found.variant if found.sizes["model"] == 1 else found.model
    return [str(name) for name in names.values]


def _legend(found: xr.Dataset, names: list[str]) -> tuple[tuple[str, str], list[list[str]]]:
    """Headings and rows of the table below the panels, which names the colours."""
    if found.sizes["model"] == 1:
        return ("variant", ""), [[name, CONTROL_WORDS.get(name, "a rung of the ladder")] for name in names]
    depths = json.loads(found.attrs["depths"])
    return ("model", ""), [[name, f"{depths[name]} layers"] for name in names]


def _colour(place: int, name: str) -> str:
    return theme().ink if name == TRAINED else line_colour(place)


def _panel(found: xr.Dataset, name: str) -> Lines:
    beta = float(found.beta.values[found.sizes["beta"] // 2]) if name in OVER_BETA else None
    models = [str(model) for model in found.model.values]
    if len(models) == 1:
        summaries = measure_summary(found, name, models[0], beta)
    else:
        summaries = {model: measure_summary(found, name, model, beta)[TRAINED] for model in models}
    lines = [
        Line(
            found.layer.values,
            summaries[label].mean,
            "",
            _colour(place, label),
            marker=".",
            band=(summaries[label].low, summaries[label].high),
            width=2.2 if label == TRAINED else 1.4,
        )
        for place, label in enumerate(_line_names(found))
        if label in summaries
    ]
    words = WORDS[name] + ("" if beta is None else f", β = {beta:g}")
    return layer_panel(lines, title=words)
