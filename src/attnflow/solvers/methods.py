"""Ways to move through time: adaptive steps, equal steps, discrete layers, steps with noise.

A solver takes one step at a time from a `Cursor`; the loop around it is in `stepping`.
On the sphere every accepted step ends on it, and the drift before that is recorded.
"""

import abc
import math
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix

from attnflow._common.arrays import AnyArray, Scalar
from attnflow._common.checks import (
    InputError,
    require_count,
    require_finite_number,
    require_positive_number,
    require_resolvable,
)
from attnflow._common.precision import parameter
from attnflow.model.dynamics import AbstractDynamics, RescaledAttention, State
from attnflow.solvers.cursor import Cursor, Target
from attnflow.solvers.status import Status


class AbstractSolver(eqx.Module):
    """Moves a cursor by one step."""

    @abc.abstractmethod
    def start(self, flow: AbstractDynamics, time: AnyArray, state: State) -> Any:
        """What the solver wants to remember before the first step."""

    @abc.abstractmethod
    def attempt(self, flow: AbstractDynamics, cursor: Cursor, target: Target, rng_key: AnyArray) -> Cursor:
        """Try one step towards the target; a rejected one leaves time and state alone."""

    @abc.abstractmethod
    def value_at(self, flow: AbstractDynamics, cursor: Cursor, time: AnyArray) -> State:
        """The state at a time within the last accepted step."""

    @abc.abstractmethod
    def require_serves(self, flow: AbstractDynamics, times: np.ndarray) -> None:
        """Raise ValueError if this solver cannot solve this flow."""


class Adaptive(AbstractSolver):
    """Steps as long as the tolerances allow.

    Tsit5 by default; ``order=8`` is Dopri8, for tight tolerances; ``stiff=True`` is
    Kvaerno5, implicit, for rates that differ by many orders of magnitude. Tsit5 passes the
    saving times and interpolates; the other two, whose interpolants are less exact than
    their steps, step onto them. The error of
    the worst coordinate of the worst token counts. `max_steps` ends a run that gets nowhere.
    Steps of `min_step` are kept whatever their error: where a field jumps, as hardmax does
    when the best match changes, no step would be short enough to meet a tolerance.
    """

    rtol: AnyArray = eqx.field(default=1e-8, converter=parameter)
    atol: AnyArray = eqx.field(default=1e-10, converter=parameter)
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
        """Whether steps end on every saving time instead of interpolating."""
        return self.stiff or self.order == 8

    def start(self, flow, time, state):
        """A first step size, and an empty interpolant."""
        method, controller, term = self._parts(flow, jnp.inf)
        end = jnp.full_like(time, jnp.inf)
        next_time, control = controller.init(term, time, end, state, None, None, method.func, method.error_order(term))
        memory = method.init(term, time, next_time, state, None)
        dense = jax.eval_shape(lambda: method.step(term, time, next_time, state, None, memory, False)[2])
        empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), dense)
        return next_time, memory, control, jnp.array(False), (time, time, empty)

    def attempt(self, flow, cursor, target, rng_key):
        """One attempt, kept if the error estimate is within the tolerances."""
        del rng_key
        next_time, memory, control, has_jumped, dense = cursor.memory
        method, controller, term = self._parts(flow, target.latest())
        end = jnp.minimum(next_time, target.barrier)
        moved, error, info, new_memory, result = method.step(
            term, cursor.time, end, cursor.state, None, memory, has_jumped
        )
        succeeded = diffrax.is_okay(result) & _is_finite(moved)
        error = jax.tree.map(lambda leaf: jnp.where(succeeded, leaf, jnp.inf), error)
        moved = _choose(succeeded, moved, cursor.state)
        order: Any = method.error_order(term)
        keeps, start, proposal, _, control, _ = controller.adapt_step_size(
            cursor.time, end, cursor.state, moved, None, error, order, control
        )
        length = jnp.maximum(proposal - start, self.min_step)
        is_shortest = end - cursor.time <= self.min_step * (1 + 1e-9)
        keeps = (keeps | is_shortest) & succeeded
        start = jnp.where(keeps, end, cursor.time)
        proposal = start + length
        # A step cut short by a barrier says nothing against the length that was planned.
        proposal = jnp.where(
            keeps & (end < next_time), jnp.maximum(proposal, start + (next_time - cursor.time)), proposal
        )
        has_landed = target.barrier_is_jump & (end >= target.barrier)
        remembered = (
            proposal,
            _choose(keeps, new_memory, memory),
            control,
            jnp.where(keeps, has_landed, has_jumped),
            _choose(keeps, (cursor.time, end, info), dense),
        )
        arrived = _arrive(flow, cursor, start, _choose(keeps, moved, cursor.state), remembered, keeps)
        # Near the resolution of time a shorter step may round to the one just rejected.
        shrinks = keeps | (proposal < end)
        status = jnp.where((proposal > start) & shrinks, arrived.status, Status.STEP_TOO_SMALL.value)
        return eqx.tree_at(lambda c: c.status, arrived, status)

    def value_at(self, flow, cursor, time):
        """The interpolant of the last step, brought back to the space."""
        start, end, info = cursor.memory[4]
        inside = jnp.clip(time, start, end)
        interpolation = self._method().interpolation_cls(t0=start, t1=end, **info)
        return _retracted(flow, interpolation.evaluate(inside))

    def require_serves(self, flow, times):
        """No noise: paths are not smooth enough for an error estimate."""
        del times
        if flow.noise is not None:
            raise InputError(
                "`Adaptive` cannot solve a flow with noise, whose paths are rough. Use `StochasticHeun(step=0.01)`."
            )

    def _method(self):
        if self.stiff:
            tolerances: Any = {"rtol": self.rtol, "atol": self.atol}
            root_finder = diffrax.VeryChord(**tolerances)
            return diffrax.Kvaerno5(root_finder=root_finder)
        return diffrax.Tsit5() if self.order == 5 else diffrax.Dopri8()

    def _parts(self, flow, latest):
        field = lambda time, state, _: flow.velocity(jnp.minimum(time, latest), state)
        controller = diffrax.PIDController(rtol=self.rtol, atol=self.atol, norm=optimistix.max_norm)
        return self._method(), controller, diffrax.ODETerm(field)


