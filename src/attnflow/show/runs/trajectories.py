"""`trajectories`: the paths of the tokens of a run."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attnflow._common.renamed import renamed_argument
from attnflow.show.parts.drawn_run import DrawnRun, one_run, run_to_draw, titled
from attnflow.show.parts.projection import Points, points_of
from attnflow.show.parts.style import (
    GREY,
    colours,
    in_house_style,
    new_figure,
    require_free_picture,
    save_and_return,
    write_heading,
)
from attnflow.show.parts.view2d import draw_circle, draw_plane
from attnflow.show.parts.view3d import draw_globe, draw_space
from attnflow.show.runs.observables import draw_observables, observable_names
from attnflow.show.runs.over_time import draw_angles, draw_cosines, draw_positions

LEGEND_COLUMN = 1.05  # inches


@dataclass(frozen=True)
class View:
    """Panels of a run: a picture of the space, a quantity over time, or both."""

    picture: Callable | None
    over_time: Callable | None
    projection: str = "rectilinear"


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
@in_house_style()
def trajectories(
    run: Any,
    path: str | os.PathLike | None = None,
    *,
    title: str | None = None,
    member: int = 0,
    distance: float | None = None,
) -> Figure:
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
        If `run` is no result, there is no such member, or nothing can be written at `path`.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2))
    >>> figure = trajectories(af.simulate(flow, af.initial.circle(5, rng=0), [0.0, 1.0, 2.0]))
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['x₂', 'angle']
    """
    if path is not None:
        require_free_picture(path)
    return save_and_return(_figure_of(run, title, member, distance), path)


def _figure_of(run: Any, title: str | None, member: int, distance: float | None) -> Figure:
    one = one_run(run, member)
    if "tokens" not in one and observable_names(run):
        return draw_observables(run, member, title)
    drawn = titled(run_to_draw(run, member, title, distance), run, member, title)
    view, points = view_of(drawn), points_of(drawn)
    panels = [panel for panel in (view.picture, view.over_time) if panel is not None]
    width = {1: 6.4 if view.picture else 8.0, 2: 10.5}[len(panels)]
    figure = new_figure(width, 5.2)
    grid = figure.add_gridspec(1, len(panels))
    draw_panels(figure, (grid[0], grid[-1]), drawn, view, points)
    finish(figure, drawn, points, is_wide=len(panels) == 2)
    return figure


def draw_panels(figure: Figure, places: tuple[Any, Any], drawn: DrawnRun, view: View, points: Points) -> None:
    """Draw the panels of a view: its picture in the first place, its quantity over time in the second."""
    if view.picture is not None:
        view.picture(figure.add_subplot(places[0], projection=view.projection), drawn, points)
    if view.over_time is not None:
        view.over_time(figure.add_subplot(places[1]), drawn)


def finish(figure: Figure, drawn: DrawnRun, points: Points, *, is_wide: bool, marks: Sequence[Line2D] = ()) -> None:
    """Add legend, title and caption; the legend of a wide figure stands below, beside the caption.

    `marks` are further entries of the legend.
    """
    labels = {artist.get_label() for axes in figure.axes for artist in axes.get_children()}
    handles = [*_handles(drawn, "hull" in labels), *marks]
    columns = len(handles) if len(handles) <= 4 else -(-len(handles) // 2)
    if is_wide:
        figure.legend(handles=handles, loc="outside lower right", ncols=columns, columnspacing=1.2, handletextpad=0.4)
    else:
        figure.legend(handles=handles, loc="outside right upper")
    room = {"below": LEGEND_COLUMN * columns} if is_wide else {"beside": 1.5 * LEGEND_COLUMN}
    write_heading(figure, drawn.title, f"{drawn.caption} {points.note}".strip(), **room)


def _handles(drawn: DrawnRun, has_hull: bool) -> list[Line2D]:
    dot = {"marker": "o", "linestyle": "none", "markersize": 6}
    handles = [
        Line2D([], [], **dot, markerfacecolor="none", markeredgecolor=GREY, label="start"),
        Line2D([], [], **dot, color=GREY, label="end"),
    ]
    if has_hull:
        handles.append(Line2D([], [], color=GREY, linewidth=0.9, label="final hull"))
    sizes = drawn.cluster_sizes
    if len(sizes) > 8:  # more colours cannot be told apart in a legend
        return handles
    words = [f"{size} token{'' if size == 1 else 's'}" for size in sizes]
    return handles + [
        Line2D([], [], **dot, color=colour, label=word) for colour, word in zip(colours(len(sizes)), words, strict=True)
    ]
