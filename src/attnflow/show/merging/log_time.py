"""What pictures of coalescing runs share: their check, and axes on which times such as e^500 can be read."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, MaxNLocator

from attnflow._common.checks import InputError
from attnflow.show.parts.style import GREY


def require_coalescing(run: Any, name: str = "run") -> xr.Dataset:
    """A dataset made by `coalesce`."""
    if not isinstance(run, xr.Dataset) or "merge_log_time" not in run:
        raise InputError(
            f"`{name}` must be a dataset made by `coalesce`. Use `show.trajectories` for one of `simulate`."
        )
    return run


def require_several(results: Any) -> list[xr.Dataset]:
    """Datasets made by `coalesce`, of which one alone is a list of one."""
    several = [results] if isinstance(results, xr.Dataset) else list(results) if isinstance(results, Iterable) else []
    if not several:
        raise InputError("`results` must be datasets made by `coalesce`, at least one. Pass a list of them.")
    return [require_coalescing(one, "results") for one in several]


def known(run: xr.Dataset) -> xr.Dataset:
    """The states of a run whose time has a logarithm: all but the first."""
    return run.isel(state=np.isfinite(run.log_time.values))


def say_nothing_happened(axes: Axes, words: str) -> None:
    """Words in the middle, instead of ticks around nothing."""
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=GREY)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def write_times(axis: Axis, label: str = "time t", count: int = 7) -> None:
    """Label an axis of log t with the times themselves, as powers of e."""
    axis.set_major_locator(MaxNLocator(nbins=count, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: time_name(value)))
    axis.set_label_text(label)


def time_name(log_time: float) -> str:
    """A time by its logarithm.

    Examples
    --------
    >>> [time_name(value) for value in (-2.0, 0.0, 0.5, 500.0)]
    ['$e^{-2}$', '1', '$e^{0.5}$', '$e^{500}$']
    """
    return "1" if log_time == 0 else f"$e^{{{log_time:.4g}}}$"
