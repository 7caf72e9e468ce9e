"""Observables over time: the picture of a run whose tokens were not kept."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from attnflow.show.parts.drawn_run import one_run, title_of
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.page import theme
from attnflow.show.parts.picture import FunctionPanel, Picture
from attnflow.show.parts.style import fix_ticks, line_colour
from attnflow.show.parts.symbols import TIME_AXIS
from attnflow.show.runs.over_time import is_logarithmic, set_logarithmic_time

MOST_PANELS = 9
MOST_RUNS = 200  # of an ensemble, drawn faint behind the chosen one
MOST_COMPONENTS = 50  # of an observable that is a vector


def observable_names(run: xr.Dataset) -> list[str]:
    """Names of at most nine variables over time, the tokens excepted."""
    kept = [str(name) for name, values in run.data_vars.items() if "time" in values.dims and name != "tokens"]
    return kept[:MOST_PANELS]


def observables_picture(run: xr.Dataset, member: int | None) -> Picture:
    """Picture of one panel an observable: run `member` in colour, the other runs of an ensemble faint behind it."""
    one = one_run(run, member)
    panels = [FunctionPanel(lambda axes, name=name: _draw(axes, run, one, name)) for name in observable_names(run)]
    times = run.time.values
    return Picture(
        observable_rows(panels),
        title_of(run, times[0], times[-1]),
        _caption(run, member or 0),
        0.3 + 3.9 * min(len(panels), 3),
    )


def observable_rows(panels: list[FunctionPanel]) -> list[PanelRow]:
    """Rows of at most three panels."""
    return [PanelRow(panels[first : first + 3], 2.6, 2.0) for first in range(0, len(panels), 3)]


def _draw(axes: Axes, run: xr.Dataset, one: xr.Dataset, name: str) -> None:
    times = run.time.values
    if "run" in run[name].dims:
        others = _columns(run[name])[:, :MOST_RUNS]
        axes.plot(times, others, color=theme().grey, alpha=0.25, linewidth=0.6, label="_others")
    values = _columns(one[name])
    axes.plot(times, values[:, :MOST_COMPONENTS], color=line_colour(0), alpha=1.0 if values.shape[1] == 1 else 0.4)
    set_observable_axes(axes, times, name)


def set_observable_axes(axes: Axes, times: np.ndarray, name: str) -> None:
    """Set the axis of time, logarithmic where the saved times are, and the name of an observable as title."""
    if is_logarithmic(times):
        set_logarithmic_time(axes, times[times > times[0]][0], times[-1])
    axes.set(xlabel=TIME_AXIS, title=name.replace("_", " "), xlim=(times[0], times[-1]) if len(times) > 1 else None)
    fix_ticks(axes)


def _columns(values: xr.DataArray) -> np.ndarray:
    """Values as an array (time, component)."""
    return values.transpose("time", ...).values.reshape(values.sizes["time"], -1)


def _caption(run: xr.Dataset, member: int) -> str:
    n = run.sizes["token"]
    runs = f" Run {member + 1} of {run.sizes['run']} (index {member}) in colour." if "run" in run.dims else ""
    return f"{n} token{'' if n == 1 else 's'}, not kept.{runs}"
