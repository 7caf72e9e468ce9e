"""`attention`: attention matrices as images."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from attnflow._common.checks import InputError
from attnflow.show.parts.matrix import colour_scale, draw_bar, draw_matrix, require_matrices
from attnflow.show.parts.style import in_house_style, new_figure, require_free_picture, save_and_return


@in_house_style()
def attention(
    matrices: Any,
    path: str | os.PathLike | None = None,
    *,
    times: Sequence[float] | None = None,
    titles: Sequence[str] | None = None,
) -> Figure:
    """Draw attention matrices side by side: row i is what token i attends to.

    Colours go from 0 to 1. If in one of the matrices most rows spread over many tokens, colours follow the square
    root of the weight, so that small weights can be seen; the ticks of the colour bar show the scale.

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
    return save_and_return(_figure_of(matrices, headings), path)


def _figure_of(matrices: np.ndarray, headings: list[str]) -> Figure:
    rows = -(-len(matrices) // 4)  # at most four side by side
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
        if index + columns >= len(matrices):  # no panel is below it, also where the last row is not full
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
