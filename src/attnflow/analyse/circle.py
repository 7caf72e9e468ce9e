"""Predictions on the circle: growth of Fourier modes, number and places of clusters, critical noise.

Around the uniform distribution the mode e^{i k theta} of the tokens' density grows at
k^2 I_k(beta) / beta under unnormalised attention, I_k being modified Bessel functions, and I_0(beta)
times slower under softmax attention (arXiv:2312.10794, 2410.23228).
"""

from typing import Any

import numpy as np
from scipy.special import ive

from attnflow._common.checks import InputError, require_count, require_finite_number, require_positive_number
from attnflow.analyse.order import fourier_modes

__all__ = [
    "critical_kappa",
    "equiangular_rate",
    "growth_rates",
    "hemisphere_probability",
    "predicted_clusters",
    "predicted_positions",
]


def growth_rates(beta: float, most: int = 8, *, softmax: bool = False) -> np.ndarray:
    """Growth rates of the modes k = 1 to `most` around the uniform distribution on the circle.

    k^2 I_k(beta) / beta for unnormalised attention, k^2 I_k(beta) / (beta I_0(beta)) for
    softmax. At beta = 0 both are 1/2 for k = 1 and 0 for the others. The former
    overflow in float64 from beta = 710 on.

    Examples
    --------
    >>> growth_rates(0.0, 3).tolist()
    [0.5, 0.0, 0.0]
    """
    require_finite_number(beta, "beta")
    require_count(most, "most")
    modes = np.arange(1, most + 1)
    if beta == 0:
        return np.where(modes == 1, 0.5, 0.0)
    # ive is I_k(beta) e^{-|beta|}; the factor cancels in the quotient, so that softmax never overflows.
    with np.errstate(over="ignore"):
        scale = 1 / ive(0, beta) if softmax else np.exp(abs(beta))
    return modes**2 * ive(modes, beta) * scale / beta


def predicted_clusters(beta: float) -> int:
    """The number of clusters that form first: the k whose mode grows fastest, about sqrt(2 beta).

    Examples
    --------
    >>> predicted_clusters(5.0), predicted_clusters(7.0)
    (3, 4)
    """
    require_finite_number(beta, "beta")
    if beta < 0:
        raise InputError(f"`beta` must be at least 0, but it is {beta:g}. For negative beta the uniform law is stable.")
    # The rates fall beyond sqrt(2 beta), so that the largest is among the first 2 sqrt(2 beta).
    most = int(np.ceil(2 * np.sqrt(2 * beta))) + 2
    return int(np.argmax(growth_rates(beta, most, softmax=True))) + 1


def predicted_positions(tokens: Any, clusters: int) -> np.ndarray:
    """Angles in [0, 2 pi) at which `clusters` clusters form: (2 pi j - arg mu_k) / k, from the first tokens, (n, 2).

    Examples
    --------
    >>> predicted_positions([[0.0, 1.0], [0.0, -1.0]], 2) / np.pi
    array([0.5, 1.5])
    """
    require_count(clusters, "clusters")
    phase = np.angle(fourier_modes(np.asarray(tokens, dtype=float), clusters).values[-1])
    return np.sort((2 * np.pi * np.arange(clusters) - phase) / clusters % (2 * np.pi))


def critical_kappa(beta: float, mode: int = 1) -> float:
    """beta / I_k(beta): with noise sqrt(2/kappa) dW the uniform distribution loses mode k above this kappa.

    The attention is unnormalised. For small beta k = 1 has the smallest value; at beta = 0 the others are infinite.

    Examples
    --------
    >>> critical_kappa(0.0)
    2.0
    """
    require_finite_number(beta, "beta")
    require_count(mode, "mode")
    if beta == 0:
        return 2.0 if mode == 1 else np.inf
    return float(beta * np.exp(-abs(beta)) / ive(mode, beta))


def hemisphere_probability(n: int, d: int) -> float:
    """Probability (Wendel) that n random points of the sphere of R^d lie in a hemisphere: 2^{1-n} sum_{k<d} C(n-1, k).

    It holds for any law that is symmetric about 0 and gives no mass to hyperplanes through 0.

    Examples
    --------
    >>> hemisphere_probability(4, 2)
    0.5
    """
    require_count(n, "n")
    require_count(d, "d")
    from scipy.stats import binom  # 0.5 s to import

    return float(binom.cdf(d - 1, n - 1, 0.5))


def equiangular_rate(cosine: Any, n: int, beta: float, *, softmax: bool = True) -> Any:
    """d(rho)/dt of n tokens any two of which have inner product rho; they stay equiangular.

    2 e^{beta rho} (1 - rho) ((n-1) rho + 1), divided by e^beta + (n-1) e^{beta rho} for softmax and by n otherwise.

    Parameters
    ----------
    cosine
        rho, a number or an array.
    n
        Number of tokens.
    beta
        Inverse temperature.
    softmax
        Softmax attention; False: unnormalised.

    Examples
    --------
    >>> float(equiangular_rate(0.0, n=2, beta=0.0))
    1.0
    """
    require_positive_number(n, "n")
    cosine = np.asarray(cosine, dtype=float)
    pull = 2 * (1 - cosine) * ((n - 1) * cosine + 1)
    if softmax:
        return (pull / (np.exp(beta * (1 - cosine)) + n - 1))[()]
    return (np.exp(beta * cosine) * pull / n)[()]
