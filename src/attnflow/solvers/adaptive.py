"""Adaptive steps: the length of a step follows from an error tolerance."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from attnflow._common.arrays import AnyArray
from attnflow._common.checks import (
    InputError,
    require_count,
    require_finite_number,
    require_positive_number,
    require_resolvable,
)
from attnflow._common.precision import parameter
from attnflow.model.dynamics import State
from attnflow.solvers.base import AbstractSolver, arrive, choose, extrapolated_lengths, is_finite, retracted_if_moved
from attnflow.solvers.status import Status

SHORT_STEP = 1e-6  # time of a first step where none could be estimated; a rejection divides it by five
# Of time: where a length falls to zero, r / |r'| was up to 10 resolutions (rtol 1e-12) when steps became too short.
RESOLUTIONS = 1000


class AdaptiveMemory(NamedTuple):
    """What `Adaptive` keeps from one attempted step to the next."""

    next_time: Any
    """Proposed end of the next step."""
    method: Any
    """Memory of diffrax's method, such as the last stage."""
    controller: Any
    """Memory of diffrax's step size controller."""
    has_jumped: AnyArray
    """Whether the last accepted step ended at a jump of the field, which makes the last stage useless."""
    interpolant: tuple
    """Start, end and data of the last accepted step, for interpolation."""


