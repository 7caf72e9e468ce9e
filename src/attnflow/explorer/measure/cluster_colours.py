"""Which colour each cluster has: one that stays with it while it grows."""

import numpy as np
from scipy.spatial import KDTree

from attnflow.analyse import clusters
from attnflow.experiments.run_summary import CLOSE

ALONE = 0  # the slot of tokens that are nobody's neighbour; clusters have 1, 2, ...
WIDEST = 0.1  # distance within a cluster, over the size of all
FEWEST = 50  # a cluster that is coloured holds two tokens and at least one of so many


def cluster_distance(first: np.ndarray, size: float) -> float:
    """The distance at which tokens count as one cluster: small against the distances that the first tokens have.

    Half the distance within which a quarter of them have a neighbour, so that chance makes few clusters at the start,
    between `CLOSE` and `WIDEST` times the size.

    Examples
    --------
    >>> cluster_distance(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0]]), size=1.0)
    0.1
    >>> cluster_distance(np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]), size=1.0)
    0.01
    """
    if len(first) < 2 or not np.all(np.isfinite(first)):
        return CLOSE * size
    nearest = KDTree(first).query(first, k=2)[0][:, 1]
    return float(np.clip(np.quantile(nearest, 0.25) / 2, CLOSE * size, WIDEST * size))


class Slots:
    """Slots of clusters from moment to moment. A cluster keeps the slot that most of its coloured tokens had.

    Examples
    --------
    >>> slots = Slots(distance=0.1)
    >>> slots.update(np.array([[0.0], [0.01], [5.0], [5.01], [9.0]]))
    array([1, 1, 2, 2, 0], dtype=uint16)
    >>> slots.update(np.array([[5.0], [5.01], [5.0], [5.01], [5.02]]))
    array([1, 1, 1, 1, 1], dtype=uint16)
    """

    def __init__(self, distance: float):
        self._distance = distance
        self._before: np.ndarray | None = None

    def update(self, tokens: np.ndarray) -> np.ndarray:
        """The slot of every token now."""
        labels = clusters.labels(tokens, self._distance)
        slots = np.zeros(len(labels), np.uint16)
        if labels[0] < 0:
            return slots
        sizes = np.bincount(labels)
        least = max(2, len(labels) // FEWEST)
        before = np.zeros_like(slots) if self._before is None else self._before
        taken: set[int] = set()
        for label in np.argsort(-sizes, kind="stable"):
            if sizes[label] < least:
                break
            members = labels == label
            slots[members] = slot = _slot_of(before[members], taken)
            taken.add(slot)
        self._before = slots
        return slots

    def start_from(self, slots: np.ndarray | None) -> None:
        """Go on from an earlier moment's slots."""
        self._before = slots


def _slot_of(before: np.ndarray, taken: set[int]) -> int:
    """The commonest free slot of the members, or the first free one."""
    counts = np.bincount(before)
    for slot in np.argsort(-counts, kind="stable"):
        if slot != ALONE and counts[slot] and int(slot) not in taken:
            return int(slot)
    return next(slot for slot in range(1, len(taken) + 2) if slot not in taken)
