"""`verify`: the verdicts of statements on their own examples, or on a given run."""

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import xarray as xr

from attnflow._common.checks import InputError
from attnflow.model.dynamics import AbstractDynamics
from attnflow.results import provenance
from attnflow.theorems.catalogue import catalogue, find
from attnflow.theorems.statement import Statement
from attnflow.theorems.verdict import Verdict


class Checked(NamedTuple):
    """A verdict, the seconds that it took, and whether the statement is proved."""

    verdict: Verdict
    seconds: float
    proved: bool


def verify(
    flow: AbstractDynamics | xr.Dataset | None = None, run: xr.Dataset | None = None, only: Iterable[str] = ()
) -> list[Verdict]:
    """The verdicts of all statements, or of the statements named in `only`.

    Parameters
    ----------
    flow, run
        A run and the flow that made it; a run of `simulate` or `coalesce` alone is enough, since it records its
        flow. Without a run every statement is checked on its own example.
    only
        Ids of statements; ``attnflow verify --list`` shows them.

    Returns
    -------
    list of Verdict
        `holds`, `fails`, `not_applicable` (with the hypotheses that are not met and by how much) or
        `undecided` (with what finite time or float64 leaves open).

    Examples
    --------
    >>> verify(only=["interaction-peak"])[0].verdict
    'holds'
    """
    names = list(only) or list(catalogue())
    if flow is None and run is None:
        return [checked.verdict for checked in verify_examples(names)]
    flow, run = _one_run(flow, run)
    return [statement.check(flow, run) for statement in map(find, names) if isinstance(statement, Statement)]


def verify_examples(
    names: Iterable[str], heard: Callable[[int, str], Any] | None = None, workers: int | None = None
) -> list[Checked]:
    """The verdicts of the statements in `names` on their own examples, on all cores; `heard(done, id)` after each."""
    statements = [find(name) for name in names]
    done = 0

    def check(statement: Any) -> Checked:
        nonlocal done
        began = time.monotonic()
        verdict = statement.verify()
        done += 1
        if heard is not None:
            heard(done, statement.id)
        return Checked(verdict, time.monotonic() - began, statement.proved)

    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        return list(pool.map(check, statements))


def _one_run(flow: Any, run: Any) -> tuple[AbstractDynamics, xr.Dataset]:
    if run is None:
        flow, run = None, flow
    if not isinstance(run, xr.Dataset):
        raise InputError(f"`run` must be a dataset made by `simulate`, but it is a {type(run).__name__}.")
    if "tokens" not in run:
        raise InputError("`run` holds no tokens. Simulate with `keep_tokens=True`.")
    if "run" in run.dims:
        raise InputError(f"`run` holds {run.sizes['run']} runs. Take one of them: `run.isel(run=0)`.")
    return provenance.flow_of(run) if flow is None else flow, run
