"""`movie`: the moving tokens of a run, as MP4 or GIF."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.renamed import renamed_argument
from attnflow.results.provenance import ResultKind, kind_of
from attnflow.show.parts.animation import MOST_FRAMES, Movie, require_movie_path, save_movie
from attnflow.show.parts.drawn_run import DrawnRun, default_title, run_to_draw
from attnflow.show.parts.mark_sizes import scale_marks
from attnflow.show.parts.page import current_page, drawing_on, page_of
from attnflow.show.parts.picture import HEADLINE, Heading, Title
from attnflow.show.parts.style import new_figure, write_heading
from attnflow.show.runs.moments import moment_maker
from attnflow.show.runs.steering import has_targets
from attnflow.show.runs.steering_movie import steering_movie
from attnflow.show.theory.density_movie import density_movie


@renamed_argument("runs", "member")
def movie(
    run: Any,
    path: str | os.PathLike,
    *,
    title: Title = HEADLINE,
    member: int | None = None,
    distance: float | None = None,
    size: str | tuple[float, float] | None = None,
    style: str | None = None,
    palette: Any = None,
) -> Path:
    """Write a movie of the moving tokens, in the view that suits their space.

    The sphere is drawn as a globe whose far side is faint; the view of R^3 rotates slowly; more than three dimensions
    are drawn in two principal components, with the words of a prompt beside its tokens; tokens on the line are drawn
    above each other. Colours are those of the last clusters. A result of `coalesce` is shown over the logarithm of
    time; the tokens of a prompt move in straight lines from layer to layer. A result of `mean_field.evolve` is shown as
    its density, a curve or a map. A run of `attnflow.control` has its targets as crosses, and the pieces of the control
    as a bar with a mark at the time.

    Parameters
    ----------
    run
        A dataset made by `simulate`, `coalesce`, `mean_field.evolve`, or a trained model's `trajectory`.
    path
        ``.mp4`` (needs the extra [video]) or ``.gif``; an older file is replaced.
    title
        Instead of the name of the model; None: no title and no caption.
    member
        Which run of an ensemble; by default the first.
    distance
        Tokens closer than this are one cluster.
    size
        ``"column"`` (3.4 inches wide), ``"page"`` (7), ``"slide"`` (13.33 by 7.5), or (width, height) in inches. An
        inch has 200 dots, 100 where the movie is wider than 10 inches. By default 500 by 520 dots.
    style
        ``"paper"``, ``"slides"`` or ``"dark"``; by default that of the size.
    palette
        A colormap of matplotlib by its name, or a list of colours.

    Returns
    -------
    The path.

    Raises
    ------
    ValueError
        If `run` is no result, there is no such size, style or palette, or no movie can be written at `path`.

    Examples
    --------
    >>> import tempfile
    >>> import attnflow as af
    >>> run = af.simulate(af.SphereAttention(af.Head.identity(2)), af.initial.circle(5, rng=0), [0.0, 1.0, 2.0])
    >>> movie(run, Path(tempfile.mkdtemp(), "circle.gif"), style="dark", title=None).name
    'circle.gif'
    """
    path, page = require_movie_path(path), page_of(size, style, palette)
    if kind_of(run) is ResultKind.DENSITY:
        with drawing_on(page):
            return save_movie(density_movie(run, title), path)
    if has_targets(run) and member is None:
        with drawing_on(page):
            return save_movie(steering_movie(run, title), path)
    drawn = run_to_draw(_over_time(run), member, distance=distance)
    shown = default_title(run) if isinstance(title, Heading) else title
    with drawing_on(page):
        return save_movie(_movie_of(drawn, shown, _time_name(run)), path)


def _time_name(run: Any) -> str:
    """Name of the time of a run: t, log t or layer."""
    if not isinstance(run, xr.Dataset):
        return "$t$"
    return "$\\log\\,t$" if "state" in run.dims else "layer" if kind_of(run) is ResultKind.PROMPT else "$t$"


def _over_time(run: Any) -> Any:
    """The run over the time of the movie: log t for a result of `coalesce`, points between layers for a prompt."""
    if not isinstance(run, xr.Dataset) or _time_name(run) == "$t$":
        return run
    if _time_name(run) == "layer":
        return _between_layers(run)
    kept = run[["tokens", "initial_tokens"]].isel(state=np.isfinite(run.log_time.values))
    return kept.rename(state="time").assign_coords(time=kept.log_time.values).drop_vars("log_time")


def _between_layers(run: xr.Dataset) -> xr.Dataset:
    """Tokens interpolated linearly between layers, for a smooth movie only."""
    layers = run.sizes["time"] - 1
    times = np.linspace(0, layers, layers * max((MOST_FRAMES - 1) // max(layers, 1), 1) + 1)
    return run[["tokens", "initial_tokens"]].interp(time=times)


def _movie_of(drawn: DrawnRun, title: str | None, time_name: str) -> Movie:
    page = current_page()
    width = page.width or 5.0  # inches
    figure = new_figure(width, page.height or 1.04 * width)
    make = moment_maker(drawn)
    axes = figure.add_subplot(projection=make(0, "", 0.0).projection)
    if title is not None:
        write_heading(figure, title, drawn.caption)
    indices = drawn.times_of_interest(MOST_FRAMES)

    def show_frame(frame: int) -> None:
        index = int(indices[frame])
        axes.clear()
        azimuth = -55 + 40 * frame / max(len(indices) - 1, 1)  # degrees
        make(index, f"{time_name} = {drawn.times[index]:.3g}", azimuth).draw(axes)
        scale_marks([axes], page.scale)

    return Movie(figure, len(indices), show_frame)
