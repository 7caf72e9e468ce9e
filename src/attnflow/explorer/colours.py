"""Which colour each cluster has: one that stays with it while it grows."""

import numpy as np

from attnflow.analyse import clusters

ALONE = 0  # the slot of tokens that are nobody's neighbour; clusters have 1, 2, ...


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
        before = np.zeros_like(slots) if self._before is None else self._before
        taken: set[int] = set()
        for label in np.argsort(-sizes, kind="stable"):
            if sizes[label] < 2:
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
