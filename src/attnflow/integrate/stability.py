"""Stability: the linear part of a flow around a configuration, and Lyapunov exponents along a run."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.checks import InputError, require_count, require_finite_number, require_positive_number
from attnflow._common.precision import cast, double
from attnflow._common.seeds import Rng, seed_sequence
from attnflow.model.dynamics import AbstractDynamics, State
from attnflow.model.validation import require_flow, require_one_configuration

STILL = 1e-8  # speeds below are rounding and solver error of a configuration found numerically
NEUTRAL = 1e-7  # rates closer to zero cannot be told from the zero of a symmetry


@dataclasses.dataclass(frozen=True)
class Linearisation:
    """The derivative of the velocity at a configuration, in directions tokens can move in."""

    matrix: np.ndarray
    """m x m, in an orthonormal basis of the movable directions, token after token."""
    basis: np.ndarray
    """m directions of shape (n, d) each."""
    eigenvalues: np.ndarray
    """Of `matrix`, the largest real part first."""
    residual_speed: float
    """Largest speed of a token: zero at an equilibrium."""

    @property
    def growth_rate(self) -> float:
        """Largest real part: how fast the worst small change grows; -inf if nothing can move."""
        return float(self.eigenvalues[0].real) if len(self.eigenvalues) else -np.inf

    @property
    def margin(self) -> float:
        """By how much it is stable: minus the growth rate."""
        return -self.growth_rate

    @property
    def is_equilibrium(self) -> bool:
        """Whether no token moves, up to rounding; only then do the eigenvalues say anything about stability."""
        return self.residual_speed <= STILL

    @property
    def is_stable(self) -> bool:
        """An equilibrium to which every small change dies out."""
        return self.is_equilibrium and self.margin > NEUTRAL

    @property
    def is_unstable(self) -> bool:
        """An equilibrium from which some small change grows."""
        return self.is_equilibrium and self.margin < -NEUTRAL


def linearise(flow: AbstractDynamics, tokens: Any, time: float = 0.0) -> Linearisation:
    """Derivative of the velocity at `tokens`: on the sphere among tangent vectors, without frozen tokens.

    Rates within 1e-7 of zero decide nothing: they may belong to a symmetry (rotations,
    when Q^T K and V are multiples of the identity).

    Examples
    --------
    A token under V = diag(2, 1) rests at both axes: stably at the first, where the gap is the rate.

    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head(np.eye(2), np.eye(2), np.diag([2.0, 1.0])))
    >>> linearise(flow, [[1.0, 0.0]]).eigenvalues, linearise(flow, [[0.0, 1.0]]).is_unstable
    (array([-1.+0.j]), True)
    """
    tokens = _require_configuration(flow, tokens)
    require_finite_number(time, "time")
    basis = movable_directions(flow, tokens)
    with double():
        moment, place = jnp.asarray(time, "float64"), jnp.asarray(tokens)
        velocity, moved = _derivatives(cast(flow, "float64"), moment, place, jnp.asarray(basis))
        velocity, moved = np.asarray(velocity), np.asarray(moved)
    matrix = np.einsum("and,bnd->ab", basis, moved)
    eigenvalues = np.linalg.eigvals(matrix).astype(complex)
    eigenvalues = eigenvalues[np.argsort(-eigenvalues.real, kind="stable")]
    speed = float(np.linalg.norm(velocity, axis=1).max())
    return Linearisation(matrix, basis, eigenvalues, speed)


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
    """The `count` largest rates at which small changes grow along a run, over a finite `duration`.

    Classical Runge-Kutta steps and their exact derivative, orthogonalised after every step. For long
    times at an equilibrium they are the real parts of the eigenvalues of `linearise`.

    Parameters
    ----------
    flow
        The model; without noise.
    tokens
        Tokens at `start`, shape (n, d).
    duration
        How long to follow them.
    step
        Length of a step; the last is not shortened, `duration` is rounded to whole steps.
    count
        How many exponents, at most the number of directions tokens can move in.
    start
        First time.
    rng
        Seed of the first directions, whose memory fades as 1 / duration.
    """
    tokens = _require_configuration(flow, tokens)
    require_positive_number(duration, "duration")
    require_positive_number(step, "step")
    require_finite_number(start, "start")
    require_count(count, "count")
    basis = movable_directions(flow, tokens)
    if count > len(basis):
        raise InputError(f"`count` must be at most {len(basis)}, the directions tokens can move in, but it is {count}.")
    steps = max(1, round(duration / step))
    mixing = np.random.default_rng(seed_sequence(rng)).normal(size=(len(basis), count))
    vectors = np.einsum("ac,and->cnd", np.linalg.qr(mixing)[0], basis)
    with double():
        place, first, length = (jnp.asarray(value, "float64") for value in (tokens, start, step))
        directions = jnp.asarray(vectors)
        logarithms = np.asarray(_stretching(cast(flow, "float64"), place, directions, first, length, steps))
    return np.sort(logarithms / (steps * step))[::-1]


def movable_directions(flow: AbstractDynamics, tokens: np.ndarray) -> np.ndarray:
    """An orthonormal basis, shape (m, n, d): tangent on the sphere, nothing for frozen tokens."""
    n, d = tokens.shape
    frozen = np.zeros(n, bool) if flow.frozen is None else np.asarray(flow.frozen)
    directions = []
    for token in np.flatnonzero(~frozen):
        own = _tangent_basis(tokens[token]) if flow.is_on_sphere else np.eye(d)
        placed = np.zeros((len(own), n, d))
        placed[:, token] = own
        directions.append(placed)
    return np.concatenate(directions) if directions else np.zeros((0, n, d))


def _tangent_basis(token: np.ndarray) -> np.ndarray:
    """d - 1 orthonormal rows orthogonal to a unit vector."""
    return np.linalg.svd(token[None])[2][1:]


@eqx.filter_jit
def _derivatives(flow, time, tokens, directions):
    velocity = lambda x: flow.velocity(time, State(x)).tokens
    along = lambda direction: jax.jvp(velocity, (tokens,), (direction,))[1]
    return velocity(tokens), jax.lax.map(along, directions)


@eqx.filter_jit
def _stretching(flow, tokens, vectors, start, step, steps):
    """Sum over all steps of the logarithms of how much each orthogonalised direction grows."""

    def advance(carry, k):
        tokens, vectors, total = carry
        after = lambda x: _step(flow, start + k * step, x, step)
        moved = after(tokens)
        tangents = jax.lax.map(lambda vector: jax.jvp(after, (tokens,), (vector,))[1], vectors)
        orthogonal, triangle = jnp.linalg.qr(tangents.reshape(len(vectors), -1).T)
        growth = jnp.log(jnp.maximum(jnp.abs(jnp.diag(triangle)), jnp.finfo(triangle.dtype).tiny))
        return (moved, orthogonal.T.reshape(vectors.shape), total + growth), None

    first = (tokens, vectors, jnp.zeros(len(vectors)))
    return jax.lax.scan(advance, first, jnp.arange(steps))[0][2]


def _step(flow, time, tokens, step):
    """The classical Runge-Kutta step, ending in the space."""
    velocity = lambda moment, x: flow.velocity(moment, State(x)).tokens
    first = velocity(time, tokens)
    second = velocity(time + step / 2, tokens + step / 2 * first)
    third = velocity(time + step / 2, tokens + step / 2 * second)
    fourth = velocity(time + step, tokens + step * third)
    return flow.space.retract(tokens + step / 6 * (first + 2 * second + 2 * third + fourth))


def _require_configuration(flow: Any, tokens: Any) -> np.ndarray:
    require_flow(flow)
    tokens = require_one_configuration(flow, tokens)
    if flow.has_radii or flow.noise is not None:
        raise InputError(
            "`flow` must move tokens only, but it has noise or lengths of tokens. Use `Post()` and no noise."
        )
    return tokens
