"""Steps of fixed length: Runge-Kutta methods of order 1, 2 and 4, and Heun's method for flows with noise."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from attnflow._common.arrays import AnyArray, Scalar
from attnflow._common.checks import InputError, require_positive_number
from attnflow._common.precision import parameter
from attnflow.model.dynamics import AbstractDynamics, State
from attnflow.solvers.base import AbstractSolver, Cursor, Target, arrive, extrapolated_lengths, plus


class AbstractFixedStep(AbstractSolver):
    """Equal steps of length `step` or slightly less, which end at every saving time."""

    step: eqx.AbstractVar[AnyArray]

    @abc.abstractmethod
    def move(
        self, flow: AbstractDynamics, time: Scalar, state: State, length: Scalar, latest: Scalar, rng_key: AnyArray
    ) -> State:
        """The state after one step of the given length; the field is not evaluated after `latest`."""

    @property
    def lands_on_times(self) -> bool:
        """True: there is no interpolant."""
        return True

    @property
    def step_limit(self) -> int:
        """A number that no run reaches: the times alone determine the number of steps."""
        return 10**12

    def start(self, flow, time, state):
        """No memory."""
        del flow, time, state

    def attempt(self, flow, cursor, target, rng_key):
        """The first of the equal steps into which the time to the target is divided."""
        count, length = self._division(cursor, target)
        rng_key = jax.random.fold_in(rng_key, cursor.accepted)
        moved = self.move(flow, cursor.time, cursor.state, length, target.latest(), rng_key)
        end = jnp.where(count <= 1, target.time, cursor.time + length)
        return arrive(flow, cursor, end, moved, None, jnp.array(True))

    def value_at(self, flow, cursor, time):
        """The state of the cursor, since steps end at saving times."""
        del flow, time
        return cursor.state

    def lengths_ahead(self, flow, cursor, target):
        """The lengths after one step of Euler's method."""
        return extrapolated_lengths(flow, cursor, self._division(cursor, target)[1])

    def _division(self, cursor: Cursor, target: Target) -> tuple[AnyArray, AnyArray]:
        """The number of equal steps to the target, and their length."""
        remaining = target.time - cursor.time
        # A millionth of a step is a rounding error of the times and gets no step.
        count = jnp.maximum(jnp.ceil(remaining / self.step - 1e-6), 1)
        return count, remaining / count

    def require_serves(self, flow, times):
        """Raise ValueError for a flow with noise."""
        del times
        if flow.noise is not None:
            raise InputError(
                f"`{type(self).__name__}` would ignore the noise. Use `StochasticHeun(step={float(self.step):g})`."
            )


class Euler(AbstractFixedStep):
    """Forward Euler, order 1.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(1))
    >>> run = af.simulate(flow, [[1.0]], [0.0, 1.0], solver=af.Euler(step=0.1), progress=False)
    >>> round(run.final_tokens.item(), 6)  # one token grows like e^t, to 2.718282
    2.593742
    """

    step: AnyArray = eqx.field(converter=parameter)
    """Length of a step in time; the last step before a saved time is shorter where it has to be."""

    def __check_init__(self):
        require_positive_number(self.step, "step")

    def move(self, flow, time, state, length, latest, rng_key):
        """x + h v(x)."""
        del latest, rng_key
        return plus(state, length, flow.velocity(time, state))


class Heun(AbstractFixedStep):
    """Heun's method, order 2.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(1))
    >>> run = af.simulate(flow, [[1.0]], [0.0, 1.0], solver=af.Heun(step=0.1), progress=False)
    >>> round(run.final_tokens.item(), 6)  # one token grows like e^t, to 2.718282
    2.714081
    """

    step: AnyArray = eqx.field(converter=parameter)
    """Length of a step in time; the last step before a saved time is shorter where it has to be."""

    def __check_init__(self):
        require_positive_number(self.step, "step")

    def move(self, flow, time, state, length, latest, rng_key):
        """x + h (v(x) + v(x + h v(x))) / 2."""
        del rng_key
        first = flow.velocity(time, state)
        second = flow.velocity(jnp.minimum(time + length, latest), plus(state, length, first))
        return plus(plus(state, length / 2, first), length / 2, second)


