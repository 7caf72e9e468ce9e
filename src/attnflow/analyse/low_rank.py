"""Spectra and norms of matrices L R of low rank from their factors (d x k and k x d), without the d x d matrix.

Trained heads have V = W_O W_V and Q^T K of rank k, far below d: the cost is d k^2, not d^3.
"""

from typing import Any, NamedTuple

import numpy as np

from attnflow._common.checks import InputError, require_matrix


class Parts(NamedTuple):
    """Three maps that add up to the whole, each as a pair of factors (left, right)."""

    attractive: tuple[np.ndarray, np.ndarray]
    """Positive part of the symmetric part."""
    repulsive: tuple[np.ndarray, np.ndarray]
    """Negative part of the symmetric part."""
    rotational: tuple[np.ndarray, np.ndarray]
    """The antisymmetric part."""


def eigenvalues(left: Any, right: Any) -> np.ndarray:
    """The k eigenvalues of L R that need not be zero, by falling real part: those of the k x k product R L.

    Examples
    --------
    >>> eigenvalues([[1.0], [1.0], [0.0]], [[2.0, 3.0, 5.0]]).real
    array([5.])
    """
    left, right = _factors(left, right)
    values = np.linalg.eigvals(right @ left).astype(complex)
    return values[np.lexsort((-values.imag, -values.real))]


def symmetric_eigenvalues(left: Any, right: Any) -> np.ndarray:
    """The eigenvalues of (L R + (L R)^T) / 2 that need not be zero, rising: at most 2 k.

    Examples
    --------
    The symmetric part of [[0, 2], [0, 0]].

    >>> symmetric_eigenvalues([[1.0], [0.0]], [[0.0, 2.0]]).round(12)
    array([-1.,  1.])
    """
    return _symmetric_part(*_factors(left, right))[0]


def norm(left: Any, right: Any) -> float:
    """Frobenius norm of L R, from Gram matrices of the factors: |L R|^2 = tr (L^T L)(R R^T).

    Examples
    --------
    >>> norm([[1.0], [0.0]], [[0.0, 2.0]])
    2.0
    """
    left, right = _factors(left, right)
    return float(np.sqrt(max(np.sum((left.T @ left) * (right @ right.T)), 0.0)))


def symmetric_norm(left: Any, right: Any) -> float:
    """Frobenius norm of (L R + (L R)^T) / 2, from Gram matrices of the factors.

    |sym B|^2 = (tr B B^T + tr B B) / 2 with tr B B^T = tr (L^T L)(R R^T) and tr B B = tr (R L)^2.

    Examples
    --------
    >>> round(symmetric_norm([[1.0], [0.0]], [[0.0, 2.0]]), 12)
    1.414213562373
    """
    left, right = _factors(left, right)
    product = right @ left
    square = np.sum((left.T @ left) * (right @ right.T)) + np.sum(product * product.T)
    return float(np.sqrt(max(square, 0.0) / 2))


def on_range(left: Any, right: Any) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis U (d x k) of the range of L, and U^T (L R) U, the map restricted to it.

    Tokens that start in the range stay in it, and it contains every eigenvector of a nonzero eigenvalue.
    """
    left, right = _factors(left, right)
    basis, triangle = np.linalg.qr(left)
    return basis, triangle @ right @ basis


def parts(left: Any, right: Any) -> Parts:
    """V = L R as attractive + repulsive + rotational: its symmetric part by sign, and its antisymmetric part.

    Examples
    --------
    >>> value = np.array([[1.0, 4.0], [0.0, -1.0]])
    >>> found = parts(np.eye(2), value)
    >>> bool(np.allclose(sum(left @ right for left, right in found), value))
    True
    >>> round(float(np.linalg.eigvalsh(found.repulsive[0] @ found.repulsive[1]).min()), 6)
    -2.236068
    """
    left, right = _factors(left, right)
    values, vectors = _symmetric_part(left, right)
    signed = [(vectors[:, chosen] * values[chosen], vectors[:, chosen].T) for chosen in (values > 0, values < 0)]
    rotational = np.hstack([left, -right.T]) / 2, np.vstack([right, left.T])
    return Parts(signed[0], signed[1], rotational)


def spectral_parts(left: Any, right: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """V = L R split by its eigenvalues: "positive" and "negative" real ones, and "complex" pairs.

    With R L = E D E^{-1}, the part of some eigenvalues is L (E 1_some E^{-1}) R. The parts add up to V; they are
    not orthogonal to each other unless V is normal.

    Examples
    --------
    >>> left, right = spectral_parts(np.eye(2), [[1.0, 4.0], [0.0, -1.0]])["positive"]
    >>> bool(np.allclose(left @ right, [[1.0, 2.0], [0.0, 0.0]]))
    True
    """
    left, right = _factors(left, right)
    values, vectors = np.linalg.eig(right @ left)
    real, imaginary = np.real(values), np.imag(values)
    # Imaginary parts below 1e-9 of the largest eigenvalue are rounding.
    is_real = np.abs(imaginary) <= 1e-9 * max(np.abs(values).max(), np.finfo(float).tiny)
    kinds = {"positive": is_real & (real > 0), "negative": is_real & (real <= 0), "complex": ~is_real}
    inverse = np.linalg.inv(vectors)
    return {name: (left @ ((vectors * some) @ inverse).real, right) for name, some in kinds.items()}


def _symmetric_part(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, rising, and orthonormal eigenvectors (columns) of (L R + R^T L^T) / 2 on the factors' span."""
    k = left.shape[1]
    basis, triangle = np.linalg.qr(np.hstack([left, right.T]))
    halves = triangle[:, :k] @ triangle[:, k:].T
    values, vectors = np.linalg.eigh((halves + halves.T) / 2)
    return values, basis @ vectors


def _factors(left: Any, right: Any) -> tuple[np.ndarray, np.ndarray]:
    for name, matrix in (("left", left), ("right", right)):
        require_matrix(matrix, name)
    left, right = np.asarray(left, dtype=float), np.asarray(right, dtype=float)
    if left.shape != right.T.shape:
        raise InputError(
            f"The factors of a square matrix must be d x k and k x d, but they are {left.shape} and {right.shape}."
        )
    return left, right
