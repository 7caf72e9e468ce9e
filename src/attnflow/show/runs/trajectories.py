"""`trajectories`: the paths of the tokens of a run."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from matplotlib.lines import Line2D

from attnflow._common.renamed import renamed_argument
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.drawn_run import DrawnRun, one_run, run_to_draw, with_headline
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.page import theme
from attnflow.show.parts.picture import HEADLINE, FunctionPanel, Picture, Title
from attnflow.show.parts.projection import Points, points_of
from attnflow.show.parts.style import colours
from attnflow.show.parts.view2d import draw_circle, draw_plane
from attnflow.show.parts.view3d import draw_globe, draw_space
from attnflow.show.runs.moments import moment_panels
from attnflow.show.runs.observables import observable_names, observables_picture
from attnflow.show.runs.over_time import draw_angles, draw_cosines, draw_positions

MOMENT_WIDTH = 2.9  # inches, of the panel of one time at the natural size
TIMES_PER_ROW = 4  # panels of single times in one row


@dataclass(frozen=True)
class View:
    """Panels of a run: a picture of the space, a quantity over time, or both."""

    picture: Callable | None
    over_time: Callable | None
    projection: str = "rectilinear"

    def panels(self, drawn: DrawnRun, points: Points) -> list[FunctionPanel]:
        """The panels of a run."""
        picture, over_time = self.picture, self.over_time
        kept = []
        if picture is not None:
            kept.append(FunctionPanel(lambda axes: picture(axes, drawn, points), self.projection))
        if over_time is not None:
            kept.append(FunctionPanel(lambda axes: over_time(axes, drawn)))
        return kept


def view_of(drawn: DrawnRun) -> View:
    """The view that suits the space and dimension of the tokens."""
    if drawn.dimension == 1:
        return View(None, draw_positions)
    if drawn.dimension == 2:
        return View(draw_circle, draw_angles) if drawn.is_sphere else View(draw_plane, None)
    if drawn.dimension == 3:
        return View(draw_globe, None) if drawn.is_sphere else View(draw_space, None, "3d")
    return View(draw_plane, draw_cosines)


@renamed_argument("runs", "member")
@draws
def trajectories(
    run: Any,
    path: str | os.PathLike | None = None,
    *,
    times: Sequence[float] | None = None,
    title: Title = HEADLINE,
    member: int | None = None,
    distance: float | None = None,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw the paths of the tokens, in the view that suits their space.

    Tokens on the line are drawn over time; in the plane and in space with the convex hull of the final tokens; on the
    circle with their angles over time; on the sphere as a globe whose far side is faint; in more dimensions by two
    principal components and the cosines between tokens over time. Hollow dots are the start, filled dots the end,
    coloured by final cluster. Tokens of `EuclideanAttention` that grew more than fifty times are divided by the
    largest norm at each time. If the tokens were not kept, the observables are drawn instead.

    Parameters
    ----------
    run
        A dataset made by `simulate`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    times
        Times at which to draw the tokens, one panel each: the saved times nearest to them.
    title
        Instead of the headline, which states the model and the outcome of the run; None: no title and no caption.
    member
        Which run of an ensemble; by default the first.
    distance
        Tokens closer than this are one cluster; by default a hundredth of the largest initial norm.

    Returns
    -------
    A matplotlib figure that belongs to no window; with `ax`, the axes.

    Raises
    ------
    ValueError
        If `run` is no result, there is no such member or time, `ax` does not fit the panels, or nothing can be
        written at `path`.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2))
    >>> run = af.simulate(flow, af.initial.circle(5, rng=0), [0.0, 1.0, 2.0])
    >>> [axes.get_ylabel() for axes in trajectories(run).axes]
    ['$x_{2}$', 'angle']
    >>> figure = trajectories(run, times=[0, 2], size="column", title=None)
    >>> [axes.get_title(loc="left") for axes in figure.axes[:2]], float(figure.get_figwidth())
    (['$t$ = 0', '$t$ = 2'], 3.4)
    """
    one = one_run(run, member)
    if "tokens" not in one and observable_names(run) and times is None:
        return observables_picture(run, member)
    drawn = with_headline(run_to_draw(run, member, distance=distance), run, member)
    points = points_of(drawn)
    caption = f"{drawn.caption} {points.note}".strip()
    if times is not None:
        return _moments(drawn, times, caption)
    view = view_of(drawn)
    panels = view.panels(drawn, points)
    is_wide = len(panels) == 2
    width = 10.5 if is_wide else 6.4 if view.picture else 8.0
    return Picture(
        [PanelRow(panels, 4.45, is_square=view.picture is not None)],
        drawn.title,
        caption,
        width,
        legend=lambda axes: legend_entries(drawn, axes),
        is_legend_beside=not is_wide,
    )


def _moments(drawn: DrawnRun, times: Sequence[float], caption: str) -> Picture:
    """Picture with one panel for each of some times."""
    panels = moment_panels(drawn, times)
    rows = [panels[first : first + TIMES_PER_ROW] for first in range(0, len(panels), TIMES_PER_ROW)]
    least = 2.6 if panels[0].projection == "3d" else 1.5
    return Picture(
        [PanelRow(row, MOMENT_WIDTH, least, is_square=True) for row in rows],
        drawn.title,
        caption,
        0.3 + MOMENT_WIDTH * max(len(rows[0]), 2),
        legend=lambda axes: legend_entries(drawn, axes),
    )


def legend_entries(drawn: DrawnRun, axes: Sequence[Any]) -> list[Line2D]:
    """Entries of the legend: start, end, the hull where one is drawn, and the clusters of up to eight colours."""
    grey = theme().grey
    dot = {"marker": "o", "linestyle": "none", "markersize": 6}
    handles = [
        Line2D([], [], **dot, markerfacecolor="none", markeredgecolor=grey, label="start"),
        Line2D([], [], **dot, color=grey, label="end"),
    ]
    if any(artist.get_label() == "hull" for one in axes for artist in one.get_children()):
        handles.append(Line2D([], [], color=grey, linewidth=0.9, label="final hull"))
    sizes = drawn.cluster_sizes
    if len(sizes) > 8:  # more colours cannot be told apart in a legend
        return handles
    words = [f"{size} token{'' if size == 1 else 's'}" for size in sizes]
    return handles + [
        Line2D([], [], **dot, color=colour, label=word) for colour, word in zip(colours(len(sizes)), words, strict=True)
    ]
