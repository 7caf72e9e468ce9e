"""Statements: a theorem with the measurement that checks its conclusion on a run, an example and a control."""

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
from attnflow.theorems.simplest_flow import simplest
from attnflow.theorems.theorem import Theorem
from attnflow.theorems.verdict import Hypothesis, Measurement, Verdict, is_true, judge

Measure = Callable[[AbstractDynamics, xr.Dataset], Measurement]


@dataclasses.dataclass(frozen=True)
class Instance:
    """A flow, its first tokens and the times that are saved."""

    flow: AbstractDynamics
    tokens: np.ndarray
    times: np.ndarray
    solver: AbstractSolver | None = None
    seed: int = 0
    coalesces: bool = False
    """Whether it is solved by `coalesce`, until one cluster is left, instead of up to the last of `times`."""

    def simulate(self, progress: Any = False) -> xr.Dataset:
        """The run of this instance."""
        if self.coalesces:
            return coalesce(self.flow, self.tokens, progress=progress)
        return simulate(self.flow, self.tokens, self.times, solver=self.solver, rng=self.seed, progress=progress)


@dataclasses.dataclass(frozen=True)
class OnCoalescing:
    """The measurement on a run of `coalesce`, whose times may be too large for floats."""

    measure: Measure
    hypotheses: Callable[[AbstractDynamics, xr.Dataset], Sequence[Hypothesis]] | None = None
    """Hypotheses on the run, in place of those of the theorem on the first tokens."""


@dataclasses.dataclass(frozen=True)
class Statement:
    """A theorem about the tokens of a flow, checked on a run.

    `measure` takes one run (no `run` axis). `example` is an instance of which the theorem is true, `control` an
    instance outside its hypotheses.
    """

    theorem: Theorem
    measure: Measure | None
    """None where only a run of `coalesce` can be measured."""
    example: Callable[[], Instance]
    control: Callable[[], Instance]
    coalescing: OnCoalescing | None = None
    """None where the measurement needs chosen times."""
    continuous: bool = True
    """False where the theorem is about discrete layers."""

    @property
    def id(self) -> str:
        """The name of the theorem."""
        return self.theorem.id

    @property
    def paper(self) -> str:
        """The publication of the theorem."""
        return self.theorem.paper

    @property
    def says(self) -> str:
        """The theorem in a sentence."""
        return self.theorem.says

    @property
    def proved(self) -> bool:
        """False for conjectures, of which `fails` is a discovery and not a mistake of the software."""
        return self.theorem.proved

    def hypotheses(self, flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
        """The hypotheses of the theorem, measured on a flow and its first tokens."""
        return self.theorem.hypotheses(flow, tokens)

    def check(self, flow: AbstractDynamics, run: xr.Dataset) -> Verdict:
        """The verdict on one run of `flow`; hypotheses and measurement read the simplest flow with its velocities."""
        flow = simplest(flow, run.sizes["token"])
        is_coalescing = kind_of(run) is ResultKind.COALESCENCE
        hypotheses = self._of_coalescing(flow, run) if is_coalescing else self._of_simulating(flow, run)
        applies = all(hypothesis.holds for hypothesis in hypotheses)
        measurement = self._measured(flow, run, is_coalescing) if applies else None
        return Verdict(self.id, self.paper, self.says, judge(hypotheses, measurement), hypotheses, measurement)

    def _of_coalescing(self, flow: AbstractDynamics, run: xr.Dataset) -> tuple[Hypothesis, ...]:
        if self.coalescing is None:
            return (is_true("a run of `simulate`, with tokens at chosen times", False),)
        if self.coalescing.hypotheses is not None:
            return tuple(self.coalescing.hypotheses(flow, run))
        return self.hypotheses(flow, run.initial_tokens.values)

    def _of_simulating(self, flow: AbstractDynamics, run: xr.Dataset) -> tuple[Hypothesis, ...]:
        if self.measure is None:
            return (is_true("a run of `coalesce`, through all merges", False),)
        return (*self.hypotheses(flow, run.initial_tokens.values), *self._hypotheses_on_time(run))

    def _measured(self, flow: AbstractDynamics, run: xr.Dataset, is_coalescing: bool) -> Measurement:
        """The measurement; a miss is left open where the solver is too coarse to decide."""
        if is_coalescing:
            assert self.coalescing is not None  # or it would not apply
            return self.coalescing.measure(flow, run)
        assert self.measure is not None
        measured, solver = self.measure(flow, run), solver_of(run)
        # Above a relative tolerance of 1e-6 the error of the solver may exceed the tolerances of measurements.
        is_coarse = isinstance(solver, AbstractFixedStep) or (
            isinstance(solver, Adaptive | TokenByToken) and solver.rtol > 1e-6
        )
        if self.continuous and is_coarse and not measured.open:
            return dataclasses.replace(measured, open="the solver is coarse: repeat with `Adaptive()` to decide")
        return measured

    def _hypotheses_on_time(self, run: xr.Dataset) -> tuple[Hypothesis, ...]:
        is_layers = isinstance(solver_of(run), Layers)
        if not self.continuous:
            # That layers overflow can contradict the theorem, so it is left to the measurement.
            return (is_true("discrete layers, not continuous time", is_layers),)
        return (
            is_true("continuous time, not discrete layers", not is_layers),
            is_true("the run did not fail", not bool(run.failed)),
        )

    def check_instance(self, instance: Instance) -> Verdict:
        """The verdict on an instance; nothing is simulated when it does not apply."""
        hypotheses = self.hypotheses(instance.flow, instance.tokens)
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
    """A statement about numbers instead of a run: a probability, a closed form, an ODE.

    `evaluate(**parameters)` returns the hypotheses and a function that measures; `example` and `control` are its
    parameters.
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
