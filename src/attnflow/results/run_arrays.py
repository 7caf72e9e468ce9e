"""The arrays of finished or unfinished runs, before they become a dataset."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnflow._common.arrays import AnyArray
from attnflow.solvers.status import Status


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

    @classmethod
    def empty(
        cls, shapes: Mapping[str, Any], times: int, start: float, tokens: AnyArray, radii: AnyArray | None = None
    ) -> "RunArrays":
        """The arrays of runs that have not begun; `shapes` has shape and type of all that is saved at `times` times."""
        runs = len(tokens)
        return cls(
            saved={name: _blank((runs, times, *leaf.shape), leaf.dtype) for name, leaf in shapes.items()},
            status=np.full(runs, Status.RUNNING),
            time=np.full(runs, start),
            tokens=np.array(tokens),
            radii=None if radii is None else np.array(radii),
            accepted=np.zeros(runs, int),
            rejected=np.zeros(runs, int),
            drift=np.zeros(runs),
        )


def _blank(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of NaN; whole numbers and truth values become floats, which can say that a run has no value."""
    return np.full(shape, np.nan, dtype if np.issubdtype(dtype, np.inexact) else np.float64)
