"""The interface of solvers, which take one step at a time from a `Cursor` towards a `Target`, and its helpers.

The loop around the steps is in `integrate.compiled_loop`. On the sphere every accepted step ends on it; the distance
from it just before is recorded as drift.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray
from attnflow._common.module import Module
from attnflow.model.dynamics import AbstractDynamics, State
from attnflow.solvers.status import Status


class Target(eqx.Module):
    """A time to reach or pass, and the next time that no step may cross."""

    time: AnyArray
    barrier: AnyArray
    barrier_is_jump: AnyArray

    def latest(self) -> AnyArray:
        """The last time at which the field may be evaluated in a step that ends at the barrier.

        For a jump of the field it is the float just before: the last stage of the step, too, has the old weights.
        """
        before = jnp.nextafter(self.barrier, jnp.full_like(self.barrier, -jnp.inf))
        return jnp.where(self.barrier_is_jump, before, jnp.inf)


class Cursor(eqx.Module):
    """The time, state and status of a run, the memory of its solver, and counts of its steps."""

    time: AnyArray
    state: State
    memory: Any
    status: AnyArray
    accepted: AnyArray
    rejected: AnyArray
    drift: AnyArray
    """Largest distance of a token from the space at the end of an accepted step, before retraction."""


class AbstractSolver(Module):
    """A method that moves a cursor by one step."""

    @abc.abstractmethod
    def start(self, flow: AbstractDynamics, time: AnyArray, state: State) -> Any:
        """The memory of the solver before the first step."""

    @abc.abstractmethod
    def attempt(self, flow: AbstractDynamics, cursor: Cursor, target: Target, rng_key: AnyArray) -> Cursor:
        """The cursor after one attempted step towards the target; a rejected step changes neither time nor state."""

    @abc.abstractmethod
    def value_at(self, flow: AbstractDynamics, cursor: Cursor, time: AnyArray) -> State:
        """The state at a time within the last accepted step."""

    @abc.abstractmethod
    def lengths_ahead(self, flow: AbstractDynamics, cursor: Cursor, target: Target) -> AnyArray:
        """The lengths of the tokens after the shortest possible step, at the rates of change of the cursor."""

    @property
    @abc.abstractmethod
    def lands_on_times(self) -> bool:
        """Whether steps end on every saving time, as against interpolating there."""

    @property
    @abc.abstractmethod
    def step_limit(self) -> int:
        """The number of attempted steps after which a run fails."""

    def require_dtype(self, dtype: str) -> None:
        """Raise ValueError if numbers of this type are too coarse for the solver's tolerances."""
        del dtype

    @abc.abstractmethod
    def require_serves(self, flow: AbstractDynamics, times: np.ndarray) -> None:
        """Raise ValueError if this solver cannot solve this flow."""


def plus(state: State, factor: Any, change: State) -> State:
    """state + factor * change."""
    return jax.tree.map(lambda value, move: value + factor * move, state, change)


def retracted_if_moved(flow: AbstractDynamics, tokens: Any, former: Any) -> AnyArray:
    """The tokens retracted to the space of the flow; a token that equals its `former` position keeps its bits."""
    rests = jnp.all(tokens == former, axis=-1, keepdims=True)
    return jnp.where(rests, tokens, flow.space.retract(tokens))


def extrapolated_lengths(flow: AbstractDynamics, cursor: Cursor, duration: Any) -> AnyArray:
    """r + duration * r', for a flow whose tokens have lengths r."""
    rates = flow.velocity(cursor.time, cursor.state).radii
    return jnp.asarray(cursor.state.radii) + duration * jnp.asarray(rates)


def choose(condition: Any, new: Any, old: Any) -> Any:
    """The tree `new` if the condition holds, else the tree `old` of the same structure."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def is_finite(state: State) -> AnyArray:
    """Whether every number of the state is finite."""
    return jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(state)]))


def arrive(flow, cursor: Cursor, time, moved: State, memory, keeps) -> Cursor:
    """The cursor after a step: tokens are retracted to the space, the step is counted, NaN becomes a status."""
    is_good = is_finite(moved)
    arrived = retracted_if_moved(flow, moved.tokens, cursor.state.tokens)
    drift = jnp.where(is_good & keeps, flow.space.drift(moved.tokens), 0)
    return Cursor(
        time=jnp.where(is_good, time, cursor.time),
        state=choose(is_good, State(arrived, moved.radii), cursor.state),
        memory=memory,
        status=jnp.where(is_good, cursor.status, Status.NOT_FINITE.value),
        accepted=cursor.accepted + (is_good & keeps),
        rejected=cursor.rejected + ~(is_good & keeps),
        drift=jnp.maximum(cursor.drift, drift),
    )
