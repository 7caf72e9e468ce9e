"""Spectra of matrices: eigenvalues with multiplicities, and the subspaces that dominate e^{tV} for large t.

`value` (V), `query` (Q), `key` (K) and `matrix` are real matrices.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
from scipy.linalg import null_space, orth
from scipy.sparse.csgraph import connected_components

from attnflow._common.checks import InputError, require_matrix, require_square
from attnflow.analyse.invariant_spaces import InvariantSpaces

__all__ = [
    "Eigenvalue",
    "Spectrum",
    "asymmetry",
    "complement",
    "generalised_eigenspace",
    "least_of_symmetric_part",
    "query_key",
    "require_real",
    "spectrum",
]

SPECTRAL_TOLERANCE = 1e-8  # times |V|, of eigenvalues that count as equal; papers print matrices with eight digits
# A k-fold eigenvalue of a defective matrix is computed only to eps^{1/k}. Eigenvalues within 1e-3 |V| are one if V is
# within this relative distance of a matrix in which they coincide.
MATRIX_ROUNDING = 1e4 * np.finfo(float).eps
ZERO_SINGULAR_VALUE = 1e-7  # times |V|^j, in (V - lambda)^j


@dataclasses.dataclass(frozen=True)
class Eigenvalue:
    """One eigenvalue with its multiplicities.

    Examples
    --------
    >>> lead = spectrum(np.array([[1.0, 1.0], [0.0, 1.0]])).leading
    >>> lead.multiplicity, lead.geometric, lead.block, lead.is_real
    (2, 1, 2, True)
    """

    value: complex
    """The eigenvalue."""
    multiplicity: int
    """Algebraic multiplicity."""
    geometric: int
    """Geometric multiplicity; smaller than `multiplicity` where the matrix is defective."""
    block: int
    """Size of its largest Jordan block."""

    @property
    def is_real(self) -> bool:
        """Whether it has no imaginary part."""
        return self.value.imag == 0


@dataclasses.dataclass(frozen=True, eq=False)
class Spectrum:
    """The eigenvalues of a matrix by falling real part; those with the largest real part lead.

    Examples
    --------
    >>> found = spectrum(np.diag([2.0, 1.0]))
    >>> found.leading.value.real, found.is_leading_simple, found.gap
    (2.0, True, 1.0)
    >>> found.right, found.left
    (array([1., 0.]), array([1., 0.]))
    >>> found.leading_space.shape, found.largest_block_space.shape
    ((2, 1), (2, 1))

    A complex pair leads, and the third eigenvalue, -1, has a larger modulus than the real part of the pair.

    >>> found = spectrum(np.array([[0.5, -2.0, 0.0], [2.0, 0.5, 0.0], [0.0, 0.0, -1.0]]))
    >>> found.values
    array([ 0.5+2.j,  0.5-2.j, -1. +0.j])
    >>> found.is_leading_real, len(found.leaders), found.rest_radius, round(found.dominance, 6)
    (False, 2, 1.0, -1.561553)
    """

    matrix: np.ndarray
    eigenvalues: tuple[Eigenvalue, ...]
    scale: float
    """|V|, the largest singular value, to which tolerances are relative."""

    @property
    def values(self) -> np.ndarray:
        """All eigenvalues, repeated by multiplicity."""
        return np.repeat([one.value for one in self.eigenvalues], [one.multiplicity for one in self.eigenvalues])

    @property
    def leaders(self) -> tuple[Eigenvalue, ...]:
        """The eigenvalues with the largest real part: one, or a conjugate pair, or more."""
        largest = self.eigenvalues[0].value.real
        return tuple(one for one in self.eigenvalues if one.value.real >= largest - SPECTRAL_TOLERANCE * self.scale)

    @property
    def leading(self) -> Eigenvalue:
        """The first of the leaders; a real one where there is one."""
        return min(self.leaders, key=lambda one: abs(one.value.imag))

    @property
    def is_leading_real(self) -> bool:
        """Whether no leader is complex."""
        return all(one.is_real for one in self.leaders)

    @property
    def is_leading_simple(self) -> bool:
        """Whether one real eigenvalue of multiplicity one leads."""
        return len(self.leaders) == 1 and self.leading.is_real and self.leading.multiplicity == 1

    @property
    def gap(self) -> float:
        """Real part of the leaders minus the next one; infinity where all lead."""
        others = [one.value.real for one in self.eigenvalues if one not in self.leaders]
        return float(self.leading.value.real - max(others)) if others else np.inf

    @property
    def rest_radius(self) -> float:
        """Largest modulus of the eigenvalues that do not lead; zero where all lead."""
        return max((abs(one.value) for one in self.eigenvalues if one not in self.leaders), default=0.0)

    @property
    def dominance(self) -> float:
        """The leading real part minus the largest modulus of all other eigenvalues, copies of the leader included."""
        others = list(self.values)
        others.remove(self.leading.value)
        return float(self.leading.value.real - max(np.abs(others), default=0.0))

    @functools.cached_property
    def _spaces(self) -> InvariantSpaces:
        return InvariantSpaces(self.matrix, self.values)

    @functools.cached_property
    def leading_space(self) -> np.ndarray:
        """L': orthonormal columns that span the generalised eigenvectors of all leaders."""
        return _real_span([generalised_eigenspace(self, one) for one in self.leaders])

    @functools.cached_property
    def largest_block_space(self) -> np.ndarray:
        """L: orthonormal columns that span the ends of the largest Jordan blocks, the limit directions of e^{tV} x."""
        longest = max(one.block for one in self.leaders)
        return _real_span([_block_ends(self, one) for one in self.leaders if one.block == longest])

    @property
    def right(self) -> np.ndarray:
        """The unit eigenvector xi of a simple real leader."""
        return self._leading_vector(self.matrix)

    @property
    def left(self) -> np.ndarray:
        """The left eigenvector phi_1^* of a simple real leader, with phi_1^*(xi) = 1."""
        covector = self._leading_vector(self.matrix.T)
        return covector / (covector @ self.right)

    def _leading_vector(self, matrix: np.ndarray) -> np.ndarray:
        if not self.is_leading_simple:
            raise InputError(
                "A leading eigenvector needs a real leading eigenvalue of multiplicity one, but the leaders are "
                f"{[one.value for one in self.leaders]}. Use `leading_space`."
            )
        shifted = matrix - self.leading.value.real * np.eye(len(matrix))
        vector = np.linalg.svd(shifted)[2][-1]
        return vector * np.sign(vector[np.argmax(np.abs(vector))])


