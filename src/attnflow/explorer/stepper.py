"""Frame-by-frame integration of a run, with the compiled steps of `simulate`.

Frames are interpolated between the solver's steps as in `simulate`, with the same methods of summation, so that the
numbers do not depend on how a run is watched. All numbers of a model are arguments of the compiled code: a change of
beta compiles nothing, unless another method of summation is then faster.
"""

import time as wall
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.checks import InputError
from attnflow._common.jit_cache import drop_old_programs
from attnflow._common.precision import cast, double
from attnflow.experiments.scenarios import Setup
from attnflow.explorer.pace import CallTime, RecentCalls
from attnflow.explorer.recording import Frame
from attnflow.integrate.compiled_loop import TargetWindow, Task, advance, begin
from attnflow.integrate.normalisation_notes import vanishing_output, vanishing_words
from attnflow.integrate.request import checked_request, default_solver
from attnflow.integrate.targets import next_target
from attnflow.model.dynamics import AbstractDynamics, State
from attnflow.model.fast_sums.choice import with_method
from attnflow.model.flows import SphereAttention
from attnflow.results.outcome import simulation_sentence
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.base import AbstractSolver
from attnflow.solvers.fixed_step import AbstractFixedStep
from attnflow.solvers.status import Status

SECONDS_PER_LIVE_CALL = 0.03  # of one compiled call, which cannot be interrupted
MAX_GROWTH = (
    4  # of the number of steps from one call to the next, since the duration of one call is a noisy measurement
)
_compiled: set[int] = set()  # digests of the programs that were compiled in this process


