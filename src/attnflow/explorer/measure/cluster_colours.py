"""Colours of clusters that stay the same from frame to frame."""

from typing import NamedTuple

import numpy as np
from scipy.spatial import KDTree

from attnflow.analyse import clusters
from attnflow.experiments.gathering import CLUSTER_DISTANCE

NO_CLUSTER = 0  # the colour of tokens that are in no coloured cluster; clusters have 1, 2, ...
MAX_RELATIVE_DISTANCE = 0.1  # of tokens in one cluster, over the size of the first configuration
SMALLEST_COLOURED_SHARE = 50  # a coloured cluster holds two tokens and at least one in so many


def cluster_distance(first_tokens: np.ndarray, size: float) -> float:
    """The distance within which two tokens belong to one cluster, small against distances of the first tokens.

    It is half the distance within which a quarter of the first tokens have a neighbour, so that few clusters form
    by chance at the start, but between `CLUSTER_DISTANCE` and `MAX_RELATIVE_DISTANCE` times `size`.

    Examples
    --------
    >>> cluster_distance(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0]]), size=1.0)
    0.1
    >>> cluster_distance(np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]), size=1.0)
    0.01
    """
    if len(first_tokens) < 2 or not np.all(np.isfinite(first_tokens)):
        return CLUSTER_DISTANCE * size
    nearest = KDTree(first_tokens).query(first_tokens, k=2)[0][:, 1]
    return float(np.clip(np.quantile(nearest, 0.25) / 2, CLUSTER_DISTANCE * size, MAX_RELATIVE_DISTANCE * size))


class ColouredClusters(NamedTuple):
    """The clusters of one frame."""

    colours: np.ndarray
    """Colour of each token."""
    count: int
    """Number of clusters, single tokens included; 0 if some token is not finite."""


class ClusterColours:
    """Colours of clusters over successive frames. A cluster keeps the colour that most of its coloured tokens had.

    Examples
    --------
    >>> colours = ClusterColours(distance=0.1)
    >>> colours.update(np.array([[0.0], [0.01], [5.0], [5.01], [9.0]]))
    ColouredClusters(colours=array([1, 1, 2, 2, 0], dtype=uint16), count=3)
    >>> colours.update(np.array([[5.0], [5.01], [5.0], [5.01], [5.02]])).colours
    array([1, 1, 1, 1, 1], dtype=uint16)
    """

    def __init__(self, distance: float):
        self._distance = distance
        self._previous: np.ndarray | None = None

    def update(self, tokens: np.ndarray) -> ColouredClusters:
        """The colours of the next frame."""
        labels = clusters.labels(tokens, self._distance)
        colours = np.zeros(len(labels), np.uint16)
        if labels[0] < 0:
            return ColouredClusters(colours, 0)
        sizes = np.bincount(labels)
        smallest = max(2, len(labels) // SMALLEST_COLOURED_SHARE)
        previous = np.zeros_like(colours) if self._previous is None else self._previous
        used: set[int] = set()
        for label in np.argsort(-sizes, kind="stable"):
            if sizes[label] < smallest:
                break
            members = labels == label
            colours[members] = colour = _colour_of(previous[members], used)
            used.add(colour)
        self._previous = colours
        return ColouredClusters(colours, len(sizes))

    def start_from(self, colours: np.ndarray | None) -> None:
        """Continue from the colours of an earlier frame."""
        self._previous = colours


def _colour_of(previous: np.ndarray, used: set[int]) -> int:
    """The most frequent unused colour of the members, or the first unused colour."""
    counts = np.bincount(previous)
    for colour in np.argsort(-counts, kind="stable"):
        if colour != NO_CLUSTER and counts[colour] and int(colour) not in used:
            return int(colour)
    return next(colour for colour in range(1, len(used) + 2) if colour not in used)
