"""The search for weights of one softmax head in pieces: fits, minimisation with second derivatives, corrections."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp
from scipy.linalg import null_space
from scipy.optimize import NonlinearConstraint, least_squares, minimize

from attnflow.control.pontryagin import PontryaginCheck, pontryagin

STEPS_PER_PIECE = 6  # of the Runge-Kutta method of order four, in the search; the last corrections use SciPy's DOP853
SCORE_WEIGHT = 0.01  # of the energy of Q^T K relative to that of V, so that scores stay moderate
PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4)  # factors of the energy, one fit after the other
MOST_EVALUATIONS = 40  # of the derivatives, in one fit
CORRECTIONS = 12  # Newton steps of least norm after the fits
LONGEST_STEP = 0.1  # of a correction, relative to the norm of the weights
ARRIVED = 1e-10  # distance at which corrections end


@dataclass(frozen=True)
class SteeringSearch:
    """Prompts and targets (prompts, n, d), and the shape (pieces, 2, d, d) of Q^T K and V."""

    prompts: np.ndarray
    targets: np.ndarray
    shape: tuple[int, ...]
    end: float
    order: int = 2
    """p of the Schatten norm of V in the running cost."""

    @property
    def scale(self) -> np.ndarray:
        """Square root of the share of every entry in the energy."""
        shares = np.broadcast_to(np.array([SCORE_WEIGHT, 1.0])[None, :, None, None], self.shape)
        return np.sqrt(shares.ravel() * self.end / self.shape[0])

    @cached_property
    def misses(self) -> Callable[[Any], Any]:
        """x(T) - y of all tokens, by the Runge-Kutta method."""
        return jax.jit(lambda flat: self.last(flat.reshape(self.shape)).ravel() - self.targets.ravel())

    @cached_property
    def jacobian(self) -> Callable[[Any], Any]:
        """The derivative of `misses`, by forward mode."""
        return jax.jit(jax.jacfwd(self.misses))

    def last(self, weights: Any) -> Any:
        """The last tokens of all prompts, by the Runge-Kutta method."""
        return path(jnp.asarray(self.prompts), weights, self.end)[0]

    def fitted(self, weights: np.ndarray) -> np.ndarray:
        """The weights after fits with falling penalties."""
        for penalty in PENALTIES:
            weights = self.fitted_with(weights, np.sqrt(penalty) * self.scale)
        return weights

    def fitted_with(self, weights: np.ndarray, row: np.ndarray) -> np.ndarray:
        """The weights that minimise the misses and `row` times the weights, in squares."""
        derivative: Any = lambda one: np.concatenate([np.asarray(self.jacobian(one)), np.diag(row)])
        misses = lambda one: np.concatenate([np.asarray(self.misses(one)), row * one])
        return least_squares(misses, weights, jac=derivative, max_nfev=MOST_EVALUATIONS).x

    def corrected(self, weights: np.ndarray) -> np.ndarray:
        """Newton steps of least energy on the misses of a tight solve; the best weights are kept."""
        best, least = weights, np.inf
        for _ in range(CORRECTIONS):
            missed = self.tight(weights)
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

    def tight(self, weights: np.ndarray) -> np.ndarray:
        """x(T) - y of all tokens, by SciPy."""
        shape, flat = self.prompts.shape, self.prompts.ravel()
        for piece in weights.reshape(self.shape):
            rate = lambda _, x, piece=piece: plain_velocity(x.reshape(shape), piece).ravel()
            span = (0.0, self.end / self.shape[0])
            flat = solve_ivp(rate, span, flat, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
        return flat - self.targets.ravel()

    def running_cost(self, piece: Any) -> Any:
        """|V|^2 in the Schatten norm of even order p, and |Q^T K|^2 / 100."""
        gram = piece[1].T @ piece[1]
        power = jnp.trace(jnp.linalg.matrix_power(gram, self.order // 2))
        # The least positive number keeps the root differentiable at V = 0.
        return (power + 1e-300) ** (2 / self.order) + SCORE_WEIGHT * (piece[0] ** 2).sum()

    def time(self, flat: np.ndarray) -> float:
        """The time that the weights take with |V| = 1 in every piece: the integral of |V|."""
        norms = [np.linalg.norm(value, 2) for value in flat.reshape(self.shape)[:, 1]]
        return self.end / self.shape[0] * float(np.sum(norms))

    def cost(self, flat: Any) -> Any:
        """The integral of the running cost over time."""
        return self.end / self.shape[0] * jax.vmap(self.running_cost)(flat.reshape(self.shape)).sum()

    @cached_property
    def tangents(self) -> np.ndarray:
        """An orthonormal basis of the tangent space of every target, (tokens, d - 1, d)."""
        places = self.targets.reshape(-1, self.targets.shape[-1])
        return np.array([null_space(place[None]).T for place in places])

    def arrivals(self, flat: Any) -> Any:
        """The misses in the tangent spaces of the targets, which are zero where all tokens have arrived."""
        missed = self.last(flat.reshape(self.shape)).reshape(len(self.tangents), -1) - self._places
        return jnp.einsum("ijk,ik->ij", self.tangents, missed).ravel()

    @property
    def _places(self) -> np.ndarray:
        return self.targets.reshape(len(self.tangents), -1)

    @cached_property
    def slopes(self) -> Callable[[Any], Any]:
        """The derivative of `arrivals`."""
        return jax.jit(jax.jacfwd(self.arrivals))

    @cached_property
    def gradient(self) -> Callable[[Any], Any]:
        """The derivative of `cost`."""
        return jax.jit(jax.grad(self.cost))

    def minimised(self, weights: np.ndarray, steps: int) -> tuple[np.ndarray, int]:
        """The weights after `steps` of a trust-region method at most on the cost among those that arrive, with exact
        second derivatives, and the number of its steps."""
        twice = jax.jit(jax.hessian(lambda flat, multipliers: multipliers @ self.arrivals(flat)))
        arrive = NonlinearConstraint(
            _numpy(jax.jit(self.arrivals)), 0.0, 0.0, jac=_numpy(self.slopes), hess=_numpy(twice)
        )
        found = minimize(
            _numpy(jax.jit(self.cost)), weights, method="trust-constr", jac=_numpy(self.gradient),
            hess=_numpy(jax.jit(jax.hessian(self.cost))), constraints=[arrive],
            options={"maxiter": steps, "gtol": 1e-7, "xtol": 1e-10},
        )  # fmt: skip
        return found.x, int(found.nit)

    def multipliers(self, weights: np.ndarray) -> tuple[np.ndarray, float]:
        """Multipliers of the arrivals that balance the gradient of the cost best, and the share that is left."""
        gradient, slopes = np.asarray(self.gradient(weights)), np.asarray(self.slopes(weights)).T
        balance = np.linalg.lstsq(slopes, -gradient, rcond=1e-10)[0]
        return balance, float(np.linalg.norm(gradient + slopes @ balance) / np.linalg.norm(gradient))

    def check(self, weights: np.ndarray, multipliers: np.ndarray) -> PontryaginCheck:
        """Pontryagin's conditions, by an adjoint solve."""
        ends = np.einsum("ijk,ij->ik", self.tangents, multipliers.reshape(self.tangents.shape[:2]))
        pieces, duration = weights.reshape(self.shape), self.end / self.shape[0]
        return pontryagin(pieces, duration, self.prompts, ends, self.running_cost, velocity)


