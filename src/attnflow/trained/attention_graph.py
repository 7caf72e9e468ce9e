"""Attention as a graph on the tokens: how fast averaging over it would bring them together."""

from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, eigs

from attnflow._common.checks import InputError

MOST_DENSE = 128  # tokens; beyond, one eigenvalue is sought instead of all
# Many moduli may be nearly equal: a wide space tells them apart, and after some restarts all eigenvalues cost less.
KRYLOV = {"ncv": 64, "tol": 1e-9, "maxiter": 20}


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
    if matrices.shape[-1] <= MOST_DENSE:
        return np.sort(np.abs(np.linalg.eigvals(matrices)), axis=-1)[..., -2]
    flat = matrices.reshape(-1, *matrices.shape[-2:])
    return np.array([_iterated(matrix) for matrix in flat]).reshape(matrices.shape[:-2])


def _iterated(matrix: np.ndarray) -> float:
    """By Arnoldi's method on P - 1 1^T / n, whose eigenvalues are those of P with 0 in place of 1."""
    n = len(matrix)
    if not np.any(np.triu(matrix, 1)):  # causal: the eigenvalues stand on the diagonal
        return float(np.sort(np.abs(np.diagonal(matrix)))[-2])
    try:
        start = np.cos(np.arange(n))  # the same answer every time
        return float(np.abs(eigs(matrix - 1 / n, k=1, v0=start, return_eigenvectors=False, **KRYLOV))[0])
    except ArpackNoConvergence:
        return float(np.sort(np.abs(np.linalg.eigvals(matrix)))[-2])
