"""Linkage: who joins whom within a step, and when.

Of several that come together each joins the centre of those who have met before, one after the other, so that their
times are those of the motion and not of where a step happens to end.
"""

from typing import NamedTuple

import numpy as np

from attnflow.coalescence.cluster_state import HeavyTokens


class Joining(NamedTuple):
    """In which share of a step `other` came within the merging distance of `one`, in rows of heavy tokens."""

    share: float
    one: int
    other: int


def joinings(before: np.ndarray, moved: HeavyTokens, merge: float) -> list[Joining]:
    """In order of time, of heavy tokens that have moved in a step."""
    # Two merging distances: a centre may be nearer than any of those who have met there.
    found = [one for group in moved.within(2 * merge) for one in _of_group(group, before, moved, merge)]
    return sorted(found, key=lambda one: one.share)


def _of_group(group: np.ndarray, before: np.ndarray, moved: HeavyTokens, merge: float) -> list[Joining]:
    """Of some that are near each other in the end."""
    ends, masses = np.stack([before[group], moved.places[group]]), moved.masses[group]
    shares = np.stack([_shares(ends, index, merge) for index in range(len(group))])
    found: list[Joining] = []
    while np.isfinite(shares.min()):
        one, other = sorted(int(index) for index in np.unravel_index(np.argmin(shares), shares.shape))
        since = found[-1].share if found else 0.0
        found.append(Joining(max(float(shares[one, other]), since), int(group[one]), int(group[other])))
        ends[:, one] = (masses[one] * ends[:, one] + masses[other] * ends[:, other]) / (masses[one] + masses[other])
        masses[one] += masses[other]
        ends[:, other] = np.inf
        shares[other] = shares[:, other] = np.inf
        shares[one] = shares[:, one] = _shares(ends, one, merge)
    return found


def _shares(ends: np.ndarray, one: int, merge: float) -> np.ndarray:
    """When all come within the merging distance of one: near each other a gap shrinks exponentially in time."""
    with np.errstate(invalid="ignore", divide="ignore"):
        wide, narrow = np.linalg.norm(ends - ends[:, [one]], axis=2)
        shares = np.clip(np.log(wide / merge) / np.log(wide / narrow), 0.0, 1.0)
        shares = np.where(narrow > 0, np.where(wide > merge, shares, 0.0), 1.0)  # who is put in one place has just met
        shares = np.where(narrow <= merge, shares, np.inf)
    shares[one] = np.inf
    return shares
