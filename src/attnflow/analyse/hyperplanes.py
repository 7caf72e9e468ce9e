"""Coordinates along left eigenvectors of V, and the parallel hyperplanes and subspaces that tokens converge to.

A left eigenvector phi* has phi* V = lambda phi*; the coordinate phi*(z) of the rescaled tokens converges,
while z itself grows along eigenvectors whose eigenvalue has a negative real part.

`run` is a dataset with tokens or an array of shape ([runs,] [times,] n, d), `value` the matrix V. `codimension` is 1
for hyperplanes, k for subspaces on which k coordinates are constant.
"""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count, require_square
from attnflow.analyse import clusters
from attnflow.analyse.snapshots import over_snapshots, tokens_of

__all__ = ["Groups", "LeftEigenvectors", "coordinates", "count", "groups", "left_eigenvectors", "parallel_subspaces"]

IMAGINARY_ROUNDING = 1e-9  # imaginary parts below this, relative to the largest eigenvalue, are rounding


class LeftEigenvectors(NamedTuple):
    """Left eigenvectors as real rows of length one, the largest real part of the eigenvalue first.

    A complex pair has two rows: the real and the imaginary part of its eigenvector.

    Examples
    --------
    >>> found = left_eigenvectors(np.diag([1.0, 2.0]))
    >>> found.eigenvalues.real
    array([2., 1.])
    """

    eigenvalues: np.ndarray
    """The eigenvalue of every row, complex."""
    rows: np.ndarray


class Groups(NamedTuple):
    """Tokens grouped by their coordinates, groups in increasing order of the first coordinate.

    Examples
    --------
    >>> groups = parallel_subspaces([[0.0, 5.0], [0.0, -3.0], [1.0, 0.0]], np.diag([2.0, 1.0]))
    >>> groups.labels, groups.sizes, groups.count
    (array([0, 0, 1]), array([2, 1]), 2)
    """

    labels: np.ndarray
    """Group of every token."""
    levels: np.ndarray
    """Mean coordinates of every group, shape (groups, k)."""
    spreads: np.ndarray
    """Largest distance of a member from the mean, of every group."""
    sizes: np.ndarray
    """Number of tokens of every group."""

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.sizes)


def left_eigenvectors(value: Any) -> LeftEigenvectors:
    """Left eigenvectors of V; those of a defective V are not independent.

    Examples
    --------
    >>> left_eigenvectors([[1.0, 0.0], [0.0, 2.0]]).eigenvalues.real
    array([2., 1.])
    """
    require_square(value, "value")
    if np.iscomplexobj(np.asarray(value)):
        raise InputError("`value` must be a real matrix, but it is complex.")
    eigenvalues, vectors = np.linalg.eig(np.asarray(value, dtype=float).T)
    real, imaginary = np.real(eigenvalues), np.imag(eigenvalues)
    imaginary = np.where(np.abs(imaginary) <= IMAGINARY_ROUNDING * np.abs(eigenvalues).max(), 0.0, imaginary)
    # Of a pair the eigenvalue with positive imaginary part comes first, and gives the real part.
    order = np.lexsort((-imaginary, -np.abs(eigenvalues), -real))
    rows = np.where(imaginary < 0, -np.imag(vectors), np.real(vectors)).T[order]
    return LeftEigenvectors((real + 1j * imaginary)[order], np.stack([_unit(row) for row in rows]))


def coordinates(run: Any, value: Any, count: int = 1) -> xr.DataArray:
    """Coordinates of the tokens along the `count` leading left eigenvectors, over time (and runs).

    A complex pair has two coordinates, along the real and the imaginary part of its eigenvector, which
    belong together.

    Examples
    --------
    >>> coordinates(np.array([[3.0, 4.0]]), np.diag([1.0, 2.0])).values  # along the eigenvector of 2
    array([[4.]])
    """
    rows, eigenvalues = _leading(value, count)
    d = tokens_of(run).sizes["coordinate"]
    if rows.shape[1] != d:
        raise InputError(f"`value` must be {d} x {d} like the tokens, but it is {rows.shape[1]} x {rows.shape[1]}.")
    projected = over_snapshots(
        lambda tokens: tokens @ rows.T, run, "coordinates", _missing(run, count), ("token", "eigenvector")
    )
    return projected.assign_coords(
        eigenvalue_real=("eigenvector", np.real(eigenvalues)),
        eigenvalue_imaginary=("eigenvector", np.imag(eigenvalues)),
    )


