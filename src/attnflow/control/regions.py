"""Fits whose targets are caps, with tokens kept apart on the way: the search of `optimise` for classification."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

from attnflow.control.shooting import MOST_EVALUATIONS, PENALTIES, SteeringSearch, path

MARGIN = 0.1  # share of radius and distance that fits aim at beyond what is asked, which the energy takes back in part


@dataclass(frozen=True)
class Regions:
    """Targets as caps of a radius, and a least distance between tokens of one prompt: zero for neither.

    With r = |x_i(T) - y_i| the conditions are (r - radius)_+ = 0, or x_i(T) - y_i = 0 for the radius zero, and
    (apart - |x_i(t) - x_j(t)|)_+ = 0 at the end of every step of the Runge-Kutta method.
    """

    radius: float = 0.0
    apart: float = 0.0

    @property
    def are_points(self) -> bool:
        """Whether targets are points and tokens may come close to each other."""
        return self.radius == 0 and self.apart == 0

    def fitted(self, search: SteeringSearch, weights: np.ndarray) -> np.ndarray:
        """The weights of fits with falling penalties, up to the first ones that meet the conditions."""
        given = (jnp.asarray(search.prompts), jnp.asarray(search.targets), search.end)
        aims = (self.radius * (1 - MARGIN), self.apart * (1 + MARGIN))
        shape = (search.shape, self.apart > 0)
        for penalty in PENALTIES:
            row = np.sqrt(penalty) * search.scale
            missed = lambda one, row=row: np.r_[np.asarray(_missed(one, *given, *aims, *shape)), row * one]
            slopes: Any = lambda one, row=row: np.r_[np.asarray(_slopes(one, *given, *aims, *shape)), np.diag(row)]
            weights = least_squares(missed, weights, jac=slopes, max_nfev=MOST_EVALUATIONS).x
            if self.radius > 0 and not np.any(_missed(weights, *given, self.radius, self.apart, *shape)):
                break
        return weights


def _left(
    flat: Any, prompts: Any, targets: Any, end: Any, radius: Any, apart: Any, shape: tuple, keeps_apart: bool
) -> Any:
    """The residuals of the conditions on the last tokens x_i and on all states, each zero where a condition is met.

    For targets y_i, (|x_i - y_i| - radius)_+ / sqrt(d), or x_i - y_i for the radius zero; with `keeps_apart` also
    (apart - |x_i - x_j|)_+ / sqrt(number of states) for every pair and state. All numbers are arguments instead of
    constants, so that one program serves all prompts.
    """
    last, states = path(prompts, flat.reshape(shape), end)
    off = last - targets
    # The least positive number keeps the root differentiable where a token is at its target.
    outside = jnp.maximum(jnp.sqrt((off**2).sum(axis=-1) + 1e-300) - radius, 0.0)
    reached = jnp.where(radius > 0, outside[..., None] / np.sqrt(off.shape[-1]), off).ravel()
    if not keeps_apart:
        return reached
    rows, columns = np.triu_indices(prompts.shape[-2], 1)
    between = states[..., rows, :] - states[..., columns, :]
    close = jnp.maximum(apart - jnp.sqrt((between**2).sum(axis=-1) + 1e-300), 0.0)
    return jnp.concatenate([reached, close.ravel() / np.sqrt(len(states))])


_missed = jax.jit(_left, static_argnums=(6, 7))
_slopes = jax.jit(jax.jacfwd(_left), static_argnums=(6, 7))
