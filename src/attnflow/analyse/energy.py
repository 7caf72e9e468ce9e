"""The interaction energy of attention on the sphere, and its rate of change under softmax and unnormalised attention.

E_beta = (2 beta n^2)^-1 sum_ij e^{beta <x_i, x_j>} is largest when all tokens are in one place. With
Q = K = V = I, unnormalised attention is its gradient flow (ascent); softmax attention
is its gradient flow in another metric (arXiv:2312.10794).

`run` is a dataset with tokens or an array of shape ([runs,] [times,] n, d); `tokens` and `velocities` have the shape
(..., n, d).
"""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_finite_number, require_positive_number
from attnflow.analyse.snapshots import over_snapshots, tokens_of

__all__ = [
    "interaction",
    "level",
    "normalised",
    "rate",
    "softmax_dissipation",
    "softmax_velocity",
    "unnormalised_dissipation",
    "unnormalised_velocity",
]


def interaction(run: Any, beta: float) -> xr.DataArray:
    """E_beta = (2 beta n^2)^-1 sum_ij e^{beta <x_i, x_j>} over time (and runs).

    On the sphere it is at most e^beta / (2 beta) for beta > 0.

    Examples
    --------
    >>> bool(np.isclose(interaction([[[1.0, 0.0]]], beta=2.0)[0], np.exp(2) / 4))
    True
    """
    require_finite_number(beta, "beta")
    if beta == 0:
        raise InputError("`beta` must not be 0, where E_beta is infinite. Use `energy.normalised`, which is then 1.")
    one = lambda tokens: np.mean(np.exp(beta * tokens @ tokens.T)) / (2 * beta)
    return over_snapshots(one, run, "energy", beta=beta)


def normalised(run: Any, beta: float, masses: Any = None) -> xr.DataArray:
    """2 beta e^{-beta} E_beta = n^-2 sum_ij e^{beta (<x_i, x_j> - 1)}, in (0, 1] on the sphere for beta >= 0.

    The energy of the published staircases. Clusters of m_q tokens that do not interact at this beta
    have sum_q m_q^2 / n^2 (`level`).

    Parameters
    ----------
    run
        Tokens.
    beta
        Inverse temperature.
    masses
        A token of mass m counts like m tokens in one place. None: all one.

    Examples
    --------
    >>> normalised([[[1.0, 0.0], [-1.0, 0.0]]], beta=40.0).values
    array([0.5])
    """
    require_finite_number(beta, "beta")
    shares = _shares(masses, tokens_of(run).sizes["token"])
    one = lambda tokens: shares @ np.exp(beta * (tokens @ tokens.T - 1)) @ shares
    return over_snapshots(one, run, "normalised_energy", beta=beta)


def level(sizes: Any) -> float:
    """Normalised energy of clusters of these sizes (or masses) that do not interact: sum_q m_q^2 / n^2.

    Merging a and b raises it by 2 m_a m_b / n^2.

    Examples
    --------
    >>> level([2, 1, 1])
    0.375
    """
    sizes = np.asarray(sizes, dtype=float)
    return float(np.sum(sizes**2) / np.sum(sizes) ** 2)


def softmax_velocity(tokens: Any, beta: float) -> np.ndarray:
    """Velocities under softmax attention with Q = K = V = I on the sphere; leading axes are mapped over.

    Examples
    --------
    >>> softmax_velocity(np.eye(2), beta=0.0)
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    tokens, weights = _weights(tokens, beta, 1.0)
    return _tangent(tokens, weights @ tokens / weights.sum(axis=-1, keepdims=True))


def unnormalised_velocity(tokens: Any, beta: float, offset: float = 0.0) -> np.ndarray:
    """Velocities n^-1 sum_j e^{beta (<x_i, x_j> - offset)} x_j, made tangent; leading axes are mapped over.

    Examples
    --------
    >>> unnormalised_velocity(np.eye(2), beta=0.0)
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    tokens, weights = _weights(tokens, beta, offset)
    return _tangent(tokens, weights @ tokens / tokens.shape[-2])


def rate(tokens: Any, velocities: Any, beta: float) -> np.ndarray:
    """dE_beta/dt when tokens move with `velocities`, by the chain rule: n^-2 sum_ij e^{beta <x_i, x_j>} <x_j, v_i>.

    Examples
    --------
    >>> tokens = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> round(float(rate(tokens, softmax_velocity(tokens, 1.0), 1.0)), 6)
    0.134471
    """
    tokens, weights = _weights(tokens, beta, 0.0)
    forces = weights @ tokens / tokens.shape[-2]
    return np.mean(np.sum(forces * np.asarray(velocities, dtype=float), axis=-1), axis=-1)


def softmax_dissipation(tokens: Any, velocities: Any, beta: float) -> np.ndarray:
    """n^-1 sum_i (Z_i / n) |v_i|^2 with Z_i = sum_j e^{beta <x_i, x_j>}: the value of `rate` under softmax attention.

    Examples
    --------
    >>> tokens = np.array([[1.0, 0.0], [0.6, 0.8]])
    >>> velocities = softmax_velocity(tokens, beta=3.0)
    >>> bool(np.isclose(rate(tokens, velocities, 3.0), softmax_dissipation(tokens, velocities, 3.0)))
    True
    """
    _, weights = _weights(tokens, beta, 0.0)
    speeds = np.sum(np.asarray(velocities, dtype=float) ** 2, axis=-1)
    return np.mean(weights.mean(axis=-1) * speeds, axis=-1)


def unnormalised_dissipation(velocities: Any, beta: float = 0.0, offset: float = 0.0) -> np.ndarray:
    """n^-1 sum_i |v_i|^2: the value of `rate` under unnormalised attention; with an offset, times e^{beta offset}.

    Examples
    --------
    >>> tokens = np.eye(2)
    >>> velocities = unnormalised_velocity(tokens, beta=1.0)
    >>> bool(np.isclose(unnormalised_dissipation(velocities), rate(tokens, velocities, 1.0)))
    True
    """
    speeds = np.sum(np.asarray(velocities, dtype=float) ** 2, axis=-1)
    return np.exp(beta * offset) * np.mean(speeds, axis=-1)


def _weights(tokens, beta, offset):
    require_finite_number(beta, "beta")
    tokens = np.asarray(tokens, dtype=float)
    return tokens, np.exp(beta * (tokens @ np.swapaxes(tokens, -1, -2) - offset))


def _tangent(tokens, vectors):
    return vectors - np.sum(tokens * vectors, axis=-1, keepdims=True) * tokens


def _shares(masses: Any, n: int) -> np.ndarray:
    if masses is None:
        return np.full(n, 1 / n)
    masses = np.asarray(masses, dtype=float)
    if masses.shape != (n,):
        raise InputError(f"`masses` must be one number per token, {n}, but its shape is {masses.shape}.")
    for mass in masses:
        require_positive_number(float(mass), "masses")
    return masses / masses.sum()