class AbstractFixedStep(AbstractSolver):
    """Equal steps, at most `step` long, that land on every saving time."""

    step: eqx.AbstractVar[AnyArray]

    @abc.abstractmethod
    def move(
        self, flow: AbstractDynamics, time: Scalar, state: State, length: Scalar, latest: Scalar, rng_key: AnyArray
    ) -> State:
        """The state one step later."""

    def start(self, flow, time, state):
        """Nothing to remember."""
        del flow, time, state

    def attempt(self, flow, cursor, target, rng_key):
        """Divide what is left to the target into equal steps and take the first."""
        left = target.time - cursor.time
        # A millionth of a step is rounding of the times, not a step of its own.
        count = jnp.maximum(jnp.ceil(left / self.step - 1e-6), 1)
        length = left / count
        rng_key = jax.random.fold_in(rng_key, cursor.accepted)
        moved = self.move(flow, cursor.time, cursor.state, length, target.latest(), rng_key)
        end = jnp.where(count <= 1, target.time, cursor.time + length)
        return _arrive(flow, cursor, end, moved, None, jnp.array(True))

    def value_at(self, flow, cursor, time):
        """The state itself: steps end on the times asked for."""
        del flow, time
        return cursor.state

    def require_serves(self, flow, times):
        """No noise."""
        del times
        if flow.noise is not None:
            raise InputError(
                f"`{type(self).__name__}` would leave the noise out. Use `StochasticHeun(step={float(self.step):g})`."
            )


class Euler(AbstractFixedStep):
    """Forward Euler, order 1."""

    step: AnyArray = eqx.field(converter=parameter)

    def __check_init__(self):
        require_positive_number(self.step, "step")

    def move(self, flow, time, state, length, latest, rng_key):
        """x + h v(x)."""
        del latest, rng_key
        return _plus(state, length, flow.velocity(time, state))


class Heun(AbstractFixedStep):
    """Heun's method, order 2."""

    step: AnyArray = eqx.field(converter=parameter)

    def __check_init__(self):
        require_positive_number(self.step, "step")

    def move(self, flow, time, state, length, latest, rng_key):
        """x + h (v(x) + v(x + h v(x))) / 2."""
        del rng_key
        first = flow.velocity(time, state)
        second = flow.velocity(jnp.minimum(time + length, latest), _plus(state, length, first))
        return _plus(_plus(state, length / 2, first), length / 2, second)


class RK4(AbstractFixedStep):
    """The classical Runge-Kutta method, order 4."""

    step: AnyArray = eqx.field(converter=parameter)

    def __check_init__(self):
        require_positive_number(self.step, "step")

    def move(self, flow, time, state, length, latest, rng_key):
        """Four stages, weights 1 2 2 1 over 6."""
        del rng_key
        half, end = jnp.minimum(time + length / 2, latest), jnp.minimum(time + length, latest)
        first = flow.velocity(time, state)
        second = flow.velocity(half, _plus(state, length / 2, first))
        third = flow.velocity(half, _plus(state, length / 2, second))
        fourth = flow.velocity(end, _plus(state, length, third))
        total = jax.tree.map(lambda a, b, c, d: a + 2 * b + 2 * c + d, first, second, third, fourth)
        return _plus(state, length / 6, total)


