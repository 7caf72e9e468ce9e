"""`rerun`: the run that a result records, made again."""

import inspect
import json
from collections.abc import Callable
from typing import Any

import xarray as xr

from attnflow._common.checks import require_known
from attnflow.coalescence.coalesce import coalesce
from attnflow.integrate.simulate import simulate
from attnflow.results import provenance, run_dataset
from attnflow.results.files import load
from attnflow.results.provenance import ResultKind
from attnflow.streaming import stream_dataset
from attnflow.streaming.stream import stream


def rerun(source: Any, **changes: Any) -> xr.Dataset:
    """Repeat the run recorded in a dataset or file: the same numbers, bit for bit, on the same machine.

    Parameters
    ----------
    source
        A dataset made by `simulate`, `stream` or `coalesce`, or the path of a saved one.
    changes
        Arguments of the function that made it to use instead of the recorded ones, for instance
        ``flow`` when the file could not hold it, or ``progress``.

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.simulate(af.EuclideanAttention(af.Head.identity(2)), np.eye(2), [0.0, 1.0])
    >>> bool((af.rerun(run).tokens == run.tokens).all())
    True
    """
    run = source if isinstance(source, xr.Dataset) else load(source)
    provenance.require_result(run, "the dataset")
    made_by, recorded = _maker(run)
    for name in changes:
        require_known(name, inspect.signature(made_by).parameters, f"argument of {made_by.__name__}")
    found = made_by(**recorded(run, changes))
    if "perturbed" in run.attrs and not {"tokens", "perturb"} & changes.keys():
        found.attrs["perturbed"] = run.attrs["perturbed"]  # of the recorded tokens, which are those it had moved
    return found


def _maker(run: xr.Dataset) -> tuple[Callable[..., xr.Dataset], Callable[..., dict[str, Any]]]:
    """Who made a dataset, and what reads the arguments out of it."""
    kind = provenance.kind_of(run)
    if kind is ResultKind.COALESCENCE:
        return coalesce, _coalescing
    return (stream, _streaming) if kind is ResultKind.STREAM else (simulate, run_dataset.recorded_arguments)


def _coalescing(run: xr.Dataset, changes: dict[str, Any]) -> dict[str, Any]:
    """The recorded tokens are those after a perturbation, so that none is repeated."""
    kept = {name: run.attrs[name] for name in ("merge", "rtol")}
    kept |= json.loads(run.attrs["limits"]) | {"tokens": run.initial_tokens.values}
    return _with_flow(run, kept, changes)


def _streaming(run: xr.Dataset, changes: dict[str, Any]) -> dict[str, Any]:
    return _with_flow(run, stream_dataset.arguments(run), changes)


def _with_flow(run: xr.Dataset, kept: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return kept | ({} if "flow" in changes else {"flow": provenance.flow_of(run)}) | changes
