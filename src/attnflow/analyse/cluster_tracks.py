"""Clusters matched from one saved time to the next: merges, splits, and plateaus of their number."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attnflow._common.checks import InputError, require_finite_number, require_times
from attnflow.analyse import clusters
from attnflow.analyse.snapshots import tokens_of

__all__ = ["ClusterChange", "Plateau", "Tracks", "follow", "plateaus"]


class ClusterChange(NamedTuple):
    """Clusters that merged, or one that split, between two saved times.

    Examples
    --------
    >>> change = follow(np.array([[[0.0], [1.0]], [[0.5], [0.5]]]), distance=0.1).merges[0]
    >>> change.time, [list(map(int, one)) for one in change.members]
    (1.0, [[0], [1]])
    >>> change.sizes
    (1, 1)
    """

    before: float
    """Last saved time at which the clusters were as before."""
    time: float
    """First saved time at which they were not."""
    cluster: int
    """The cluster they merged into, or the one that split."""
    parts: tuple[int, ...]
    """The clusters that took part; the largest first."""
    members: tuple[tuple[int, ...], ...]
    """Tokens that each part brought or took."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of tokens of each part."""
        return tuple(len(tokens) for tokens in self.members)


class Tracks(NamedTuple):
    """Clusters of one run with labels that persist in time.

    Examples
    --------
    >>> tracks = follow(np.array([[[0.0], [1.0]], [[0.5], [0.5]]]), distance=0.1)
    >>> tracks.labels.tolist(), len(tracks.merges)
    ([[0, 1], [0, 0]], 1)
    """

    times: np.ndarray
    """The times that have labels."""
    labels: np.ndarray
    """Shape (time, token). A cluster keeps its label while it exists: of merging clusters the
    largest keeps its own (the smaller label if equal), of a split the largest piece. -1 where tokens are not finite."""
    merges: tuple[ClusterChange, ...]
    """Changes in which several clusters become one."""
    splits: tuple[ClusterChange, ...]
    """Changes in which one cluster becomes several."""


class Plateau(NamedTuple):
    """A stretch of time with a constant number of clusters.

    Examples
    --------
    >>> plateaus(np.arange(6.0), np.array([5, 3, 3, 3, 3, 1]), share=0.4)[0].count
    3
    """

    count: int
    """The number of clusters."""
    start: float
    """The first saved time with that number."""
    end: float
    """The last saved time with that number."""
    share: float
    """Its length as a share of the whole (log) time."""


def follow(run: Any, distance: float = 1e-2, *, geodesic: bool = False) -> Tracks:
    """Follow the clusters of one run: `clusters.labels` at every time, matched by common tokens.

    Times are the saved ones (0, 1, 2, ... for a plain array), so that two merges between the same
    times count as one if they end in one cluster. Times at which tokens are not finite are left out.

    Parameters
    ----------
    run
        One run: a dataset of `simulate`, or tokens of shape (times, n, d).
    distance, geodesic
        As in `clusters.labels`.

    Examples
    --------
    >>> path = np.array([[[0.0], [1.0], [5.0]], [[0.5], [0.5], [5.0]]])
    >>> [merge.members for merge in follow(path).merges]
    [((0,), (1,))]
    """
    tokens = tokens_of(run)
    if tokens.dims[:-2] != ("time",):
        raise InputError(
            f"`run` must be one run with a time axis, but its axes are {tokens.dims}. Take `run.isel(...)`."
        )
    times = (
        tokens.time.values.astype(float) if "time" in tokens.coords else np.arange(tokens.sizes["time"], dtype=float)
    )
    labels = clusters.over_time(tokens, distance, geodesic=geodesic).values
    return _tracks(times, labels)


