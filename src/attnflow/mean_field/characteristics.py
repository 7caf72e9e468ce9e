"""The mean-field equation in R^1 and R^2 by characteristics: nodes with fixed masses that move with the velocity.

The law at time t is the image of the first one under the flow map X_t, and int f dmu_t = int f(X_t(a)) rho_0(a) da is
computed by the Gauss-Legendre rule on the box of the first density, exponentially accurate while X_t is smooth. So the
nodes are tokens with the masses w_j rho_0(a_j), which never change: mass is exact, and the density
rho_0(a) / det dX_t/da is positive. X_t is resolved while its last Legendre coefficients are small; where they are not,
the run is repeated with twice the number of nodes.
"""

import time as clock
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import DOP853

from attnflow._common.arrays import AnyArray
from attnflow._common.checks import InputError
from attnflow._common.precision import cast, double
from attnflow._common.progress import Report
from attnflow.mean_field.label_grid import LabelGrid
from attnflow.mean_field.spectral_run import RunLimits, SavedStates
from attnflow.model.dynamics import AbstractDynamics, State
from attnflow.solvers.status import Status

RESOLVED_MAP = (
    1e-8  # largest of the last Legendre coefficients of X_t; those of the Gauss rule's error are smaller still
)
LEAST_MASS = 1e-300  # of a node at which the first density is zero: masses of tokens are positive


@eqx.filter_jit
def _velocity(flow: AbstractDynamics, time: jax.Array, tokens: jax.Array) -> AnyArray:
    return flow.velocity(time, State(tokens)).tokens


class CharacteristicVelocity:
    """The velocity of all nodes as a function of time and a vector of their coordinates."""

    def __init__(self, flow: AbstractDynamics, masses: np.ndarray):
        shares = np.maximum(masses.ravel() / masses.sum(), LEAST_MASS)
        self._flow = cast(replace(flow, masses=shares), "float64")
        self._d = flow.dimension

    def __call__(self, time: float, vector: np.ndarray) -> np.ndarray:
        """The velocity at a time."""
        tokens = jnp.asarray(vector.reshape(-1, self._d))
        return np.asarray(_velocity(self._flow, jnp.asarray(time, "float64"), tokens)).ravel()


def integrated(
    flow: AbstractDynamics, grid: LabelGrid, masses: np.ndarray, first: np.ndarray, limits: RunLimits, report: Report
) -> SavedStates:
    """The places of the nodes at the saved times, up to the end or to where the flow map is no longer resolved."""
    times, deadline = limits.times, limits.deadline()
    with double():
        velocity = CharacteristicVelocity(flow, masses)
        _require_finite(velocity(float(times[0]), first.ravel()))
        spread = float(np.abs(first - first.mean(axis=tuple(range(grid.dimension)))).max())
        # States at saved times are interpolated within steps, with a larger error than those at the ends of steps.
        rtol = max(1e-2 * limits.rtol, 1e-13)
        end = float(times[-1])
        solver = DOP853(velocity, float(times[0]), first.ravel(), end, rtol=rtol, atol=1e-2 * rtol * spread)
        kept, steps, status = [first], 0, Status.RUNNING
        try:
            while len(kept) < len(times) and status is Status.RUNNING:
                message = solver.step()
                steps += 1
                status = _status(message, solver, grid, deadline)
                if status in (Status.RUNNING, Status.OUT_OF_TIME):
                    kept = [*kept, *_reached(solver, times, len(kept), first.shape)]
                report((solver.t - times[0]) / (times[-1] - times[0]), f"t = {solver.t:.4g}, {grid.nodes} nodes")
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
    status = Status.REACHED if len(kept) == len(times) else status
    return SavedStates(kept, float(solver.t), status, steps, 0, grid.nodes)


def _require_finite(velocity: np.ndarray) -> None:
    if not np.all(np.isfinite(velocity)):
        raise InputError(
            "The velocity of the first density is not finite: weights overflow. Use a smaller box, or an `offset` of "
            "unnormalised attention, which only changes the unit of time."
        )


def _status(message: str | None, solver: DOP853, grid: LabelGrid, deadline: float) -> Status:
    """Whether the run goes on after a step."""
    if message is not None or not np.all(np.isfinite(solver.y)):
        return Status.STEP_TOO_SMALL
    places = solver.y.reshape(*grid.shape, grid.dimension)
    if grid.tail(places) > RESOLVED_MAP or grid.determinant(places).min() <= 0:
        return Status.UNRESOLVED
    return Status.OUT_OF_TIME if clock.monotonic() > deadline else Status.RUNNING


def _reached(solver: DOP853, times: np.ndarray, count: int, shape: tuple[int, ...]) -> list[np.ndarray]:
    """The places at the saved times within the last step."""
    until = int(np.searchsorted(times, solver.t, side="right"))
    if until <= count:
        return []
    between = solver.dense_output()
    return [(solver.y if time == solver.t else between(time)).reshape(shape) for time in times[count:until]]
