r"""Pontryagin's conditions for a control in pieces, by an adjoint solve that is not part of the search.

With the running cost l(u) and the field f of all tokens, H(x, p, u) = l(u) + <p, f(x, u)>, where the adjoint obeys
p' = -(df/dx)^T p backwards from the multipliers of the targets. Among controls that are constant in pieces a minimum
has zero means of dH/du over every piece; among all controls dH/du is zero at all times, so that its largest value says
what more pieces could gain. As u is constant in a piece and the field does not depend on time, H is constant there:
its drift measures the error of the solves.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import simpson, solve_ivp

NODES = 17  # times in each piece at which dH/du and H are evaluated, for Simpson's rule


@dataclass(frozen=True)
class PontryaginCheck:
    """Residuals of a control; those of dH/du are relative to the gradient of the running cost.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.control.optimise(np.eye(3)[:1], np.eye(3)[1:2], pieces=2, objective="energy", rng=0)
    >>> check = found.search.pontryagin
    >>> bool(check.mean_residual < 1e-3), bool(check.drift.max() < 1e-6)
    (True, True)
    """

    mean_residual: float
    """The largest mean of dH/du over a piece: zero at a minimum among controls with these pieces."""
    largest_residual: float
    """The largest |dH/du| at any time: zero at a minimum among all controls."""
    hamiltonian: np.ndarray
    """The mean of H over each piece."""
    drift: np.ndarray
    """The largest change of H within each piece, relative to the largest |H|: the error of the solves."""


def pontryagin(
    weights: np.ndarray, duration: float, prompts: np.ndarray, ends: np.ndarray, cost: Callable, velocity: Callable
) -> PontryaginCheck:
    """The residuals of weights (pieces, 2, d, d), each for time `duration`; `ends` is the adjoint at the last time."""
    shape, size = prompts.shape, prompts.size
    field = jax.jit(lambda x, u: velocity(x.reshape(shape), u).ravel())
    pull = jax.jit(lambda x, u, p: jax.vjp(lambda one: field(one, u), x)[1](p)[0])
    hamiltonian = lambda u, x, p: cost(u) + jnp.vdot(p, field(x, u))
    measured = jax.jit(jax.vmap(jax.value_and_grad(hamiltonian), (None, 0, 0)))
    scale = float(np.linalg.norm([np.linalg.norm(jax.grad(cost)(u)) for u in weights]) / np.sqrt(len(weights)))
    times, states = np.linspace(0, duration, NODES), [prompts.ravel()]
    options: Any = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-13}
    for u in weights:
        rate = lambda _, x, u=u: np.asarray(field(x, u))
        states.append(solve_ivp(rate, (0, duration), states[-1], **options).y[:, -1])
    p, means, largest, values = ends.ravel(), [], [], []
    for u, last in zip(weights[::-1], states[:0:-1], strict=True):
        joint = lambda _, z, u=u: np.r_[-np.asarray(field(z[:size], u)), np.asarray(pull(z[:size], u, z[size:]))]
        found = solve_ivp(joint, (0, duration), np.r_[last, p], t_eval=times, **options).y.T
        p = found[-1, size:]
        energy, slopes = map(np.asarray, measured(jnp.asarray(u), found[:, :size], found[:, size:]))
        slopes = slopes.reshape(NODES, -1)
        means.append(float(np.linalg.norm(simpson(slopes, x=times, axis=0))) / duration)
        largest.append(float(np.linalg.norm(slopes, axis=1).max()))
        values.append(energy)
    levels = np.array(values[::-1])
    top = float(np.abs(levels).max()) or 1.0
    return PontryaginCheck(max(means) / scale, max(largest) / scale, levels.mean(axis=1), np.ptp(levels, axis=1) / top)