def plateaus(times: Any, counts: Any, share: float = 0.1, *, log: bool = False) -> list[Plateau]:
    """Maximal stretches of saved times with one count that last longer than `share` of the whole.

    Parameters
    ----------
    times, counts
        Saved times and the number of clusters at each; counts below zero (missing) end a stretch.
    share
        Least length, as a share of the time between the first and the last saved one.
    log
        Measure in log time, which suits metastable states whose lifetimes grow exponentially;
        times that are not above zero are then left out.

    Examples
    --------
    >>> [(p.count, p.start, p.end) for p in plateaus(np.arange(8.0), [5, 3, 3, 3, 3, 2, 1, 1], 0.3)]
    [(3, 1.0, 4.0)]
    """
    require_finite_number(share, "share")
    times, counts = require_times(times), np.asarray(counts)
    if counts.shape != times.shape:
        raise InputError(f"`counts` must be one number per time, {len(times)}, but its shape is {counts.shape}.")
    measured, times, counts = _measured_times(times, counts, log)
    ends = np.flatnonzero(np.diff(counts)) + 1
    stretches = zip(np.r_[0, ends], np.r_[ends, len(counts)] - 1, strict=True)
    candidates = [
        Plateau(int(counts[a]), float(times[a]), float(times[b]), float((measured[b] - measured[a]) / np.ptp(measured)))
        for a, b in stretches
    ]
    return [plateau for plateau in candidates if plateau.share > share and plateau.count >= 0]


def _measured_times(times, counts, log):
    """Times or their logarithms, with the times and counts that belong to them."""
    if not log:
        return times, times, counts
    late = times > 0
    if late.sum() < 2:
        raise InputError(f"Log time needs two times above zero, but there are {late.sum()}. Use `log=False`.")
    return np.log(times[late]), times[late], counts[late]


def _tracks(times: np.ndarray, snapshot_labels: np.ndarray) -> Tracks:
    labels, merges, splits = snapshot_labels.copy(), [], []
    present = np.flatnonzero(snapshot_labels[:, 0] >= 0)
    following = snapshot_labels[present[0]].max() + 1 if len(present) else 0
    for last, now in itertools.pairwise(present):
        old, new = labels[last], snapshot_labels[now]
        labels[now], following = _named(old, new, following)
        span = float(times[last]), float(times[now])
        merges += _changes(span, whole=labels[now], parts=old)
        splits += _changes(span, whole=old, parts=labels[now])
    return Tracks(times, labels, tuple(merges), tuple(splits))


def _named(old: np.ndarray, new: np.ndarray, following: int) -> tuple[np.ndarray, int]:
    """`new` with the labels of `old` where a cluster persists, and new labels from `following` on."""
    pairs, common = np.unique(np.stack([old, new]), axis=1, return_counts=True)
    sizes = np.bincount(old)
    # Of several clusters with a claim to a label the one with most common tokens, then the largest, has it.
    order = np.lexsort((pairs[0], -sizes[pairs[0]], -common))
    names: dict[int, int] = {}
    for index in order:
        parent, child = pairs[:, index]
        if child not in names and parent not in names.values():
            names[child] = parent
    for child in np.unique(new):
        if child not in names:
            names[child] = following
            following += 1
    return np.array([names[child] for child in new]), following


def _changes(span: tuple[float, float], whole: np.ndarray, parts: np.ndarray) -> list[ClusterChange]:
    """Clusters of `whole` that are made of several of `parts`."""
    changes = []
    for cluster in np.unique(whole):
        inside = whole == cluster
        pieces = [(int(part), _indices(inside & (parts == part))) for part in np.unique(parts[inside])]
        if len(pieces) > 1:
            pieces.sort(key=lambda piece: -len(piece[1]))
            changes.append(ClusterChange(*span, int(cluster), *_columns(pieces)))
    return changes


def _columns(pieces: Sequence[tuple[int, tuple[int, ...]]]) -> tuple[tuple, tuple]:
    return tuple(part for part, _ in pieces), tuple(members for _, members in pieces)


def _indices(condition: np.ndarray) -> tuple[int, ...]:
    return tuple(int(index) for index in np.flatnonzero(condition))
