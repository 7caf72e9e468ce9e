"""`display`: a result in a notebook, as its headline, its picture and its dataset."""

import dataclasses
import io
import os
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import Any

import xarray as xr
from matplotlib.figure import Figure

from attnflow._common.checks import InputError
from attnflow.experiments.headline import coalescing_headline, headline
from attnflow.experiments.run_summary import final_matrix, first_matrix
from attnflow.results.provenance import ResultKind, flow_of, kind_of, require_complete, require_result
from attnflow.show.merging.staircase import staircase
from attnflow.show.merging.through_clusters import through_clusters
from attnflow.show.parts.drawn_run import one_run
from attnflow.show.parts.style import in_house_style
from attnflow.show.runs.steering import has_targets, steering
from attnflow.show.runs.summary import summary
from attnflow.show.runs.trajectories import trajectories
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

    def picture_html(self) -> str:
        """The picture, whose title is the headline, and the outcome below it."""
        source = f"data:image/png;base64,{b64encode(self.picture).decode()}"
        return (
            f'<img alt="{escape(self.headline)}" src="{source}" style="max-width:100%;background:white">'
            f"<p>{escape(str(self.run.attrs['outcome']))}</p>"
        )

    def _repr_html_(self) -> str:
        return f"{self.picture_html()}<details><summary>dataset</summary>{self.run._repr_html_()}</details>"


def display(run: xr.Dataset) -> DisplayedRun:
    """The headline, the picture and the dataset of a result, which a notebook shows when it is the last line of a cell.

    Where attnflow was imported inside IPython, the last line `run` of a cell shows the same, with the table of the
    dataset unfolded, for up to 2000 tokens.

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


def result_picture(
    run: xr.Dataset,
    path: str | os.PathLike | None = None,
    *,
    member: int | None = None,
    times: Sequence[float] | None = None,
    **drawing: Any,
) -> Figure:
    """The picture of a result: a staircase of `coalesce`, a density, a prompt by layers, a control, or a summary.

    With `times`, the tokens at these times, one panel each; of a density its curves, of a prompt its layers.
    `drawing` are the options of all pictures: size, style, palette, title.
    """
    at_times = {} if times is None else {"times": times}
    kind = kind_of(run)
    if has_targets(run) and times is None and member is None:
        return steering(run, path, **drawing)
    if kind in (ResultKind.TRAJECTORY, ResultKind.STREAM):
        return _picture_of_run(run, path, member=member, **at_times, **drawing)
    if member is not None:
        raise InputError("`member` is the number of a run of an ensemble, but this result holds one run. Leave it out.")
    if kind is ResultKind.DENSITY:
        return density(run, path, **at_times, **drawing)
    require_result(run, "`run`")
    if kind is ResultKind.COALESCENCE:
        return (staircase if times is None else through_clusters)(run, path, **at_times, **drawing)
    picture = prompt if "cosine_density" in run else trajectories if at_times else summary
    return picture(run, path=path, **at_times, **drawing)


def _picture_of_run(run: xr.Dataset, path: Any, *, member: int | None, **drawing: Any) -> Figure:
    """Tokens at the times of `drawing`, else the summary with attention at the start and the end of one run."""
    if "times" in drawing:
        return trajectories(run, path, member=member, **drawing)
    if member is None and run.sizes.get("run", 1) > 1:  # an ensemble is drawn as means and quantiles
        return summary(run, path=path, **drawing)
    flow, one = flow_of(run), one_run(run, member)
    first = first_matrix(flow, one)
    matrices = None if first is None else [first, final_matrix(flow, one)]
    return summary(run, matrices=matrices, path=path, member=member, **drawing)


def _headline(run: xr.Dataset, kind: ResultKind) -> str:
    if kind is ResultKind.DENSITY:
        return heading_of(run)
    if kind is ResultKind.PROMPT:
        return f"{run.sizes['token']} tokens in {run.attrs['model']}"
    flow = flow_of(run)
    return coalescing_headline(flow, run) if kind is ResultKind.COALESCENCE else headline(flow, run)
