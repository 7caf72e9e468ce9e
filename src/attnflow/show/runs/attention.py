"""`attention`: attention matrices as images."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from attnflow._common.checks import InputError
from attnflow.show.parts.style import (
    GREY,
    fix_ticks,
    in_house_style,
    new_figure,
    require_free_picture,
    save_figure,
    weights_colormap,
)

MOST_COLUMNS = 4
SMALL = 0.25  # weights that all stay below this would be white on white


@in_house_style()
def attention(
    matrices: Any,
    path: str | os.PathLike | None = None,
    *,
    times: Sequence[float] | None = None,
    titles: Sequence[str] | None = None,
) -> Figure:
    """Draw attention matrices side by side: row i is what token i attends to.

    Colours go from 0 to 1. If in one of the matrices most rows spread over many tokens,
    colours follow the root of the weight, or nothing could be seen; the bar shows it.

    Parameters
    ----------
    matrices
        One matrix (n, n) or several (k, n, n).
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    times
        The time of each matrix, for its heading.
    titles
        A heading for each matrix, instead of its time.

    Returns
    -------
    A matplotlib figure that belongs to no window.

    Raises
    ------
    ValueError
        If the shapes do not fit, or nothing can be written at `path`.

    Examples
    --------
    >>> figure = attention(np.eye(3), times=[0.0])
    >>> figure.axes[0].get_title()
    't = 0'
    """
    if path is not None:
        require_free_picture(path)
    matrices = require_matrices(matrices)
    headings = _headings(len(matrices), times, titles)
    figure = _figure_of(matrices, headings)
    if path is not None:
        save_figure(figure, path)
    return figure


def require_matrices(matrices: Any) -> np.ndarray:
    """Square matrices of one size, shape (k, n, n)."""
    array = np.asarray(matrices, dtype=float)
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[1] != array.shape[2] or array.size == 0:
        raise InputError(
            f"`matrices` must have shape (n, n), or (k, n, n) for several, but the shape is {np.shape(matrices)}."
        )
    return array


def colour_scale(matrices: np.ndarray) -> Normalize:
    """From 0 to 1, or to the largest weight where rows need not sum to one."""
    largest = max(1.0, float(np.nanmax(matrices, initial=0)))
    strongest = np.nan_to_num(matrices).max(axis=-1)
    is_pale = np.any(np.median(strongest, axis=-1) < SMALL * largest)
    return PowerNorm(0.5, 0, largest) if is_pale else Normalize(0, largest)


def draw_matrix(axes: Axes, matrix: np.ndarray, scale: Normalize, heading: str) -> AxesImage:
    """One matrix, with few ticks and a thin frame."""
    image = axes.imshow(matrix, cmap=weights_colormap(), norm=scale, interpolation="nearest")
    axes.set(title=heading, xlabel="attends to token", ylabel="token")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=4, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
    axes.spines[:].set(visible=True, color=GREY, linewidth=0.6)
    fix_ticks(axes)
    return image


def draw_bar(axes: Axes, image: AxesImage) -> None:
    """A colour bar as tall as the panel it stands beside."""
    ticks = [0, 0.05, 0.25, 0.5, 1] if isinstance(image.norm, PowerNorm) else [0, 0.5, 1]
    place = axes.inset_axes((1.05, 0, 0.045, 1))
    bar = axes.figure.colorbar(image, cax=place, ticks=[tick * image.norm.vmax for tick in ticks], format="%g")
    bar.outline.set(edgecolor=GREY, linewidth=0.6)
    fix_ticks(bar.ax)


def _figure_of(matrices: np.ndarray, headings: list[str]) -> Figure:
    rows = -(-len(matrices) // MOST_COLUMNS)
    columns = -(-len(matrices) // rows)
    figure = new_figure(1.2 + 2.7 * columns, 0.4 + 2.9 * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    scale = colour_scale(matrices)
    for axes in grid.ravel()[len(matrices) :]:
        axes.remove()
    for index, (matrix, heading) in enumerate(zip(matrices, headings, strict=True)):
        axes = grid.ravel()[index]
        image = draw_matrix(axes, matrix, scale, heading)
        axes.label_outer()
        if index + columns >= len(matrices):  # nothing is below it, even where the last row is not full
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("attends to token")
    draw_bar(grid[0, -1], image)
    return figure


def _headings(count: int, times: Sequence[float] | None, titles: Sequence[str] | None) -> list[str]:
    for name, given in (("titles", titles), ("times", times)):
        if given is not None and len(given) != count:
            raise InputError(f"`{name}` must have one entry a matrix, {count}, but it has {len(given)}.")
    if titles is not None:
        return [str(title) for title in titles]
    return [""] * count if times is None else [f"t = {time:.4g}" for time in times]
