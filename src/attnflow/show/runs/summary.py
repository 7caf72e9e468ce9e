"""`summary`: trajectories, cluster counts and attention of a run in one figure; of an ensemble, its distribution."""

import os
from typing import Any, Unpack

import numpy as np

from attnflow._common.checks import InputError
from attnflow._common.renamed import renamed_argument
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.drawn_run import DrawnRun, one_run, recorded_flow, run_to_draw, with_headline
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.matrix import MatrixInRow, colour_scale
from attnflow.show.parts.picture import HEADLINE, FunctionPanel, Picture, Title
from attnflow.show.parts.projection import points_of
from attnflow.show.parts.view3d import camera_of
from attnflow.show.runs.characteristics import characteristic_panel
from attnflow.show.runs.claims import ShownMeasures, draw_measure, mark_centres, mark_first_token, shown_measures
from attnflow.show.runs.ensembles import ensemble_picture, failed_runs
from attnflow.show.runs.observables import observable_names, observables_picture
from attnflow.show.runs.trajectories import View, legend_entries, view_of


@renamed_argument("runs", "member")
@draws
def summary(
    run: Any,
    path: str | os.PathLike | None = None,
    title: Title = HEADLINE,
    *,
    matrices: Any = None,
    member: int | None = None,
    distance: float | None = None,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw the trajectories of a run, the measure that decides what it shows, and attention at start and end.

    On the sphere a further panel shows what distinguishes a model from softmax attention with one head, where there is
    room: attention of each head, attention received (Sinkhorn), energy (gradient flows), speed (layer normalisation).

    The measure is the number of clusters over time; where all tokens on the sphere meet in one point, 1 - cosine of the
    two tokens farthest apart with its rate; with noise, the length of the mean of the tokens.

    Of an ensemble, the distribution over its runs is drawn: mean and quantiles of measures over time, and histograms of
    the number of clusters at the end and of the times at which runs stopped.

    Parameters
    ----------
    run
        A dataset made by `simulate`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of the headline, which states the model and the outcome of the run; None: no title and no caption.
    matrices
        Attention matrices of the run, (k, n, n) or (k, heads, n, n): the first and the last are drawn, as means over
        heads. An entry None is left out.
    member
        A single run of an ensemble instead of all.
    distance
        Tokens closer than this are one cluster; by default a hundredth of the largest initial norm.

    Returns
    -------
    A matplotlib figure that belongs to no window; with `ax`, the axes.

    Raises
    ------
    ValueError
        If `run` is no result, there is no such member, the matrices do not fit its tokens or are given for all runs
        of an ensemble, or nothing can be written at `path`.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.RescaledAttention(af.Head.identity(2))
    >>> figure = summary(af.simulate(flow, af.initial.box(20, 2, rng=0), [0.0, 2.0, 5.0]))
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['$z_{2}$', 'clusters']
    """
    one = one_run(run, member)
    if member is None and run.sizes.get("run", 1) > 1 and not failed_runs(run).all():
        if matrices is not None:
            raise InputError("`matrices` are those of one run, but `run` holds several. Choose one with `member`.")
        return ensemble_picture(run, distance)
    if "tokens" not in one and observable_names(run):
        return observables_picture(run, member)
    drawn = with_headline(run_to_draw(run, member, distance=distance), run, member)
    pair = _first_and_last(matrices, one.sizes["token"])
    return _picture_of(drawn, pair, shown_measures(run, member, drawn), _further_panel(run, drawn, matrices))


def _further_panel(run: Any, drawn: DrawnRun, matrices: Any) -> FunctionPanel | None:
    """Panel of what distinguishes the model, of a run whose tokens are followed."""
    if not drawn.is_followed or drawn.words or len(drawn.times) < 2:
        return None
    first = None if matrices is None or matrices[0] is None else np.asarray(matrices[0], dtype=float)
    return characteristic_panel(recorded_flow(run), drawn, first)


def _picture_of(
    drawn: DrawnRun, matrices: dict[str, np.ndarray], measures: ShownMeasures, further: FunctionPanel | None
) -> Picture:
    view, points = view_of(drawn), points_of(drawn)
    shown, note = _readable_matrices(matrices, measures)
    small = [*(_attention_panels(shown) if shown else []), *([further] if further and len(shown) < 2 else [])]
    panels = view.panels(drawn, points)
    measure = FunctionPanel(lambda axes: draw_measure(axes, drawn, measures))
    is_picture = [view.picture is not None, False]
    rows = [PanelRow([panel], 4.0, is_square=square) for panel, square in zip(panels, is_picture, strict=False)]
    rows.append(PanelRow([measure], 2.6))
    rows += [PanelRow(small, 2.6, 1.5, is_square=True)] if small else []
    notes = " ".join(part for part in (drawn.caption, measures.note, note, points.note) if part)
    width, height = _natural_size(view, len(small))
    marks = []

    def complete(axes: Any) -> None:
        if measures.centres:
            marks.append(mark_centres(axes[0], axes[1], drawn, measures.centres))
        if measures.first_token is not None and drawn.dimension == 3:
            marks.append(mark_first_token(axes[0], measures.first_token, camera_of(drawn.tokens[-1])))

    return Picture(
        rows,
        drawn.title,
        notes,
        width,
        height,
        complete=complete,
        legend=lambda axes: [*legend_entries(drawn, axes), *marks],
        placing=lambda place: _places(place, view, len(small)),
    )


def _natural_size(view: View, small: int) -> tuple[float, float]:
    """Width and height in inches, of `_places`."""
    if view.over_time is None:
        return (10.4, 5.6) if small else (9.0, 5.0)
    return (4.4 if view.picture else 0.0) + (4.4 if view.picture else 7.2) + (2.7 if small else 0.0), 5.6


def _places(place: Any, view: View, small: int) -> list[Any]:
    """Places of the panels of a view, of the measure and of the small panels, such as attention matrices.

    With a quantity over time: columns of the picture, if any; the two panels over time; the small panels. Without:
    the picture on the left, the measure on the right and the small panels below it.
    """
    if view.over_time is None:
        columns = place.subgridspec(1, 2, width_ratios=[5.0, 4.6 if small else 3.4])
        rows = columns[1].subgridspec(2, 1, height_ratios=[1, 1.15]) if small else [columns[1]]
        below = rows[1].subgridspec(1, small) if small else []
        return [columns[0], rows[0], *(below[index] for index in range(small))]
    widths = ([4.4] if view.picture else []) + [4.4 if view.picture else 7.2] + ([2.7] if small else [])
    columns = place.subgridspec(1, len(widths), width_ratios=widths)
    over_time = columns[1 if view.picture else 0].subgridspec(2, 1, height_ratios=[2.2, 1])
    right = columns[len(widths) - 1].subgridspec(small, 1) if small else []
    pictures = [columns[0]] if view.picture else []
    return [*pictures, over_time[0], over_time[1], *(right[index] for index in range(small))]


def _attention_panels(shown: dict[str, np.ndarray]) -> list[MatrixInRow]:
    """Panels of matrices on one colour scale, the last with a colour bar."""
    scale = colour_scale(np.stack(list(shown.values())))
    last = list(shown)[-1]
    return [MatrixInRow(matrix, heading, scale, has_bar=heading == last) for heading, matrix in shown.items()]


def _readable_matrices(matrices: dict[str, np.ndarray], measures: ShownMeasures) -> tuple[dict[str, np.ndarray], str]:
    """The matrices with tokens in the order of `measures`, without one that is constant, and a sentence on both."""
    is_constant = {heading: bool(np.ptp(matrix) < 1e-3 * matrix.max()) for heading, matrix in matrices.items()}
    kept = {heading: matrix for heading, matrix in matrices.items() if not is_constant[heading]}
    note = " ".join(
        f"The {heading.replace(',', ' at the')} is the same for all pairs."
        for heading in matrices
        if is_constant[heading]
    )
    if measures.sorted_tokens is not None and kept:
        in_order = np.ix_(measures.sorted_tokens, measures.sorted_tokens)
        kept = {heading: matrix[in_order] for heading, matrix in kept.items()}
        note = f"{note} Attention is drawn with tokens in the order of their {measures.sorted_by}.".strip()
    return kept, note


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
