"""`movie`: the tokens of a run as they move, as MP4 or GIF."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.patches import Circle

from attnflow.results.run_dataset import PROMPT
from attnflow.show.parts.animation import Movie, require_movie_path, save_movie
from attnflow.show.parts.drawn_run import DrawnRun, run_to_draw
from attnflow.show.parts.principal_components import ONE_DOT
from attnflow.show.parts.projection import points_of
from attnflow.show.parts.scene import FLAT_VIEW, Scene, Snapshot
from attnflow.show.parts.sphere_panel import SpherePanel
from attnflow.show.parts.style import PALE, in_house_style, new_figure, write_heading
from attnflow.show.parts.view3d import camera_of

Draw = Callable[[Any, int, str, float], None]
MOST_FRAMES = 90
TURN = 40.0  # degrees, in space


def movie(
    run: Any,
    path: str | os.PathLike,
    *,
    title: str | None = None,
    runs: int = 0,
    distance: float | None = None,
) -> Path:
    """Write how the tokens move, in the view that suits their space.

    The sphere is a globe whose far side is faint; space turns a little; more than three dimensions are seen
    through two principal components, with the words of a prompt beside its tokens; tokens on the line stand above
    each other. Colours are those of the last clusters. A result of `coalesce` goes by the logarithm of time; a
    prompt's tokens go straight from layer to layer.

    Parameters
    ----------
    run
        A dataset made by `simulate`, `coalesce`, or a trained model's `trajectory`.
    path
        ``.mp4`` (needs the extra [video]) or ``.gif``; an older file is replaced.
    title
        Instead of the name of the model.
    runs
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
    clock = _clock_of(run)
    drawn = run_to_draw(_over_time(run), runs, None, distance)
    return save_movie(_movie_of(drawn, title or drawn.title.partition("\n")[0], clock), path)


def _clock_of(run: Any) -> str:
    """What stands before the time."""
    if not isinstance(run, xr.Dataset):
        return "t"
    return "log t" if "state" in run.dims else "layer" if run.attrs.get("kind") == PROMPT else "t"


def _over_time(run: Any) -> Any:
    """What is shown: a result of `coalesce` by the logarithm of time; a prompt with pictures between two layers."""
    if not isinstance(run, xr.Dataset) or _clock_of(run) == "t":
        return run
    if _clock_of(run) == "layer":
        return _between_layers(run)
    kept = run[["tokens", "initial_tokens"]].isel(state=np.isfinite(run.log_time.values))
    return kept.rename(state="time").assign_coords(time=kept.log_time.values).drop_vars("log_time")


def _between_layers(run: xr.Dataset) -> xr.Dataset:
    """Straight from one layer to the next, for the eye: nothing is computed there."""
    layers = run.sizes["time"] - 1
    times = np.linspace(0, layers, layers * max((MOST_FRAMES - 1) // max(layers, 1), 1) + 1)
    return run[["tokens", "initial_tokens"]].interp(time=times)


@in_house_style()
def _movie_of(drawn: DrawnRun, title: str, clock: str) -> Movie:
    figure = new_figure(5.0, 5.2)
    draw, projection = _view_of(drawn)
    axes = figure.add_subplot(projection=projection)
    write_heading(figure, title, drawn.caption)
    places = drawn.times_of_interest(MOST_FRAMES)

    def show_frame(frame: int) -> None:
        place = int(places[frame])
        axes.clear()
        draw(axes, place, f"{clock} = {drawn.times[place]:.3g}", frame / max(len(places) - 1, 1))

    return Movie(figure, len(places), show_frame)


def _view_of(drawn: DrawnRun) -> tuple[Draw, str]:
    """Function that draws one saved time into axes, given its title and the share of the movie that is over."""
    if drawn.is_sphere and drawn.dimension == 3:
        camera = camera_of(drawn.tokens[-1])
        return lambda axes, place, title, _: SpherePanel(drawn, place, title, camera=camera).draw(axes), FLAT_VIEW
    scene = _scene_of(drawn)

    def draw(axes: Any, place: int, title: str, share: float) -> None:
        Snapshot(scene, place, title, azimuth=-55 + TURN * share).draw(axes)
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
        drawn = replace(drawn, tokens=points.values, is_sphere=False, distance=ONE_DOT)
        return Scene(drawn, is_to_scale=points.is_to_scale, names=points.names, words=drawn.words)
    return Scene(drawn, has_hull=not drawn.is_sphere)
