"""Merge events within one step: which clusters merge, in which order, at which share of the step.

If several clusters come together in one step, each merges with the centre of mass of those that have merged before.
Merge times are then those of the motion and do not depend on where a step ends.
"""

from typing import NamedTuple

import numpy as np

from attnflow.coalescence.cluster_state import Clusters


class MergeEvent(NamedTuple):
    """The share of a step at which the cluster of row `second` came within the merging distance of row `first`."""

    share: float
    first: int
    second: int


def merge_events(before: np.ndarray, moved: Clusters, merge: float) -> list[MergeEvent]:
    """Merge events, in order of time, of clusters that moved from the positions `before` in one step."""
    # Within two merging distances: a centre of mass may be nearer to a third cluster than either of its parts.
    events = [event for group in moved.groups_within(2 * merge) for event in _of_group(group, before, moved, merge)]
    return sorted(events, key=lambda event: event.share)


def _of_group(group: np.ndarray, before: np.ndarray, moved: Clusters, merge: float) -> list[MergeEvent]:
    """Merge events of clusters that are close to each other at the end of the step."""
    ends, masses = np.stack([before[group], moved.positions[group]]), moved.masses[group]
    shares = np.stack([_shares(ends, index, merge) for index in range(len(group))])
    events: list[MergeEvent] = []
    while np.isfinite(shares.min()):
        first, second = sorted(int(index) for index in np.unravel_index(np.argmin(shares), shares.shape))
        earliest = events[-1].share if events else 0.0
        share = max(float(shares[first, second]), earliest)
        events.append(MergeEvent(share, int(group[first]), int(group[second])))
        mass = masses[first] + masses[second]
        ends[:, first] = (masses[first] * ends[:, first] + masses[second] * ends[:, second]) / mass
        masses[first] = mass
        ends[:, second] = np.inf
        shares[second] = shares[:, second] = np.inf
        shares[first] = shares[:, first] = _shares(ends, first, merge)
    return events


def _shares(ends: np.ndarray, index: int, merge: float) -> np.ndarray:
    """Shares of the step at which the others come within the merging distance of one; infinity if they do not.

    A small gap shrinks exponentially in time: gap(s) = gap(0)^(1 - s) gap(1)^s.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        first, last = np.linalg.norm(ends - ends[:, [index]], axis=2)
        shares = np.clip(np.log(first / merge) / np.log(first / last), 0.0, 1.0)
        shares = np.where(last > 0, np.where(first > merge, shares, 0.0), 1.0)  # set to one position: at the end
        shares = np.where(last <= merge, shares, np.inf)
    shares[index] = np.inf
    return shares
