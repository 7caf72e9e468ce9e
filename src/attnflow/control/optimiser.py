"""`optimise`: weights of attention in pieces that take tokens to targets with little energy, by least squares."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

from attnflow._common.checks import InputError, require_count, require_positive_number
from attnflow._common.precision import double
from attnflow._common.seeds import Rng, seed_sequence, takes_rng
from attnflow._common.threads import one_blas_thread
from attnflow.control.families import FlowFamily
from attnflow.control.known_obstructions import require_pair, require_possible
from attnflow.control.steering import Steering
from attnflow.control.weight_schedules import Piece, Schedule
from attnflow.model.attention import Softmax
from attnflow.model.heads import Head

STEPS_PER_PIECE = 6  # of the Runge-Kutta method of order four, in the search; the last corrections use SciPy's DOP853
SCORE_WEIGHT = 0.01  # of the energy of Q^T K relative to that of V, so that scores stay moderate
PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4)  # factors of the energy, one fit after the other
MOST_EVALUATIONS = 40  # of the derivatives, in one fit
CORRECTIONS = 12  # Newton steps of least norm after the fits
LONGEST_STEP = 0.1  # of a correction, relative to the norm of the weights
ARRIVED = 1e-10  # distance at which corrections end


@takes_rng
def optimise(tokens: Any, targets: Any, pieces: int = 8, time: float | None = None, rng: Rng = None) -> Steering:
    r"""Weights of one softmax head, without perceptron, that take all tokens to their targets at once on the sphere.

    Minimises |x(T) - y|^2 + penalty * integral of |V|^2 + |Q^T K|^2 / 100 over piecewise constant V and Q^T K, by
    SciPy's trust-region least squares with derivatives of JAX in forward mode (single shooting), for penalties that
    fall; then Newton steps of least norm on a tight solve. Time is changed so that |V| = 1 in every piece:
    the time is then that of the speed limit, and its gap says how far from the fastest control this one is.

    Parameters
    ----------
    tokens, targets
        First and last tokens, (n, d), or (prompts, n, d) for several prompts under one control.
    pieces
        Number of pieces; n (d - 1) conditions need about as many entries of V and Q^T K, 2 d^2 in each piece.
    time
        Time of the search, in which V is free. None: twice the largest angle.
    rng
        Seed of the first weights.

    Returns
    -------
    Steering
        The control that was reached, also where the search has stalled: `terminal_error` is that of a tight solve, and
        `stationarity` says how far the energy is from a minimum.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.control.optimise(np.eye(3)[:1], np.eye(3)[1:2], pieces=2, rng=0)
    >>> found.gap < 1.1, found.terminal_error < 1e-8
    (True, True)
    """
    first, last = require_pair("sphere", tokens, targets)
    require_count(pieces, "pieces")
    require_possible(FlowFamily(perceptron=False), first, last)
    angle = float(2 * np.arcsin(np.clip(np.linalg.norm(last - first, axis=-1) / 2, 0, 1)).max())
    if angle == 0:
        raise InputError("All tokens are at their targets: there is nothing to do.")
    end = 2 * angle if time is None else time
    require_positive_number(end, "time")
    d = first.shape[-1]
    generator = np.random.default_rng(seed_sequence(rng))
    weights = generator.normal(size=(pieces, 2, d, d)) * np.array([1.0, 0.3])[None, :, None, None]
    problem = SteeringSearch(
        first.reshape(-1, *first.shape[-2:]), last.reshape(-1, *last.shape[-2:]), weights.shape, end
    )
    with double(), one_blas_thread():
        weights = problem.fitted(weights.ravel())
        stationarity = problem.stationarity(weights)
    return Steering(_schedule(weights.reshape(problem.shape), end / pieces), first, last, stationarity)


def _schedule(weights: np.ndarray, duration: float) -> Schedule:
    """The pieces with |V| = 1: a factor of V is one of time."""
    made = []
    for number, (scores, value) in enumerate(weights):
        size = float(np.linalg.norm(value, 2))
        made.append(Piece(duration * size, heads=(Head.bilinear(scores, value / size),), name=f"piece {number}"))
    return Schedule(tuple(made), attention=Softmax(1.0))


@dataclass(frozen=True)
class SteeringSearch:
    """Prompts and targets (prompts, n, d), and the shape (pieces, 2, d, d) of Q^T K and V."""

    prompts: np.ndarray
    targets: np.ndarray
    shape: tuple[int, ...]
    end: float

    @property
    def scale(self) -> np.ndarray:
        """Square root of the share of every entry in the energy."""
        shares = np.broadcast_to(np.array([SCORE_WEIGHT, 1.0])[None, :, None, None], self.shape)
        return np.sqrt(shares.ravel() * self.end / self.shape[0])

    @cached_property
    def misses(self) -> Callable[[Any], Any]:
        """x(T) - y of all tokens, by the Runge-Kutta method."""
        return jax.jit(lambda flat: self._last(flat.reshape(self.shape)).ravel() - self.targets.ravel())

    @cached_property
    def jacobian(self) -> Callable[[Any], Any]:
        """The derivative of `misses`, by forward mode."""
        return jax.jit(jax.jacfwd(self.misses))

    def _last(self, weights: Any) -> Any:
        step = self.end / self.shape[0] / STEPS_PER_PIECE

        def advance(x, piece):
            k1 = _velocity(x, piece)
            k2 = _velocity(x + step / 2 * k1, piece)
            k3 = _velocity(x + step / 2 * k2, piece)
            k4 = _velocity(x + step * k3, piece)
            x = x + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return x / jnp.linalg.norm(x, axis=-1, keepdims=True), None

        return jax.lax.scan(advance, jnp.asarray(self.prompts), jnp.repeat(weights, STEPS_PER_PIECE, axis=0))[0]

    def fitted(self, weights: np.ndarray) -> np.ndarray:
        """The weights after fits with falling penalties and corrections on a tight solve."""
        for penalty in PENALTIES:
            weights = self._fitted_with(weights, np.sqrt(penalty) * self.scale)
        return self._corrected(weights)

    def _fitted_with(self, weights: np.ndarray, row: np.ndarray) -> np.ndarray:
        """The weights that minimise the misses and `row` times the weights, in squares."""
        derivative: Any = lambda one: np.concatenate([np.asarray(self.jacobian(one)), np.diag(row)])
        misses = lambda one: np.concatenate([np.asarray(self.misses(one)), row * one])
        return least_squares(misses, weights, jac=derivative, max_nfev=MOST_EVALUATIONS).x

    def _corrected(self, weights: np.ndarray) -> np.ndarray:
        """Newton steps of least energy on the misses of a tight solve; the best weights are kept."""
        best, least = weights, np.inf
        for _ in range(CORRECTIONS):
            missed = self._tight(weights)
            error = float(np.abs(missed).max())
            if error >= least:  # the search has stalled
                break
            best, least = weights, error
            if least < ARRIVED:
                break
            scaled = np.asarray(self.jacobian(weights)) / self.scale
            step = np.linalg.lstsq(scaled, missed, rcond=1e-10)[0] / self.scale
            weights = weights - step * min(1.0, LONGEST_STEP * np.linalg.norm(weights) / np.linalg.norm(step))
        return best

    def _tight(self, weights: np.ndarray) -> np.ndarray:
        """x(T) - y of all tokens, by SciPy."""
        shape, flat = self.prompts.shape, self.prompts.ravel()
        for piece in weights.reshape(self.shape):
            rate = lambda _, x, piece=piece: _plain_velocity(x.reshape(shape), piece).ravel()
            span = (0.0, self.end / self.shape[0])
            flat = solve_ivp(rate, span, flat, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
        return flat - self.targets.ravel()

    def stationarity(self, weights: np.ndarray) -> float:
        """The part of the scaled weights that is orthogonal to all derivatives of the last tokens, over their norm."""
        gradient = self.scale * weights
        scaled = (np.asarray(self.jacobian(weights)) / self.scale).T
        rest = gradient - scaled @ np.linalg.lstsq(scaled, gradient, rcond=1e-10)[0]
        return float(np.linalg.norm(rest) / np.linalg.norm(gradient))


def _velocity(x: Any, piece: Any) -> Any:
    """P_i sum_j A_ij V x_j with A = softmax of <x_i, B x_j>, for tokens (..., n, d) and the piece (B, V)."""
    attention = jax.nn.softmax(x @ piece[0] @ jnp.swapaxes(x, -1, -2), axis=-1)
    pull = attention @ x @ piece[1].T
    return pull - (x * pull).sum(axis=-1, keepdims=True) * x


def _plain_velocity(x: np.ndarray, piece: np.ndarray) -> np.ndarray:
    """The same in NumPy."""
    scores = x @ piece[0] @ np.swapaxes(x, -1, -2)
    attention = np.exp(scores - scores.max(axis=-1, keepdims=True))
    pull = attention / attention.sum(axis=-1, keepdims=True) @ x @ piece[1].T
    return pull - (x * pull).sum(axis=-1, keepdims=True) * x
