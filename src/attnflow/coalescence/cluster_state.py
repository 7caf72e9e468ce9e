"""Weighted clusters: positions on the sphere, masses, members and nearest neighbours.

Tokens at one position have one velocity, so under a full mask they stay together for all time: one cluster with the
sum of their masses replaces them exactly.
"""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

MAX_DENSE_CLUSTERS = 400  # up to which all pairs are compared at once: 400^2 numbers stay in the cache
COSINE_RESOLUTION = 1e-6  # distances below cannot be ordered by cosines, whose rounding is 1e-16, of order distance^2


class Nearest(NamedTuple):
    """Distance from each cluster to its nearest other cluster, and the index of that one."""

    distances: np.ndarray
    indices: np.ndarray


@dataclasses.dataclass(frozen=True)
class Clusters:
    """Positions (clusters, d) on the unit sphere, masses, and the first tokens that belong to each cluster."""

    positions: np.ndarray
    masses: np.ndarray
    members: tuple[np.ndarray, ...]
    known_nearest: Nearest | None = dataclasses.field(default=None, repr=False, compare=False)
    """Nearest neighbours carried over from before a merge; None: they are searched for."""

    @classmethod
    def singletons(cls, tokens: np.ndarray, masses: Any = None) -> "Clusters":
        """One cluster for each token; masses are one by default."""
        given = np.ones(len(tokens)) if masses is None else np.asarray(masses, dtype=float)
        return cls(tokens, given, tuple(np.array([index]) for index in range(len(tokens))))

    def __len__(self) -> int:
        return len(self.positions)

    def tokens(self) -> np.ndarray:
        """Position of every first token."""
        return self.positions[self.labels()]

    def labels(self) -> np.ndarray:
        """Index of the cluster of every first token."""
        labels = np.empty(sum(map(len, self.members)), int)
        for index, members in enumerate(self.members):
            labels[members] = index
        return labels

    @functools.cached_property
    def nearest(self) -> Nearest:
        """Nearest other cluster of each cluster."""
        if self.known_nearest is not None:
            return self.known_nearest
        if len(self) == 1:
            return Nearest(np.array([np.inf]), np.array([0]))
        if len(self) > MAX_DENSE_CLUSTERS and self.positions.shape[1] <= 3:  # in few dimensions a tree is faster
            return _nearest_by_tree(self.positions)
        indices = np.concatenate([self._nearest_by_cosine(rows) for rows in _cache_blocks(len(self))])
        distances = np.linalg.norm(self.positions - self.positions[indices], axis=1)
        close = np.flatnonzero(distances < COSINE_RESOLUTION)
        if len(close) > 1:
            distances[close], among_close = _nearest_by_tree(self.positions[close])
            indices[close] = close[among_close]
        return Nearest(distances, indices)

    def _nearest_by_cosine(self, rows: np.ndarray) -> np.ndarray:
        cosines = self.positions[rows] @ self.positions.T
        cosines[np.arange(len(rows)), rows] = -np.inf
        return np.argmax(cosines, axis=1)

    def rows_near(self, rows: np.ndarray, distance: float) -> np.ndarray:
        """Rows within `distance` of any of the given rows, which are included."""
        cosines = self.positions @ self.positions[rows].T
        return np.union1d(rows, np.flatnonzero((cosines > 1 - distance**2 / 2).any(axis=1)))

    def moved_to(self, positions: np.ndarray) -> "Clusters":
        """The same clusters at other positions, which are projected to the sphere."""
        lengths = np.linalg.norm(positions, axis=1, keepdims=True)
        return dataclasses.replace(self, positions=positions / lengths, known_nearest=None)

    def groups_within(self, distance: float) -> list[np.ndarray]:
        """Groups of at least two clusters that are connected by gaps of at most `distance`."""
        if self.nearest.distances.min() > distance:
            return []
        near = np.flatnonzero(self.nearest.distances <= distance)
        if len(near) == 2:
            return [near]
        pairs = near[KDTree(self.positions[near]).query_pairs(distance, output_type="ndarray")]
        graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(len(self), len(self)))
        labels: Any = connected_components(graph, directed=False)[1]
        return [np.flatnonzero(labels == label) for label in np.flatnonzero(np.bincount(labels) > 1)]

    def merge(self, pairs: Iterable[tuple[int, int]]) -> "Clusters":
        """Merge the second of each pair of rows into the first, in this order, at their centre of mass.

        The first row of a pair is the smaller one, so that clusters stay in the order of their smallest members.
        """
        positions, masses, members = self.positions.copy(), self.masses.copy(), list(self.members)
        target = np.arange(len(self))
        for first, second in pairs:
            centre = masses[first] * positions[first] + masses[second] * positions[second]
            positions[first] = centre / np.linalg.norm(centre)
            masses[first] = masses[first] + masses[second]
            members[first] = np.sort(np.concatenate([members[first], members[second]]))
            target[target == second] = first
        kept = np.unique(target)
        merged = Clusters(positions[kept], masses[kept], tuple(members[row] for row in kept))
        carried = np.searchsorted(kept, target[self.nearest.indices[kept]])
        return dataclasses.replace(merged, known_nearest=merged._nearest_carried_over(carried))

    def _nearest_carried_over(self, indices: np.ndarray) -> Nearest | None:
        """Nearest neighbours after a merge, given those from before; None where cosines cannot resolve them.

        Only clusters whose neighbour was merged into themselves are searched again.
        """
        lost = np.flatnonzero(indices == np.arange(len(self)))
        if len(self) > 1 and len(lost):
            indices[lost] = self._nearest_by_cosine(lost)
        distances = np.linalg.norm(self.positions - self.positions[indices], axis=1)
        return Nearest(distances, indices) if len(self) > 1 and distances.min() > COSINE_RESOLUTION else None

    def merge_duplicates(self) -> "Clusters":
        """Merge clusters at exactly the same position."""
        return self.merge((int(group[0]), int(other)) for group in self.groups_within(0.0) for other in group[1:])


def _nearest_by_tree(positions: np.ndarray) -> Nearest:
    distances, indices = map(np.asarray, KDTree(positions).query(positions, k=2))
    # If several points coincide, the tree may return the point itself in either column.
    is_itself = indices[:, 0] == np.arange(len(positions))
    return Nearest(distances[:, 1], np.where(is_itself, indices[:, 1], indices[:, 0]))


def _cache_blocks(count: int) -> list[np.ndarray]:
    """Blocks of rows whose products with all other rows stay in the cache."""
    return np.array_split(np.arange(count), -(-count // MAX_DENSE_CLUSTERS))
