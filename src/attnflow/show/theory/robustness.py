"""`robustness`: how outcomes depend on the law of the start, n and d, with confidence intervals."""

import os
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from attnflow._common.checks import InputError
from attnflow.show.parts.style import (
    colours,
    fix_ticks,
    in_house_style,
    new_figure,
    require_free_picture,
    save_and_return,
    write_heading,
)

QUANTITIES = ("vertices", "clusters", "leaders", "rate")


@in_house_style()
def robustness(dataset: xr.Dataset, path: str | os.PathLike | None = None) -> Figure:
    """Draw means and confidence intervals against n: one row a quantity, one column a dimension, one colour a law.

    Parameters
    ----------
    dataset
        Made by `attnflow.theorems.robustness.robustness`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    """
    if path is not None:
        require_free_picture(path)
    if not isinstance(dataset, xr.Dataset) or "vertices_interval" not in dataset:
        raise InputError("`dataset` must be made by `theorems.robustness.robustness`, but it holds no intervals.")
    figure = _figure_of(dataset)
    return save_and_return(figure, path)


def _figure_of(dataset: xr.Dataset) -> Figure:
    columns = dataset.sizes["d"]
    figure = new_figure(max(1.2 + 2.7 * columns, 4.6), 7.6)
    grid = figure.subplots(len(QUANTITIES), columns, squeeze=False, sharex=True, sharey="row")
    for row, name in enumerate(QUANTITIES):
        for column, d in enumerate(dataset.d.values):
            axes = grid[row, column]
            _draw_intervals(axes, dataset[f"{name}_interval"].sel(d=d))
            axes.set(title=f"d = {d}" if row == 0 else "", ylabel=name if column == 0 else "")
            axes.set_xlabel("tokens n" if row == len(QUANTITIES) - 1 else "")
            axes.grid(axis="y")
            axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=name != "rate"))
            fix_ticks(axes)
        low, high = grid[row, 0].get_ylim()
        grid[row, 0].set_ylim(min(0, low), high * 1.05)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=len(labels))
    write_heading(figure, _title(dataset), "")
    return figure


def _draw_intervals(axes: Axes, intervals: Any) -> None:
    """Draw one line a law; laws at one n are set apart by 3.5 % of the axis, so that bars do not cover each other."""
    sizes = np.asarray(intervals.n.values, dtype=float)
    laws = list(intervals.law.values)
    widest = np.log(sizes.max() / sizes.min()) or 1.0
    for index, (law, colour) in enumerate(zip(laws, colours(len(laws)), strict=True)):
        low, mean, high = intervals.sel(law=law).transpose("bound", "n").values
        position = sizes * np.exp(0.035 * widest * (index - (len(laws) - 1) / 2))
        spread = np.nan_to_num(np.stack([mean - low, high - mean]))
        marker = "os^Dvp"[index % 6]
        axes.errorbar(position, mean, spread, color=colour, marker=marker, markersize=4.5, capsize=2.5, label=law)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sizes.tolist()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")
    axes.margins(x=0.12)


def _title(dataset: xr.Dataset) -> str:
    level = f"{100 * dataset.attrs['confidence']:g} % intervals of the mean of {dataset.sizes['seed']} starts"
    return f"Dependence on the start\n{level}, t = {dataset.attrs['end']:g}"
