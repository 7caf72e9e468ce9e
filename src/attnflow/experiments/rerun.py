"""`rerun`: the run that a result records, made again."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import require_known
from attnflow._common.renamed import renamed_argument
from attnflow.coalescence.coalesce import coalesce, repeated
from attnflow.integrate.simulate import simulate
from attnflow.mean_field.continuity_equation import evolve
from attnflow.results import provenance, run_dataset
from attnflow.results.contents import json_of, require_contents
from attnflow.results.files import dataset_of
from attnflow.results.provenance import ResultKind
from attnflow.streaming import stream_dataset
from attnflow.streaming.stream import stream

ORIGIN = ("scenario", "settings")  # attributes of runs of a scenario, which hold for the repeated run, too


@renamed_argument("until", "log_end")
def rerun(source: Any, **changes: Any) -> xr.Dataset:
    """Repeat the run that a dataset or file records.

    The numbers are the same bit for bit with the same version of attnflow and of its libraries, the same path of
    computation (the attribute ``computed_by``: native or XLA) and the same kind of processor. Otherwise they differ by
    rounding, which a chaotic or unstable flow enlarges, within the tolerances of the solver at each step.

    Parameters
    ----------
    source
        A dataset made by `simulate`, `stream`, `coalesce` or `mean_field.evolve`, or the path of a saved one.
    changes
        Arguments of the function that made it to use instead of the recorded ones, for instance
        ``flow`` when the file could not hold it, or ``progress``.

    Examples
    --------
    >>> import attnflow as af
    >>> import numpy as np
    >>> run = af.simulate(af.EuclideanAttention(af.Head.identity(2)), np.eye(2), [0.0, 1.0])
    >>> bool((af.rerun(run).tokens == run.tokens).all())
    True
    """
    run = dataset_of(source)
    require_contents(run, "the dataset")
    made_by, repeat = _maker(run)
    for name in changes:
        require_known(name, inspect.signature(made_by).parameters, f"argument of {made_by.__name__}")
    repeated = repeat(run, changes)
    is_unchanged = changes.keys() <= {"progress", "budget"}
    return repeated.assign_attrs({name: run.attrs[name] for name in ORIGIN if is_unchanged and name in run.attrs})


Repeat = Callable[[xr.Dataset, dict[str, Any]], xr.Dataset]


def _maker(run: xr.Dataset) -> tuple[Callable[..., xr.Dataset], Repeat]:
    """The function that made a dataset, and the one that repeats the run with some arguments changed."""
    kind = provenance.kind_of(run)
    if kind is ResultKind.COALESCENCE:
        return coalesce, repeated
    if kind is ResultKind.DENSITY:
        return evolve, _evolved_again
    return (stream, _streamed_again) if kind is ResultKind.STREAM else (simulate, _simulated_again)


def _simulated_again(run: xr.Dataset, changes: dict[str, Any]) -> xr.Dataset:
    return simulate(**run_dataset.recorded_arguments(run, changes))


def _evolved_again(run: xr.Dataset, changes: dict[str, Any]) -> xr.Dataset:
    """The law from its first density, which the dataset holds."""
    recorded: dict[str, Any] = {
        "start": run.isel(time=0),
        "times": np.array(json_of(run, "requested_times")),
        "rtol": float(run.attrs["rtol"]),
        "modes": int(run.attrs["modes"]),
        "max_modes": int(run.attrs["max_modes"]),
    }
    flow = {} if "flow" in changes else {"flow": provenance.flow_of(run)}
    return evolve(**recorded | flow | changes)


def _streamed_again(run: xr.Dataset, changes: dict[str, Any]) -> xr.Dataset:
    flow = {} if "flow" in changes else {"flow": provenance.flow_of(run)}
    return stream(**stream_dataset.arguments(run) | flow | changes)
