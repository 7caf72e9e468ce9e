"""`steering`: tokens on their way to targets, and the pieces of the control under the time axis; movies of them."""

import os
from itertools import pairwise
from typing import Any, Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from attnflow._common.checks import InputError
from attnflow.results.provenance import flow_of
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.drawn_run import DrawnRun, run_to_draw
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.page import theme
from attnflow.show.parts.picture import HEADLINE, FunctionPanel, Picture, Title
from attnflow.show.parts.projection import points_of
from attnflow.show.parts.style import fix_ticks
from attnflow.show.parts.symbols import TIME_AXIS
from attnflow.show.parts.view3d import camera_of
from attnflow.show.runs.trajectories import legend_entries, view_of

BAR_CAPTION = "Fields of the bar: pieces of the control, in the colour of the cluster that moves; grey: several move."
CROSSES_CAPTION = "Crosses: targets."
BAR = (-0.13, 0.08)  # lower edge and height of the bar of pieces, as shares of the largest distance


@draws
def steering(
    run: Any, path: str | os.PathLike | None = None, *, title: Title = HEADLINE, **page: Unpack[PageOptions]
) -> Picture:
    """Draw tokens, their targets as crosses, and the distance of every token to its target over time.

    The bar under the curves has one field for each piece of the control, in the colour of the cluster that moves in
    it, grey where several move. Several prompts under one control are drawn together, in the colours of their
    last clusters. In more than three dimensions only the distances are drawn; distances over more than three decades
    have a logarithmic axis.

    Parameters
    ----------
    run
        A run with targets: `Steering.run`, `PromptMatching.run` or `SequenceInterpolation.run` of `attnflow.control`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of the headline, which states the number of pieces and the largest error; None: no title, no caption.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.control.steer(np.eye(3), -np.eye(3)[[1, 2, 0]], rng=0)
    >>> [axes.get_ylabel() for axes in af.show.steering(found.run).axes]
    ['', 'distance to the target']
    """
    del path, page, title  # `draws` acts on them
    if not has_targets(run):
        raise InputError("`run` must be a run with targets, as `Steering.run` of `attnflow.control` is.")
    prompts = run.sizes.get("run", 1)
    panels, drawn, error = control_panels(run)
    n, pieces = run.sizes["token"], len(piece_edges(run)) - 1
    words = f"{n} token{'s' if n > 1 else ''} to {n} target{'s' if n > 1 else ''}"
    words = f"{prompts} prompts of {n} tokens to their targets" if prompts > 1 else words
    headline = f"{words} in {pieces} piece{'s' if pieces > 1 else ''}: largest error {error:.1e}"
    return Picture(
        [PanelRow(panels, 4.45, widths=(1.0, 1.25) if len(panels) == 2 else ())],
        headline,
        f"{CROSSES_CAPTION} {BAR_CAPTION}" if len(panels) == 2 else BAR_CAPTION,
        10.5 if len(panels) == 2 else 6.4,
        legend=(lambda axes: legend_entries(drawn, axes)[:2]) if len(panels) == 2 else None,
    )


def control_panels(run: xr.Dataset) -> tuple[list[FunctionPanel], DrawnRun, float]:
    """Panels of a run with targets, the run as it is drawn, and the largest distance from a target at its end.

    The first panel has tokens and targets, in up to three dimensions; the last one has distances and pieces.
    """
    one = of_all_prompts(run)
    drawn, targets = run_to_draw(one), one.target.values
    distances = np.linalg.norm(one.tokens.values - targets, axis=-1)
    edges = piece_edges(run)
    panels = [FunctionPanel(lambda axes: _draw_distances(axes, drawn, distances, edges))]
    view = view_of(drawn)
    picture = view.picture
    if picture is not None and drawn.dimension <= 3:
        points = points_of(drawn)

        def draw_space(axes: Any) -> None:
            picture(axes, drawn, points)
            for artist in axes.get_children():
                if artist.get_label() == "hull":  # the hull of targets says nothing about a control
                    artist.remove()
            draw_targets(axes, drawn, targets)

        panels.insert(0, FunctionPanel(draw_space, view.projection))
    return panels, drawn, float(distances[-1].max())


