"""Scenes of runs in more than three dimensions, in two principal components."""

from dataclasses import replace

import xarray as xr

from attnflow.show.parts.drawn_run import run_to_draw
from attnflow.show.parts.projection import points_of
from attnflow.show.parts.scene import Scene

DOT_DISTANCE = 1e-3  # tokens closer than this in the plane share a larger dot; others may differ in other components


def principal_scene(run: xr.Dataset, *, distance: float | None = None) -> Scene:
    """Scene of a run in two principal components; tokens closer than `distance` at the end share a colour."""
    drawn = run_to_draw(run, distance=distance)
    points = points_of(drawn)
    drawn = replace(drawn, tokens=points.values, is_sphere=False, distance=DOT_DISTANCE)
    return Scene(drawn, is_to_scale=points.is_to_scale, names=points.names)
