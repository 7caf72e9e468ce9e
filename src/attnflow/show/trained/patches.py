"""`patches`: clusters of the patches of an image and attention to them, drawn on the image, in some layers."""

import os
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from attnflow._common.checks import InputError, require_positive_number
from attnflow._common.plain import evenly_spaced
from attnflow.analyse import cluster_tracks
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import panel_picture
from attnflow.show.parts.picture import HEADLINE, Panel, Picture, Title
from attnflow.show.parts.style import colours, weights_colormap

MOST_LAYERS = 5  # in a row


@dataclass(frozen=True)
class OnImage:
    """Panel with an image, and a colour over each patch."""

    picture: np.ndarray  # (h, w, 3), from 0 to 1
    title: str
    patches: np.ndarray | None = None  # (rows, columns, 4): colours and opacity, from 0 to 1
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Draw the panel into empty axes."""
        height, width = self.picture.shape[:2]
        extent = (0, width, height, 0)
        is_covered = self.patches is not None
        grey = self.picture.mean(axis=2, keepdims=True).repeat(3, axis=2)
        axes.imshow(grey if is_covered else self.picture, extent=extent, interpolation="nearest")
        if self.patches is not None:
            axes.imshow(self.patches, extent=extent, interpolation="nearest")
        axes.set_title(self.title, loc="left")
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)


@dataclass(frozen=True)
class Words:
    """Panel of words in place of an image, so that panels below each other are of one layer."""

    text: str
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Write the words in the middle of empty axes."""
        axes.text(0.5, 0.5, self.text, ha="center", va="center", color=theme().grey, transform=axes.transAxes)
        axes.set_axis_off()


@draws
def patches(
    run: xr.Dataset,
    path: str | os.PathLike | None = None,
    *,
    angle: float = 0.5,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw the clusters of the patches of an image in some layers, and the attention of its first token to them.

    Parameters
    ----------
    run
        Made by `model.trajectory(image, attention=True)`. Without attention only clusters are drawn.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    angle
        Directions of tokens closer than this, in radians, directly or by a chain, are one cluster.
    title
        Instead of the usual title; None: no title and no caption.

    Examples
    --------
    >>> patches(model.trajectory([5, 17, 3]))
    Traceback (most recent call last):
    ...
    attnflow._common.checks.InputError: `run` must be the trajectory of an image, but it has no `picture`.
    """
    if "picture" not in run:
        raise InputError("`run` must be the trajectory of an image, but it has no `picture`.")
    require_positive_number(angle, "angle")
    picture, layers = run.picture.values, evenly_spaced(run.sizes["time"], MOST_LAYERS)
    labels, counts = _clusters(run, angle)
    covered = [
        OnImage(
            picture,
            f"layer {layer}: {counts[layer]} cluster{'' if counts[layer] == 1 else 's'}",
            _coloured(labels[layer], _grid(run)),
        )
        for layer in layers
    ]
    rows: list[list[Panel]] = [[OnImage(picture, "image"), *covered]]
    if "attention" in run:
        rows.append([Words(f"attention of\n{run.word.values[0]}"), *_attention(run, picture, layers)])
    attended = (
        f" Below: attention of {run.word.values[0]} to each patch, a mean over heads (block 0 leads from layer 0 to "
        "layer 1), darkest at the largest of each panel; the number is the share of its attention that patches have."
        if "attention" in run
        else ""
    )
    caption = (
        f"Above: patches whose tokens are in one direction within {angle:g} radians, directly or by a chain, have one "
        f"colour; patches alone have none. Layer 0 is the embedding.{attended}"
    )
    heading = f"Patches of an image in {run.attrs['model']}"
    return panel_picture(rows, heading, caption, width=2.0, heights=[2.2] * len(rows))


def _clusters(run: xr.Dataset, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """The label of every patch in every layer, which persists between layers, and the number of clusters."""
    first = run.sizes["token"] - run.attrs["patch_rows"] * run.attrs["patch_columns"]
    tokens = run.tokens.values.astype(float)[:, first:]
    units = tokens / np.linalg.norm(tokens, axis=-1, keepdims=True)
    labels = cluster_tracks.follow(units, angle, geodesic=True).labels
    return labels, np.array([len(set(one.tolist())) for one in labels])


def _coloured(labels: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """A colour for each cluster of two patches or more, the largest first; others are clear."""
    found, counts = np.unique(labels, return_counts=True)
    shared = found[np.argsort(-counts, kind="stable")][: int(np.sum(counts > 1))]
    palette = colours(max(len(shared), 1))
    filled = np.zeros((len(labels), 4))
    for place, label in enumerate(shared):
        filled[labels == label] = [*palette[place][:3], 0.7]
    return filled.reshape(*grid, 4)


def _attention(run: xr.Dataset, picture: np.ndarray, layers: np.ndarray) -> list[OnImage | Words]:
    """Attention of the first token to patches in the block before each layer, with the share that patches have."""
    panels: list[OnImage | Words] = []
    count = run.attrs["patch_rows"] * run.attrs["patch_columns"]
    for block in layers - 1:
        if block < 0:  # the embedding
            panels.append(Words("embedding:\nno attention"))
            continue
        weights = run.attention.values[block].mean(axis=0)[0, -count:]
        shade = weights_colormap(is_chosen=True)(weights / weights.max())
        shade[:, 3] = 0.75
        panels.append(OnImage(picture, f"block {block}: {100 * weights.sum():.0f} %", shade.reshape(*_grid(run), 4)))
    return panels


def _grid(run: xr.Dataset) -> tuple[int, int]:
    return int(run.attrs["patch_rows"]), int(run.attrs["patch_columns"])
