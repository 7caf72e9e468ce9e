"""A story: what was recorded of a run when a visitor asked to take it away."""

from dataclasses import dataclass
from typing import Any

from attnflow._common.checks import InputError
from attnflow.explorer.descriptions import explained
from attnflow.explorer.export.recorded_run import Caption
from attnflow.explorer.live_run import Run
from attnflow.explorer.recording import Moment
from attnflow.results import run_dataset


@dataclass(frozen=True)
class Story:
    """What was recorded of a run when it was asked for; the run may go on meanwhile."""

    run: Run
    moments: tuple[Moment, ...]
    later: tuple[tuple[float, dict[str, Any]], ...]
    making: Any
    """A `run_dataset.Making`; None of a run that was computed at once, which has its dataset."""

    @property
    def name(self) -> str:
        """Of the files, without suffix."""
        return f"attnflow-{self.run.scenario.name}"

    @property
    def caption(self) -> Caption:
        """What stands beside it."""
        scenario = self.run.scenario
        return Caption(scenario.name, tuple(explained(scenario)), scenario.paper)


def story_of(run: Run) -> Story:
    """A run as it is now."""
    moments = tuple(run.recording.moments)
    if len(moments) < 2:
        raise InputError("There is only the first frame yet. Play a little, then take it away.")
    stepper = run.stepper
    making = stepper and run_dataset.Making(stepper.flow, stepper.solver, (), {}, True, stepper.rng, "float64", 1e9)
    return Story(run, moments, tuple(run.later), making)
