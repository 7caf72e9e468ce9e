"""`summary`: trajectories, cluster counts and attention of a run in one figure."""

import os
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from attnflow._common.checks import InputError
from attnflow._common.renamed import renamed_argument
from attnflow.show.parts.drawn_run import DrawnRun, one_run, run_to_draw, titled
from attnflow.show.parts.matrix import colour_scale, draw_bar, draw_matrix
from attnflow.show.parts.projection import Points, points_of
from attnflow.show.parts.style import in_house_style, new_figure, require_free_picture, save_and_return
from attnflow.show.runs.claims import ShownMeasures, draw_measure, mark_centres, shown_measures
from attnflow.show.runs.observables import draw_observables, observable_names
from attnflow.show.runs.trajectories import View, draw_panels, finish, view_of


@renamed_argument("runs", "member")
@in_house_style()
def summary(
    run: Any,
    matrices: Any = None,
    path: str | os.PathLike | None = None,
    title: str | None = None,
    *,
    member: int = 0,
    distance: float | None = None,
) -> Figure:
    """Draw the trajectories of a run, the measure that decides what it shows, and attention at start and end.

    The measure is the number of clusters over time; where all tokens on the sphere meet in one point, 1 - cosine of the
    two tokens farthest apart with its rate; with noise, the length of the mean of the tokens.

    Parameters
    ----------
    run
        A dataset made by `simulate`.
    matrices
        Attention matrices of the run, (k, n, n) or (k, heads, n, n): the first and the last are drawn, as means over
        heads. An entry None is left out.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of the headline, which states the model and the outcome of the run; the times are added.
    member
        Which run of an ensemble.
    distance
        Tokens closer than this are one cluster; by default a hundredth of the largest initial norm.

    Returns
    -------
    A matplotlib figure that belongs to no window.

    Raises
    ------
    ValueError
        If `run` is no result, there is no such member, the matrices do not fit its tokens, or nothing can be written
        at `path`.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.RescaledAttention(af.Head.identity(2))
    >>> figure = summary(af.simulate(flow, af.initial.box(20, 2, rng=0), [0.0, 2.0, 5.0]))
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['z₂', 'clusters']
    """
    if path is not None:
        require_free_picture(path)
    one = one_run(run, member)
    if "tokens" not in one and observable_names(run):
        figure = draw_observables(run, member, title)
    else:
        drawn = titled(run_to_draw(run, member, title, distance), run, member, title)
        figure = _figure_of(drawn, _first_and_last(matrices, one.sizes["token"]), shown_measures(run, member, drawn))
    return save_and_return(figure, path)


def _figure_of(drawn: DrawnRun, matrices: dict[str, np.ndarray], measures: ShownMeasures) -> Figure:
    view, points = view_of(drawn), points_of(drawn)
    layout = _figure_with_columns if view.over_time else _figure_with_corner
    shown, note = _readable_matrices(matrices, measures)
    figure = layout(drawn, view, points, shown, measures)
    marks = [mark_centres(figure.axes[0], figure.axes[1], drawn, measures.centres)] if measures.centres else []
    notes = " ".join(part for part in (drawn.caption, measures.note, note) if part)
    finish(figure, replace(drawn, caption=notes), points, is_wide=True, marks=marks)
    return figure


def _readable_matrices(matrices: dict[str, np.ndarray], measures: ShownMeasures) -> tuple[dict[str, np.ndarray], str]:
    """The matrices with tokens in the order of their limits, without one that is constant, and a sentence on both."""
    is_constant = {heading: bool(np.ptp(matrix) < 1e-3 * matrix.max()) for heading, matrix in matrices.items()}
    kept = {heading: matrix for heading, matrix in matrices.items() if not is_constant[heading]}
    note = "".join(
        f"The {heading.replace(',', ' at the')} is the same for all pairs."
        for heading in matrices
        if is_constant[heading]
    )
    if measures.sorted_tokens is not None and kept:
        by_limit = np.ix_(measures.sorted_tokens, measures.sorted_tokens)
        kept = {heading: matrix[by_limit] for heading, matrix in kept.items()}
        note = f"{note} Attention is drawn with tokens in the order of their limits.".strip()
    return kept, note


def _figure_with_columns(
    drawn: DrawnRun, view: View, points: Points, shown: dict[str, np.ndarray], measures: ShownMeasures
) -> Figure:
    """Figure of columns: the picture, if any; two panels over time; the attention matrices."""
    widths = ([4.4] if view.picture else []) + [4.4 if view.picture else 7.2] + ([2.7] if shown else [])
    figure = new_figure(sum(widths), 5.6)
    columns = figure.add_gridspec(1, len(widths), width_ratios=widths)
    time_column = columns[1 if view.picture else 0].subgridspec(2, 1, height_ratios=[2.2, 1])
    draw_panels(figure, (columns[0], time_column[0]), drawn, view, points)
    figure.axes[1 if view.picture else 0].set_xlabel("")  # the panel below has the same times
    draw_measure(figure.add_subplot(time_column[1]), drawn, measures)
    if shown:
        _draw_attention(figure, columns[-1].subgridspec(len(shown), 1), shown)
    return figure


def _figure_with_corner(
    drawn: DrawnRun, view: View, points: Points, shown: dict[str, np.ndarray], measures: ShownMeasures
) -> Figure:
    """Figure with the picture on the left, the clusters over time on the right, and attention below them."""
    figure = new_figure(10.4 if shown else 9.0, 5.6 if shown else 5.0)
    columns = figure.add_gridspec(1, 2, width_ratios=[5.0, 4.6 if shown else 3.4])
    draw_panels(figure, (columns[0], None), drawn, view, points)
    rows = columns[1].subgridspec(2, 1, height_ratios=[1, 1.15]) if shown else [columns[1]]
    draw_measure(figure.add_subplot(rows[0]), drawn, measures)
    if shown:
        _draw_attention(figure, rows[1].subgridspec(1, len(shown)), shown)
    return figure


def _draw_attention(figure: Figure, places: Any, shown: dict[str, np.ndarray]) -> None:
    """Draw matrices on one colour scale, with one colour bar."""
    scale = colour_scale(np.stack(list(shown.values())))
    panels = [figure.add_subplot(place) for place in places]
    for axes, (heading, matrix) in zip(panels, shown.items(), strict=True):
        image = draw_matrix(axes, matrix, scale, heading)
        axes.label_outer()
    draw_bar(panels[-1], image)


def _first_and_last(matrices: Any, n: int) -> dict[str, np.ndarray]:
    """The first and the last matrix by their heading."""
    if matrices is None:
        return {}
    pair = {"attention, start": matrices[0], "attention, end": matrices[-1]}
    return {heading: _over_heads(matrix, n) for heading, matrix in pair.items() if matrix is not None}


def _over_heads(matrix: Any, n: int) -> np.ndarray:
    matrix = np.asarray(matrix, dtype=float)
    if matrix.ndim not in (2, 3) or matrix.shape[-2:] != (n, n):
        raise InputError(
            f"`matrices` must have shape (k, {n}, {n}) or (k, heads, {n}, {n}) for {n} tokens, "
            f"but one of them has shape {matrix.shape}."
        )
    return matrix if matrix.ndim == 2 else matrix.mean(axis=0)
