"""The parts of a sweep that are drawn: a quantity with its band, and which axis is which of a picture."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_known

LONG = 8  # values, from which on two axes make a heat map, and beyond which lines of one panel are too many
MOST_PANELS = 12
MOST_AXES = 3  # of a picture: two of a heat map or a horizontal one and lines, and the panels
MOST_WIDE_BANDS = 3  # in one panel: more bands from quantile to quantile hide each other
Z_OF_95_PERCENT = 1.96


@dataclass(frozen=True)
class DrawnQuantity:
    """A number over the axes of a sweep, with a band where runs differ."""

    name: str
    values: xr.DataArray
    low: xr.DataArray | None
    high: xr.DataArray | None
    statistic: str
    """The words for what `values` are of the runs."""
    band: str
    """The words for what the band is; empty without one."""
    at: Mapping[str, Any]
    """The values of the axes that are not drawn, by name."""
    runs: tuple[int, int]
    """The least and the largest number of runs behind a value: runs that have ended before a time have none there."""


@dataclass(frozen=True)
class DrawnAxes:
    """The axis of a sweep along each direction of a picture; None where there is none."""

    x: str
    y: str | None = None
    """The axis of the rows of a heat map."""
    lines: str | None = None
    panels: str | None = None


def names_of(dataset: xr.Dataset) -> list[str]:
    """Names of the observables of a sweep, in the order of its spec."""
    return list(json.loads(dataset.attrs.get("spec", "{}")).get("observables", {}))


def quantity(dataset: xr.Dataset, name: str | None, at: Mapping[str, Any]) -> DrawnQuantity:
    """The observable to draw, the first where none is named, at some values of the axes."""
    known = names_of(dataset)
    if not known:
        raise InputError("The dataset has no observables of a sweep. Pass what `sweep` returns.")
    name = known[0] if name is None else name
    require_known(name, known, "observable")
    quantiles = dataset.get(f"{name}_quantiles")
    if f"{name}_mean" in dataset:
        values, statistic = dataset[f"{name}_mean"], "mean"
    elif quantiles is not None:
        level = _level_dimension(quantiles)
        values = quantiles.sel({level: 0.5}, method="nearest")
        statistic = f"quantile {float(values[level]):g}"
    elif f"{name}_counts" in dataset:
        counts = dataset[f"{name}_counts"]
        values, statistic = _mean_of_counts(counts, f"{name}_value"), "mean"
    else:
        values, statistic = dataset[name].mean("run"), "mean"
    at = with_last_time(values, at)
    lines = drawn_axes(_selected(values, at)).lines
    count = 1 if lines is None else values.sizes[lines]
    low, high, band = _band(dataset, name, values, has_quantiles=count <= MOST_WIDE_BANDS)
    place = lambda array: None if array is None else _selected(array, at)
    selected = place(values)
    assert selected is not None
    at = {axis: _nearest(values, axis, value) for axis, value in at.items()}
    return DrawnQuantity(name, selected, place(low), place(high), statistic, band, at, _runs_behind(dataset, name, at))


def with_last_time(values: xr.DataArray, at: Mapping[str, Any]) -> dict[str, Any]:
    """The values of axes that are not drawn, with the last time where a picture has no room for the axis of times.

    Examples
    --------
    >>> sizes = {"start": 2, "kappa": 3, "beta": 3, "time": 5}
    >>> values = xr.DataArray(np.zeros(list(sizes.values())), {name: np.arange(size) for name, size in sizes.items()})
    >>> with_last_time(values, {}), with_last_time(values, {"start": 0})
    ({'time': 4.0}, {'start': 0})
    """
    left = [str(name) for name, size in values.sizes.items() if size > 1 and name not in at]
    is_needed = len(left) > MOST_AXES and "time" in left
    return dict(at) | ({"time": float(values.time[-1])} if is_needed else {})


def _runs_behind(dataset: xr.Dataset, name: str, at: Mapping[str, Any]) -> tuple[int, int]:
    """The least and the largest number of runs of the values that exist."""
    counts = dataset[f"{name}_runs"]
    drawn = _selected(counts, {axis: value for axis, value in at.items() if axis in counts.dims}).values
    found = drawn[drawn > 0]  # NaN where a cell is not computed
    return (int(found.min()), int(found.max())) if found.size else (0, 0)


def _level_dimension(quantiles: xr.DataArray) -> str:
    return next(str(dim) for dim in quantiles.dims if str(dim).endswith("quantile"))


def _mean_of_counts(counts: xr.DataArray, dimension: str) -> xr.DataArray:
    return (counts * counts[dimension]).sum(dimension, skipna=False) / counts.sum(dimension, skipna=False)


def _band(dataset: xr.Dataset, name: str, values: xr.DataArray, has_quantiles: bool) -> tuple[Any, Any, str]:
    """The lowest and highest quantile where they are wanted, or the interval of the mean, with words for it."""
    quantiles = dataset.get(f"{name}_quantiles")
    is_wanted = has_quantiles or f"{name}_error" not in dataset
    if is_wanted and quantiles is not None and quantiles.sizes[_level_dimension(quantiles)] > 1:
        level = _level_dimension(quantiles)
        low, high = (quantiles.isel({level: place}) for place in (0, -1))
        return low, high, f"from the {float(low[level]):g} to the {float(high[level]):g} quantile over runs"
    if f"{name}_error" in dataset:
        half = Z_OF_95_PERCENT * dataset[f"{name}_error"]
        return values - half, values + half, "95 % interval of the mean"
    return None, None, ""


def _selected(array: xr.DataArray, at: Mapping[str, Any]) -> xr.DataArray:
    """The array at some values of its axes, the nearest of numbers; an axis with one value is dropped."""
    for name, value in at.items():
        nearest = _nearest(array, name, value)
        array = array.isel({name: array[name].values.tolist().index(nearest)})
    return array.squeeze(drop=True).reset_coords(drop=True)


def _nearest(array: xr.DataArray, name: str, value: Any) -> Any:
    """The value of an axis that is nearest to a number, or that is a word."""
    require_known(name, [str(dim) for dim in array.dims], "axis")
    labels = array[name].values
    if is_numeric(array, name):
        return labels[np.argmin(np.abs(labels.astype(float) - _number(name, value)))].item()
    require_known(str(value), [str(label) for label in labels], name)
    return next(label for label in labels.tolist() if str(label) == str(value))


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"The value of axis `{name}` must be a number, but it is {value!r}.") from None


def is_numeric(array: xr.DataArray, name: str) -> bool:
    """Whether the values of an axis are numbers."""
    return array[name].dtype.kind in "fiu"


def drawn_axes(values: xr.DataArray) -> DrawnAxes:
    """The direction of each axis: two long ones make a heat map, else the longest is x and the next are lines.

    Examples
    --------
    >>> grid = lambda **sizes: xr.DataArray(np.zeros(list(sizes.values())), {k: np.arange(n) for k, n in sizes.items()})
    >>> drawn_axes(grid(beta=90, time=31))
    DrawnAxes(x='time', y='beta', lines=None, panels=None)
    >>> drawn_axes(grid(beta=5, n=3, time=17))
    DrawnAxes(x='time', y=None, lines='beta', panels='n')
    """
    sizes = {str(dim): size for dim, size in values.sizes.items()}
    by_size = sorted(sizes, key=lambda name: (-sizes[name], name != "time"))
    numeric = [name for name in by_size if is_numeric(values, name)]
    if not sizes:
        raise InputError(f"There is nothing to draw: one value, {float(values):g}, is left. Choose fewer axes.")
    if len([name for name in numeric if sizes[name] >= LONG]) >= 2:
        pair = numeric[:2]
        x = "time" if "time" in pair else pair[1]
        found = DrawnAxes(x, y=next(name for name in pair if name != x))
        left = [name for name in by_size if name not in pair]
    else:
        x = numeric[0] if numeric else by_size[0]
        left = [name for name in by_size if name != x]
        lines = next((name for name in left if sizes[name] <= LONG), None)
        found = DrawnAxes(x, lines=lines)
        left = [name for name in left if name != lines]
    if len(left) > 1 or (left and sizes[left[0]] > MOST_PANELS):
        raise InputError(
            f"The sweep has more axes than a picture: {', '.join(left)} are left. Choose a value of all but one with "
            f"`at` (`--at {left[-1]}=...`)."
        )
    return DrawnAxes(found.x, found.y, found.lines, left[0] if left else None)
