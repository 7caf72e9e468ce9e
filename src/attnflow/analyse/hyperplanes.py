"""Coordinates along left eigenvectors of V, and the parallel hyperplanes and subspaces tokens gather on.

A left eigenvector phi* has phi* V = lambda phi*; the coordinate phi*(z) of the rescaled tokens is what converges,
while directions whose eigenvalue has a negative real part make z itself grow.
"""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count, require_square
from attnflow.analyse import clusters
from attnflow.analyse.snapshots import over_snapshots, tokens_of

REAL = 1e-9  # imaginary parts below this, relative to the largest eigenvalue, are rounding
INDEPENDENT = 1e-6  # eigenvectors of a defective matrix agree to about the root of rounding


class LeftEigenvectors(NamedTuple):
    """Left eigenvectors as real rows of length one, the largest real part of the eigenvalue first.

    A complex pair has two rows: the real and the imaginary part of its eigenvector.
    """

    eigenvalues: np.ndarray
    rows: np.ndarray


class Groups(NamedTuple):
    """Tokens grouped by their coordinates, groups in increasing order of the first coordinate."""

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
        """How many groups there are."""
        return len(self.sizes)


def left_eigenvectors(value: Any) -> LeftEigenvectors:
    """Left eigenvectors of V; a defective V repeats some.

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
    imaginary = np.where(np.abs(imaginary) <= REAL * np.abs(eigenvalues).max(), 0.0, imaginary)
    # Of a pair the one that turns forwards comes first, so that it gives the real part.
    order = np.lexsort((-imaginary, -np.abs(eigenvalues), -real))
    rows = np.where(imaginary < 0, -np.imag(vectors), np.real(vectors)).T[order]
    return LeftEigenvectors((real + 1j * imaginary)[order], np.stack([_unit(row) for row in rows]))


def coordinates(run: Any, value: Any, count: int = 1) -> xr.DataArray:
    """Coordinates of the tokens along the `count` leading left eigenvectors, over time (and runs).

    A complex pair has two coordinates, along the real and the imaginary part of its eigenvector, and
    belongs together.
    """
    rows, eigenvalues = _leading(value, count)
    d = tokens_of(run).sizes["coordinate"]
    if rows.shape[1] != d:
        raise InputError(f"`value` must be {d} x {d} like the tokens, but it is {rows.shape[1]} x {rows.shape[1]}.")
    found = over_snapshots(
        lambda tokens: tokens @ rows.T, run, "coordinates", _missing(run, count), ("token", "eigenvector")
    )
    return found.assign_coords(
        eigenvalue_real=("eigenvector", np.real(eigenvalues)),
        eigenvalue_imaginary=("eigenvector", np.imag(eigenvalues)),
    )


def groups(values: Any, tolerance: float = 0.05) -> Groups:
    """Groups of one snapshot's coordinates, (n,) or (n, k): closer than `tolerance`, and chains of such.

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

    Tokens whose coordinates along the leading left eigenvectors are within `tolerance`, and chains of such, lie
    on one. The rate is e^{-lambda t}: look at several times 1/lambda.
    """
    tokens = tokens_of(snapshot)
    if tokens.ndim != 2:
        raise InputError("`snapshot` must hold the tokens of one time of one run, such as `run.tokens[-1]`.")
    return groups(coordinates(tokens, value, codimension).values, tolerance)


def count(run: Any, value: Any, codimension: int = 1, tolerance: float = 0.05) -> xr.DataArray:
    """How many parallel affine subspaces tokens lie on, over time (and runs); -1 where there are no tokens."""
    rows, _ = _leading(value, codimension)
    one = lambda tokens: groups(tokens @ rows.T, tolerance).count
    return over_snapshots(one, run, "subspaces", -1, codimension=codimension, tolerance=tolerance)


def _leading(value: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first rows and their eigenvalues, if they are independent and cut no pair in two."""
    require_count(count, "count")
    eigenvalues, rows = left_eigenvectors(value)
    if count > len(rows):
        raise InputError(f"V has {len(rows)} left eigenvectors, but {count} are asked for.")
    if eigenvalues[count - 1].imag > 0:
        raise InputError(
            f"Eigenvalues {count} and {count + 1} of V are a complex pair ({eigenvalues[count - 1]:.4g}, conjugate), "
            f"whose coordinates belong together. Ask for {count + 1}" + (f" or {count - 1}." if count > 1 else ".")
        )
    if np.linalg.svd(rows[:count], compute_uv=False)[-1] < INDEPENDENT:
        raise InputError(
            f"V is defective: its first {count} left eigenvectors are not independent. Ask for fewer coordinates."
        )
    return rows[:count], eigenvalues[:count]


def _missing(run: Any, count: int) -> np.ndarray:
    return np.full((tokens_of(run).sizes["token"], count), np.nan)


def _unit(row: np.ndarray) -> np.ndarray:
    """Length one, the largest entry positive, so that signs do not depend on the library."""
    return row / (np.linalg.norm(row) * (np.sign(row[np.argmax(np.abs(row))]) or 1.0))
