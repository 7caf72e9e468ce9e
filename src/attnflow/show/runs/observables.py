"""Observables over time: the picture of a run whose tokens were not kept."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnflow.show.parts.drawn_run import one_run, title_of
from attnflow.show.parts.style import GREY, OKABE_ITO, fix_ticks, new_figure, write_heading
from attnflow.show.runs.over_time import is_logarithmic

MOST_PANELS = 9
MOST_RUNS = 200  # of an ensemble, drawn faint behind the chosen one
MOST_COMPONENTS = 50  # of an observable that is a vector


def observable_names(run: xr.Dataset) -> list[str]:
    """Names of at most nine variables over time, the tokens excepted."""
    kept = [str(name) for name, values in run.data_vars.items() if "time" in values.dims and name != "tokens"]
    return kept[:MOST_PANELS]


def draw_observables(run: xr.Dataset, member: int, title: str | None) -> Figure:
    """Draw one panel an observable: run `member` in colour, the other runs of an ensemble faint behind it."""
    one = one_run(run, member)
    names = observable_names(run)
    columns = min(len(names), 3)
    rows = -(-len(names) // columns)
    figure = new_figure(1.2 + 3.6 * columns, 1.2 + 2.6 * rows)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, name in zip(grid, names, strict=False):
        _draw_observable(axes, run, one, name)
    for axes in grid[len(names) :]:
        axes.set_axis_off()
    times = run.time.values
    write_heading(figure, title_of(run, title, times[0], times[-1]), _caption(run, member))
    return figure


def _draw_observable(axes: Axes, run: xr.Dataset, one: xr.Dataset, name: str) -> None:
    times = run.time.values
    if "run" in run[name].dims:
        others = _columns(run[name])[:, :MOST_RUNS]
        axes.plot(times, others, color=GREY, alpha=0.25, linewidth=0.6, label="_others")
    values = _columns(one[name])
    axes.plot(times, values[:, :MOST_COMPONENTS], color=OKABE_ITO[0], alpha=1.0 if values.shape[1] == 1 else 0.4)
    if is_logarithmic(times):
        axes.set_xscale("symlog", linthresh=times[times > times[0]][0], linscale=0.3)
    axes.set(xlabel="time t", title=name.replace("_", " "), xlim=(times[0], times[-1]) if len(times) > 1 else None)
    fix_ticks(axes)


def _columns(values: xr.DataArray) -> np.ndarray:
    """Values as an array (time, component)."""
    return values.transpose("time", ...).values.reshape(values.sizes["time"], -1)


def _caption(run: xr.Dataset, member: int) -> str:
    n = run.sizes["token"]
    runs = f" Run {member + 1} of {run.sizes['run']} in colour." if "run" in run.dims else ""
    return f"{n} token{'' if n == 1 else 's'}, not kept.{runs}"
