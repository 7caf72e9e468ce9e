"""Attention matrices as images: their colour scale, their axes, their colour bar, and the panel `Matrix`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from attnflow._common.checks import InputError
from attnflow.show.parts.page import theme
from attnflow.show.parts.style import fix_ticks, line_colour, weights_colormap


@dataclass(frozen=True)
class Matrix:
    """Panel of an attention matrix; triangles above it mark `columns`, such as those of the leaders."""

    values: np.ndarray
    title: str = ""
    columns: Sequence[int] = ()
    scale: Normalize | None = None
    has_bar: bool = False
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Draw the panel into empty axes."""
        image = draw_matrix(axes, self.values, self.scale or colour_scale(self.values[None]), "")
        axes.set_title(self.title, loc="left", pad=10.0)  # points: room for the triangles
        if len(self.columns):
            style: dict[str, Any] = {"clip_on": False, "marker": "v", "s": 26, "color": line_colour(1), "zorder": 5}
            axes.scatter(self.columns, np.full(len(self.columns), -1.2), **style)
            axes.set_ylim(len(self.values) - 0.5, -0.5)
        if self.has_bar:
            draw_bar(axes, image)


@dataclass(frozen=True)
class MatrixInRow:
    """Panel of one of several attention matrices on a common colour scale."""

    values: np.ndarray
    title: str
    scale: Normalize
    has_bar: bool = False
    is_chosen: bool = False
    """Whether its colours are those of the user's palette."""
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Draw the panel into empty axes."""
        image = draw_matrix(axes, self.values, self.scale, self.title, is_chosen=self.is_chosen)
        if self.has_bar:
            draw_bar(axes, image)


def require_matrices(matrices: Any) -> np.ndarray:
    """Square matrices of one size as an array of shape (k, n, n)."""
    array = np.asarray(matrices, dtype=float)
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[1] != array.shape[2] or array.size == 0:
        raise InputError(
            f"`matrices` must have shape (n, n), or (k, n, n) for several, but the shape is {np.shape(matrices)}."
        )
    return array


def colour_scale(matrices: np.ndarray) -> Normalize:
    """Colour scale from 0 to 1, or to the largest weight where rows need not sum to one.

    Colours follow the square root of the weight if, in one of the matrices, the median over rows of the largest
    weight is below a quarter of the scale: such a matrix would be white on white.
    """
    largest = max(1.0, float(np.nanmax(matrices, initial=0)))
    row_maxima = np.nan_to_num(matrices).max(axis=-1)
    is_pale = np.any(np.median(row_maxima, axis=-1) < 0.25 * largest)
    return PowerNorm(0.5, 0, largest) if is_pale else Normalize(0, largest)


def draw_matrix(
    axes: Axes, matrix: np.ndarray, scale: Normalize, heading: str, *, is_chosen: bool = False
) -> AxesImage:
    """Draw one matrix, with few ticks and a thin frame, and return its image."""
    image = axes.imshow(matrix, cmap=weights_colormap(is_chosen=is_chosen), norm=scale, interpolation="nearest")
    axes.set(title=heading, xlabel="attends to token", ylabel="token")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=4, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
    axes.spines[:].set(visible=True, color=theme().grey, linewidth=0.6)
    fix_ticks(axes)
    return image


def draw_bar(axes: Axes, image: AxesImage) -> None:
    """Draw a colour bar beside a matrix, as tall as its axes."""
    ticks = [0, 0.05, 0.25, 0.5, 1] if isinstance(image.norm, PowerNorm) else [0, 0.5, 1]
    bar_axes = axes.inset_axes((1.05, 0, 0.045, 1))
    bar = axes.figure.colorbar(image, cax=bar_axes, ticks=[tick * image.norm.vmax for tick in ticks], format="%g")
    bar.outline.set(edgecolor=theme().grey, linewidth=0.6)
    fix_ticks(bar.ax)
