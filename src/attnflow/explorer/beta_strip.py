"""A strip of small pictures: the end states of runs that differ in beta only, computed in the background.

All runs start from the same tokens, and none needs another compiled program. The strip takes computing turns of its
viewer, so that it delays no other viewer, and ends when the page leaves, closes it, or asks for another.
"""

import time as wall
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow._common.plain import json_value
from attnflow.analyse import clusters
from attnflow.experiments.scenarios import Setup
from attnflow.explorer import catalogue
from attnflow.explorer.computation import ThreadedComputation
from attnflow.explorer.computing_turns import ViewerTurns
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.measure.cluster_colours import ClusterColours
from attnflow.explorer.measure.flow_measurements import FlowMeasurements
from attnflow.explorer.measure.principal_axes import principal_axes
from attnflow.explorer.prompt_scenarios import PromptSettings
from attnflow.explorer.recording import Frame
from attnflow.explorer.settings_changes import changed_settings
from attnflow.explorer.stepper import Stepper

FACTORS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)  # of the beta of the run
MAX_TOKENS = 64  # of one run; of more tokens the first ones are taken
SECONDS_PER_CELL = 0.5  # of computing, after which a run is shown as far as it came
SECONDS = 5.0  # of computing for all cells; later ones are left out
STOPS = (0.1, 0.3, 0.6, 1.0)  # shares of the time at which a run that takes too long may be shown


@dataclass(frozen=True)
class Cell:
    """The end state of one run of a strip."""

    beta: float
    time: float
    tokens: np.ndarray
    """Three coordinates at most, of each token."""
    colours: np.ndarray
    count: int
    """Number of clusters."""
    seconds: float
    """Time of computing."""

    def message(self) -> dict[str, Any]:
        """The cell as JSON."""
        places = np.where(np.isfinite(self.tokens), self.tokens, 0.0)
        size = float(np.abs(places).max(initial=0.0)) or 1.0
        return {
            "beta": self.beta,
            "time": json_value(self.time),
            "size": json_value(size),
            "tokens": (places / size).round(4).ravel().tolist(),
            "colours": self.colours.tolist(),
            "clusters": self.count,
        }


def betas(run: LiveRun) -> list[float]:
    """The values of beta of a strip, around that of the run."""
    if run.is_precomputed:
        raise InputError("This run is computed at once; a strip needs a run that plays. Choose another scenario.")
    if run.settings.attention.startswith("hardmax"):
        raise InputError("Hardmax attention has no beta. Choose another attention.")
    return [float(f"{factor * (run.settings.beta or 1.0):.3g}") for factor in FACTORS]


class StripWorker:
    """Computes the strip of one viewer and publishes the message `strip` after every cell."""

    def __init__(self, publish: Callable[[str, Any], None], turns: ViewerTurns):
        self._publish, self._turns = publish, turns
        self._computation: ThreadedComputation | None = None

    def cancel(self) -> None:
        """End the computation of a strip."""
        if self._computation is not None:
            self._computation.cancel()
            self._computation = None

    def start(self, run: LiveRun) -> None:
        """Compute the strip of a run in place of an earlier one."""
        self.cancel()
        wanted = betas(run)

        def work(pass_on: Callable[[], None]) -> None:
            try:
                self._compute(run, wanted, pass_on)
            except InputError as error:
                self._publish("problem", {"type": "problem", "sentence": str(error)})

        self._computation = ThreadedComputation(self._turns, work, lambda: None, "", False)

    def _compute(self, run: LiveRun, wanted: list[float], pass_on: Callable[[], None]) -> None:
        about = {"type": "strip", "run": run.number, "beta": run.settings.beta}
        cells: list[dict[str, Any]] = []
        seconds = 0.0
        for beta in wanted:
            settings = changed_settings(run.settings, {"beta": beta})
            setup = catalogue.build_from(settings, run.placed)
            if not isinstance(settings, PromptSettings):
                setup = replace(setup, tokens=setup.tokens[:MAX_TOKENS])
            cell = end_state(setup, settings.end, beta, pass_on)
            cells.append(cell.message())
            seconds += cell.seconds
            is_last = beta == wanted[-1] or seconds > SECONDS
            self._publish("strip", {**about, "cells": list(cells), "isComplete": is_last})
            if is_last:
                return


def end_state(setup: Setup, end: float, beta: float, pass_on: Callable[[], None]) -> Cell:
    """The state at `end`, or the last one that was reached within `SECONDS_PER_CELL` of computing."""
    began = wall.monotonic()
    stepper = Stepper(setup)
    frame, seconds, counted = stepper.first, wall.monotonic() - began, 0.0
    for share in STOPS:
        target, found = stepper.next_time(share * end), None
        while found is None and counted < SECONDS_PER_CELL:
            pass_on()
            began = wall.monotonic()
            try:
                found = stepper.advance(target)
            except InputError:  # the run cannot go on: its last state is shown
                counted = SECONDS_PER_CELL
            seconds += wall.monotonic() - began
            counted += stepper.last_seconds  # without compilation
        frame = frame if found is None else found
    distance = FlowMeasurements(stepper.flow, stepper.solver, stepper.first).distance
    return _cell_of(frame, beta, distance, seconds)


def _cell_of(frame: Frame, beta: float, distance: float, seconds: float) -> Cell:
    tokens = frame.tokens
    count = int(clusters.labels(tokens, distance).max()) + 1
    colours = ClusterColours(distance).update(tokens).colours
    if tokens.shape[1] > 3:
        tokens = tokens @ np.array(principal_axes(tokens)).T
    return Cell(beta, frame.time, tokens, colours, count, seconds)
