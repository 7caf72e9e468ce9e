"""Runs of figures that are described by the settings of scenarios."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.experiments import scenarios
from attnflow.integrate.simulate import simulate
from attnflow.model.heads import Head
from attnflow.results.provenance import flow_of


def scenario_run(progress: Progress, **settings: Any) -> xr.Dataset:
    """The run with the given `scenarios.Settings`."""
    setup = scenarios.build(scenarios.Settings(**settings))
    return simulate(setup.flow, setup.tokens, setup.times, solver=setup.solver, rng=setup.rng, progress=progress)


def value_of(run: xr.Dataset) -> np.ndarray:
    """The matrix V of the only head of a run."""
    head = flow_of(run).heads[0]
    if not isinstance(head, Head):
        raise TypeError(f"The head of this run changes in time: {type(head).__name__}.")
    return np.asarray(head.value_matrix, dtype=float)


def times_until_end(run: xr.Dataset, times: Sequence[float]) -> list[float]:
    """The times that lie before the end of a run, and its end.

    Examples
    --------
    >>> times_until_end(xr.Dataset(coords={"time": [0.0, 1.0, 3.0]}), [0.0, 2.0, 5.0])
    [0.0, 2.0, 3.0]
    """
    end = float(run.time[-1])
    return [*(float(time) for time in times if time < end), end]


def at_times(run: xr.Dataset, times: Sequence[float]) -> list[xr.Dataset]:
    """The run at the saved times nearest to `times`."""
    return [run.sel(time=time, method="nearest") for time in times]
