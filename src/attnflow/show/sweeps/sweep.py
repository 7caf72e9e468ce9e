"""`sweep`: phase diagrams, curves with bands and small multiples of a sweep, chosen from its axes."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from attnflow._common.checks import InputError
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.heatmaps import HeatMap
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.panels import Line, Lines
from attnflow.show.parts.picture import HEADLINE, Panel, Picture, Title
from attnflow.show.parts.symbols import TIME_AXIS, typeset
from attnflow.show.runs.over_time import is_logarithmic, set_logarithmic_time
from attnflow.show.sweeps.drawn_axes import DrawnAxes, DrawnQuantity, drawn_axes, is_numeric, quantity

LETTERS = ("n", "d")  # axes that are single letters of mathematics
SPACE_OF_A_WORD = 0.5  # share of the distance between two words that the points of one take
SPAN_OF_LOGARITHMS = 8  # ratio of the largest to the least value from which an even spacing of logarithms is drawn so


@draws
def sweep(
    dataset: xr.Dataset,
    path: str | os.PathLike | None = None,
    *,
    observable: str | None = None,
    at: Mapping[str, Any] | None = None,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw an observable of a sweep over its axes.

    Two axes with eight values or more, time included, make a heat map, such as a phase diagram of time and beta. With
    fewer values the longest axis is horizontal and another one has a line for each value, with bands of quantiles, or
    of the error of the mean for more than three lines. One further axis makes small multiples; where there are more,
    and time is one, the last time is drawn. Cells that are not computed are left empty.

    Parameters
    ----------
    dataset
        Made by `sweep` or opened by `load_sweep`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    observable
        Its name; the first of the sweep where none is given.
    at
        Values of axes to draw, by name; numbers choose the nearest value, which the caption says.
    title
        Instead of the headline; None: no title and no caption.

    Examples
    --------
    >>> import attnflow as af, tempfile
    >>> found = af.sweep("sphere", tempfile.mkdtemp() + "/a.zarr", over={"beta": [1.0, 9.0]}, runs=4,
    ...                  settings={"n": 6, "end": 4.0, "saves": 9}, progress=False)
    >>> figure = sweep(found)
    >>> figure.axes[0].get_xlabel()
    'time $t$'
    """
    if not isinstance(dataset, xr.Dataset) or "spec" not in dataset.attrs:
        raise InputError("`dataset` must be made by `sweep` or opened by `load_sweep`, but it is not a sweep.")
    drawn = quantity(dataset, observable, at or {})
    axes = drawn_axes(drawn.values)
    if not np.isfinite(drawn.values.values).any():
        raise InputError(f"No cell of the sweep is finished yet, so that `{drawn.name}` has no value to draw.")
    panels = _heat_maps(drawn, axes) if axes.y is not None else _line_panels(drawn, axes)
    columns = min(len(panels), 3 if len(panels) != 4 else 2)
    wide = 4.6 if len(panels) == 1 else 3.2
    rows = [
        PanelRow(panels[first : first + columns], 3.1 if len(panels) == 1 else 2.7, 2.2)
        for first in range(0, len(panels), columns)
    ]
    return Picture(
        rows,
        _headline(dataset, drawn, axes),
        _caption(dataset, drawn, axes),
        max(0.4 + wide * columns, 6.0),
        complete=lambda all_axes: _label_words(all_axes, drawn, axes),
        legend=(lambda all_axes: all_axes[0].get_legend_handles_labels()[0]) if axes.lines else None,
    )


def _parts(drawn: DrawnQuantity, name: str | None) -> list[tuple[str, dict[str, int]]]:
    """The title of each panel or line, and its place along an axis; one without a title where there is no axis."""
    if name is None:
        return [("", {})]
    labels = drawn.values[name].values
    return [(_value_words(name, label), {name: place}) for place, label in enumerate(labels)]


def _heat_maps(drawn: DrawnQuantity, axes: DrawnAxes) -> Sequence[Panel]:
    values = drawn.values
    assert axes.y is not None
    limits = (float(values.min()), float(values.max()))
    parts = _parts(drawn, axes.panels)
    x, y = (values[name].values.astype(float) for name in (axes.x, axes.y))
    # A logarithmic axis has no place for the first time, zero.
    begin = 1 if axes.x == "time" and len(x) > 2 and x[0] == 0 and _scale(x[1:]) == "log" else 0
    return [
        HeatMap(
            x[begin:],
            y,
            values.isel(place).transpose(axes.y, axes.x).values[:, begin:],
            _axis_words(axes.x),
            _axis_words(axes.y),
            heading,
            limits=limits if limits[0] < limits[1] else (limits[0] - 0.5, limits[1] + 0.5),
            bar=_name_words(drawn) if number == len(parts) - 1 else "",
            xscale=_scale(x[begin:]),
            yscale=_scale(y),
        )
        for number, (heading, place) in enumerate(parts)
    ]


