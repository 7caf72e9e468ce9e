"""`displacements`: what V's parts do to a prompt's tokens, layer by layer."""

import os

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from attnflow.show.parts.panels import Line, Lines, panel_figure
from attnflow.show.parts.style import GREY, in_house_style, save_figure
from attnflow.show.trained.prompt import first_words

MEANINGS = {
    "symmetry": "Attractive and repulsive: the positive and the negative part of (V + V^T) / 2; "
    "rotational: (V − V^T) / 2",
    "spectrum": "Positive, negative and complex: V on its eigenvectors of such eigenvalues",
}


@in_house_style()
def displacements(parts: xr.Dataset, path: str | os.PathLike | None = None) -> Figure:
    """Draw how far each part of V moves tokens, and whether it draws them together.

    Parameters
    ----------
    parts
        Made by `trained.displacements`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    """
    panels = [
        Lines(_lines(parts.length), xlabel="layer", counts=True, ylim=(0, None), title="How far tokens are moved"),
        Lines(
            [*_lines(parts.cosine_change), _whole(parts)],
            xlabel="layer",
            counts=True,
            levels={"": 0.0},
            title="Speed of the mean cosine: above 0 tokens gather",
        ),
    ]
    caption = (
        "What all heads of a layer send to the tokens, without biases, split by parts of V = W_O W_V. "
        f"{MEANINGS[parts.attrs['split']]}. Left: root mean square over tokens."
    )
    words = first_words([str(word) for word in parts.word.values])
    title = f"What the parts of V do to {words} in {parts.attrs['model']}"
    figure = panel_figure([panels], title, caption, width=4.6, heights=[3.9])
    if path is not None:
        save_figure(figure, path)
    return figure


def _lines(values: xr.DataArray) -> list[Line]:
    layers = np.arange(1, values.sizes["layer"] + 1)
    return [Line(layers, values.sel(part=part).values, str(part), marker=".") for part in values.part.values]


def _whole(parts: xr.Dataset) -> Line:
    total = parts.cosine_change.sum("part").values
    return Line(np.arange(1, len(total) + 1), total, "all of V", GREY, style="--", marker=".")
