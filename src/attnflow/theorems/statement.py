"""Statements: a theorem, lemma or conjecture that software can hold against an instance."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from attnflow.coalescence.coalesce import coalesce
from attnflow.integrate.simulate import simulate
from attnflow.model.dynamics import AbstractDynamics
from attnflow.results.provenance import ResultKind, kind_of, solver_of
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.base import AbstractSolver
from attnflow.solvers.fixed_step import AbstractFixedStep
from attnflow.solvers.layers import Layers
from attnflow.solvers.token_by_token import TokenByToken
from attnflow.theorems.verdict import Hypothesis, Measurement, Verdict, is_true, judge

COARSE = 1e-6  # relative tolerance above which the solver's error may exceed what statements tolerate


@dataclasses.dataclass(frozen=True)
class Instance:
    """A flow, its first tokens and the times to look at."""

    flow: AbstractDynamics
    tokens: np.ndarray
    times: np.ndarray
    solver: AbstractSolver | None = None
    seed: int = 0
    coalesces: bool = False
    """Whether it is followed by `coalesce`, to one cluster, instead of to `times`."""

    def simulate(self, progress: Any = False) -> xr.Dataset:
        """The run of this instance."""
        if self.coalesces:
            return coalesce(self.flow, self.tokens, progress=progress)
        return simulate(self.flow, self.tokens, self.times, solver=self.solver, rng=self.seed, progress=progress)


@dataclasses.dataclass(frozen=True)
class OnCoalescing:
    """How a statement is held against a run of `coalesce`, whose times may be beyond floats."""

    measure: Callable[[AbstractDynamics, xr.Dataset], Measurement]
    hypotheses: Callable[[AbstractDynamics, xr.Dataset], Sequence[Hypothesis]] | None = None
    """Instead of the statement's own, which look at the first tokens."""


@dataclasses.dataclass(frozen=True)
class Statement:
    """A statement about a flow's tokens, checked on a run.

    `hypotheses` and `measure` look at one run (no `run` axis). `example` is an instance
    the statement is true of, `control` one outside its hypotheses.
    """

    id: str
    paper: str
    says: str
    hypotheses: Callable[[AbstractDynamics, np.ndarray], Sequence[Hypothesis]]
    measure: Callable[[AbstractDynamics, xr.Dataset], Measurement] | None
    """None where only a run of `coalesce` can tell."""
    example: Callable[[], Instance]
    control: Callable[[], Instance]
    coalescing: OnCoalescing | None = None
    """None where the statement needs times of its own to look at."""
    proved: bool = True
    """False for conjectures: a `fails` is then news, not a bug."""
    continuous: bool = True
    """False where the statement is about discrete layers."""

    def check(self, flow: AbstractDynamics, run: xr.Dataset) -> Verdict:
        """The verdict on one run of `flow`."""
        is_coalescing = kind_of(run) is ResultKind.COALESCENCE
        hypotheses = self._of_coalescing(flow, run) if is_coalescing else self._of_simulating(flow, run)
        applies = all(hypothesis.holds for hypothesis in hypotheses)
        measurement = self._measured(flow, run, is_coalescing) if applies else None
        return Verdict(self.id, self.paper, self.says, judge(hypotheses, measurement), hypotheses, measurement)

    def _of_coalescing(self, flow: AbstractDynamics, run: xr.Dataset) -> tuple[Hypothesis, ...]:
        if self.coalescing is None:
            return (is_true("a run of `simulate`, with times to look at", False),)
        if self.coalescing.hypotheses is not None:
            return tuple(self.coalescing.hypotheses(flow, run))
        return tuple(self.hypotheses(flow, run.initial_tokens.values))

    def _of_simulating(self, flow: AbstractDynamics, run: xr.Dataset) -> tuple[Hypothesis, ...]:
        if self.measure is None:
            return (is_true("a run of `coalesce`, through all merges", False),)
        return (*self.hypotheses(flow, run.initial_tokens.values), *self._hypotheses_on_time(run))

    def _measured(self, flow: AbstractDynamics, run: xr.Dataset, is_coalescing: bool) -> Measurement:
        """The measurement; what a coarse solver misses is held against the solver, not the statement."""
        if is_coalescing:
            assert self.coalescing is not None  # or it would not apply
            return self.coalescing.measure(flow, run)
        assert self.measure is not None
        found, solver = self.measure(flow, run), solver_of(run)
        is_coarse = isinstance(solver, AbstractFixedStep) or (
            isinstance(solver, Adaptive | TokenByToken) and solver.rtol > COARSE
        )
        if self.continuous and is_coarse and not found.open:
            return dataclasses.replace(found, open="the solver is coarse: repeat with `Adaptive()` to decide")
        return found

    def _hypotheses_on_time(self, run: xr.Dataset) -> tuple[Hypothesis, ...]:
        is_layers = isinstance(solver_of(run), Layers)
        if not self.continuous:
            # Layers that overflow have failed as the statement can fail: that is left to the measurement.
            return (is_true("discrete layers, not continuous time", is_layers),)
        return (
            is_true("continuous time, not discrete layers", not is_layers),
            is_true("the run did not fail", not bool(run.failed)),
        )

    def check_instance(self, instance: Instance) -> Verdict:
        """The verdict on an instance; nothing is simulated when it does not apply."""
        hypotheses = tuple(self.hypotheses(instance.flow, instance.tokens))
        if not all(hypothesis.holds for hypothesis in hypotheses):
            return Verdict(self.id, self.paper, self.says, "not_applicable", hypotheses)
        return self.check(instance.flow, instance.simulate())

    def verify(self) -> Verdict:
        """The verdict on the example."""
        return self.check_instance(self.example())

    def verify_control(self) -> Verdict:
        """The verdict on the instance outside the hypotheses: anything but `holds`."""
        return self.check_instance(self.control())


@dataclasses.dataclass(frozen=True)
class Computation:
    """A statement about numbers rather than a run: a probability, a closed form, an ODE.

    `check(**parameters)` gives hypotheses and a measurement; `example` and `control` are parameters.
    """

    id: str
    paper: str
    says: str
    evaluate: Callable[..., tuple[Sequence[Hypothesis], Callable[[], Measurement]]]
    example: dict[str, Any]
    control: dict[str, Any]
    proved: bool = True

    def check(self, **parameters: Any) -> Verdict:
        """The verdict for these parameters; nothing is measured when it does not apply."""
        hypotheses, measure = self.evaluate(**parameters)
        applies = all(hypothesis.holds for hypothesis in hypotheses)
        measurement = measure() if applies else None
        return Verdict(self.id, self.paper, self.says, judge(hypotheses, measurement), tuple(hypotheses), measurement)

    def verify(self) -> Verdict:
        """The verdict for the example."""
        return self.check(**self.example)

    def verify_control(self) -> Verdict:
        """The verdict for parameters outside the hypotheses, or for a wrong value: anything but `holds`."""
        return self.check(**self.control)
