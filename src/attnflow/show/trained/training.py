"""`training`: measures of many prompts along the training of a model."""

import os
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_known
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import HEADLINE, Picture, Title
from attnflow.show.parts.style import line_colour
from attnflow.trained.studies.bootstrap import intervals_in_words, mean_interval
from attnflow.trained.studies.layer_measures import OF_PATHS, OVER_BETA, OVER_HEADS, RANGES, WORDS
from attnflow.trained.studies.study import require_study

PANELS = ("mean_cosine", "centred_cosine", "effective_rank", "sink_share")
WIDE_RANGE = 100  # ratio of steps from which on their axis is logarithmic


@draws
def training(
    found: xr.Dataset,
    path: str | os.PathLike | None = None,
    *,
    measures: Sequence[str] = PANELS,
    layer: int | None = None,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw the means of measures over prompts against the training step, with 95 % intervals as bands.

    Parameters
    ----------
    found
        Made by `trained.study` of checkpoints: a directory of them, or `models.load_checkpoints`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    measures
        The measures, a panel each, with a line for every variant; energies are drawn at their middle beta.
    layer
        The layer that is measured, 0 for the embedding; None: the last.
    title
        Instead of the usual title; None: no title and no caption.

    Examples
    --------
    >>> import attnflow as af
    >>> import pathlib, shutil, tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     for step in (100, 200):
    ...         made = shutil.copytree(folder, pathlib.Path(place, f"step{step}"))
    ...     study = af.trained.study(place, [[5, 17, 3, 5], [7, 7, 3]], controls=[], progress=False)
    >>> len(training(study, measures=["mean_cosine", "clusters"]).axes)
    2
    """
    require_study(found)
    if "step" not in found.coords:
        raise InputError(
            "`found` must be a study of two or more checkpoints whose names end with their training step, such as "
            f"checkpoint-500, but its models are {', '.join(map(str, found.model.values))}."
        )
    for name in measures:
        require_known(name, WORDS, "measures")
    has_step = np.isfinite(found.step.values)
    left_out = " and ".join(map(str, found.model.values[~has_step]))
    found = found.isel(model=has_step)
    last = found.sizes["layer"] - 1
    chosen = last if layer is None else layer
    if not 0 <= chosen <= last:
        raise InputError(f"`layer` must be from 0 to {last}, but it is {layer}.")
    panels = [_panel(found, name, chosen) for name in measures]
    place = "the embedding" if chosen == 0 else "the last layer" if chosen == last else f"layer {chosen}"
    caption = (
        f"Measures of {place}: means over {found.sizes['prompt']} prompts ({found.attrs['prompts']}); bands: "
        f"{intervals_in_words(found.sizes['prompt'])}. {found.attrs.get('repeated_weights', '')}"
    ).strip() + (f" Left out, since no step is in the name: {left_out}." if left_out else "")
    rows = [panels[first : first + 4] for first in range(0, len(panels), 4)]
    heading = f"Along training: {found.sizes['model']} checkpoints"
    return panel_picture(rows, heading, caption, width=3.0, heights=[3.6] * len(rows))


def _panel(found: xr.Dataset, name: str, layer: int) -> Lines:
    values = found[name] if name in OF_PATHS else found[name].sel(layer=layer)
    beta = float(found.beta.values[found.sizes["beta"] // 2]) if name in OVER_BETA else None
    if beta is not None:
        values = values.sel(beta=beta)
    if name in OVER_HEADS:
        values = values.mean("head", skipna=True)
    steps, lines = found.step.values.astype(float), []
    bounds = RANGES.get(name, (-np.inf, np.inf))
    for place, variant in enumerate(found.variant.values):
        one = mean_interval(values.sel(variant=variant).transpose("prompt", "model").values, within=bounds)
        style: dict[str, Any] = {"marker": "o", "band": (one.low, one.high), "colour": line_colour(place)}
        lines.append(Line(steps, one.mean, str(variant), **style))
    positive = steps[steps > 0]
    is_wide = len(positive) > 1 and positive.max() > WIDE_RANGE * positive.min()
    scale = ("symlog" if np.any(steps <= 0) else "log") if is_wide else "linear"
    words = WORDS[name] + ("" if beta is None else f", β = {beta:g}")
    return Lines(lines, "training step", title=words, xscale=scale)
