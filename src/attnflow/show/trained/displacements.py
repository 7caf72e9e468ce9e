"""`displacements`: how the parts of V move the tokens of a prompt in each layer."""

import os
from typing import Unpack

import numpy as np
import xarray as xr

from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, panel_picture
from attnflow.show.parts.picture import HEADLINE, Picture, Title
from attnflow.show.trained.by_layer import layer_panel, quoted_prompt

MEANINGS = {
    "symmetry": "Attractive and repulsive: the positive and the negative part of $(V + V^\\mathrm{T})/2$; "
    "rotational: $(V - V^\\mathrm{T})/2$",
    "spectrum": "Positive, negative and complex: V on its eigenvectors of such eigenvalues",
}


@draws
def displacements(
    parts: xr.Dataset,
    path: str | os.PathLike | None = None,
    *,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw how far each part of V moves tokens, and whether it makes them more alike.

    Parameters
    ----------
    parts
        Made by `trained.displacements`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of the usual title; None: no title and no caption.

    Examples
    --------
    >>> from attnflow import trained
    >>> figure = displacements(trained.displacements(model, [5, 17, 3, 39]), size="page", title=None)
    >>> float(figure.get_figwidth())
    7.0
    """
    change = [*_lines(parts.cosine_change), _sum_over_parts(parts)]
    panels = [
        layer_panel(_lines(parts.length), "How far tokens are moved", ylim=(0, None)),
        layer_panel(change, "Speed of the mean cosine: above 0 tokens gather", levels={"": 0.0}),
    ]
    caption = (
        "What all heads of a layer send to the tokens, without biases, split by parts of $V = W_O W_V$. "
        f"{MEANINGS[parts.attrs['split']]}. Distances are root mean squares over tokens."
    )
    heading = f"What the parts of V do to {quoted_prompt(parts)} in {parts.attrs['model']}"
    return panel_picture([panels], heading, caption, width=4.6, heights=[3.9])


def _lines(values: xr.DataArray) -> list[Line]:
    layers = np.arange(1, values.sizes["layer"] + 1)
    return [Line(layers, values.sel(part=part).values, str(part), marker=".") for part in values.part.values]


def _sum_over_parts(parts: xr.Dataset) -> Line:
    total = parts.cosine_change.sum("part").values
    return Line(np.arange(1, len(total) + 1), total, "all of V", theme().grey, style="--", marker=".")
