"""Linear stability: the Jacobian of a flow at a configuration, and Lyapunov exponents along a run."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.checks import InputError, require_count, require_finite_number, require_positive_number
from attnflow._common.precision import cast, double
from attnflow._common.seeds import Rng, seed_sequence, takes_rng
from attnflow.model.dynamics import AbstractDynamics, State
from attnflow.model.spaces import tangent_basis
from attnflow.model.validation import require_flow, require_one_configuration
from attnflow.solvers.fixed_step import RK4

EQUILIBRIUM_SPEED = 1e-8  # largest speed at an equilibrium that a solver with default tolerances has found
ZERO_RATE = 1e-7  # rates below, in size, may be the zero of a symmetry with the rounding error of eigenvalues


@dataclasses.dataclass(frozen=True)
class Linearisation:
    """The Jacobian of the velocity at a configuration, restricted to the directions in which tokens can move."""

    matrix: np.ndarray
    """The Jacobian, m x m, in the orthonormal basis `basis`."""
    basis: np.ndarray
    """m directions of shape (n, d) each, token after token."""
    eigenvalues: np.ndarray
    """The eigenvalues of `matrix`, the largest real part first."""
    residual_speed: float
    """Largest speed of a token: zero at an equilibrium."""

    @property
    def growth_rate(self) -> float:
        """The largest real part, the rate of the fastest growing perturbation; -inf if no token can move."""
        return float(self.eigenvalues[0].real) if len(self.eigenvalues) else -np.inf

    @property
    def margin(self) -> float:
        """Minus the growth rate: the rate of the slowest decaying perturbation."""
        return -self.growth_rate

    @property
    def is_equilibrium(self) -> bool:
        """Whether no token moves, up to rounding; only then do the eigenvalues decide about stability."""
        return self.residual_speed <= EQUILIBRIUM_SPEED

    @property
    def is_stable(self) -> bool:
        """Whether it is an equilibrium at which every perturbation decays."""
        return self.is_equilibrium and self.margin > ZERO_RATE

    @property
    def is_unstable(self) -> bool:
        """Whether it is an equilibrium at which some perturbation grows."""
        return self.is_equilibrium and self.margin < -ZERO_RATE


def linearise(flow: AbstractDynamics, tokens: Any, time: float = 0.0) -> Linearisation:
    """The Jacobian of the velocity at `tokens`: on tangent vectors if they move on the sphere, without frozen tokens.

    Eigenvalues within 1e-7 of zero decide nothing about stability: they may belong to a symmetry (rotations, if Q^T K
    and V are multiples of the identity). Scores of tokens of length L have a rounding error of about
    1e-16 beta |Q^T K| L^2, which is the relative error of the attention weights and so of the Jacobian.

    Parameters
    ----------
    flow
        The model.
    tokens
        One configuration, shape (n, d).
    time
        The time, which matters for weights that change in time.

    Examples
    --------
    Under V = diag(2, 1) both axes are equilibria of a token. The first is stable, with the spectral gap as its rate.

    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head(np.eye(2), np.eye(2), np.diag([2.0, 1.0])))
    >>> linearise(flow, [[1.0, 0.0]]).eigenvalues, linearise(flow, [[0.0, 1.0]]).is_unstable
    (array([-1.+0.j]), True)
    """
    tokens = _require_configuration(flow, tokens)
    require_finite_number(time, "time")
    basis = movable_directions(flow, tokens)
    with double():
        arguments = (jnp.asarray(time, "float64"), jnp.asarray(tokens), jnp.asarray(basis))
        velocity, images = (np.asarray(array) for array in _derivatives(cast(flow, "float64"), *arguments))
    matrix = np.einsum("and,bnd->ab", basis, images)
    eigenvalues = np.linalg.eigvals(matrix).astype(complex)
    eigenvalues = eigenvalues[np.argsort(-eigenvalues.real, kind="stable")]
    speed = float(np.linalg.norm(velocity, axis=1).max())
    return Linearisation(matrix, basis, eigenvalues, speed)


@takes_rng
def lyapunov_exponents(
    flow: AbstractDynamics,
    tokens: Any,
    duration: float,
    *,
    step: float = 0.01,
    count: int = 1,
    start: float = 0.0,
    rng: Rng = 0,
) -> np.ndarray:
    """The `count` largest Lyapunov exponents of a run over a finite `duration`.

    Classical Runge-Kutta steps and their exact derivative; the perturbations are orthogonalised after every step
    (Benettin's method). Over long times at an equilibrium the exponents are the real parts of the eigenvalues of
    `linearise`. In R^d they are NaN if scores overflow, at tokens of length 1e154.

    Parameters
    ----------
    flow
        The model; without noise.
    tokens
        Tokens at `start`, shape (n, d).
    duration
        Length of the run in time.
    step
        Length of a step; the last is not shortened, `duration` is rounded to whole steps.
    count
        Number of exponents, at most the number of directions in which tokens can move.
    start
        First time.
    rng
        Seed of the first perturbations, whose influence decays as 1 / duration.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(1))
    >>> af.lyapunov_exponents(flow, [[1.0]], duration=1.0).round(6)  # one token grows like e^t
    array([1.])
    """
    tokens = _require_configuration(flow, tokens)
    require_positive_number(duration, "duration")
    require_positive_number(step, "step")
    require_finite_number(start, "start")
    require_count(count, "count")
    basis = movable_directions(flow, tokens)
    if count > len(basis):
        raise InputError(
            f"`count` must be at most {len(basis)}, the number of directions in which tokens can move, "
            f"but it is {count}."
        )
    steps = max(1, round(duration / step))
    coefficients = np.random.default_rng(seed_sequence(rng)).normal(size=(len(basis), count))
    perturbations = np.einsum("ac,and->cnd", np.linalg.qr(coefficients)[0], basis)
    with double():
        model, solver = cast((flow, RK4(step)), "float64")
        first, vectors, time = (jnp.asarray(value, "float64") for value in (tokens, perturbations, start))
        log_growth = np.asarray(_log_growth(model, solver, first, vectors, time, steps))
    return np.sort(log_growth / (steps * step))[::-1]


def movable_directions(flow: AbstractDynamics, tokens: np.ndarray) -> np.ndarray:
    """An orthonormal basis, shape (m, n, d), of tangent vectors that leave frozen tokens in place."""
    n, d = tokens.shape
    frozen = np.zeros(n, bool) if flow.frozen is None else np.asarray(flow.frozen)
    directions = []
    for token in np.flatnonzero(~frozen):
        of_token = tangent_basis(tokens[token]).T if flow.is_on_sphere else np.eye(d)
        directions.append(np.zeros((len(of_token), n, d)))
        directions[-1][:, token] = of_token
    return np.concatenate(directions) if directions else np.zeros((0, n, d))


@eqx.filter_jit
def _derivatives(flow, time, tokens, directions):
    velocity = lambda x: flow.velocity(time, State(x)).tokens
    along = lambda direction: jax.jvp(velocity, (tokens,), (direction,))[1]
    return velocity(tokens), jax.lax.map(along, directions)


@eqx.filter_jit
def _log_growth(flow, solver, tokens, perturbations, start, steps):
    """The sum over all steps of the logarithms of the growth of each orthogonalised perturbation."""

    def after_step(time, tokens):
        moved = solver.move(flow, time, State(tokens), solver.step, jnp.inf, None)
        return flow.space.retract(moved.tokens)

    def advance(carry, k):
        tokens, perturbations, total = carry
        step = lambda x: after_step(start + k * solver.step, x)
        images = jax.lax.map(lambda vector: jax.jvp(step, (tokens,), (vector,))[1], perturbations)
        orthogonal, triangle = jnp.linalg.qr(images.reshape(len(perturbations), -1).T)
        growth = jnp.log(jnp.maximum(jnp.abs(jnp.diag(triangle)), jnp.finfo(triangle.dtype).tiny))
        return (step(tokens), orthogonal.T.reshape(perturbations.shape), total + growth), None

    first = (tokens, perturbations, jnp.zeros(len(perturbations)))
    return jax.lax.scan(advance, first, jnp.arange(steps))[0][2]


def _require_configuration(flow: Any, tokens: Any) -> np.ndarray:
    require_flow(flow)
    tokens = require_one_configuration(flow, tokens)
    if flow.has_radii or flow.noise is not None:
        raise InputError(
            "`flow` must be deterministic and without lengths of tokens, but it has noise or lengths. "
            "Use `Post()` and no noise."
        )
    return tokens
