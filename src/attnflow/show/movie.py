"""`movie`: the tokens of a run as they move, as MP4 or GIF."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from attnflow.show.globes import globe_movie
from attnflow.show.motion import Motion, motion_of
from attnflow.show.movies import Movie, require_movie_path, save_movie
from attnflow.show.projection import points_of
from attnflow.show.scenes import Scene, scene_movie

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
    through two principal components; tokens on the line stand above each other. Colours are those of the last
    clusters. A result of `coalesce` goes by the logarithm of time.

    Parameters
    ----------
    run
        A dataset made by `simulate` or `coalesce`.
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
    return save_movie(_movie_of(motion_of(_over_time(run), runs, None, distance), title), path)


def _over_time(run: Any) -> Any:
    """A result of `coalesce` with the logarithm of time as its time."""
    if not isinstance(run, xr.Dataset) or "state" not in run.dims:
        return run
    kept = run[["tokens", "initial_tokens"]].isel(state=np.isfinite(run.log_time.values))
    return kept.rename(state="time").assign_coords(time=kept.log_time.values).drop_vars("log_time")


def _movie_of(motion: Motion, title: str | None) -> Movie:
    title = title or motion.title.partition("\n")[0]
    if motion.is_sphere and motion.dimension == 3:
        return globe_movie(motion, title, motion.caption, most=MOST_FRAMES)
    return scene_movie(_scene_of(motion), title, motion.caption, most=MOST_FRAMES, turns=TURN)


def _scene_of(motion: Motion) -> Scene:
    if motion.dimension == 1:
        heights = np.broadcast_to(-np.arange(float(motion.tokens.shape[1]))[:, None], motion.tokens.shape)
        return Scene(replace(motion, tokens=np.concatenate([motion.tokens, heights], axis=-1)), is_to_scale=False)
    if motion.dimension > 3:
        points = points_of(motion)
        return Scene(replace(motion, tokens=points.values, is_sphere=False), is_to_scale=points.is_to_scale)
    return Scene(motion, has_hull=not motion.is_sphere)