def _draw_distances(axes: Axes, drawn: DrawnRun, distances: np.ndarray, edges: np.ndarray) -> None:
    """Draw the distances to the targets, and the bar of pieces under them."""
    top = float(distances.max()) or 1.0
    is_wide = top > 1000 * float(np.median(distances[0]) or top)
    # On a logarithmic axis what has arrived within a thousandth of the first distances is at the lower edge.
    floor = 1e-3 * float(np.median(distances[0])) if is_wide else 0.0
    for token, colour in enumerate(drawn.token_colours):
        axes.plot(drawn.times, np.maximum(distances[:, token], floor), color=colour, linewidth=1.2, clip_on=False)
    axes.set(xlabel=TIME_AXIS, ylabel="distance to the target", xlim=edges[[0, -1]])
    if is_wide:
        axes.set(yscale="log", ylim=(floor * (top / floor) ** (1.2 * BAR[0]), 2 * top))
    else:
        axes.set_ylim(1.2 * BAR[0] * top, 1.05 * top)
        axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= 1.05 * top])
    share = -1.2 * BAR[0] / (1.05 - 1.2 * BAR[0])  # of the height of the axes that is below zero
    draw_bar(axes, drawn, edges, (share * 0.15, share * BAR[1] / (-1.2 * BAR[0])), axes.get_xaxis_transform())
    fix_ticks(axes)


def has_targets(run: Any) -> bool:
    """Whether a dataset is a run of tokens over time with their targets."""
    return isinstance(run, xr.Dataset) and "target" in run and "tokens" in run and run.tokens.ndim in (3, 4)


def piece_edges(run: xr.Dataset) -> np.ndarray:
    """The first time, the times at which the weights change, and the last time."""
    first, last = float(run.time[0]), float(run.time[-1])
    return np.array([first, *flow_of(run).jumps(first, last), last])


def of_all_prompts(run: xr.Dataset) -> xr.Dataset:
    """The tokens of all prompts as those of one run, with the attributes of the dataset."""
    if "run" not in run.dims:
        return run
    joined = {}
    for name in ("tokens", "initial_tokens", "target"):
        order = [*(["time"] if "time" in run[name].dims else []), "run", "token", "coordinate"]
        values = run[name].transpose(*order).values
        kept = [dim for dim in order if dim != "run"]
        joined[name] = (kept, values.reshape(*values.shape[:-3], -1, values.shape[-1]))
    return xr.Dataset(joined, {"time": run.time.values}, {"flow": run.attrs["flow"]})


def draw_bar(axes: Axes, drawn: DrawnRun, edges: np.ndarray, heights: tuple[float, float], transform: Any) -> None:
    """Draw one field for each piece, from `heights[0]` and `heights[1]` high in the coordinates of `transform`."""
    spans = list(zip(edges[:-1], np.diff(edges), strict=True))
    colours = [_colour_of_piece(drawn, start, end) for start, end in pairwise(edges)]
    axes.broken_barh(spans, heights, facecolors=colours, edgecolor=theme().paper, linewidth=0.5, transform=transform)


def _colour_of_piece(drawn: DrawnRun, start: float, end: float) -> Any:
    """The colour of the only cluster that moves during a piece, grey where several move."""
    first, last = (int(np.argmin(np.abs(drawn.times - time))) for time in (start, end))
    moves = np.linalg.norm(drawn.tokens[last] - drawn.tokens[first], axis=-1)
    moving = np.flatnonzero(moves > 1e-6 * moves.max())  # rounding errors of tokens outside of a strip are 1e-16
    is_one = len(np.unique(drawn.labels[moving])) == 1
    colour: Any = drawn.token_colours[moving[0]] if is_one else theme().grey
    return to_rgba(colour)


def draw_targets(axes: Any, drawn: DrawnRun, targets: np.ndarray) -> None:
    """Draw crosses at the targets; on the globe those of the far side are faint."""
    style = {"marker": "x", "s": 46, "linewidths": 1.3, "zorder": 6}
    if drawn.is_sphere and drawn.dimension == 3:
        seen = targets @ camera_of(drawn.tokens[-1]).T
        axes.scatter(*seen[:, :2].T, c=drawn.token_colours, alpha=np.where(seen[:, 2] >= 0, 1.0, 0.35), **style)
    else:
        axes.scatter(*targets.T, c=drawn.token_colours, **style)
