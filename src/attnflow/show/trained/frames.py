"""`frames`: the tokens of a prompt through the layers, as they are and in frames that move with V, S and A."""

import os
from dataclasses import replace
from typing import Unpack

import numpy as np
import xarray as xr

from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.panels import Line, panel_picture
from attnflow.show.parts.picture import HEADLINE, Picture, Title
from attnflow.show.parts.principal_components import principal_scene
from attnflow.show.parts.scene import Scene, Snapshot
from attnflow.show.parts.style import line_colour
from attnflow.show.trained.by_layer import layer_panel, quoted_prompt
from attnflow.trained.measures import ANGLE, directions

NAMES = {"x": "$x$, as they are", "V": r"$e^{-tV}x$", "S": r"$e^{-tS}x$", "A": r"$e^{-tA}x$"}


@draws
def frames(
    seen: xr.Dataset,
    path: str | os.PathLike | None = None,
    *,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw the directions of tokens through the layers in each frame, and their mean cosine and effective rank.

    Parameters
    ----------
    seen
        Made by `trained.frames`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of the usual title; None: no title and no caption.

    Examples
    --------
    >>> from attnflow import trained
    >>> figure = frames(trained.frames(model, [5, 17, 3, 39]), size="page", title=None)
    >>> float(figure.get_figwidth())
    7.0
    """
    units = directions(seen)
    scenes = {name: _scene(units.sel(frame=name)) for name in NAMES}
    reach = 1.08 * max(float(np.abs(scene.drawn.tokens).max()) for scene in scenes.values())  # one box for all
    paths = [
        Snapshot(replace(scene, reach=reach), units.sizes["time"] - 1, NAMES[name]) for name, scene in scenes.items()
    ]
    measures = [
        layer_panel(_lines(seen.mean_cosine), "Mean cosine of two tokens", columns=2),
        layer_panel(_lines(seen.effective_rank), "Effective rank of the tokens", ylim=(0, None), columns=2),
    ]
    caption = (
        "Above: directions $x/|x|$ from embedding to last layer in two principal components; tokens closer than "
        f"{ANGLE:g} at the end share a colour. V is the sum over a layer's heads, S and A are its symmetric and "
        "antisymmetric parts, and a layer is the unit of time. Biases, norms and MLP are in the tokens, not "
        f"in the frame.{_divided(seen)}"
    )
    heading = f"{quoted_prompt(seen, begins=True)} in {seen.attrs['model']}, seen from moving frames"
    return panel_picture([paths, measures], heading, caption, width=3.0, heights=[3.2, 3.3])


def _divided(seen: xr.Dataset) -> str:
    """What V is divided by in a model with a norm before attention."""
    ends = float(seen.divisor.min()), float(seen.divisor.max())
    farthest = float((seen.divisor_greatest / seen.divisor).max())
    if ends == (1.0, 1.0) and farthest == 1.0:
        return ""
    return (
        f" V is divided by the median root mean square of the tokens, {ends[0]:.2g} to {ends[1]:.2g} over the layers; "
        f"the longest token has {farthest:.3g} times the median."
    )


def _scene(units: xr.DataArray) -> Scene:
    return principal_scene(xr.Dataset({"tokens": units.drop_vars("frame")}), distance=ANGLE)


def _lines(values: xr.DataArray) -> list[Line]:
    """One line a frame; the frame of A only rotates, so that its line is that of x, and one is drawn for both."""
    labels = {"x": r"$x$ and $e^{-tA}x$, a rotation", "V": NAMES["V"], "S": NAMES["S"]}
    return [
        Line(values.time, values.sel(frame=frame), name, line_colour(index), marker=".")
        for index, (frame, name) in enumerate(labels.items())
    ]
