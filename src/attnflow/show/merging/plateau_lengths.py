"""`plateau_lengths`: how long clusters wait over many starts, against the formula for a pair."""

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnflow._common.checks import InputError
from attnflow.analyse import plateau_forecasts
from attnflow.show.merging.log_time import require_several, write_times
from attnflow.show.parts.style import (
    GREY,
    INK,
    OKABE_ITO,
    fix_ticks,
    in_house_style,
    legend_below,
    new_figure,
    save_figure,
    write_heading,
)


@in_house_style()
def plateau_lengths(
    results: Sequence[xr.Dataset] | xr.Dataset, path: str | os.PathLike | None = None, title: str | None = None
) -> Figure:
    """Draw how long plateaus last over many runs, and how long a pair alone would take from where they begin.

    Foreseen are those of which it was known as they began that one pair would wait long, and all others longer.

    Parameters
    ----------
    results
        Datasets made by `coalesce`, such as from many random starts.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of a sentence on what is to be seen.
    """
    runs = require_several(results)
    merges = _Merges.of(runs)
    if not len(merges.measured):
        raise InputError("`results` hold no merge that the formula for a pair speaks of: it takes Q^T K = V = I.")
    figure = new_figure(9.0, 4.5)
    left, right = figure.subplots(1, 2)
    _draw_pairs(left, merges)
    _draw_shares(right, merges)
    write_heading(figure, title or "How long clusters wait", _caption(runs, merges))
    if path is not None:
        save_figure(figure, path)
    return figure


class _Merges(NamedTuple):
    """Logarithms of how long a pair alone would wait, of how long it took, and whether that was foreseen."""

    predicted: np.ndarray
    measured: np.ndarray
    is_foreseen: np.ndarray

    @classmethod
    def of(cls, runs: list[xr.Dataset]) -> "_Merges":
        """Of the runs' merges those that the formula speaks of."""
        found = [[], [], []]
        for run in runs:
            ahead = plateau_forecasts.is_forecast(run)
            there = np.isfinite(run.log_duration.values) & np.isfinite(run.predicted_log_duration.values)
            predicted = np.where(ahead, run.forecast_log_duration.values, run.predicted_log_duration.values)
            for column, values in zip(found, (predicted, run.log_duration.values, ahead), strict=True):
                column.append(values[there])
        return cls(*map(np.concatenate, found))


def _draw_pairs(axes: Axes, merges: _Merges) -> None:
    predicted, measured, ahead = merges
    ends = (min(predicted.min(), measured.min()), max(predicted.max(), measured.max()))
    axes.plot(ends, ends, color=GREY, linewidth=0.8, zorder=1)
    style = {"s": 14, "linewidths": 0, "alpha": 0.55, "rasterized": len(measured) > 5000}
    axes.scatter(predicted[~ahead], measured[~ahead], color=GREY, label="other merges", **style)
    axes.scatter(predicted[ahead], measured[ahead], color=OKABE_ITO[0], label="foreseen", **style)
    axes.set_title("every merge")
    legend_below(axes, columns=2)
    write_times(axes.xaxis, "a pair alone would take")
    write_times(axes.yaxis, "it took")
    fix_ticks(axes)


def _draw_shares(axes: Axes, merges: _Merges) -> None:
    predicted, measured, ahead = merges
    if ahead.any():
        axes.ecdf(predicted[ahead], color=INK, linewidth=3.5, alpha=0.25, label="a pair alone")
        axes.ecdf(measured[ahead], color=OKABE_ITO[0], label="measured")
        legend_below(axes, columns=2)
    axes.set(title=f"foreseen plateaus, {int(ahead.sum())} in all", ylabel="share that is shorter")
    write_times(axes.xaxis, "length of a plateau")
    fix_ticks(axes)


def _caption(runs: list[xr.Dataset], merges: _Merges) -> str:
    predicted, measured, ahead = merges
    several = "s" if len(runs) > 1 else ""
    words = f"{len(runs)} run{several} of {runs[0].sizes['token']} tokens, {len(measured)} merges. A pair alone takes "
    words += "exp(β (1 - cos θ)) / (β (r + 1/r) sin² θ), r the ratio of masses, θ the angle as the plateau begins. "
    if ahead.any():
        ratio = np.exp(np.abs(measured - predicted)[ahead].max())
        words += "Foreseen: one pair should wait long, all others longer. "
        words += f"They are all within a factor of {ratio:.3g}."
    return words