def spectrum(value: Any) -> Spectrum:
    """The spectrum of a real square matrix.

    Eigenvalues within 1e-8 |V| of each other count as one, and so do those that rounding alone
    separates where V is defective.

    Examples
    --------
    >>> found = spectrum([[2.0, 1.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, -1.0]])
    >>> [(one.value.real, one.multiplicity, one.geometric, one.block) for one in found.eigenvalues]
    [(2.0, 2, 1, 2), (-1.0, 1, 1, 1)]
    >>> np.abs(found.largest_block_space.T).round(12)
    array([[1., 0., 0.]])
    """
    matrix = require_real(value)
    scale = float(np.linalg.norm(matrix, 2))
    spaces = InvariantSpaces(matrix, np.linalg.eigvals(matrix).astype(complex))
    eigenvalues = [_eigenvalue(spaces, members, scale) for members in _groups(spaces, scale)]
    return Spectrum(matrix, tuple(sorted(eigenvalues, key=lambda one: (-one.value.real, -one.value.imag))), scale)


def query_key(query: Any, key: Any) -> np.ndarray:
    """B = Q^T K, whose x_i^T B x_j are the scores.

    Examples
    --------
    >>> query_key(2 * np.eye(2), np.eye(2))
    array([[2., 0.],
           [0., 2.]])
    """
    for name, matrix in (("query", query), ("key", key)):
        require_matrix(matrix, name)
    query, key = np.asarray(query, dtype=float), np.asarray(key, dtype=float)
    if query.shape != key.shape:
        raise InputError(f"`query` and `key` must have one shape, but theirs are {query.shape} and {key.shape}.")
    return query.T @ key


def generalised_eigenspace(of_matrix: Spectrum, one: Eigenvalue) -> np.ndarray:
    """Orthonormal (complex) columns that span the null space of (V - lambda)^d.

    Parameters
    ----------
    of_matrix
        The spectrum of V.
    one
        One of its eigenvalues, lambda.

    Examples
    --------
    >>> found = spectrum(np.array([[1.0, 1.0], [0.0, 1.0]]))
    >>> generalised_eigenspace(found, found.leading).shape
    (2, 2)
    """
    return of_matrix._spaces.basis(np.flatnonzero(of_matrix.values == one.value))


def asymmetry(matrix: Any) -> float:
    """Largest |B_ij - B_ji|.

    Examples
    --------
    >>> asymmetry([[1.0, 2.0], [0.5, 1.0]])
    1.5
    """
    matrix = require_real(matrix)
    return float(np.abs(matrix - matrix.T).max())


