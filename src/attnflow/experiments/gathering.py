"""`Gathering`: the clusters, or the parallel affine subspaces, in which the tokens of one configuration lie."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow.analyse import clusters, hyperplanes
from attnflow.analyse.spectra import Spectrum, spectrum
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import RescaledAttention
from attnflow.theorems.hypotheses import value_matrix

CLUSTER_DISTANCE = 0.01  # in units of the sphere's radius or of the largest first token; far below the sizes drawn
MAX_HYPERPLANES = 3  # the number that the theorem on a simple leading eigenvalue allows


@dataclass(frozen=True)
class Gathering:
    """Tokens in groups: those of one cluster, or those on one of several parallel affine subspaces."""

    labels: np.ndarray
    """Group of every token; -1 where tokens are not finite."""
    dimension: int
    """Dimension of a group: 0 for a cluster, 1 for a line, 2 for a plane."""
    rows: np.ndarray
    """(codimension, d): points x of group k satisfy rows @ x = levels[k]; without rows for clusters."""
    levels: np.ndarray

    @property
    def count(self) -> int:
        """Number of groups."""
        return int(self.labels.max()) + 1

    @property
    def words(self) -> str:
        """The number of groups and what they are."""
        return counted(self.count, self.dimension)


def counted(count: int, dimension: int) -> str:
    """A number of clusters (dimension 0) or of parallel affine subspaces in words.

    Examples
    --------
    >>> counted(1, 0), counted(39, 0), counted(2, 1), counted(1, 2)
    ('one cluster', '39 clusters', '2 parallel lines', 'one plane')
    """
    noun = {0: "cluster", 1: "line", 2: "plane"}.get(dimension, f"{dimension}-dimensional subspace")
    return f"one {noun}" if count == 1 else f"{count} {'parallel ' if dimension else ''}{noun}s"


def cluster_distance(flow: AbstractDynamics, run: xr.Dataset) -> float:
    """The distance within which the tokens of a run (or an ensemble) count as one cluster."""
    size = 1.0 if flow.is_on_sphere else float(np.linalg.norm(run.initial_tokens, axis=-1).max())
    return CLUSTER_DISTANCE * (size or 1.0)


def gathering(flow: AbstractDynamics, tokens: np.ndarray, distance: float) -> Gathering:
    """The groups of tokens (n, d): parallel subspaces where V has them and tokens lie on few, clusters otherwise."""
    labels = clusters.labels(tokens, distance)
    points = Gathering(labels, 0, np.empty((0, tokens.shape[1])), np.empty((0, 0)))
    found = None if points.count < 1 else parallel_subspaces(flow, tokens, distance)
    return found if found is not None and found.count < points.count else points


def parallel_subspaces(flow: AbstractDynamics, tokens: np.ndarray, distance: float) -> Gathering | None:
    """The few parallel lines, planes or higher subspaces on which finite tokens (n, d) lie; None where there are none.

    Rescaled tokens converge along the leading left eigenvectors of V and stay apart along the others: a simple leading
    eigenvalue gives at most three parallel hyperplanes, and a multiple one a polytope times a free subspace.
    """
    d = tokens.shape[1]
    value = value_matrix(flow) if isinstance(flow, RescaledAttention) and d > 1 else np.full((1, 1), np.nan)
    if not np.all(np.isfinite(value)):
        return None
    for codimension, most in _codimensions(spectrum(value), len(tokens)):
        try:
            groups = hyperplanes.parallel_subspaces(tokens, value, codimension, distance)
        except InputError:  # this codimension would separate a complex pair, or V is defective
            continue
        is_narrow = groups.spreads.max() <= 2 * distance  # a long chain of close tokens is no subspace
        if is_narrow and groups.count <= most:
            rows = hyperplanes.left_eigenvectors(value).rows[:codimension]
            return Gathering(groups.labels, d - codimension, rows, groups.levels)
    return None


def _codimensions(found: Spectrum, n: int) -> list[tuple[int, int]]:
    """Codimensions of subspaces that tokens may gather on, the highest first, each with the most subspaces."""
    lead, d = found.leading, len(found.matrix)
    if not found.is_leading_real or lead.value.real <= 0 or lead.block > 1:
        return []
    if found.is_leading_simple:
        growing = int(np.sum(np.real(found.values) > 0))
        return [(codimension, min(MAX_HYPERPLANES, n - 1)) for codimension in range(min(growing, d - 1), 0, -1)]
    return [(lead.multiplicity, n // 2)] if lead.multiplicity < d else []
