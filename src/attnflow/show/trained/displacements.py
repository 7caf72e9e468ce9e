"""`displacements`: how the parts of V move the tokens of a prompt in each layer."""

import os

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from attnflow.show.parts.panels import Line, panel_figure
from attnflow.show.parts.style import GREY, in_house_style, save_and_return
from attnflow.show.trained.by_layer import layer_panel, quoted_prompt

MEANINGS = {
    "symmetry": "Attractive and repulsive: the positive and the negative part of (V + V^T) / 2; "
    "rotational: (V − V^T) / 2",
    "spectrum": "Positive, negative and complex: V on its eigenvectors of such eigenvalues",
}


@in_house_style()
def displacements(parts: xr.Dataset, path: str | os.PathLike | None = None) -> Figure:
    """Draw how far each part of V moves tokens, and whether it makes them more alike.

    Parameters
    ----------
    parts
        Made by `trained.displacements`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    """
    change = [*_lines(parts.cosine_change), _sum_over_parts(parts)]
    panels = [
        layer_panel(_lines(parts.length), "How far tokens are moved", ylim=(0, None)),
        layer_panel(change, "Speed of the mean cosine: above 0 tokens gather", levels={"": 0.0}),
    ]
    caption = (
        "What all heads of a layer send to the tokens, without biases, split by parts of V = W_O W_V. "
        f"{MEANINGS[parts.attrs['split']]}. Left: root mean square over tokens."
    )
    title = f"What the parts of V do to {quoted_prompt(parts)} in {parts.attrs['model']}"
    return save_and_return(panel_figure([panels], title, caption, width=4.6, heights=[3.9]), path)


def _lines(values: xr.DataArray) -> list[Line]:
    layers = np.arange(1, values.sizes["layer"] + 1)
    return [Line(layers, values.sel(part=part).values, str(part), marker=".") for part in values.part.values]


def _sum_over_parts(parts: xr.Dataset) -> Line:
    total = parts.cosine_change.sum("part").values
    return Line(np.arange(1, len(total) + 1), total, "all of V", GREY, style="--", marker=".")
