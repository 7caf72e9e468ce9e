"""Observables of many tokens on the unit sphere without n^2 operations, in NumPy."""

from typing import Any

import numpy as np
from scipy.spatial import KDTree

from attnflow._common.extras import is_found
from attnflow.model.fast_sums.direct_sums import BLOCK_ENTRIES, all_sums
from attnflow.model.fast_sums.fourier import CircleKernel
from attnflow.model.fast_sums.harmonics import SphereKernel

LEAST_TOKENS = 5000  # below, all pairs take milliseconds
KERNELS: dict[int, tuple[str, Any]] = {2: ("finufft", CircleKernel), 3: ("ducc0", SphereKernel)}


def is_on_sphere(tokens: np.ndarray) -> bool:
    """Whether all tokens have length one, up to rounding."""
    return bool(np.all(np.abs(np.einsum("nk,nk->n", tokens, tokens) - 1) < 1e-12))


def energy(tokens: np.ndarray, beta: float) -> float:
    """n^-2 sum_ij e^{beta (<x_i, x_j> - 1)}; on the circle and S^2 by an expansion, whose error is below 1e-11."""
    n, d = tokens.shape
    module, kernel = KERNELS.get(d, ("", None))
    if beta >= 0 and kernel is not None and is_found(module) and is_on_sphere(tokens):
        everything = slice(0, n)
        return float(np.mean(kernel(tokens, tokens, beta).sums(everything, everything, np.full((n, 1), 1 / n))))
    sums, best = all_sums(beta * tokens, tokens, np.empty((n, 0)), np.full(n, -beta))
    return float(np.mean(sums[:, -1] * np.exp(best)) / n)


def diameter(tokens: np.ndarray) -> float:
    """The largest |x - y|; for unit vectors |x - y|^2 = 4 - |x + y|^2, and the antipode of x has a nearest token."""
    if is_on_sphere(tokens):
        nearest = np.asarray(KDTree(tokens).query(-tokens, workers=-1)[0]).min()
        return float(np.sqrt(max(4 - nearest**2, 0.0)))
    # Twice the largest distance from a point at most; tokens closer to it than the rest cannot be ends of a diameter.
    from_centre = np.linalg.norm(tokens - tokens.mean(axis=0), axis=1)
    farthest = tokens[np.argmax(from_centre)]
    known = np.linalg.norm(tokens - farthest, axis=1).max()
    ends = tokens[from_centre >= known - from_centre.max()]
    return float(max(np.linalg.norm(ends - end, axis=1).max() for end in ends))


def close_pairs(tokens: np.ndarray, cosine: float) -> float:
    """The share of distinct pairs with <x_i, x_j> above `cosine`, for unit vectors |x_i - x_j|^2 < 2 - 2 cosine."""
    n = len(tokens)
    if cosine < 1 and is_on_sphere(tokens):
        tree = KDTree(tokens)
        return (int(tree.count_neighbors(tree, np.sqrt(2 - 2 * cosine))) - n) / (n * (n - 1))
    blocks = np.array_split(tokens, -(-n * n // BLOCK_ENTRIES))
    counted = sum(int(np.sum(block @ tokens.T > cosine)) for block in blocks)
    selves = int(np.sum(np.einsum("nk,nk->n", tokens, tokens) > cosine))
    return (counted - selves) / (n * (n - 1))
