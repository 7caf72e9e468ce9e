"""`steering`: tokens on their way to targets, and the pieces of the control under the time axis."""

import os
from itertools import pairwise
from typing import Any, Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

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

BAR = (-0.13, 0.08)  # lower edge and height of the bar of pieces, as shares of the largest distance


@draws
def steering(
    run: Any, path: str | os.PathLike | None = None, *, title: Title = HEADLINE, **page: Unpack[PageOptions]
) -> Picture:
    """Draw tokens, their targets as crosses, and the distance of every token to its target over time.

    The bar under the curves has one field for each piece of the control, in the colour of the token that moves most in
    it. In more than three dimensions only the distances are drawn.

    Parameters
    ----------
    run
        A run with targets: `Steering.run` of `attnflow.control`.
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
    if not isinstance(run, xr.Dataset) or "target" not in run or "tokens" not in run or run.tokens.ndim != 3:
        raise InputError("`run` must be a run with targets, as `Steering.run` of `attnflow.control` is.")
    drawn, targets = run_to_draw(run), run.target.values
    distances = np.linalg.norm(run.tokens.values - targets, axis=-1)
    switches = flow_of(run).jumps(drawn.times[0], drawn.times[-1])
    edges = np.concatenate([drawn.times[:1], switches, drawn.times[-1:]])
    panels = [FunctionPanel(lambda axes: _draw_distances(axes, drawn, distances, edges))]
    view = view_of(drawn)
    picture = view.picture
    if picture is not None and drawn.dimension <= 3:
        points = points_of(drawn)

        def draw_space(axes: Any) -> None:
            picture(axes, drawn, points)
            _draw_targets(axes, drawn, targets)

        panels.insert(0, FunctionPanel(draw_space, view.projection))
    n, pieces = len(targets), len(edges) - 1
    words = f"{n} token{'s' if n > 1 else ''} to {n} target{'s' if n > 1 else ''}"
    headline = f"{words} in {pieces} piece{'s' if pieces > 1 else ''}: largest error {distances[-1].max():.1e}"
    return Picture(
        [PanelRow(panels, 4.45, widths=(1.0, 1.25) if len(panels) == 2 else ())],
        headline,
        "Crosses: targets. Fields of the bar: pieces of the control, in the colour of the token that moves most.",
        10.5 if len(panels) == 2 else 6.4,
        legend=lambda axes: legend_entries(drawn, axes)[:2],
    )


def _draw_distances(axes: Axes, drawn: DrawnRun, distances: np.ndarray, edges: np.ndarray) -> None:
    """Draw the distances to the targets, and the bar of pieces below zero."""
    top = float(distances.max()) or 1.0
    for token, colour in enumerate(drawn.token_colours):
        axes.plot(drawn.times, distances[:, token], color=colour, linewidth=1.2, clip_on=False)
    moving = [_moving(drawn, start, end) for start, end in pairwise(edges)]
    spans = list(zip(edges[:-1], np.diff(edges), strict=True))
    colours = drawn.token_colours[moving]
    axes.broken_barh(spans, (BAR[0] * top, BAR[1] * top), facecolors=colours, edgecolor=theme().paper, linewidth=0.5)
    axes.set(
        xlabel=TIME_AXIS, ylabel="distance to the target", xlim=edges[[0, -1]], ylim=(1.2 * BAR[0] * top, 1.05 * top)
    )
    axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= 1.05 * top])
    fix_ticks(axes)


def _moving(drawn: DrawnRun, start: float, end: float) -> int:
    """The token whose places at the ends of a piece differ most."""
    first, last = (int(np.argmin(np.abs(drawn.times - time))) for time in (start, end))
    return int(np.argmax(np.linalg.norm(drawn.tokens[last] - drawn.tokens[first], axis=-1)))


def _draw_targets(axes: Any, drawn: DrawnRun, targets: np.ndarray) -> None:
    """Draw crosses at the targets; on the globe those of the far side are faint."""
    style = {"marker": "x", "s": 46, "linewidths": 1.3, "zorder": 6}
    if drawn.is_sphere and drawn.dimension == 3:
        seen = targets @ camera_of(drawn.tokens[-1]).T
        axes.scatter(*seen[:, :2].T, c=drawn.token_colours, alpha=np.where(seen[:, 2] >= 0, 1.0, 0.35), **style)
    else:
        axes.scatter(*targets.T, c=drawn.token_colours, **style)
