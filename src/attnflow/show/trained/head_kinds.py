"""`head_kinds`: what the strongest heads of each kind, real-positive, real-negative and complex, do to tokens."""

import os
from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from attnflow.show.parts.panels import Line, Lines, panel_figure
from attnflow.show.parts.principal_components import principal_scene
from attnflow.show.parts.scene import Snapshot
from attnflow.show.parts.style import OKABE_ITO, in_house_style, save_figure
from attnflow.trained.head_flows import course, misalignment
from attnflow.trained.head_tables import KINDS

STARTS = {
    "sphere": "Random tokens on the unit sphere",
    "circle": "Tokens on a circle in the plane of V's leading eigenvectors",
    "gaussian": "Gaussian tokens",
    "prompt": "The embedding of a prompt",
}
CLOSE = 0.1  # tokens closer than this at the end share a colour
MOMENTS = 25  # at which clusters and ranks are counted
WIDTHS = (4.0, 2.6, 1.4)  # points; counts of several kinds often agree, and then all should be seen
LEAST = 1e-12  # of what a logarithmic axis shows


@in_house_style()
def head_kinds(runs: Mapping[str, xr.Dataset], path: str | os.PathLike | None = None) -> Figure:
    """Draw flows of heads of each kind: principal components, and alignment, clusters and rank of P over time.

    Parameters
    ----------
    runs
        Made by `trained.flows_by_kind`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    """
    first = next(iter(runs.values())).attrs
    ways = [way(run, f"{kind}: {_place(run)}") for kind, run in runs.items()]
    courses = {kind: course(run, MOMENTS) for kind, run in runs.items()}
    below = [
        alignment({kind: (run.time.values, misalignment(run)) for kind, run in runs.items()}),
        _over_time(courses, "clusters", "Clusters"),
        _over_time(courses, "attention_rank", "Rank of attention"),
    ]
    lacking = "".join(f" No head is {kind}." for kind in KINDS if kind not in runs)
    caption = (
        f"{STARTS[first['start']]}, under attention alone: no biases, norms or MLP.{lacking} Above: two principal "
        f"components; tokens closer than {CLOSE:g} at the end share a colour."
    )
    title = f"The strongest head of each kind in {first['model']}"
    figure = panel_figure([ways, below], title, caption, width=3.6, heights=[3.4, 3.5])
    if path is not None:
        save_figure(figure, path)
    return figure


def way(run: xr.Dataset, title: str) -> Snapshot:
    """Where the tokens of a run went, in their two principal components."""
    return Snapshot(principal_scene(run, distance=CLOSE), run.sizes["time"] - 1, title)


def alignment(apart: Mapping[str, tuple[np.ndarray, np.ndarray]], *, is_named: bool = True) -> Lines:
    """Times and misalignment of each kind, down to where nothing more is to be seen."""
    lines = [
        Line(times, np.maximum(values, LEAST), kind if is_named else "", OKABE_ITO[place])
        for place, (kind, (times, values)) in enumerate(apart.items())
    ]
    return Lines(lines, yscale="log", ylim=(1e-8, 2), title="1 − mean squared cosine")


def _place(run: xr.Dataset) -> str:
    return f"layer {run.attrs['layer']}, head {run.attrs['heads'][0]}"


def _over_time(courses: Mapping[str, list[dict[str, float]]], name: str, title: str) -> Lines:
    lines = [
        Line(
            [one["time"] for one in moments],
            [one[name] for one in moments],
            kind,
            OKABE_ITO[place],
            width=WIDTHS[place],
        )
        for place, (kind, moments) in enumerate(courses.items())
    ]
    return Lines(lines, ylim=(0, None), title=title)
