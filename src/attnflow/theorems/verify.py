"""`verify`: the verdicts of statements on their own examples, or on a given run or ensemble."""

import dataclasses
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.validation import require_flow
from attnflow.results import provenance
from attnflow.results.files import dataset_of
from attnflow.theorems.catalogue import catalogue, find
from attnflow.theorems.ensemble_verdict import EnsembleVerdict
from attnflow.theorems.first_passes import first_passes
from attnflow.theorems.recorded_equation import agreement
from attnflow.theorems.statement import Statement
from attnflow.theorems.verdict import Agreement, Answer, Hypothesis, Verdict, Verdicts, is_true


class Checked(NamedTuple):
    """A verdict, the seconds that it took, and whether the statement is proved."""

    verdict: Verdict
    seconds: float
    proved: bool


def verify(
    flow: AbstractDynamics | xr.Dataset | str | os.PathLike | None = None,
    run: xr.Dataset | str | os.PathLike | None = None,
    only: Iterable[str] = (),
) -> Verdicts:
    """The verdicts of all statements, or of the statements named in `only`.

    Parameters
    ----------
    flow, run
        A run and the flow that made it; a run of `simulate`, `stream` or `coalesce` alone, or its file, is enough,
        since it records its flow. Without a run every statement is checked on its own example. Of an ensemble every
        run is checked.
    only
        Ids of statements; ``attnflow verify --list`` shows them.

    Returns
    -------
    A list of Verdict, or of EnsembleVerdict for an ensemble, which prints as a table
        `holds`, `fails`, `not_applicable` (with the hypotheses that are not met and by how much) or
        `undecided` (with what finite time or float64 leaves open). No statement applies to saved tokens that do not
        follow the flow: the run is integrated again from its saved states to find out, in about the time of the run;
        before a `fails`, with the recorded solver. For an ensemble, the shares of these answers among its runs.

    Examples
    --------
    >>> verify(only=["interaction-peak"])[0].verdict
    'holds'
    """
    names = list(only) or list(catalogue())
    if flow is None and run is None:
        return Verdicts(checked.verdict for checked in verify_examples(names))
    flow, run = _flow_and_run(flow, run)
    statements = [statement for statement in map(find, names) if isinstance(statement, Statement)]
    if "run" not in run.dims:
        return Verdicts(_on_one_run(flow, run, statements))
    members = [run.isel(run=index) for index in range(run.sizes["run"])]
    passes = _first_passes(flow, members)
    found = [_on_one_run(flow, one, statements, reached) for one, reached in zip(members, passes, strict=True)]
    numbers = tuple(int(number) for number in run["run"].values)
    return Verdicts(EnsembleVerdict(numbers, verdicts) for verdicts in zip(*found, strict=True))


def _first_passes(flow: AbstractDynamics | None, members: list[xr.Dataset]) -> list[np.ndarray | None]:
    """The first integration again of all runs at once; None for each run alone where a file is damaged."""
    try:
        return first_passes(provenance.flow_of(members[0]) if flow is None else flow, members)
    except Exception:  # the check of each run says what it is
        return [None] * len(members)


def _on_one_run(
    flow: AbstractDynamics | None,
    run: xr.Dataset,
    statements: list[Statement],
    first_pass: np.ndarray | None = None,
) -> list[Verdict]:
    """The verdicts on one run. Whatever a file holds, the answer is a verdict: errors become its reason."""
    try:
        model = provenance.flow_of(run) if flow is None else flow
        agrees = agreement(model, run, first_pass=first_pass)
    except Exception as error:  # a damaged file can raise anything
        model = None
        agrees = Agreement(is_true(f"a readable record of the flow and its tokens ({_text(error)})", False))
    if model is None or not agrees.follows.holds:
        return [_verdict(statement, "not_applicable", (agrees.follows,)) for statement in statements]
    verdicts = [_checked(statement, model, run, agrees) for statement in statements]
    if all(one.verdict != "fails" for one in verdicts):
        return verdicts
    # Statements may be exact to more digits than the first comparison: only a run fails that solves its
    # equation as precisely as its solver says.
    agrees = agreement(model, run, is_thorough=True)
    if agrees.follows.holds:
        return verdicts
    return [_verdict(statement, "not_applicable", (agrees.follows,)) for statement in statements]


def _checked(statement: Statement, flow: AbstractDynamics, run: xr.Dataset, agrees: Agreement) -> Verdict:
    try:
        verdict = statement.check(flow, run)
    except Exception as error:
        return _verdict(statement, "undecided", (agrees.follows,), f"It cannot be measured on this run: {_text(error)}")
    verdict = dataclasses.replace(verdict, hypotheses=(agrees.follows, *verdict.hypotheses))
    if agrees.unsettled and verdict.measurement is not None:
        measurement = dataclasses.replace(verdict.measurement, unsettled=agrees.unsettled)
        verdict = dataclasses.replace(verdict, verdict="undecided", measurement=measurement)
    return verdict


def _verdict(statement: Statement, answer: Answer, hypotheses: tuple[Hypothesis, ...], note: str = "") -> Verdict:
    return Verdict(statement.id, statement.paper, statement.says, answer, hypotheses, None, note)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


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


def _flow_and_run(flow: Any, run: Any) -> tuple[AbstractDynamics | None, xr.Dataset]:
    """The flow, or None where the run's own record is to be used, and the run."""
    if run is None:
        flow, run = None, flow
    run = dataset_of(run)
    if not isinstance(run, xr.Dataset):
        raise InputError(
            f"`run` must be a dataset made by `simulate` or its file, but it is of type {type(run).__name__}."
        )
    if flow is not None:
        require_flow(flow)
    provenance.require_result(run, "`run`")
    if "tokens" not in run:
        raise InputError("`run` holds no tokens. Simulate with `keep_tokens=True`.")
    return flow, run
