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
    GREY,
    colours,
    fix_ticks,
    in_house_style,
    new_figure,
    require_free_picture,
    save_and_return,
    write_heading,
)

COUNTS = ("vertices", "clusters", "leaders")
SAME_SHARE = 0.9  # clusters and leaders that equal the vertices in more of the starts would give the same lines again


@in_house_style()
def robustness(dataset: xr.Dataset, path: str | os.PathLike | None = None) -> Figure:
    """Draw means and confidence intervals against n: one row a quantity, one column a dimension, one colour a law.

    Numbers of clusters and leaders that equal that of vertices in nearly all starts have no row; the caption says so.

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
    columns, quantities = dataset.sizes["d"], _drawn(dataset)
    figure = new_figure(max(1.2 + 2.9 * columns, 6.0), 1.2 + 2.0 * len(quantities))
    grid = figure.subplots(len(quantities), columns, squeeze=False, sharex=True, sharey="row")
    for row, name in enumerate(quantities):
        for column, d in enumerate(dataset.d.values):
            axes = grid[row, column]
            _draw_intervals(axes, dataset[f"{name}_interval"].sel(d=d))
            axes.set(title=f"d = {d}" if row == 0 else "", ylabel=name if column == 0 else "")
            axes.set_xlabel("tokens n" if row == len(quantities) - 1 else "")
            axes.grid(axis="y")
            axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=name != "rate"))
            fix_ticks(axes)
            if name == "rate":
                axes.axhline(1.0, color=GREY, linewidth=0.9, linestyle=":", zorder=1)
        if name != "rate":  # the rate is near one, and its axis shows by how much it differs
            low, high = grid[row, 0].get_ylim()
            grid[row, 0].set_ylim(min(0, low), high * 1.05)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels))
    write_heading(figure, _title(dataset), equal_counts_sentence(dataset))
    return figure


def _drawn(dataset: xr.Dataset) -> list[str]:
    """Quantities with a row of their own: counts that differ from the vertices, and the rate."""
    others = [name for name in COUNTS[1:] if float((dataset[name] == dataset.vertices).mean()) <= SAME_SHARE]
    return [COUNTS[0], *others, "rate"]


def equal_counts_sentence(dataset: xr.Dataset) -> str:
    """Sentence on the number of starts with as many clusters and leaders as vertices, and on the dotted line."""
    total = dataset.vertices.size
    clusters, leaders = (int((dataset[name] == dataset.vertices).sum()) for name in COUNTS[1:])
    return (
        f"The number of clusters equals that of vertices in {clusters} of {total} starts, the number of leaders in "
        f"{leaders} of {total}. Dotted: the rate of theory, 1."
    )


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
