"""The compiled loop: many steps of several runs in one call, with saved values at the targets.

Runs are computed one after the other, each with its own steps. A batch would take as many steps as the slowest of its
runs: for 64 runs of 32 tokens it took longer. The numbers of a run therefore do not depend on the other runs.

A call ends after a window of targets or a number of steps, so that the host can show progress, respect a time budget
and be interrupted. All numbers are arguments: changes of beta, weights, times or tolerances compile nothing again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from attnflow._common.arrays import AnyArray
from attnflow.model.dynamics import AbstractDynamics, State
from attnflow.results.run_dataset import Request
from attnflow.solvers.base import AbstractSolver, Cursor, Target, choose
from attnflow.solvers.status import FIRST_STOP, Status
from attnflow.solvers.stopping import AbstractStop

BISECTIONS = 60  # of a step, to the rounding error of its times
ZERO_ROUNDING = 100  # rounding errors of a length, below which it is zero


class Task(eqx.Module):
    """The flow, solver, stopping conditions and saved quantities, which are the same for all runs."""

    flow: AbstractDynamics
    solver: AbstractSolver
    stops: tuple[AbstractStop, ...]
    observables: dict[str, Callable]
    keeps_tokens: bool = eqx.field(static=True)

    @classmethod
    def of(cls, request: Request) -> "Task":
        """The part of a request that compiled code needs."""
        observables = dict(request.observables)
        return cls(request.flow, request.solver, request.stops, observables, request.keep_tokens)

    def measure(self, time: AnyArray, state: State) -> dict[str, Any]:
        """The values to save for a state: observables and, if kept, tokens and lengths."""
        saved: dict[str, Any] = {name: jnp.asarray(fn(time, state.tokens)) for name, fn in self.observables.items()}
        if self.keeps_tokens:
            saved["tokens"] = state.tokens
            if state.radii is not None:
                saved["radius"] = state.radii
        return saved

    def measure_at(self, cursor: Cursor, time: AnyArray) -> dict[str, Any]:
        """The values to save at a time that the cursor has just reached or passed."""
        return self.measure(time, self.solver.value_at(self.flow, cursor, time))


class TargetWindow(NamedTuple):
    """Consecutive targets of one run; targets beyond the last one are not active."""

    targets: Target
    is_active: AnyArray


@eqx.filter_jit
def begin(task: Task, time: AnyArray, states: State) -> tuple[Cursor, dict[str, Any]]:
    """The cursors of all runs at the first time, and the values to save there."""

    def one_run(state):
        zero = jnp.zeros((), jnp.int64 if time.dtype == jnp.float64 else jnp.int32)
        cursor = Cursor(
            time=time,
            state=state,
            memory=task.solver.start(task.flow, time, state),
            status=jnp.asarray(Status.RUNNING.value),
            accepted=zero,
            rejected=zero,
            drift=jnp.zeros((), time.dtype),
        )
        return cursor, task.measure(time, state)

    return jax.lax.map(one_run, states)


@eqx.filter_jit
def advance(
    task: Task, cursors: Cursor, windows: TargetWindow, rng_keys: AnyArray, max_steps: AnyArray
) -> tuple[Cursor, AnyArray, dict[str, Any]]:
    """Integrate every run through its window of targets, or for its entry of `max_steps` steps if that is less.

    Returns the cursors, which targets were reached, and the values saved at them.
    """

    def one_run(cursor, window, rng_key, max_steps):
        last = cursor.accepted + cursor.rejected + max_steps

        def visit(cursor, entry):
            target, is_active = entry

            def is_under_way(cursor):
                has_steps = cursor.accepted + cursor.rejected < last
                return is_active & has_steps & (cursor.time < target.time) & (cursor.status == Status.RUNNING.value)

            step = lambda cursor: _step(task, cursor, target, rng_key)
            cursor = jax.lax.while_loop(is_under_way, step, cursor)
            is_reached = is_active & (cursor.time >= target.time)
            save = lambda: task.measure_at(cursor, target.time)
            saved = jax.lax.cond(is_reached, save, lambda: _zeros_like_result(save))
            return cursor, (is_reached, saved)

        cursor, (reached, saved) = jax.lax.scan(visit, cursor, (window.targets, window.is_active))
        return cursor, reached, saved

    return jax.lax.map(lambda run: one_run(*run), (cursors, windows, rng_keys, max_steps))


def _step(task: Task, cursor: Cursor, target: Target, rng_key: AnyArray) -> Cursor:
    after = task.solver.attempt(task.flow, cursor, target, rng_key)
    if task.flow.has_radii:
        after = _stopped_at_zero_length(task, cursor, after, target)
    status = after.status
    for index, stop in enumerate(task.stops):
        duration = after.time - cursor.time
        is_met = (duration > 0) & stop.is_met(task.flow.space, cursor.state.tokens, after.state.tokens, duration)
        status = jnp.where((status == Status.RUNNING.value) & is_met, FIRST_STOP + index, status)
    return eqx.tree_at(lambda c: c.status, after, status)


def _stopped_at_zero_length(task: Task, before: Cursor, after: Cursor, target: Target) -> Cursor:
    """The cursor after a step; if a length reached zero in it, the cursor at the last time with positive lengths.

    A token of length zero has no direction, and the equation ends there. Where lengths pass zero within a step, the
    time is found by bisection of the interpolant; a solver without one stops at the beginning of the step. A step that
    failed, because it was too short or a stage of it divided by a length of zero, stops the run in the same way if a
    length reaches zero, at its rate of change, within the shortest possible step.
    """
    state_at = lambda time: task.solver.value_at(task.flow, after, time)

    def halved(_, ends):
        middle = (ends[0] + ends[1]) / 2
        is_positive = jnp.all(_lengths_of(state_at(middle)) > 0)
        return jnp.where(is_positive, middle, ends[0]), jnp.where(is_positive, ends[1], middle)

    def crossing():
        time, _ = jax.lax.fori_loop(0, BISECTIONS, halved, (before.time, after.time))
        return time, choose(time > before.time, state_at(time), before.state)

    lengths = _lengths_of(after.state)
    is_past = jnp.any(lengths <= 0)
    has_failed = (after.status == Status.STEP_TOO_SMALL.value) | (after.status == Status.NOT_FINITE.value)
    is_stuck = jax.lax.cond(has_failed, lambda: _reaches_zero(task, after, target), lambda: jnp.array(False))
    time, state = jax.lax.cond(is_past, crossing, lambda: (after.time, after.state))
    status = jnp.where(is_past | is_stuck, Status.ZERO_LENGTH.value, after.status)
    return eqx.tree_at(lambda c: (c.time, c.state, c.status), after, (time, state, status))


def _reaches_zero(task: Task, cursor: Cursor, target: Target) -> AnyArray:
    """Whether a length is zero, up to rounding, after the shortest possible step."""
    lengths = _lengths_of(cursor.state)
    ahead = task.solver.lengths_ahead(task.flow, cursor, target)
    return jnp.any(ahead <= ZERO_ROUNDING * jnp.finfo(lengths.dtype).eps * lengths)


def _lengths_of(state: State) -> AnyArray:
    """The lengths of the tokens of a flow that has them."""
    return jnp.asarray(state.radii)


def _zeros_like_result(function: Callable) -> Any:
    shapes = jax.eval_shape(function)
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
