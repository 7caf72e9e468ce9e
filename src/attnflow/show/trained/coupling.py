"""`coupling`: whether the blocks of a trained model act along the same directions on the tokens of a prompt."""

import os
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.ticker import MaxNLocator

from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import HEADLINE, Picture, Title
from attnflow.show.parts.style import fix_ticks, weights_colormap
from attnflow.show.trained.by_layer import has_name, layer_colours


@dataclass(frozen=True)
class MismatchMatrix:
    """Panel with one cell for each pair of blocks, light where they are coupled."""

    values: np.ndarray
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Draw the panel into empty axes."""
        image = axes.imshow(
            self.values, cmap=weights_colormap(is_chosen=True), vmin=0, vmax=max(1.0, float(np.max(self.values)))
        )
        axes.set(xlabel="in the directions of block", ylabel="block")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
        axes.set_title("Mismatch: 0 where coupled", loc="left")
        fix_ticks(axes)
        bar = axes.figure.colorbar(image, ax=axes, aspect=25, pad=0.02)
        fix_ticks(bar.ax)


@draws
def coupling(
    coupled: xr.Dataset,
    path: str | os.PathLike | None = None,
    *,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw how far each block's Jacobian is diagonal in every other block's singular vectors, and its singular values.

    Parameters
    ----------
    coupled
        Made by `trained.block_coupling`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of the usual title; None: no title and no caption.

    Examples
    --------
    >>> from attnflow import trained
    >>> figure = coupling(trained.block_coupling(model, [5, 17, 3, 39]), size="page", title=None)
    >>> float(figure.get_figwidth())
    7.0
    """
    panels = [MismatchMatrix(coupled.mismatch.values), _singular_values(coupled)]
    caption = (
        f"$J$: derivative of (block − identity) at the token “{coupled.attrs['token']}” with respect to itself. "
        "Mismatch of block i in the directions of block j: $|\\,|U_j^\\mathrm{T} J_i V_j| - S_i\\,|/|S_i|$ "
        f"on {coupled.attrs['top']} singular vectors (arXiv:2407.07810); in random "
        f"directions it is {float(coupled.random_mismatch.mean()):.2f}, a mean over blocks."
    )
    heading = f"Coupling of the blocks of {coupled.attrs['model']}"
    return panel_picture([panels], heading, caption, width=4.2, heights=[3.9])


def _singular_values(coupled: xr.Dataset) -> Lines:
    count, ranks = coupled.sizes["block"], np.arange(1, coupled.sizes["rank"] + 1)
    lines = [
        Line(ranks, values, f"block {block}" if has_name(block, count) else "", to_hex(colour), marker=".")
        for block, (values, colour) in enumerate(zip(coupled.singular_value.values, layer_colours(count), strict=True))
    ]
    title = "Leading singular values of $J$"
    return Lines(lines, xlabel="rank", has_integer_x=True, ylim=(0, None), title=title, columns=3)
