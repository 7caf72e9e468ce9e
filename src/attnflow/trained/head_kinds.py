"""Comparison of heads by the kind of their leading eigenvalue: real-positive, real-negative and complex."""

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from attnflow._common.progress import Progress, parts_of, reporting
from attnflow.models.transformer import Model
from attnflow.trained.head_flows import flow_summary, head_flow
from attnflow.trained.head_limits import KINDS
from attnflow.trained.head_tables import head_table, strongest


def flows_by_kind(
    model: Model, layers: Sequence[int] | None = None, *, progress: Progress = None, **settings: Any
) -> dict[str, xr.Dataset]:
    """`head_flow` of the strongest head of each kind that occurs, in all layers or some of them.

    `settings` are those of `head_flow`. Initial tokens are the same, except on a circle, which lies in a plane of
    each head.

    Parameters
    ----------
    model
        A model made by `models.load`.
    layers
        Numbers of layers, the first being 0. None: all.
    progress
        False: no progress bar. A function is called with the share done and a sentence.

    Examples
    --------
    >>> import attnflow as af
    >>> runs = af.trained.flows_by_kind(model, n=4, end=1.0, saves=6, progress=False)
    >>> set(runs) <= {"real-positive", "real-negative", "complex"}
    True
    """
    table = head_table(model, layers, runs=0, progress=False)
    heads = {kind: place for kind in KINDS if (place := strongest(table, kind)) is not None}
    with reporting(progress) as report:
        parts = parts_of(report, len(heads))
        return {
            kind: head_flow(model, layer, [head], progress=part, **settings)
            for (kind, (layer, head)), part in zip(heads.items(), parts, strict=True)
        }


def kind_rows(runs: Mapping[str, xr.Dataset]) -> list[dict[str, Any]]:
    """`flow_summary` of the run of each kind, as rows.

    Parameters
    ----------
    runs
        Runs by kind, made by `flows_by_kind`.

    Examples
    --------
    >>> import attnflow as af
    >>> runs = af.trained.flows_by_kind(model, n=4, end=1.0, saves=6, progress=False)
    >>> [row["kind"] for row in af.trained.kind_rows(runs)] == list(runs)
    True
    """
    return [{"kind": kind} | flow_summary(run) for kind, run in runs.items()]
