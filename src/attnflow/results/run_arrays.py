"""Plain arrays of finished or unfinished runs, before they become a dataset."""

from dataclasses import dataclass, field

import numpy as np


def _empty() -> np.ndarray:
    return np.empty(0)


@dataclass
class RunArrays:
    """State of every run, and what was saved of it; NaN where nothing exists. The first axis counts runs."""

    saved: dict[str, np.ndarray] = field(default_factory=dict)
    status: np.ndarray = field(default_factory=_empty)
    """One `Status` a run."""
    time: np.ndarray = field(default_factory=_empty)
    tokens: np.ndarray = field(default_factory=_empty)
    radii: np.ndarray | None = None
    accepted: np.ndarray = field(default_factory=_empty)
    rejected: np.ndarray = field(default_factory=_empty)
    drift: np.ndarray = field(default_factory=_empty)
