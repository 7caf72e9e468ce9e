"""Runs in many dimensions as scenes: the two principal components that `trajectories` draws, at every time."""

from dataclasses import replace

import numpy as np
import xarray as xr

from attnflow.show.parts.animation import Movie
from attnflow.show.parts.drawn_run import run_to_draw
from attnflow.show.parts.projection import points_of
from attnflow.show.parts.scene import Scene, scene_movie

ONE_DOT = 1e-3  # tokens this close in the plane have met; farther ones may only stand behind each other


def principal_scene(run: xr.Dataset, *, distance: float | None = None) -> Scene:
    """The scene of a run in the plane of its principal components; tokens closer than `distance` share a colour."""
    drawn = run_to_draw(run, 0, None, distance)
    points = points_of(drawn)
    drawn = replace(drawn, tokens=points.values, is_sphere=False, distance=ONE_DOT)
    return Scene(drawn, is_to_scale=points.is_to_scale)


def principal_movie(run: xr.Dataset, title: str, *, until: float = np.inf) -> Movie:
    """Tokens moving in the plane of their principal components, up to a time."""
    scene = principal_scene(run)
    return scene_movie(scene, title, scene.drawn.caption, until=until)