class Adaptive(AbstractSolver):
    """A Runge-Kutta method with steps as long as the tolerances allow.

    The method is Tsit5; with ``order=8`` Dopri8, for small tolerances; with ``stiff=True`` Kvaerno5, which is implicit,
    for rates that differ by many orders of magnitude. Tsit5 interpolates at saving times inside a step; steps of the
    other two, whose interpolants are less accurate than their steps, end at every saving time. The error estimate is
    the largest over coordinates and tokens. A run that needs more than `max_steps` steps fails. Steps of length
    `min_step` are accepted whatever their error: where a field jumps, as under hardmax when the largest score changes,
    no step is short enough for a tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2))
    >>> run = af.simulate(flow, np.eye(2), [0.0, 1.0], solver=af.Adaptive(rtol=1e-10), progress=False)
    >>> bool(run.steps > 0)
    True
    >>> af.Adaptive(order=8)
    Adaptive(rtol=1e-08, atol=1e-10, order=8, stiff=False, max_steps=10000000, min_step=0)
    """

    rtol: AnyArray = eqx.field(default=1e-8, converter=parameter)
    """Error allowed in a step, relative to each coordinate."""
    atol: AnyArray = eqx.field(default=1e-10, converter=parameter)
    """Error allowed in a step, absolute."""
    order: int = eqx.field(default=5, static=True)
    stiff: bool = eqx.field(default=False, static=True)
    max_steps: int = eqx.field(default=10_000_000, static=True)
    min_step: AnyArray = eqx.field(default=0.0, converter=parameter)

    def __check_init__(self):
        require_positive_number(self.rtol, "rtol", "Use 1e-8.")
        require_positive_number(self.atol, "atol", "Use 1e-10.")
        require_resolvable(self.rtol, "float64")
        require_count(self.max_steps, "max_steps")
        require_finite_number(self.min_step, "min_step")
        if self.order not in (5, 8) or (self.stiff and self.order != 5):
            raise InputError(
                f"`order` must be 5 (Tsit5, or Kvaerno5 when stiff) or 8 (Dopri8, not stiff), but it is {self.order}."
            )

    @property
    def lands_on_times(self) -> bool:
        """True for the methods whose interpolants are less accurate than their steps."""
        return self.stiff or self.order == 8

    @property
    def step_limit(self) -> int:
        """`max_steps`."""
        return self.max_steps

    def start(self, flow, time, state):
        """A proposed first step, and an empty interpolant."""
        method, controller, term = self._parts(flow, jnp.inf)
        end = jnp.full_like(time, jnp.inf)
        next_time, control = controller.init(term, time, end, state, None, None, method.func, method.error_order(term))
        # The controller tries a step of its own; where the field overflows in it, its proposal is zero or NaN.
        is_usable = jnp.isfinite(next_time) & (next_time > time)
        next_time = jnp.where(is_usable, next_time, jnp.nextafter(time + SHORT_STEP, jnp.inf))
        memory = method.init(term, time, next_time, state, None)
        # The shapes of a step do not depend on the field, and this field is traced in a fraction of the time.
        simplest: Any = _diffrax().ODETerm(lambda time, state, _: state)
        dense = jax.eval_shape(lambda: method.step(simplest, time, next_time, state, None, memory, False)[2])
        empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), dense)
        return AdaptiveMemory(next_time, memory, control, jnp.array(False), (time, time, empty))

    def attempt(self, flow, cursor, target, rng_key):
        """One attempted step, accepted if the error estimate is within the tolerances."""
        del rng_key
        memory: AdaptiveMemory = cursor.memory
        method, controller, term = self._parts(flow, target.latest())
        end = jnp.minimum(memory.next_time, target.barrier)
        moved, error, info, method_memory, result = method.step(
            term, cursor.time, end, cursor.state, None, memory.method, memory.has_jumped
        )
        # The error estimate has one stage more than the step, and overflows first.
        succeeded = _diffrax().is_okay(result) & is_finite(moved) & is_finite(error)
        error = jax.tree.map(lambda leaf: jnp.where(succeeded, leaf, jnp.inf), error)
        moved = choose(succeeded, moved, cursor.state)
        order: Any = method.error_order(term)
        keeps, start, proposal, _, controller_memory, _ = controller.adapt_step_size(
            cursor.time, end, cursor.state, moved, None, error, order, memory.controller
        )
        length = jnp.maximum(proposal - start, self.min_step)
        is_shortest = end - cursor.time <= self.min_step * (1 + 1e-9)
        keeps = (keeps | is_shortest) & succeeded
        start = jnp.where(keeps, end, cursor.time)
        proposal = start + length
        # A step that a barrier has shortened is no reason to propose less than was proposed before.
        planned = start + (memory.next_time - cursor.time)
        proposal = jnp.where(keeps & (end < memory.next_time), jnp.maximum(proposal, planned), proposal)
        has_landed = target.barrier_is_jump & (end >= target.barrier)
        remembered = AdaptiveMemory(
            proposal,
            choose(keeps, method_memory, memory.method),
            controller_memory,
            jnp.where(keeps, has_landed, memory.has_jumped),
            choose(keeps, (cursor.time, end, info), memory.interpolant),
        )
        arrived = arrive(flow, cursor, start, choose(keeps, moved, cursor.state), remembered, keeps)
        # Near the resolution of time a shorter step may round to the length that was just rejected.
        shrinks = keeps | (proposal < end)
        status = jnp.where((proposal > start) & shrinks, arrived.status, Status.STEP_TOO_SMALL.value)
        return eqx.tree_at(lambda c: c.status, arrived, status)

    def value_at(self, flow, cursor, time):
        """The interpolant of the last step, retracted to the space; tokens that rest keep their bits."""
        start, end, info = cursor.memory.interpolant
        inside = jnp.clip(time, start, end)
        interpolation = self._method().interpolation_cls(t0=start, t1=end, **info)
        state = interpolation.evaluate(inside)
        return State(retracted_if_moved(flow, state.tokens, cursor.state.tokens), state.radii)

    def lengths_ahead(self, flow, cursor, target):
        """The lengths after `RESOLUTIONS` times the smallest difference of times."""
        del target
        resolution = jnp.finfo(cursor.time.dtype).eps * jnp.abs(cursor.time)
        return extrapolated_lengths(flow, cursor, RESOLUTIONS * resolution)

    def require_serves(self, flow, times):
        """Raise ValueError for a flow with noise, whose paths are too rough for an error estimate."""
        del times
        if flow.noise is not None:
            raise InputError(
                "`Adaptive` cannot solve a flow with noise, whose paths are rough. Use `StochasticHeun(step=0.01)`."
            )

    def require_dtype(self, dtype):
        """Raise ValueError if `rtol` is below the rounding error of the numbers."""
        require_resolvable(self.rtol, dtype)

    def _method(self):
        diffrax = _diffrax()
        if self.stiff:
            tolerances: Any = {"rtol": self.rtol, "atol": self.atol}
            root_finder = diffrax.VeryChord(**tolerances)
            return diffrax.Kvaerno5(root_finder=root_finder)
        return diffrax.Tsit5() if self.order == 5 else diffrax.Dopri8()

    def _parts(self, flow, latest):
        field = lambda time, state, _: flow.velocity(jnp.minimum(time, latest), state)
        diffrax = _diffrax()
        import optimistix  # loaded by diffrax

        controller = diffrax.PIDController(rtol=self.rtol, atol=self.atol, norm=optimistix.max_norm)
        return self._method(), controller, diffrax.ODETerm(field)


def _diffrax() -> Any:
    """The library diffrax: it takes 0.3 s to import, and native runs do without it."""
    with jax.ensure_compile_time_eval():  # its constants must not become part of a program that is being traced
        import diffrax
    return diffrax