class Stepper:
    """Integrates one run from frame to frame."""

    def __init__(self, setup: Setup):
        if setup.tokens.ndim != 2:
            raise InputError("The page shows one run at a time. Leave `runs` out.")
        self.flow: AbstractDynamics = setup.flow
        self.solver: AbstractSolver = solver_for(setup)
        self.rng = setup.rng
        self._seed = setup.rng.generate_state(2)
        tokens = checked_request(self.flow, setup.tokens, [0.0, self.step_length or 1.0], solver=self.solver).tokens
        drop_old_programs()
        state = State.of(self.flow, tokens)
        self.first = Frame(0, 0.0, np.asarray(state.tokens), None if state.radii is None else np.asarray(state.radii))
        self._resume: Frame = self.first
        self._start = 0.0  # time from which the present model acts
        self._cursors: Any = None
        self._attempts = 0  # steps attempted until the last frame
        self.last_seconds = 0.0
        """Seconds of the last call; zero for one that may have compiled."""
        self._prepare()

    def _prepare(self) -> None:
        """Convert the model and the seed, which are the same for all frames."""
        with double():
            self._task: Any = cast(Task(self._summed_flow(), self.solver, (), {}, True), "float64")
            self._keys = jax.random.wrap_key_data(jnp.asarray(self._seed)[None])
        self._budget = 1  # steps of the next call; the duration of a step is not known before the first
        self.pace = RecentCalls()
        """Steps and their duration since the model began."""

    def _summed_flow(self) -> AbstractDynamics:
        """The flow with the method that sums over many tokens in the least time, chosen as `simulate` does."""
        rtol = float(self.solver.rtol) if isinstance(self.solver, Adaptive) else None
        return with_method(self.flow, self._resume.tokens, rtol)

    @property
    def must_compile(self) -> bool:
        """Whether the next call compiles a program that this process has not compiled before."""
        return self._program() not in _compiled

    def _program(self) -> int:
        """A digest of what the compiled program depends on: kinds of parts and shapes, but not their numbers."""
        arrays, rest = eqx.partition((self._task, self._resume.tokens), eqx.is_array)
        shapes = [(leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(arrays)]
        return hash((jax.tree.structure(arrays), str(jax.tree.leaves(rest)), str(shapes)))

    @property
    def reached(self) -> float:
        """The time that the solver has reached."""
        return self._resume.time if self._cursors is None else float(np.asarray(self._cursors.time)[0])

    @property
    def step_length(self) -> float | None:
        """Length of fixed steps, whose multiples after the model's start can be shown; None for adaptive steps."""
        return step_length_of(self.solver)

    def set_model(self, setup: Setup, frame: Frame) -> None:
        """Continue from a frame with another model of tokens of the same shape; its steps may be longer or shorter."""
        solver = solver_for(setup)
        if setup.flow.has_radii != (frame.radii is not None):
            raise InputError("This normalisation changes whether tokens have lengths. Restart with it.")
        solver.require_serves(setup.flow, np.array([0.0, step_length_of(solver) or 1.0]))
        self.flow, self.solver = setup.flow, solver
        self.continue_from(frame)
        self._prepare()

    def continue_from(self, frame: Frame) -> None:
        """Start the next call of `advance` at a frame."""
        self._resume, self._cursors, self._start = frame, None, frame.time
        self._attempts = frame.steps

    def next_time(self, wanted: float) -> float:
        """The time nearest to `wanted`, and after the present one, at which the solver can give a frame."""
        step, now = self.step_length, self._resume.time
        if step is None:
            return max(wanted, float(np.nextafter(now, np.inf)))
        counts = [round((time - self._start) / step) for time in (wanted, now)]
        return self._start + step * max(counts[0], counts[1] + 1)

    def advance(self, time: float) -> Frame | None:
        """The frame at `time`, or None if its computation needs another call."""
        is_first = self._cursors is None or self.must_compile
        with double():
            cursors: Any = self._begin() if self._cursors is None else self._cursors
            window = self._window(cursors, time)
            began = wall.monotonic()
            steps = jnp.full_like(cursors.accepted, self._budget)
            self._cursors, reached, saved = advance(self._task, cursors, window, self._keys, steps)
            is_reached = bool(np.asarray(reached)[0, 0])
            saved = {name: np.asarray(values)[0, 0] for name, values in saved.items()}
        self._measure_call(cursors, wall.monotonic() - began, is_first)
        self._require_running()
        self._require_progress(is_reached)
        if not is_reached or float(window.targets.time[0, 0]) < time:  # a jump of the weights came first
            return None
        count = int(np.asarray(self._cursors.accepted)[0])
        self._resume = Frame(self._resume.index + 1, time, saved["tokens"], saved.get("radius"), steps=count)
        return self._resume

    def _measure_call(self, before: Any, seconds: float, is_first: bool) -> None:
        """Count the steps of a call, and choose the number of the next so that it takes about `SECONDS_PER_LIVE_CALL`.

        The number grows only if it was used up: a call that ended at its frame says nothing about longer ones. The
        first call may have compiled, so that its duration is not counted.
        """
        _compiled.add(self._program())
        taken = _attempted(self._cursors) - _attempted(before)
        self.last_seconds = 0.0 if is_first else seconds
        if is_first:
            return
        self.pace.add(CallTime(self.reached - float(np.asarray(before.time)[0]), taken, seconds))
        if taken == 0:  # the frame was interpolated
            return
        most = self._budget * MAX_GROWTH if taken >= self._budget else self._budget
        self._budget = max(1, min(most, int(SECONDS_PER_LIVE_CALL * taken / max(seconds, 1e-9))))

    def _begin(self) -> Any:
        frame = self._resume
        radii = None if frame.radii is None else jnp.asarray(frame.radii)[None]
        state = State(jnp.asarray(frame.tokens)[None], radii)
        cursors, _ = begin(self._task, jnp.asarray(frame.time, "float64"), state)
        # The noise of a step depends on its number, which must not be used twice.
        count = jnp.full_like(cursors.accepted, frame.steps)
        return eqx.tree_at(lambda cursor: cursor.accepted, cursors, count)

    def _window(self, cursors: Any, time: float) -> TargetWindow:
        """One target: the time asked for, or the next jump of the field before it."""
        target = next_target(self.flow, self.solver, float(np.asarray(cursors.time)[0]), time)
        return TargetWindow(jax.tree.map(lambda leaf: jnp.asarray(leaf)[None, None], target), jnp.asarray([[True]]))

    def _require_running(self) -> None:
        status = Status(int(np.asarray(self._cursors.status)[0]))
        if status != Status.RUNNING:
            reached = float(np.asarray(self._cursors.time)[0])
            steps = int(np.asarray(self._cursors.accepted)[0])
            radii = self._cursors.state.radii
            lengths = None if radii is None else np.asarray(radii)[0]
            raise InputError(f"The run has ended. {simulation_sentence(status, reached, steps, (), lengths)}")

    def _require_progress(self, is_reached: bool) -> None:
        """Raise InputError if the next frame is not reached because the field jumps at a vanishing attention output."""
        cursors: Any = self._cursors
        attempts = _attempted(cursors)
        since, time = attempts - self._attempts, float(np.asarray(cursors.time)[0])
        if is_reached:
            self._attempts = attempts
            return
        token = vanishing_output(self.flow, self.solver, np.asarray(cursors.state.tokens)[0], time, since)
        if token is not None and isinstance(self.flow, SphereAttention):
            raise InputError(vanishing_words(self.flow, token, time, since, time))


def _attempted(cursors: Any) -> int:
    return int(np.asarray(cursors.accepted)[0] + np.asarray(cursors.rejected)[0])


def solver_for(setup: Setup) -> AbstractSolver:
    """The solver of a setup, or the default solver of its flow."""
    return setup.solver or default_solver(setup.flow)


def step_length_of(solver: AbstractSolver) -> float | None:
    """The length of fixed steps; None for adaptive steps."""
    return float(solver.step) if isinstance(solver, AbstractFixedStep) else None
