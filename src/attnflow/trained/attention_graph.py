"""The second eigenvalue of attention matrices, the rate at which repeated averaging contracts the tokens."""

from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, eigs

from attnflow._common.checks import InputError

MAX_DENSE_TOKENS = 128  # above it one eigenvalue is computed instead of all
# A large Krylov space separates nearly equal moduli; after 20 restarts computing all eigenvalues costs less.
KRYLOV_OPTIONS = {"ncv": 64, "tol": 1e-9, "maxiter": 20}


def second_eigenvalue(matrices: Any) -> np.ndarray:
    """Modulus of the second largest eigenvalue of row-stochastic matrices, over the last two axes.

    The largest is 1. Under repeated averaging with P differences decay like |lambda_2|^k: at once for equal
    weights, never for the identity. It is 0 for a single token.

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
    if matrices.shape[-1] <= MAX_DENSE_TOKENS:
        return np.sort(np.abs(np.linalg.eigvals(matrices)), axis=-1)[..., -2]
    flat = matrices.reshape(-1, *matrices.shape[-2:])
    return np.array([_iterated(matrix) for matrix in flat]).reshape(matrices.shape[:-2])


def _iterated(matrix: np.ndarray) -> float:
    """The second largest modulus of an eigenvalue of P, by Arnoldi's method on P - 1 1^T / n.

    The eigenvalues of that matrix are those of P with 0 in place of 1.
    """
    n = len(matrix)
    if not np.any(np.triu(matrix, 1)):  # causal: the eigenvalues are on the diagonal
        return float(np.sort(np.abs(np.diagonal(matrix)))[-2])
    try:
        start = np.cos(np.arange(n))  # deterministic
        return float(np.abs(eigs(matrix - 1 / n, k=1, v0=start, return_eigenvectors=False, **KRYLOV_OPTIONS))[0])
    except ArpackNoConvergence:
        return float(np.sort(np.abs(np.linalg.eigvals(matrix)))[-2])
