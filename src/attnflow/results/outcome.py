"""The ending of a run: its status as a variable of the dataset, and the sentence for each status."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from attnflow.results.provenance import ResultKind
from attnflow.results.run_arrays import RunArrays
from attnflow.solvers.status import FIRST_STOP, Status
from attnflow.solvers.stopping import AbstractStop

FAILURES = (Status.NOT_FINITE, Status.STEP_TOO_SMALL, Status.OUT_OF_STEPS)
COMMON_CAUSES = {Status.OUT_OF_TIME: "the time budget was spent", Status.INTERRUPTED: "interrupted"}
# Why a run ended before its end, and what to do; other endings are described by `sentences`, `coalescence.outcomes`
# and `models.prompt`.
CAUSES: dict[ResultKind, dict[Status, str]] = {
    ResultKind.TRAJECTORY: COMMON_CAUSES
    | {
        Status.OUT_OF_STEPS: "the largest number of steps was taken; loosen the tolerances or raise `max_steps`",
        Status.NOT_FINITE: "the next step gave NaN or infinity; use a smaller step or `Adaptive`",
        Status.STEP_TOO_SMALL: "the step fell below the resolution of time, as it does when tokens run to infinity or "
        "a length falls to zero in finite time, or weights overflow; ask for an earlier end, looser tolerances, or an "
        "`offset` of unnormalised attention",
        Status.ZERO_LENGTH: "the length of a token has reached zero, where its direction is not defined",
    },
    ResultKind.STREAM: COMMON_CAUSES
    | {
        Status.OUT_OF_STEPS: "the next token takes too many steps",
        Status.NOT_FINITE: "the scores of the next token are so large that their rounding errors decide its velocity",
        Status.STEP_TOO_SMALL: "the steps of the next token became too short",
    },
    ResultKind.COALESCENCE: COMMON_CAUSES
    | {
        Status.OUT_OF_STEPS: "the largest number of steps was taken; raise `max_steps` or `rtol`",
        Status.NOT_FINITE: "the growth of the speed is not a number; use a smaller beta",
        Status.STEP_TOO_SMALL: "steps became too short to resolve the gaps in float64; a larger `rtol` may help",
    },
    ResultKind.PROMPT: COMMON_CAUSES
    | {Status.NOT_FINITE: "numbers became NaN or infinite; load it with dtype='float64'"},
    ResultKind.DENSITY: COMMON_CAUSES
    | {
        Status.STEP_TOO_SMALL: "the step fell below the resolution of time; use a larger `rtol`",
        Status.UNRESOLVED: "the density has become too narrow for `max_modes` modes, as it does when it tends "
        "to point masses; ask for an earlier end, add noise or raise `max_modes`",
    },
}


def early_ending(kind: ResultKind, status: Status, place: str, further: str = "") -> str:
    """The sentence of a run that stopped or failed at a place; `further` follows the cause."""
    verb = "Failed" if status in FAILURES else "Stopped"
    return f"{verb} {place}: {CAUSES[kind][status]}{further}."


def sentences(results: RunArrays, stops: tuple[AbstractStop, ...]) -> list[str]:
    """One sentence for each run of `simulate`."""
    radii = [None] * len(results.status) if results.radii is None else results.radii
    numbers = zip(results.status, results.time, results.accepted, radii, strict=True)
    return [
        simulation_sentence(int(status), float(time), int(steps), stops, lengths)
        for status, time, steps, lengths in numbers
    ]


def simulation_sentence(
    status: int,
    time: float,
    steps: int,
    stops: tuple[AbstractStop, ...] = (),
    radii: np.ndarray | None = None,
) -> str:
    """The sentence of one run of `simulate`, at `time`; `radii` are the lengths of tokens that have them."""
    place, further = f"at t = {time:.6g}", f", after {steps} step{'' if steps == 1 else 's'}"
    if status == Status.ZERO_LENGTH and radii is not None:
        further = f" (token {int(np.argmin(radii)) + 1}){further}"
    if status >= FIRST_STOP:
        return f"Stopped {place}: {stops[status - FIRST_STOP].sentence()}{further}."
    whole = {Status.REACHED: f"Reached t = {time:.6g}", Status.RUNNING: "Not started"}
    known = Status(status)
    return f"{whole[known]}{further}." if known in whole else early_ending(ResultKind.TRAJECTORY, known, place, further)


def summary(lines: list[str], status: np.ndarray) -> str:
    """One sentence for all runs."""
    if len(lines) == 1:
        return lines[0]
    has_failed = failed(status)
    counts = {
        "reached the end": int(np.sum(status == Status.REACHED)),
        "stopped": int(np.sum((status >= FIRST_STOP) | (status == Status.ZERO_LENGTH))),
        "were ended by the budget": int(np.sum(status == Status.OUT_OF_TIME)),
        "were interrupted": int(np.sum(status == Status.INTERRUPTED)),
        "were not begun": int(np.sum(status == Status.RUNNING)),
        "failed": int(np.sum(has_failed)),
    }
    parts = [f"{count} {ending}" for ending, count in counts.items() if count]
    text = f"Of {len(lines)} runs {', '.join(parts)}."
    named = [*np.flatnonzero(has_failed), *np.flatnonzero(status == Status.ZERO_LENGTH)]
    return f"{text} Run {named[0] + 1} (index {named[0]}): {lines[named[0]]}" if named else text


def failed(status: np.ndarray) -> np.ndarray:
    """True for runs that ended in a failure, as opposed to a stop."""
    return np.isin(status, FAILURES)


def status_variables(status: np.ndarray, dimensions: Sequence[str] = ()) -> dict[str, xr.Variable]:
    """The variables `status` and `failed` of a dataset.

    The attributes `flag_values` and `flag_meanings` of `status` name its values, as the CF conventions have it; a run
    that met its stopping condition number i has the value FIRST_STOP + i.
    """
    met = [int(value) for value in np.unique(status) if value >= FIRST_STOP]
    meanings = {int(one): one.name.lower() for one in Status} | {one: f"stop_{one - FIRST_STOP}" for one in met}
    flags = {"flag_values": list(meanings), "flag_meanings": " ".join(meanings.values())}
    values = np.asarray(status, int)
    return {
        "status": xr.Variable(dimensions, values, flags),
        "failed": xr.Variable(dimensions, failed(values)),
    }
