"""`head_kinds`: what the strongest heads of each kind, real-positive, real-negative and complex, do to tokens."""

import os
from collections.abc import Mapping
from typing import Unpack

import numpy as np
import xarray as xr

from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import HEADLINE, Picture, Title
from attnflow.show.parts.principal_components import principal_scene
from attnflow.show.parts.scene import Snapshot
from attnflow.show.parts.style import line_colour
from attnflow.trained.head_flows import misalignment, time_course
from attnflow.trained.head_limits import KINDS

STARTS = {
    "sphere": "Random tokens on the unit sphere",
    "circle": "Tokens on a circle in the plane of V's leading eigenvectors",
    "gaussian": "Gaussian tokens",
    "prompt": "The embedding of a prompt",
}
SAME_COLOUR_DISTANCE = 0.1  # tokens on the unit sphere closer than this at the end share a colour


@draws
def head_kinds(
    runs: Mapping[str, xr.Dataset],
    path: str | os.PathLike | None = None,
    *,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw flows of heads of each kind: principal components, and alignment, clusters and rank of P over time.

    Parameters
    ----------
    runs
        Made by `trained.flows_by_kind`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of the usual title; None: no title and no caption.

    Examples
    --------
    >>> from attnflow import trained
    >>> figure = head_kinds(trained.flows_by_kind(model), size="page", title=None)
    >>> float(figure.get_figwidth())
    7.0
    """
    first = next(iter(runs.values())).attrs
    paths = [path_panel(run, f"{kind}: {_layer_and_head(run)}") for kind, run in runs.items()]
    measures = {kind: time_course(run, 25) for kind, run in runs.items()}  # 25 times: clusters and ranks are costly
    over_time = [
        alignment_panel({kind: (run.time.values, misalignment(run)) for kind, run in runs.items()}),
        _measure_panel(measures, "clusters", "Clusters"),
        _measure_panel(measures, "attention_rank", "Rank of attention"),
    ]
    lacking = "".join(f" No head is {kind}." for kind in KINDS if kind not in runs)
    caption = (
        f"{STARTS[first['start']]}, under attention alone: no biases, norms or MLP.{lacking} Above: two principal "
        f"components; tokens closer than {SAME_COLOUR_DISTANCE:g} at the end share a colour."
    )
    heading = f"The strongest head of each kind in {first['model']}"
    return panel_picture([paths, over_time], heading, caption, width=3.6, heights=[3.4, 3.5])


def path_panel(run: xr.Dataset, title: str) -> Snapshot:
    """Panel of the paths of the tokens of a run in their two principal components."""
    return Snapshot(principal_scene(run, distance=SAME_COLOUR_DISTANCE), run.sizes["time"] - 1, title)


def alignment_panel(courses: Mapping[str, tuple[np.ndarray, np.ndarray]], *, has_legend: bool = True) -> Lines:
    """Panel of the misalignment of each kind over time, from pairs (times, misalignment)."""
    lines = [
        Line(times, np.maximum(values, 1e-12), kind if has_legend else "", line_colour(index))  # far below the axis
        for index, (kind, (times, values)) in enumerate(courses.items())
    ]
    return Lines(lines, yscale="log", ylim=(1e-8, 2), title="1 − mean squared cosine")


def _layer_and_head(run: xr.Dataset) -> str:
    return f"layer {run.attrs['layer']}, head {run.attrs['heads'][0]}"


def _measure_panel(measures: Mapping[str, list[dict[str, float]]], name: str, title: str) -> Lines:
    """Panel of a measure of each kind; later lines are thinner, so that equal counts are all seen."""
    lines = [
        Line(
            [row["time"] for row in rows],
            [row[name] for row in rows],
            kind,
            line_colour(index),
            width=4.0 - 1.2 * index,
        )
        for index, (kind, rows) in enumerate(measures.items())
    ]
    return Lines(lines, ylim=(0, None), title=title)
