"""A run that is computed while it is watched: the library's own compiled steps, a frame at a time.

Frames are interpolated between the solver's steps as `simulate` does, so that watching changes no number.
Everything numerical is an argument of the compiled code: another beta compiles nothing.
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
from attnflow.explorer.recording import Moment
from attnflow.integrate import request
from attnflow.integrate.compiled_loop import TargetWindow, Task, advance, begin
from attnflow.integrate.simulate import default_solver
from attnflow.model.dynamics import AbstractDynamics, State
from attnflow.results.outcome import WORDS
from attnflow.solvers.base import AbstractSolver, Target
from attnflow.solvers.fixed_step import AbstractFixedStep
from attnflow.solvers.layers import Layers
from attnflow.solvers.status import Status

SECONDS_PER_CALL = 0.03  # how long compiled code may keep a viewer waiting
MOST_STEPS = 10**12


class Stepper:
    """Takes one run on from a moment."""

    def __init__(self, setup: Setup):
        if setup.tokens.ndim != 2:
            raise InputError("The page shows one run at a time. Leave `runs` out.")
        self.flow: AbstractDynamics = setup.flow
        self.solver: AbstractSolver = solver_of(setup)
        self.rng = setup.rng
        self._seed = setup.rng.generate_state(2)
        self._budget = 8
        tokens, _ = request.require_run(self.flow, setup.tokens, [0.0, self.grid or 1.0], self.solver, {}, ())
        drop_old_programs()
        state = State.of(self.flow, tokens)
        self.first = Moment(0, 0.0, state.tokens, state.radii)
        self._resume: Moment = self.first
        self._start = 0.0  # when the present model took over
        self._cursors: Any = None
        self._prepare()

    def _prepare(self) -> None:
        """What stays the same from frame to frame of one model."""
        with double():
            self._task: Any = cast(Task(self.flow, self.solver, (), {}, True), "float64")
            self._keys = jax.random.wrap_key_data(jnp.asarray(self._seed)[None])

    @property
    def grid(self) -> float | None:
        """Fixed steps land on multiples of this after the model's start; None where any time will do."""
        return grid_of(self.solver)

    def set_model(self, setup: Setup, moment: Moment) -> None:
        """Go on from a moment with another model of tokens of the same shape."""
        solver = solver_of(setup)
        if setup.flow.has_radii != (moment.radii is not None):
            raise InputError("This normalisation changes whether tokens have lengths. Restart with it.")
        solver.require_serves(setup.flow, np.array([0.0, grid_of(solver) or 1.0]))
        self.flow, self.solver = setup.flow, solver
        self._prepare()
        self.go_on_from(moment)

    def go_on_from(self, moment: Moment) -> None:
        """The next call starts there."""
        self._resume, self._cursors, self._start = moment, None, moment.time

    def next_time(self, wanted: float) -> float:
        """The time nearest to `wanted` that the solver can show, after the present one."""
        grid, now = self.grid, self._resume.time
        if grid is None:
            return max(wanted, float(np.nextafter(now, np.inf)))
        steps = [round((time - self._start) / grid) for time in (wanted, now)]
        return self._start + grid * max(steps[0], steps[1] + 1)

    def advance(self, time: float) -> Moment | None:
        """The moment at `time`, or None where there is more to compute: call again."""
        with double():
            cursors: Any = self._begin() if self._cursors is None else self._cursors
            window = self._window(cursors, time)
            began = wall.monotonic()
            steps = jnp.asarray(self._budget, cursors.accepted.dtype)
            self._cursors, reached, saved = advance(self._task, cursors, window, self._keys, steps)
            is_reached = bool(np.asarray(reached)[0, 0])
            saved = {name: np.asarray(values)[0, 0] for name, values in saved.items()}
        self._set_budget(wall.monotonic() - began)
        self._require_running()
        if not is_reached or float(window.targets.time[0, 0]) < time:  # a jump of the weights came first
            return None
        count = int(np.asarray(self._cursors.accepted)[0])
        self._resume = Moment(self._resume.index + 1, time, saved["tokens"], saved.get("radius"), steps=count)
        return self._resume

    def _begin(self) -> Any:
        moment = self._resume
        radii = None if moment.radii is None else jnp.asarray(moment.radii)[None]
        state = State(jnp.asarray(moment.tokens)[None], radii)
        cursors, _ = begin(self._task, jnp.asarray(moment.time, "float64"), state)
        # The noise of a step depends on its number: going on must not repeat it.
        count = jnp.full_like(cursors.accepted, moment.steps)
        return eqx.tree_at(lambda cursor: cursor.accepted, cursors, count)

    def _window(self, cursors: Any, time: float) -> TargetWindow:
        """One target: the time asked for, or the next jump of the field before it."""
        now = float(np.asarray(cursors.time)[0])
        jumps = np.empty(0) if isinstance(self.solver, Layers) else self.flow.jumps(now, self._horizon(now))
        target = min(time, jumps[0]) if len(jumps) else time
        lands = getattr(self.solver, "lands_on_times", True)
        ahead = [target] if lands else []
        barrier = min([*ahead, *jumps[:1]], default=np.inf)
        is_jump = bool(len(jumps) and barrier == jumps[0])
        places = (target, barrier, is_jump)
        return TargetWindow(Target(*(jnp.asarray(place)[None, None] for place in places)), jnp.asarray([[True]]))

    def _horizon(self, now: float) -> float:
        """Far enough to see the next jump; no farther, since weights that are redrawn have a jump every period."""
        periods = [float(period) for head in self.flow.heads if (period := getattr(head, "period", None)) is not None]
        return now + 2 * min(periods) if periods else 1e300

    def _set_budget(self, seconds: float) -> None:
        pace = np.clip(SECONDS_PER_CALL / max(seconds, 1e-4), 0.25, 4)
        self._budget = int(np.clip(self._budget * pace, 1, 10**6))

    def _require_running(self) -> None:
        status = int(np.asarray(self._cursors.status)[0])
        if status != Status.RUNNING:
            reached = float(np.asarray(self._cursors.time)[0])
            raise InputError(f"The run {WORDS[status].format(time=f'{reached:.6g}')}.")


def solver_of(setup: Setup) -> AbstractSolver:
    """The solver that was asked for, or the usual one."""
    return setup.solver or default_solver(setup.flow)


def grid_of(solver: AbstractSolver) -> float | None:
    """The length of fixed steps; None where steps adapt."""
    return float(solver.step) if isinstance(solver, AbstractFixedStep) else None
