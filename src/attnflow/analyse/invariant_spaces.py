"""Invariant subspaces of a matrix, each for some of its eigenvalues, from one Schur form."""

import functools
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs, schur


class InvariantSpaces:
    """Invariant subspaces of a real matrix, by the indices of their eigenvalues in `values`.

    Examples
    --------
    >>> spaces = InvariantSpaces(np.array([[2.0, 1.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, -1.0]]), np.array([2, 2, -1]))
    >>> np.abs(spaces.basis(np.array([2]))).round(12)
    array([[0.],
           [0.],
           [1.]])
    """

    def __init__(self, matrix: np.ndarray, values: np.ndarray):
        self.matrix = matrix
        self.values = values

    def basis(self, members: np.ndarray) -> np.ndarray:
        """Orthonormal columns of the invariant subspace of some eigenvalues, from the Schur form or a null space."""
        if len(members) == len(self.values):
            return np.eye(len(self.values))
        ordered = self._ordered(members) if len(members) > 1 else None
        if ordered is not None:
            return ordered
        power = np.linalg.matrix_power(self._shifted(members), len(members))
        return np.linalg.svd(power)[2][-len(members) :].conj().T

    def nilpotent(self, members: np.ndarray) -> np.ndarray:
        """V - lambda on the invariant subspace of some eigenvalues whose mean is lambda."""
        basis = self.basis(members)
        return basis.conj().T @ self.matrix @ basis - self.values[members].mean() * np.eye(len(members))

    def _shifted(self, members: np.ndarray) -> np.ndarray:
        return self.matrix - self.values[members].mean() * np.eye(len(self.values))

    def _ordered(self, members: np.ndarray) -> np.ndarray | None:
        """The first Schur vectors with these eigenvalues first; None where others are too close to reorder them."""
        triangle, vectors = self._schur
        chosen = np.isin(self._positions, members)
        if chosen.sum() != len(members):
            return None
        reorder: Any = get_lapack_funcs("trsen", (triangle,))
        reordered = reorder(chosen.astype(np.int32), triangle, vectors, job=b"N")
        return reordered[1][:, : len(members)] if reordered[-1] == 0 else None

    @functools.cached_property
    def _schur(self) -> tuple[np.ndarray, np.ndarray]:
        form: Any = schur(self.matrix, output="complex")
        return form

    @functools.cached_property
    def _positions(self) -> np.ndarray:
        """Index in `values` of each entry on the diagonal of the Schur form."""
        return np.argmin(np.abs(np.diagonal(self._schur[0])[:, None] - self.values), axis=1)
