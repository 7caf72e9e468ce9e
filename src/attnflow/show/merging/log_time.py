"""Checks of coalescing runs, and axes labelled with times such as e^500."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, MaxNLocator

from attnflow._common.checks import InputError
from attnflow.show.parts.page import current_page, theme
from attnflow.show.parts.symbols import TIME_AXIS, power_of_e


def require_coalescing(run: Any, name: str = "run") -> xr.Dataset:
    """Return a dataset made by `coalesce`; any other raises ValueError."""
    if not isinstance(run, xr.Dataset) or "merge_log_time" not in run:
        raise InputError(
            f"`{name}` must be a dataset made by `coalesce`. Use `show.trajectories` for one of `simulate`."
        )
    return run


def require_several(results: Any) -> list[xr.Dataset]:
    """Return a list of datasets made by `coalesce`, given one or several."""
    several = [results] if isinstance(results, xr.Dataset) else list(results) if isinstance(results, Iterable) else []
    if not several:
        raise InputError("`results` must be datasets made by `coalesce`, at least one. Pass a list of them.")
    return [require_coalescing(one, "results") for one in several]


def states_after_start(run: xr.Dataset) -> xr.Dataset:
    """The states of a run with finite log t: all but the first."""
    return run.isel(state=np.isfinite(run.log_time.values))


def write_note(axes: Axes, words: str) -> None:
    """Write words in the middle of empty axes, without ticks."""
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=theme().grey)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def write_times(axis: Axis, label: str = TIME_AXIS, count: int = 7) -> None:
    """Label an axis of log t with times as powers of e."""
    page = current_page()
    few = count if page.width is None else 5
    axis.set_major_locator(MaxNLocator(nbins=few, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_e(value)))
    axis.set_label_text(label)
