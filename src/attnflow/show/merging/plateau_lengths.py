"""`plateau_lengths`: lengths of plateaus over many starts, against the formula for an isolated pair."""

import os
from collections.abc import Sequence
from typing import NamedTuple, Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from attnflow._common.checks import InputError
from attnflow.analyse import plateau_forecasts
from attnflow.show.merging.log_time import require_several, write_times
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.page import theme
from attnflow.show.parts.picture import HEADLINE, FunctionPanel, Picture, Title
from attnflow.show.parts.style import (
    fix_ticks,
    legend_below,
    line_colour,
)


@draws
def plateau_lengths(
    results: Sequence[xr.Dataset] | xr.Dataset,
    path: str | os.PathLike | None = None,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw the lengths of plateaus of many runs against the merge times of isolated pairs at their beginning.

    Forecast plateaus are those of `plateau_forecasts.is_forecast`: as they began, one pair needed long and all others
    far longer.

    Parameters
    ----------
    results
        Datasets made by `coalesce`, such as from many random starts.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of "Lengths of plateaus"; None: no title and no caption.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(100.0))
    >>> starts = [af.initial.on_circle(np.array([0.0, angle, 2.0])) for angle in (0.4, 0.6)]
    >>> figure = plateau_lengths([af.coalesce(flow, start) for start in starts], size="page")
    >>> figure.axes[0].get_title()
    'all merges'
    """
    runs = require_several(results)
    merges = _Merges.of(runs)
    if not len(merges.measured):
        raise InputError(
            "`results` must have merges to which the formula for a pair applies, but have none. Use Q^T K = V = I."
        )
    panels = [
        FunctionPanel(lambda axes: _draw_pairs(axes, merges)),
        FunctionPanel(lambda axes: _draw_shares(axes, merges)),
    ]
    return Picture([PanelRow(panels, 3.75)], "Lengths of plateaus", _caption(runs, merges))


class _Merges(NamedTuple):
    """Logarithms of the predicted and measured lengths of plateaus, and whether each was forecast."""

    predicted: np.ndarray
    measured: np.ndarray
    is_forecast: np.ndarray

    @classmethod
    def of(cls, runs: list[xr.Dataset]) -> "_Merges":
        """The merges of all runs to which the formula applies."""
        columns = [[], [], []]
        for run in runs:
            is_forecast = plateau_forecasts.is_forecast(run)
            is_known = np.isfinite(run.log_duration.values) & np.isfinite(run.predicted_log_duration.values)
            predicted = np.where(is_forecast, run.forecast_log_duration.values, run.predicted_log_duration.values)
            for column, values in zip(columns, (predicted, run.log_duration.values, is_forecast), strict=True):
                column.append(values[is_known])
        return cls(*map(np.concatenate, columns))


def _draw_pairs(axes: Axes, merges: _Merges) -> None:
    predicted, measured, is_forecast = merges
    ends = (min(predicted.min(), measured.min()), max(predicted.max(), measured.max()))
    axes.plot(ends, ends, color=theme().grey, linewidth=0.8, zorder=1)
    style = {"s": 14, "linewidths": 0, "alpha": 0.55, "rasterized": len(measured) > 5000}
    axes.scatter(predicted[~is_forecast], measured[~is_forecast], color=theme().grey, label="other merges", **style)
    axes.scatter(predicted[is_forecast], measured[is_forecast], color=line_colour(0), label="forecast", **style)
    axes.set_title("all merges")
    legend_below(axes, columns=2)
    write_times(axes.xaxis, "predicted for an isolated pair")
    write_times(axes.yaxis, "measured")
    fix_ticks(axes)


def _draw_shares(axes: Axes, merges: _Merges) -> None:
    predicted, measured, is_forecast = merges
    if is_forecast.any():
        axes.ecdf(predicted[is_forecast], color=theme().ink, linewidth=3.5, alpha=0.25, label="isolated pair")
        axes.ecdf(measured[is_forecast], color=line_colour(0), label="measured")
        legend_below(axes, columns=2)
    axes.set(title=f"forecast plateaus, {int(is_forecast.sum())} in all", ylabel="fraction that is shorter")
    write_times(axes.xaxis, "length of a plateau")
    fix_ticks(axes)


def _caption(runs: list[xr.Dataset], merges: _Merges) -> str:
    predicted, measured, is_forecast = merges
    several = "s" if len(runs) > 1 else ""
    words = (
        f"{len(runs)} run{several} of {runs[0].sizes['token']} tokens, {len(measured)} merges. An isolated pair needs "
    )
    words += (
        r"$e^{\beta(1-\cos\theta)}/(\beta\,(r+1/r)\,\sin^2\theta)$, $r$ the ratio of masses, $\theta$ the angle as "
    )
    words += "the plateau begins. "
    if is_forecast.any():
        ratio = np.exp(np.abs(measured - predicted)[is_forecast].max())
        words += "Forecast: one pair needs long, all others far longer. "
        words += f"These lengths are within a factor of {ratio:.3g}."
    return words