class RK4(AbstractFixedStep):
    """The classical Runge-Kutta method, order 4.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(1))
    >>> run = af.simulate(flow, [[1.0]], [0.0, 1.0], solver=af.RK4(step=0.1), progress=False)
    >>> round(run.final_tokens.item(), 6)  # one token grows like e^t, to 2.718282
    2.71828
    """

    step: AnyArray = eqx.field(converter=parameter)
    """Length of a step in time; the last step before a saved time is shorter where it has to be."""

    def __check_init__(self):
        require_positive_number(self.step, "step")

    def move(self, flow, time, state, length, latest, rng_key):
        """x + h (k1 + 2 k2 + 2 k3 + k4) / 6."""
        del rng_key
        half, end = jnp.minimum(time + length / 2, latest), jnp.minimum(time + length, latest)
        first = flow.velocity(time, state)
        second = flow.velocity(half, plus(state, length / 2, first))
        third = flow.velocity(half, plus(state, length / 2, second))
        fourth = flow.velocity(end, plus(state, length, third))
        total = jax.tree.map(lambda a, b, c, d: a + 2 * b + 2 * c + d, first, second, third, fourth)
        return plus(state, length / 6, total)


class StochasticHeun(AbstractFixedStep):
    """Heun's method for flows with noise in the sense of Stratonovich.

    On the sphere its steps are geodesics. It has weak order 2 in R^d and on the circle, where the noise is additive,
    weak order 1 on other spheres, and order 2 without noise. The increments depend only on the seed of the run and on
    the number of the step. With `geodesic=False` steps are straight and then retracted, as in version 0.1.0: of weak
    order 1, with an error of about 2 beta d step / kappa in the attraction under unnormalised attention.

    Examples
    --------
    >>> import numpy as np
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), noise=af.Noise(kappa=10.0))
    >>> run = af.simulate(flow, np.eye(2), [0.0, 1.0], solver=af.StochasticHeun(step=0.1), rng=0, progress=False)
    >>> np.linalg.norm(run.final_tokens, axis=1).round(12)
    array([1., 1.])
    """

    step: AnyArray = eqx.field(default=0.01, converter=parameter)
    geodesic: bool = eqx.field(default=True, static=True)

    def __check_init__(self):
        require_positive_number(self.step, "step")

    def move(self, flow, time, state, length, latest, rng_key):
        """The geodesic from x by h (v(x) + v(y)) / 2 + B dW, with the predictor y at the end of that by h v(x) + B dW.

        v(y) is carried back to x. A predictor on a straight line is off the sphere by about d h / kappa, and tokens
        there attract each other e^{2 beta d h / kappa} times as strongly under unnormalised attention.
        """
        increments = jnp.sqrt(length) * jax.random.normal(rng_key, state.tokens.shape, state.tokens.dtype)
        end = jnp.minimum(time + length, latest)
        if not self.geodesic:
            return _straight_move(flow, time, state, length, end, increments)
        # The strength of the noise may depend on time, as in rescaled variables.
        noises = [flow.noise_part(moment, state, increments) for moment in (time, end)]
        noise = plus(jax.tree.map(lambda part: part / 2, noises[0]), 0.5, noises[1])
        first = flow.velocity(time, state)
        straight = plus(noise, length, first)
        second = flow.velocity(end, _moved(flow, state, straight))
        carried = State(flow.space.carried_back(state.tokens, straight.tokens, second.tokens), second.radii)
        return _moved(flow, state, plus(plus(noise, length / 2, first), length / 2, carried))

    def require_serves(self, flow, times):
        """Raise ValueError for a flow without noise."""
        del times
        if flow.noise is None:
            raise InputError(
                "`StochasticHeun` is for flows with noise, and this one has none. "
                "Use `Adaptive()`, or `Heun(step)` for equal steps."
            )


def _moved(flow: AbstractDynamics, state: State, move: State) -> State:
    """The state after a move along geodesics of the space."""
    return State(flow.space.exponential(state.tokens, move.tokens), plus(state, 1, move).radii)


def _straight_move(
    flow: AbstractDynamics, time: Scalar, state: State, length: Scalar, end: Scalar, increments: AnyArray
) -> State:
    """x + h (v(x) + v(y)) / 2 + (B(x) dW + B(y) dW) / 2 with the predictor y = x + h v(x) + B(x) dW."""
    first, first_noise = flow.velocity(time, state), flow.noise_part(time, state, increments)
    predicted = plus(plus(state, length, first), 1, first_noise)
    second, second_noise = flow.velocity(end, predicted), flow.noise_part(end, predicted, increments)
    without_noise = plus(plus(state, length / 2, first), length / 2, second)
    return plus(plus(without_noise, 0.5, first_noise), 0.5, second_noise)
