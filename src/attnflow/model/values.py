"""Value matrices with a given spectrum or law.

`d` is the size of the matrix and `rng` None, an integer, a Generator or a SeedSequence.
"""

from collections.abc import Sequence

import numpy as np

from attnflow._common.checks import InputError, require_count, require_finite_number, require_known
from attnflow._common.seeds import Rng, seed_sequence, takes_rng

__all__ = [
    "complex_pair",
    "from_spectrum",
    "gaussian",
    "goe",
    "identity",
    "jordan_block",
    "minus_identity",
    "perron_frobenius",
]


def identity(d: int) -> np.ndarray:
    """The identity of R^d.

    Examples
    --------
    >>> identity(2)
    array([[1., 0.],
           [0., 1.]])
    """
    require_count(d, "d")
    return np.eye(d)


def minus_identity(d: int) -> np.ndarray:
    """Minus the identity of R^d.

    Examples
    --------
    >>> minus_identity(2).diagonal()
    array([-1., -1.])
    """
    require_count(d, "d")
    return -np.eye(d)


@takes_rng
def perron_frobenius(d: int, rng: Rng = None) -> np.ndarray:
    """A matrix with entries uniform in (0, 1), whose leading eigenvalue is real, positive and simple.

    Examples
    --------
    >>> bool(perron_frobenius(4, rng=0).min() > 0)
    True
    """
    require_count(d, "d")
    return 1.0 - _generator(rng).random((d, d))


@takes_rng
def gaussian(d: int, rng: Rng = None) -> np.ndarray:
    """A matrix with independent Gaussian entries of variance 1/d, whose eigenvalues fill the unit disc.

    Examples
    --------
    >>> round(float(gaussian(100, rng=0).var()), 4)
    0.01
    """
    require_count(d, "d")
    return _generator(rng).normal(size=(d, d)) / np.sqrt(d)


@takes_rng
def goe(d: int, rng: Rng = None) -> np.ndarray:
    """A matrix of the Gaussian orthogonal ensemble: symmetric, with eigenvalues that fill [-2, 2].

    Examples
    --------
    >>> matrix = goe(3, rng=0)
    >>> bool(np.array_equal(matrix, matrix.T))
    True
    """
    entries = gaussian(d, rng)
    return (entries + entries.T) / np.sqrt(2)


def jordan_block(eigenvalue: float, d: int) -> np.ndarray:
    """A Jordan block: `eigenvalue` on the diagonal, ones above it.

    Examples
    --------
    >>> jordan_block(3.0, 2)
    array([[3., 1.],
           [0., 3.]])
    """
    require_count(d, "d")
    require_finite_number(eigenvalue, "eigenvalue")
    return eigenvalue * np.eye(d) + np.eye(d, k=1)


def complex_pair(real: float, imaginary: float) -> np.ndarray:
    """The 2 x 2 matrix with eigenvalues real +- i imaginary: growth rate and angular velocity.

    Examples
    --------
    >>> complex_pair(0.5, 2.0)
    array([[ 0.5, -2. ],
           [ 2. ,  0.5]])
    """
    require_finite_number(real, "real")
    require_finite_number(imaginary, "imaginary")
    return np.array([[real, -imaginary], [imaginary, real]])


@takes_rng
def from_spectrum(
    eigenvalues: Sequence[complex] | np.ndarray,
    eigenvectors: str = "orthogonal",
    rng: Rng = None,
) -> np.ndarray:
    """A real matrix with the given eigenvalues; complex ones must come as conjugate pairs.

    Parameters
    ----------
    eigenvalues
        d numbers, with both members of every conjugate pair.
    eigenvectors
        "orthogonal": in a random orthonormal basis. "random": in a basis of Gaussian
        vectors, so that the matrix is not normal. "standard": along the coordinates.
    rng
        Seed of the basis.

    Examples
    --------
    >>> matrix = from_spectrum([2.0, 1j, -1j], rng=0)
    >>> bool(np.allclose(np.sort_complex(np.linalg.eigvals(matrix)), [-1j, 1j, 2.0]))
    True
    """
    require_known(eigenvectors, ("random", "orthogonal", "standard"), "eigenvectors")
    blocks = _real_blocks(np.atleast_1d(np.asarray(eigenvalues, dtype=complex)))
    d = len(blocks)
    basis = np.eye(d) if eigenvectors == "standard" else _generator(rng).normal(size=(d, d))
    if eigenvectors == "orthogonal":
        basis = np.linalg.qr(basis)[0]
    return basis @ blocks @ np.linalg.inv(basis)


def _real_blocks(eigenvalues: np.ndarray) -> np.ndarray:
    """The block diagonal matrix with a number for each real eigenvalue and a 2 x 2 block for each conjugate pair."""
    if eigenvalues.ndim != 1 or eigenvalues.size == 0 or not np.all(np.isfinite(eigenvalues)):
        raise InputError(f"`eigenvalues` must be a list of finite numbers, but it is {eigenvalues}.")
    imaginary = np.imag(eigenvalues)
    reals = np.real(eigenvalues[imaginary == 0])
    upper = np.sort_complex(eigenvalues[imaginary > 0])
    lower = np.sort_complex(np.conj(eigenvalues[imaginary < 0]))
    if len(upper) != len(lower) or not np.allclose(upper, lower):
        raise InputError(
            "Complex `eigenvalues` of a real matrix must come as conjugate pairs, but "
            f"{[complex(value) for value in eigenvalues if value.imag != 0]} do not. Add the missing conjugates."
        )
    pairs = [complex_pair(value.real, value.imag) for value in upper]
    d = len(eigenvalues)
    matrix, first = np.zeros((d, d)), 0
    for block in [*(np.array([[value]]) for value in reals), *pairs]:
        size = len(block)
        matrix[first : first + size, first : first + size] = block
        first += size
    return matrix


def _generator(rng: Rng) -> np.random.Generator:
    return np.random.default_rng(seed_sequence(rng))