def least_of_symmetric_part(matrix: Any) -> float:
    """Least eigenvalue of (B + B^T) / 2: the least <x, B x> of unit vectors.

    Examples
    --------
    >>> round(least_of_symmetric_part([[0.0, 2.0], [0.0, 0.0]]), 12)
    -1.0
    """
    matrix = require_real(matrix)
    return float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0])


def require_real(value: Any) -> np.ndarray:
    """A copy of a real finite square matrix; raises for others.

    Examples
    --------
    >>> require_real([[1, 0], [0, 2]])
    array([[1., 0.],
           [0., 2.]])
    """
    if np.iscomplexobj(value):
        raise InputError("`value` must be a real matrix, but it is complex. Tokens are real vectors.")
    require_square(value, "value")
    return np.array(value, dtype=float)


def _groups(spaces: InvariantSpaces, scale: float) -> list[np.ndarray]:
    """Indices of the eigenvalues that count as one."""
    groups = []
    for members in _linked(spaces.values, 1e-3 * scale):
        if _is_one(spaces, members, scale):
            groups.append(members)
        else:
            groups += [members[some] for some in _linked(spaces.values[members], SPECTRAL_TOLERANCE * scale)]
    return groups


def _linked(values: np.ndarray, distance: float) -> list[np.ndarray]:
    count, labels = connected_components(np.abs(values[:, None] - values) <= distance, directed=False)
    return [np.flatnonzero(labels == label) for label in range(count)]


def _is_one(spaces: InvariantSpaces, members: np.ndarray, scale: float) -> bool:
    """Whether rounding alone can have separated these eigenvalues.

    A change e of a nilpotent N with largest block m moves its eigenvalues by (e |N^{m-1}|)^{1/m}.
    """
    if len(members) == 1:
        return True
    values, k = spaces.values[members], len(members)
    scatter = np.abs(values - values.mean()).max()
    if scatter > scale * (2 ** (k - 1) * MATRIX_ROUNDING) ** (1 / k):  # more than any N of norm 2 |V| allows
        return False
    nilpotent = spaces.nilpotent(members)
    power = np.eye(k)
    for m in range(1, k + 1):
        if scatter**m <= MATRIX_ROUNDING * scale * np.linalg.norm(power, 2):
            return True
        power = power @ nilpotent
    return False


def _eigenvalue(spaces: InvariantSpaces, members: np.ndarray, scale: float) -> Eigenvalue:
    mean = complex(spaces.values[members].mean())
    value = complex(mean.real, 0.0 if abs(mean.imag) <= SPECTRAL_TOLERANCE * scale else mean.imag)
    if len(members) == 1:
        return Eigenvalue(value, 1, 1, 1)
    nilpotent = spaces.nilpotent(members)
    multiplicity, power, block = len(members), nilpotent, 1
    geometric = multiplicity - _rank(power, ZERO_SINGULAR_VALUE * scale)
    while block < multiplicity and _rank(power, ZERO_SINGULAR_VALUE * scale**block) > 0:
        power, block = power @ nilpotent, block + 1
    return Eigenvalue(value, multiplicity, geometric, block)


def _rank(matrix: np.ndarray, tolerance: float) -> int:
    if np.linalg.norm(matrix) <= tolerance:  # rounding; the singular values of a large matrix take seconds
        return 0
    return int(np.sum(np.linalg.svd(matrix, compute_uv=False) > tolerance))


def _block_ends(of_matrix: Spectrum, one: Eigenvalue) -> np.ndarray:
    """The image of the generalised eigenspace under (V - lambda)^{block - 1}."""
    basis = generalised_eigenspace(of_matrix, one)
    nilpotent = basis.conj().T @ of_matrix.matrix @ basis - one.value * np.eye(one.multiplicity)
    left, sizes, _ = np.linalg.svd(np.linalg.matrix_power(nilpotent, one.block - 1))
    return basis @ left[:, sizes > ZERO_SINGULAR_VALUE * of_matrix.scale ** (one.block - 1)]


def _real_span(bases: list[np.ndarray]) -> np.ndarray:
    """Orthonormal real columns of a subspace that is closed under conjugation."""
    columns = np.concatenate([part for basis in bases for part in (np.real(basis), np.imag(basis))], axis=1)
    return orth(columns, rcond=ZERO_SINGULAR_VALUE)


def complement(basis: np.ndarray) -> np.ndarray:
    """Orthonormal columns of the orthogonal complement; no columns where there is none.

    Parameters
    ----------
    basis
        Vectors as columns, shape (d, k).

    Examples
    --------
    >>> np.abs(complement(np.array([[1.0], [0.0]])))
    array([[0.],
           [1.]])
    """
    return null_space(basis.T) if basis.shape[1] < len(basis) else np.empty((len(basis), 0))