def path(prompts: Any, weights: Any, end: float) -> tuple[Any, Any]:
    """The last tokens (prompts, n, d) under weights (pieces, 2, d, d), and those after each step of the method."""
    step = end / weights.shape[0] / STEPS_PER_PIECE

    def advance(x, piece):
        k1 = velocity(x, piece)
        k2 = velocity(x + step / 2 * k1, piece)
        k3 = velocity(x + step / 2 * k2, piece)
        k4 = velocity(x + step * k3, piece)
        x = x + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        x = x / jnp.linalg.norm(x, axis=-1, keepdims=True)
        return x, x

    return jax.lax.scan(advance, prompts, jnp.repeat(weights, STEPS_PER_PIECE, axis=0))


def _numpy(function: Callable) -> Any:
    return lambda *given: np.asarray(function(*given))


def velocity(x: Any, piece: Any) -> Any:
    """P_i sum_j A_ij V x_j with A = softmax of <x_i, B x_j>, for tokens (..., n, d) and the piece (B, V)."""
    attention = jax.nn.softmax(x @ piece[0] @ jnp.swapaxes(x, -1, -2), axis=-1)
    pull = attention @ x @ piece[1].T
    return pull - (x * pull).sum(axis=-1, keepdims=True) * x


def plain_velocity(x: np.ndarray, piece: np.ndarray) -> np.ndarray:
    """The same in NumPy."""
    scores = x @ piece[0] @ np.swapaxes(x, -1, -2)
    attention = np.exp(scores - scores.max(axis=-1, keepdims=True))
    pull = attention / attention.sum(axis=-1, keepdims=True) @ x @ piece[1].T
    return pull - (x * pull).sum(axis=-1, keepdims=True) * x