def groups(values: Any, tolerance: float = 0.05) -> Groups:
    """Groups of coordinates (n,) or (n, k) of one snapshot: within `tolerance` of each other, directly or by a chain.

    Parameters
    ----------
    values
        Coordinates of the tokens, shape (n,) or (n, k).
    tolerance
        Distance, straight in R^k, at which two tokens belong to one group.

    Examples
    --------
    >>> found = groups([0.0, 2.0, 0.01, -1.0])
    >>> found.count, found.levels.ravel(), found.sizes
    (3, array([-1.   ,  0.005,  2.   ]), array([1, 2, 1]))
    """
    values = np.asarray(values, dtype=float)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or 0 in values.shape or not np.all(np.isfinite(values)):
        raise InputError(f"Coordinates to group must be finite, of shape (n,) or (n, k), not {values.shape}.")
    found = clusters.labels(values, tolerance)
    means = np.stack([values[found == label].mean(axis=0) for label in range(found.max() + 1)])
    order = np.lexsort(means.T[::-1])
    labels = np.argsort(order)[found]
    levels = means[order]
    offsets = np.linalg.norm(values - levels[labels], axis=1)
    spreads = np.array([offsets[labels == label].max() for label in range(len(levels))])
    return Groups(labels, levels, spreads, np.bincount(labels))


def parallel_subspaces(snapshot: Any, value: Any, codimension: int = 1, tolerance: float = 0.05) -> Groups:
    """The parallel affine subspaces of a codimension (1: hyperplanes) that the tokens (n, d) of a snapshot lie on.

    Tokens whose coordinates along the leading left eigenvectors are within `tolerance`, directly or by a chain, lie
    on one. Convergence is like e^{-lambda t}: take a time of several 1/lambda.

    Examples
    --------
    >>> parallel_subspaces([[0.0, 5.0], [0.0, -3.0], [1.0, 0.0]], np.diag([2.0, 1.0])).labels
    array([0, 0, 1])
    """
    tokens = tokens_of(snapshot)
    if tokens.ndim != 2:
        raise InputError("`snapshot` must hold the tokens of one time of one run, such as `run.tokens[-1]`.")
    return groups(coordinates(tokens, value, codimension).values, tolerance)


def count(run: Any, value: Any, codimension: int = 1, tolerance: float = 0.05) -> xr.DataArray:
    """Number of parallel affine subspaces that tokens lie on, over time (and runs); -1 where tokens are not finite.

    Parameters
    ----------
    run
        A dataset with tokens, or an array of tokens of shape ([runs,] [times,] n, d).
    value
        V, shape (d, d).
    codimension
        Number of leading coordinates that are constant on a subspace.
    tolerance
        Distance at which coordinates belong to one subspace.

    Examples
    --------
    >>> int(count([[0.0, 5.0], [0.0, -3.0], [1.0, 0.0]], np.diag([2.0, 1.0])))
    2
    """
    rows, _ = _leading(value, codimension)
    one = lambda tokens: groups(tokens @ rows.T, tolerance).count
    return over_snapshots(one, run, "subspaces", -1, codimension=codimension, tolerance=tolerance)


def _leading(value: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first rows and their eigenvalues; raises if they are dependent or split a complex pair."""
    require_count(count, "count")
    eigenvalues, rows = left_eigenvectors(value)
    if count > len(rows):
        raise InputError(f"V has {len(rows)} left eigenvectors, but {count} are requested.")
    if eigenvalues[count - 1].imag > 0:
        raise InputError(
            f"Eigenvalues {count} and {count + 1} of V are a complex pair ({eigenvalues[count - 1]:.4g}, conjugate), "
            f"whose coordinates belong together. Use {count + 1}" + (f" or {count - 1}." if count > 1 else ".")
        )
    # Eigenvectors of a defective matrix are computed to about the square root of rounding.
    if np.linalg.svd(rows[:count], compute_uv=False)[-1] < 1e-6:
        raise InputError(
            f"V is defective: its first {count} left eigenvectors are not independent. Use fewer coordinates."
        )
    return rows[:count], eigenvalues[:count]


def _missing(run: Any, count: int) -> np.ndarray:
    return np.full((tokens_of(run).sizes["token"], count), np.nan)


def _unit(row: np.ndarray) -> np.ndarray:
    """Length one, the largest entry positive, so that signs do not depend on the library."""
    return row / (np.linalg.norm(row) * (np.sign(row[np.argmax(np.abs(row))]) or 1.0))
