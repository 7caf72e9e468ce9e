"""`display`: a result in a notebook, as its headline, its picture and its dataset."""

import dataclasses
import io
import os
from base64 import b64encode
from html import escape
from typing import Any

import xarray as xr
from matplotlib.figure import Figure

from attnflow.experiments.headline import coalescing_headline, headline
from attnflow.experiments.run_summary import final_matrix, first_matrix
from attnflow.results.provenance import ResultKind, flow_of, kind_of, require_complete, require_result
from attnflow.show.merging.staircase import staircase
from attnflow.show.parts.style import in_house_style
from attnflow.show.runs.summary import summary
from attnflow.show.theory.density import density
from attnflow.show.theory.density_panels import heading_of
from attnflow.show.trained.prompt import prompt

DOTS_PER_INCH = 110  # of the picture in a notebook: the width of a page of text


@dataclasses.dataclass(frozen=True)
class DisplayedRun:
    """A result with its headline and its picture, a PNG."""

    headline: str
    picture: bytes
    run: xr.Dataset

    def __repr__(self) -> str:
        return f"{self.headline}\n{self.run.attrs['outcome']}"

    def _repr_html_(self) -> str:
        source = f"data:image/png;base64,{b64encode(self.picture).decode()}"
        return (  # the headline is the title of the picture
            f'<img alt="{escape(self.headline)}" src="{source}" style="max-width:100%;background:white">'
            f"<p>{escape(str(self.run.attrs['outcome']))}</p>"
            f"<details><summary>dataset</summary>{self.run._repr_html_()}</details>"
        )


def display(run: xr.Dataset) -> DisplayedRun:
    """The headline, the picture and the dataset of a result, which a notebook shows when it is the last line of a cell.

    The dataset itself is displayed by xarray, which draws nothing.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2))
    >>> af.display(af.simulate(flow, [[1.0, 0.0], [0.0, 1.0]], [0.0, 10.0, 20.0], progress=False)).headline
    '2 tokens on the circle, softmax attention, beta = 1, V = I: one cluster at t = 20'
    """
    kind = require_complete(run, "`run`")
    buffer = io.BytesIO()
    with in_house_style():
        result_picture(run).savefig(buffer, format="png", dpi=DOTS_PER_INCH)
    return DisplayedRun(_headline(run, kind), buffer.getvalue(), run)


def result_picture(run: xr.Dataset, path: str | os.PathLike | None = None, **drawing: Any) -> Figure:
    """The picture of a result: a staircase of `coalesce`, a density, a prompt by layers, or the summary of a run.

    `drawing` are the options of all pictures: size, style, title.
    """
    if kind_of(run) is ResultKind.DENSITY:
        return density(run, path, **drawing)
    kind = require_result(run, "`run`")
    if kind is ResultKind.COALESCENCE:
        return staircase(run, path, **drawing)
    if kind is ResultKind.PROMPT and "cosine_density" in run:
        return prompt(run, path, **drawing)
    flow = flow_of(run)
    if run.sizes.get("run", 1) > 1:  # an ensemble is drawn as means and quantiles
        return summary(run, path=path, **drawing)
    one = run.isel(run=0) if "run" in run.dims else run
    first = first_matrix(flow, one)
    matrices = None if first is None else [first, final_matrix(flow, one)]
    return summary(run, matrices=matrices, path=path, **drawing)


def _headline(run: xr.Dataset, kind: ResultKind) -> str:
    if kind is ResultKind.DENSITY:
        return heading_of(run)
    if kind is ResultKind.PROMPT:
        return f"{run.sizes['token']} tokens in {run.attrs['model']}"
    flow = flow_of(run)
    return coalescing_headline(flow, run) if kind is ResultKind.COALESCENCE else headline(flow, run)