class StochasticHeun(AbstractFixedStep):
    """Heun's method for flows with noise, in the sense of Stratonovich.

    Weak order 1, and order 2 where the noise vanishes. The increments depend on the run's seed and on
    the number of the step alone.
    """

    step: AnyArray = eqx.field(default=0.01, converter=parameter)

    def __check_init__(self):
        require_positive_number(self.step, "step")

    def move(self, flow, time, state, length, latest, rng_key):
        """Predict with velocity and noise at the start, correct with their mean."""
        shape, dtype = state.tokens.shape, state.tokens.dtype
        increments = jnp.sqrt(length) * jax.random.normal(rng_key, shape, dtype)
        end = jnp.minimum(time + length, latest)
        first, shaken = flow.velocity(time, state), flow.noise_part(time, state, increments)
        predicted = _plus(_plus(state, length, first), 1, shaken)
        second, again = flow.velocity(end, predicted), flow.noise_part(end, predicted, increments)
        drifted = _plus(_plus(state, length / 2, first), length / 2, second)
        return _plus(_plus(drifted, 0.5, shaken), 0.5, again)

    def require_serves(self, flow, times):
        """Noise is what it is for."""
        del times
        if flow.noise is None:
            raise InputError(
                "`StochasticHeun` is for flows with noise, and this one has none. "
                "Use `Adaptive()`, or `Heun(step)` for equal steps."
            )


class Layers(AbstractFixedStep):
    """Discrete layers, as in a network: x <- residual * x + step * (what attention sends).

    On the sphere each layer ends with a projection, as layer normalisation does, and
    what attention sends is not made tangent first. ``residual=0, step=1`` has no
    skip connection; ``residual=1-h`` with hardmax is the Frank-Wolfe scheme. Time after k layers is k * step.
    """

    step: AnyArray = eqx.field(converter=parameter)
    residual: AnyArray = eqx.field(default=1.0, converter=parameter)

    def __check_init__(self):
        require_positive_number(self.step, "step")
        require_finite_number(self.residual, "residual")

    def move(self, flow, time, state, length, latest, rng_key):
        """One layer; its length is always `step`."""
        del length, latest, rng_key
        return flow.layer(self._layer_time(time), state, self.step, self.residual)

    def _layer_time(self, time: Any) -> AnyArray:
        """The whole multiple of the step that `time` is up to rounding, a few bits late.

        Weights that switch at a layer then switch there, however the times were added up.
        """
        layer = jnp.round(time / self.step)
        is_layer = jnp.abs(time / self.step - layer) < 1e-6
        return jnp.where(is_layer, layer * self.step, time) * (1 + 8 * jnp.finfo(time.dtype).eps)

    def require_serves(self, flow, times):
        """Times are whole layers, and the flow has discrete layers."""
        super().require_serves(flow, times)
        step = float(self.step)
        layers = (times - times[0]) / step
        off = np.abs(layers - np.round(layers)) > 1e-6
        if np.any(off):
            worst = int(np.argmax(off))
            raise InputError(
                f"With `Layers` every time must be a whole number of steps of {step:g} after the first, "
                f"but time {times[worst]:g} at position {worst} is layer {layers[worst]:.6g}. "
                f"Use times[0] + {step:g} * numpy.arange(...)."
            )
        if isinstance(flow, RescaledAttention):
            self._require_serves_rescaled(flow, times)

    def _require_serves_rescaled(self, flow, times):
        frame = float(self.residual) * np.eye(flow.dimension)
        frame = frame + float(self.step) * np.asarray(flow.rescaling_matrix)
        reason = None
        if flow.mlp is not None:
            reason = "an MLP does not commute with the rescaling"
        elif np.linalg.cond(frame) > 1e12:
            reason = "residual * I + step * V is singular"
        elif not math.isclose(times[0], 0.0, abs_tol=1e-12):
            reason = "layers are counted from time 0"
        if reason:
            raise InputError(
                f"`Layers` cannot follow this `RescaledAttention`: {reason}. Use `EuclideanAttention` instead."
            )


def _plus(state: State, factor: Any, change: State) -> State:
    return jax.tree.map(lambda value, move: value + factor * move, state, change)


def _retracted(flow: AbstractDynamics, state: State) -> State:
    return State(flow.space.retract(state.tokens), state.radii)


def _choose(condition: Any, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def _is_finite(state: State) -> AnyArray:
    return jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(state)]))


def _arrive(flow, cursor: Cursor, time, moved: State, memory, keeps) -> Cursor:
    """The cursor after a step: back on the space, counted, and checked for NaN."""
    is_good = _is_finite(moved)
    # A token that did not move at all keeps its bits.
    rests = jnp.all(moved.tokens == cursor.state.tokens, axis=-1, keepdims=True)
    arrived = jnp.where(rests, moved.tokens, flow.space.retract(moved.tokens))
    drift = jnp.where(is_good & keeps, flow.space.drift(moved.tokens), 0)
    return Cursor(
        time=jnp.where(is_good, time, cursor.time),
        state=_choose(is_good, State(arrived, moved.radii), cursor.state),
        memory=memory,
        status=jnp.where(is_good, cursor.status, Status.NOT_FINITE.value),
        accepted=cursor.accepted + (is_good & keeps),
        rejected=cursor.rejected + ~(is_good & keeps),
        drift=jnp.maximum(cursor.drift, drift),
    )
