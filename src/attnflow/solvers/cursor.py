"""Where a run is on its way, and where it is going."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from attnflow._common.arrays import AnyArray
from attnflow.model.dynamics import State


class Target(eqx.Module):
    """A time to reach or pass, and the next time that no step may cross."""

    time: AnyArray
    barrier: AnyArray
    barrier_is_jump: AnyArray

    def latest(self) -> AnyArray:
        """The last time at which the field may be asked before the barrier is reached.

        Just before a jump the old weights count, even for the stage at the end of a step.
        """
        before = jnp.nextafter(self.barrier, jnp.full_like(self.barrier, -jnp.inf))
        return jnp.where(self.barrier_is_jump, before, jnp.inf)


class Cursor(eqx.Module):
    """Where a run is, and what its solver remembers."""

    time: AnyArray
    state: State
    memory: Any
    status: AnyArray
    accepted: AnyArray
    rejected: AnyArray
    drift: AnyArray