def _line_panels(drawn: DrawnQuantity, axes: DrawnAxes) -> Sequence[Panel]:
    values = drawn.values
    is_number = is_numeric(values, axes.x)
    x = values[axes.x].values.astype(float) if is_number else np.arange(values.sizes[axes.x])
    scale = ("symlog" if axes.x == "time" and is_logarithmic(x) else _scale(x)) if is_number else "linear"
    finite = [part.values[np.isfinite(part.values)] for part in (values, drawn.low, drawn.high) if part is not None]
    every = np.concatenate(finite)
    margin = 0.04 * (float(np.ptp(every)) or 1.0)
    return [
        Lines(
            [_line(drawn, axes, x, place | other, words) for words, other in _parts(drawn, axes.lines)],
            _axis_words(axes.x),
            _name_words(drawn),
            heading,
            xscale=scale if scale != "symlog" else "linear",
            xticks=() if len(x) > 8 or axes.x == "time" or not is_number else x.tolist(),
            ylim=(float(every.min()) - margin, float(every.max()) + margin),
        )
        for heading, place in _parts(drawn, axes.panels)
    ]


def _line(drawn: DrawnQuantity, axes: DrawnAxes, x: np.ndarray, place: dict[str, int], words: str) -> Line:
    """A line with its band; over words and seeds, which have no order, points beside each other with bars."""
    pick = lambda part: part.isel(place).transpose(axes.x).values
    middle = pick(drawn.values)
    band = None if drawn.low is None or drawn.high is None else (pick(drawn.low), pick(drawn.high))
    if is_ordered(drawn, axes.x):
        return Line(x, middle, words, marker="" if axes.x == "time" else "o", band=band)
    count, number = (drawn.values.sizes[axes.lines], place[axes.lines]) if axes.lines else (1, 0)
    beside = x + SPACE_OF_A_WORD * ((number + 0.5) / count - 0.5)
    # A mean may lie outside the quantiles.
    bars = None if band is None else np.stack([np.maximum(middle - band[0], 0), np.maximum(band[1] - middle, 0)])
    return Line(beside, middle, words, style="", marker="o", error=bars)


def is_ordered(drawn: DrawnQuantity, name: str) -> bool:
    """Whether a line along an axis means something: its values are numbers, and no seeds."""
    return is_numeric(drawn.values, name) and name != "seed"


def _label_words(all_axes: Sequence[Axes], drawn: DrawnQuantity, axes: DrawnAxes) -> None:
    """Write words along a horizontal axis whose values are no numbers, and remove the legends of single panels."""
    for one in all_axes:
        legend = one.get_legend()
        if axes.y is None and legend is not None:
            legend.remove()  # the whole picture has one
        if not is_numeric(drawn.values, axes.x):
            words = [str(label) for label in drawn.values[axes.x].values]
            one.xaxis.set_major_locator(FixedLocator(list(range(len(words)))))
            one.xaxis.set_minor_locator(NullLocator())
            one.set_xticklabels(words, rotation=0 if max(map(len, words)) < 9 else 30, ha="center")
        elif axes.x == "time" and axes.y is None and is_logarithmic(times := drawn.values.time.values):
            set_logarithmic_time(one, times[times > times[0]][0], times[-1])
            one.set_xlim(times[0], times[-1])


def _scale(values: np.ndarray) -> str:
    """Logarithmic where values are positive, span a factor of eight, and are spaced more evenly in their logarithm."""
    if len(values) < 3 or values.min() <= 0 or values.max() < SPAN_OF_LOGARITHMS * values.min():
        return "linear"
    unevenness = lambda steps: float(np.std(steps) / np.abs(np.mean(steps)))
    return "log" if unevenness(np.diff(np.log(values))) < unevenness(np.diff(values)) else "linear"


def _axis_words(name: str) -> str:
    if name == "time":
        return TIME_AXIS
    return f"${name}$" if name in LETTERS else typeset(name).replace("_", " ")


def _value_words(name: str, label: Any) -> str:
    shown = f"{label:.6g}" if isinstance(label, float | int | np.number) else str(label)
    return f"{_axis_words(name) if name != 'time' else '$t$'} = {shown}"


def _name_words(drawn: DrawnQuantity) -> str:
    return drawn.name.replace("_", " ")


def _headline(dataset: xr.Dataset, drawn: DrawnQuantity, axes: DrawnAxes) -> str:
    """The statistic, the observable, the runs and the axes."""
    over = [name for name in (axes.y, axes.lines, axes.panels, axes.x) if name is not None]
    words = [_axis_words(name) if name != "time" else "time" for name in over]
    listed = " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    runs = dataset.sizes["run"]
    most = "up to " if drawn.runs[0] < runs else ""
    of_runs = f"{drawn.statistic} of {most}{runs} runs" if runs > 1 else "one run"
    return f"{_name_words(drawn).capitalize()} over {listed}: {of_runs}"


def _caption(dataset: xr.Dataset, drawn: DrawnQuantity, axes: DrawnAxes) -> str:
    chosen = ", ".join(_value_words(name, value) for name, value in drawn.at.items())
    runs, (least, largest) = dataset.sizes["run"], drawn.runs
    has_band = drawn.band and axes.y is None and runs > 1
    numbers = f"{least}" if least == largest else f"{least} to {largest}"
    parts = [
        f"{'Bands' if is_ordered(drawn, axes.x) else 'Bars'}: {drawn.band}." if has_band else "",
        f"At {chosen}." if chosen else "",
        f"Of {runs} runs {numbers} have a value." if 0 < least < runs else "",
        str(dataset.attrs["outcome"]) if dataset.attrs["runs_missing"] or dataset.attrs["runs_failed"] else "",
    ]
    return " ".join(part for part in parts if part)
