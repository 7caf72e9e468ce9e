"""Attention as a graph on the tokens: how fast averaging over it would bring them together."""

from typing import Any

import numpy as np

from attnflow._checks import InputError


def second_eigenvalue(matrices: Any) -> np.ndarray:
    """Modulus of the second largest eigenvalue of row-stochastic matrices, over the last two axes.

    The largest is 1. Repeated averaging with P forgets differences like |lambda_2|^k: 0 after one
    step for equal weights, never for the identity. A single token has none: 0.

    Examples
    --------
    >>> second_eigenvalue([np.full((2, 2), 0.5), np.eye(2)]).round(12)
    array([0., 1.])
    """
    matrices = np.asarray(matrices, dtype=float)
    if matrices.ndim < 2 or matrices.shape[-1] != matrices.shape[-2] or 0 in matrices.shape:
        raise InputError(f"Attention matrices must have shape (..., n, n), but the shape is {matrices.shape}.")
    if matrices.shape[-1] == 1:
        return np.zeros(matrices.shape[:-2])
    return np.sort(np.abs(np.linalg.eigvals(matrices)), axis=-1)[..., -2]
