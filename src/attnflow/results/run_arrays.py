"""The arrays of finished or unfinished runs, before they become a dataset."""

from dataclasses import dataclass, field

import numpy as np


def _empty() -> np.ndarray:
    return np.empty(0)


@dataclass
class RunArrays:
    """Last states and saved values of all runs, NaN where there are none; the first axis of each array is the run."""

    saved: dict[str, np.ndarray] = field(default_factory=dict)
    status: np.ndarray = field(default_factory=_empty)
    """The `Status` of each run, or `FIRST_STOP` plus the number of the stopping condition."""
    time: np.ndarray = field(default_factory=_empty)
    tokens: np.ndarray = field(default_factory=_empty)
    radii: np.ndarray | None = None
    accepted: np.ndarray = field(default_factory=_empty)
    rejected: np.ndarray = field(default_factory=_empty)
    drift: np.ndarray = field(default_factory=_empty)
