"""`robustness`: how outcomes depend on the law of the start, n and d, with confidence intervals."""

import os
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from attnflow._common.checks import InputError
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.page import theme
from attnflow.show.parts.picture import HEADLINE, FunctionPanel, Picture, Title
from attnflow.show.parts.style import colours, fix_ticks

COUNTS = ("vertices", "clusters", "leaders")
SAME_SHARE = 0.9  # clusters and leaders that equal the vertices in more of the starts would give the same lines again


@draws
def robustness(
    dataset: xr.Dataset,
    path: str | os.PathLike | None = None,
    *,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw means and their intervals against n: one row per quantity, one column per dimension, one colour per law.

    Numbers of clusters and leaders that equal that of vertices in nearly all starts have no row; the caption says so.

    Parameters
    ----------
    dataset
        Made by `af.robustness`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of the headline, which states the level of the intervals and the number of starts; None: none of it.

    Examples
    --------
    >>> import attnflow as af
    >>> figure = robustness(af.robustness("box", n=[5, 8], d=2, seeds=2, end=4.0), size="column")
    >>> float(figure.get_figwidth())
    3.4
    """
    if not isinstance(dataset, xr.Dataset) or "vertices_interval" not in dataset:
        raise InputError("`dataset` must be made by `theorems.robustness.robustness`, but it holds no intervals.")
    columns, quantities = dataset.sizes["d"], _drawn(dataset)
    rows = [
        PanelRow([_panel(dataset, name, d) for d in dataset.d.values], 1.9, least=1.0, is_shared=True)
        for name in quantities
    ]
    return Picture(
        rows,
        _title(dataset),
        equal_counts_sentence(dataset),
        width=max(1.2 + 2.9 * columns, 6.0),
        height=1.4 + 2.0 * len(quantities),
        complete=lambda axes: _share_heights(axes, columns),
        legend=lambda axes: axes[0].get_legend_handles_labels()[0],
    )


def _panel(dataset: xr.Dataset, name: str, d: int) -> FunctionPanel:
    def draw(axes: Axes) -> None:
        _draw_intervals(axes, dataset[f"{name}_interval"].sel(d=d))
        axes.set(title=f"$d$ = {d}" if name == COUNTS[0] else "", ylabel=name, xlabel="tokens $n$")
        axes.grid(axis="y")
        axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=name != "rate"))
        fix_ticks(axes)
        if name == "rate":
            axes.axhline(1.0, color=theme().grey, linewidth=0.9, linestyle=":", zorder=1)

    return FunctionPanel(draw)


def _share_heights(axes: Sequence[Axes], columns: int) -> None:
    """Give the panels of one quantity one vertical axis; that of a number begins at 0 or below."""
    for first in range(0, len(axes), columns):
        row = axes[first : first + columns]
        low, high = min(one.get_ylim()[0] for one in row), max(one.get_ylim()[1] for one in row)
        is_rate = first + columns == len(axes)  # it is near one, and its axis shows by how much it differs
        for one in row:
            one.set_ylim((low, high) if is_rate else (min(0, low), high * 1.05))


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
    return f"Dependence on the start\n{level}, $t$ = {dataset.attrs['end']:g}"
