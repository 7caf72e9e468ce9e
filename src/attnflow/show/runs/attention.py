"""`attention`: attention matrices as images."""

import os
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.integrate.evaluate import attention_matrix
from attnflow.results.provenance import flow_of
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.drawn_run import one_run, require_tokens_over_time
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.matrix import MatrixInRow, colour_scale, require_matrices
from attnflow.show.parts.picture import HEADLINE, Heading, Picture, Title
from attnflow.show.parts.symbols import at_time
from attnflow.show.runs.moments import saved_places

MATRICES_PER_ROW = 4  # matrices in one row


@draws
def attention(
    matrices: Any,
    path: str | os.PathLike | None = None,
    *,
    times: Sequence[float] | None = None,
    titles: Sequence[str] | None = None,
    title: Title = HEADLINE,
    member: int | None = None,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw attention matrices side by side: row i is what token i attends to.

    Colours go from 0 to 1. If in one of the matrices most rows spread over many tokens, colours follow the square
    root of the weight, so that small weights can be seen; the ticks of the colour bar show the scale.

    Parameters
    ----------
    matrices
        One matrix (n, n) or several (k, n, n); or a dataset made by `simulate`, whose matrices are formed, as means
        over heads.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    times
        The time of each matrix, for its heading. Of a dataset: the times to draw, the saved times nearest to them; by
        default the first and the last.
    titles
        A heading for each matrix, instead of its time.
    title
        A title of the picture, which has none by default.
    member
        Which run of an ensemble, if a dataset is given; by default the first.

    Returns
    -------
    A matplotlib figure that belongs to no window; with `ax`, the axes.

    Raises
    ------
    ValueError
        If the shapes do not fit, or nothing can be written at `path`.

    Examples
    --------
    >>> figure = attention(np.eye(3), times=[0.0])
    >>> figure.axes[0].get_title()
    '$t$ = 0'
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2))
    >>> run = af.simulate(flow, af.initial.circle(5, rng=0), [0.0, 1.0, 2.0])
    >>> [axes.get_title() for axes in attention(run, times=[0, 2], size="page").axes[:2]]
    ['$t$ = 0', '$t$ = 2']
    """
    if isinstance(matrices, xr.Dataset):
        matrices, times = _matrices_of(one_run(matrices, member), times)
    elif member is not None:
        raise InputError("`member` chooses a run of a dataset, but `matrices` are given. Leave it out.")
    matrices = require_matrices(matrices)
    headings, scale, count = _headings(len(matrices), times, titles), colour_scale(matrices), len(matrices)
    rows = -(-count // MATRICES_PER_ROW)
    columns = -(-count // rows)
    panels = [
        MatrixInRow(matrix, heading, scale, has_bar=index == columns - 1, is_chosen=True)
        for index, (matrix, heading) in enumerate(zip(matrices, headings, strict=True))
    ]
    lines = [
        PanelRow(panels[first : first + columns], 2.9, least=1.4, is_shared=True, is_square=True)
        for first in range(0, count, columns)
    ]
    width, height = 1.2 + 2.7 * columns, 0.4 + 2.9 * rows
    return Picture(lines, "" if isinstance(title, Heading) else title or "", "", width, height)


def _matrices_of(run: xr.Dataset, times: Sequence[float] | None) -> tuple[np.ndarray, list[float]]:
    """Attention matrices of a run at saved times, means over heads, and those times."""
    require_tokens_over_time(run)
    flow, saved = flow_of(run), run.time.values
    is_known = np.isfinite(run.tokens).all(("token", "coordinate")).values
    places = np.flatnonzero(is_known)[[0, -1]] if times is None else saved_places(times, saved[is_known])
    shown = [float(saved[place]) for place in places]
    formed = [attention_matrix(flow, run.tokens.values[place].astype(float), float(saved[place])) for place in places]
    return np.stack([matrix if matrix.ndim == 2 else matrix.mean(axis=0) for matrix in formed]), shown


def _headings(count: int, times: Sequence[float] | None, titles: Sequence[str] | None) -> list[str]:
    for name, given in (("titles", titles), ("times", times)):
        if given is not None and len(given) != count:
            raise InputError(f"`{name}` must have one entry a matrix, {count}, but it has {len(given)}.")
    if titles is not None:
        return [str(title) for title in titles]
    return [""] * count if times is None else [at_time(time) for time in times]
