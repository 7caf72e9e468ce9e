"""The outcome of a run in a sentence."""

import numpy as np

from attnflow.results.run_arrays import RunArrays
from attnflow.solvers.status import FIRST_STOP, Status
from attnflow.solvers.stopping import AbstractStop

WORDS = {
    Status.REACHED: "reached t = {time}",
    Status.RUNNING: "not started",
    Status.OUT_OF_TIME: "stopped at t = {time}: the time budget was spent",
    Status.INTERRUPTED: "stopped at t = {time}: interrupted",
    Status.OUT_OF_STEPS: "failed at t = {time}: the largest number of steps was taken; "
    "loosen the tolerances or raise `max_steps`",
    Status.NOT_FINITE: "failed at t = {time}: the next step gave NaN or infinity; use a smaller step or `Adaptive`",
    Status.STEP_TOO_SMALL: "failed at t = {time}: the step fell below the resolution of time, as it does when "
    "tokens run to infinity or a length falls to zero in finite time, or weights overflow; ask for an earlier end, "
    "looser tolerances, or an `offset` of unnormalised attention",
}


def sentences(results: RunArrays, stops: tuple[AbstractStop, ...]) -> list[str]:
    """One sentence for each run."""
    return [_sentence(results, run, stops) for run in range(len(results.status))]


def _sentence(results: RunArrays, run: int, stops: tuple[AbstractStop, ...]) -> str:
    status, time = int(results.status[run]), f"{results.time[run]:.6g}"
    if status >= FIRST_STOP:
        text = f"stopped at t = {time}: {stops[status - FIRST_STOP].sentence()}"
    else:
        text = WORDS[Status(status)].format(time=time)
    steps = int(results.accepted[run])
    return f"{text[0].upper()}{text[1:]}, after {steps} step{'' if steps == 1 else 's'}."


def summary(lines: list[str], status: np.ndarray) -> str:
    """One sentence for all runs."""
    if len(lines) == 1:
        return lines[0]
    has_failed = failed(status)
    counts = {
        "reached the end": int(np.sum(status == Status.REACHED)),
        "stopped": int(np.sum(status >= FIRST_STOP)),
        "were cut short": int(np.sum(np.isin(status, (Status.OUT_OF_TIME, Status.INTERRUPTED, Status.RUNNING)))),
        "failed": int(np.sum(has_failed)),
    }
    parts = [f"{count} {ending}" for ending, count in counts.items() if count]
    text = f"Of {len(lines)} runs {', '.join(parts)}."
    failures = np.flatnonzero(has_failed)
    return f"{text} Run {failures[0]}: {lines[failures[0]]}" if len(failures) else text


def failed(status: np.ndarray) -> np.ndarray:
    """True for runs that ended in a failure, as opposed to a stop."""
    return np.isin(status, (Status.NOT_FINITE, Status.STEP_TOO_SMALL, Status.OUT_OF_STEPS))
