"""`movie`: the moving tokens of a run, as MP4 or GIF."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.patches import Circle

from attnflow._common.renamed import renamed_argument
from attnflow.results.provenance import ResultKind, kind_of
from attnflow.show.parts.animation import Movie, require_movie_path, save_movie
from attnflow.show.parts.drawn_run import DrawnRun, default_title, run_to_draw
from attnflow.show.parts.principal_components import DOT_DISTANCE
from attnflow.show.parts.projection import points_of
from attnflow.show.parts.scene import FLAT_VIEW, Scene, Snapshot
from attnflow.show.parts.sphere_panel import SpherePanel
from attnflow.show.parts.style import PALE, in_house_style, new_figure, write_heading
from attnflow.show.parts.view3d import camera_of

Draw = Callable[[Any, int, str, float], None]
MOST_FRAMES = 90  # between four and five seconds


@renamed_argument("runs", "member")
def movie(
    run: Any,
    path: str | os.PathLike,
    *,
    title: str | None = None,
    member: int = 0,
    distance: float | None = None,
) -> Path:
    """Write a movie of the moving tokens, in the view that suits their space.

    The sphere is drawn as a globe whose far side is faint; the view of R^3 rotates slowly; more than three dimensions
    are drawn in two principal components, with the words of a prompt beside its tokens; tokens on the line are drawn
    above each other. Colours are those of the last clusters. A result of `coalesce` is shown over the logarithm of
    time; the tokens of a prompt move in straight lines from layer to layer.

    Parameters
    ----------
    run
        A dataset made by `simulate`, `coalesce`, or a trained model's `trajectory`.
    path
        ``.mp4`` (needs the extra [video]) or ``.gif``; an older file is replaced.
    title
        Instead of the name of the model.
    member
        Which run of an ensemble.
    distance
        Tokens closer than this are one cluster.

    Returns
    -------
    The path.

    Raises
    ------
    ValueError
        If `run` is no result, or no movie can be written at `path`.
    """
    path = require_movie_path(path)
    drawn = run_to_draw(_over_time(run), member, None, distance)
    return save_movie(_movie_of(drawn, title or default_title(run), _time_name(run)), path)


def _time_name(run: Any) -> str:
    """Name of the time of a run: t, log t or layer."""
    if not isinstance(run, xr.Dataset):
        return "t"
    return "log t" if "state" in run.dims else "layer" if kind_of(run) is ResultKind.PROMPT else "t"


def _over_time(run: Any) -> Any:
    """The run over the time of the movie: log t for a result of `coalesce`, points between layers for a prompt."""
    if not isinstance(run, xr.Dataset) or _time_name(run) == "t":
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


@in_house_style()
def _movie_of(drawn: DrawnRun, title: str, time_name: str) -> Movie:
    figure = new_figure(5.0, 5.2)
    draw, projection = _view_of(drawn)
    axes = figure.add_subplot(projection=projection)
    write_heading(figure, title, drawn.caption)
    indices = drawn.times_of_interest(MOST_FRAMES)

    def show_frame(frame: int) -> None:
        index = int(indices[frame])
        axes.clear()
        draw(axes, index, f"{time_name} = {drawn.times[index]:.3g}", frame / max(len(indices) - 1, 1))

    return Movie(figure, len(indices), show_frame)


def _view_of(drawn: DrawnRun) -> tuple[Draw, str]:
    """Function that draws one saved time into axes, given its title and the share of the movie that is over."""
    if drawn.is_sphere and drawn.dimension == 3:
        camera = camera_of(drawn.tokens[-1])
        return lambda axes, index, title, _: SpherePanel(drawn, index, title, camera=camera).draw(axes), FLAT_VIEW
    scene = _scene_of(drawn)

    def draw(axes: Any, index: int, title: str, share: float) -> None:
        Snapshot(scene, index, title, azimuth=-55 + 40 * share).draw(axes)  # degrees, in space
        if drawn.dimension == 1:
            axes.set(ylabel="token", yticks=[])
        if drawn.dimension == 2 and drawn.is_sphere:
            axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=PALE, linewidth=1.2, zorder=0))

    return draw, scene.projection


def _scene_of(drawn: DrawnRun) -> Scene:
    if drawn.dimension == 1:
        heights = np.broadcast_to(-np.arange(float(drawn.tokens.shape[1]))[:, None], drawn.tokens.shape)
        return Scene(replace(drawn, tokens=np.concatenate([drawn.tokens, heights], axis=-1)), is_to_scale=False)
    if drawn.dimension > 3:
        points = points_of(drawn)
        drawn = replace(drawn, tokens=points.values, is_sphere=False, distance=DOT_DISTANCE)
        return Scene(drawn, is_to_scale=points.is_to_scale, names=points.names, words=drawn.words)
    return Scene(drawn, has_hull=not drawn.is_sphere and not drawn.subspaces, subspaces=drawn.subspaces)
