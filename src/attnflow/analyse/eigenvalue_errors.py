"""Rounding errors of computed eigenvalues."""

from typing import Any

import numpy as np
from scipy.linalg import eig

__all__ = ["eigenvalue_errors"]


def eigenvalue_errors(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    """The eigenvalues of a matrix as computed, and the rounding error of each.

    A perturbation E moves the eigenvalue lambda_k by at most |E| / |<l_k, r_k>| to first order, for the left and right
    eigenvectors l_k and r_k of length one; |E| is n |A| times the machine precision. No error exceeds
    (2 |A|)^{1 - 1/n} |E|^{1/n} (Elsner), the bound where eigenvectors coincide.

    Examples
    --------
    >>> eigenvalues, errors = eigenvalue_errors(np.diag([2.0, 1.0]))
    >>> eigenvalues.real.tolist(), bool(errors.max() < 1e-14)
    ([2.0, 1.0], True)
    >>> bool(eigenvalue_errors([[1.0, 1.0], [0.0, 1.0]])[1].max() < 1e-7)  # a Jordan block
    True
    """
    matrix = np.asarray(matrix, dtype=float)
    decomposition: Any = eig(matrix, left=True)
    eigenvalues, left, right = decomposition
    norm = float(np.linalg.norm(matrix, 2))
    perturbation = len(matrix) * norm * np.finfo(float).eps
    overlaps = np.maximum(np.abs(np.sum(left.conj() * right, axis=0)), np.finfo(float).tiny)
    elsner = (2 * norm) ** (1 - 1 / len(matrix)) * perturbation ** (1 / len(matrix))
    return eigenvalues, np.minimum(perturbation / overlaps, elsner)
