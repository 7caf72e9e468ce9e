"""`plateau_lengths`: how long clusters wait over many starts, against the formula for a pair."""

import os
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnflow._checks import InputError
from attnflow.show.log_time import require_several, write_times
from attnflow.show.style import GREY, INK, OKABE_ITO, fix_ticks, in_house_style, new_figure, save_figure, write_heading

PLATEAU = 3.0  # of log t: what takes longer counts as a plateau, what is shorter is the gathering at the start


@in_house_style()
def plateau_lengths(
    results: Sequence[xr.Dataset] | xr.Dataset, path: str | os.PathLike | None = None, title: str | None = None
) -> Figure:
    """Draw how long plateaus last over many runs, and how long a pair alone would take from where they begin.

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
    measured = np.concatenate([run.log_duration.values for run in runs])
    predicted = np.concatenate([run.predicted_log_duration.values for run in runs])
    there = np.isfinite(measured) & np.isfinite(predicted)
    if not there.any():
        raise InputError("`results` hold no merge that the formula for a pair speaks of: it takes Q^T K = V = I.")
    measured, predicted = measured[there], predicted[there]
    figure = new_figure(9.0, 4.2)
    left, right = figure.subplots(1, 2)
    _draw_pairs(left, predicted, measured)
    _draw_shares(right, predicted, measured)
    write_heading(figure, title or "How long clusters wait", _caption(runs, predicted, measured))
    if path is not None:
        save_figure(figure, path)
    return figure


def _draw_pairs(axes: Axes, predicted: np.ndarray, measured: np.ndarray) -> None:
    long = measured > PLATEAU
    ends = (min(predicted.min(), measured.min()), max(predicted.max(), measured.max()))
    axes.plot(ends, ends, color=GREY, linewidth=0.8, zorder=1)
    style = {"s": 14, "linewidths": 0, "alpha": 0.55, "rasterized": len(measured) > 5000}
    axes.scatter(predicted[~long], measured[~long], color=GREY, label="gathering at the start", **style)
    axes.scatter(predicted[long], measured[long], color=OKABE_ITO[0], label="plateaus", **style)
    axes.set_title("every merge")
    axes.legend(loc="lower right")
    write_times(axes.xaxis, "a pair alone would take")
    write_times(axes.yaxis, "it took")
    fix_ticks(axes)


def _draw_shares(axes: Axes, predicted: np.ndarray, measured: np.ndarray) -> None:
    long = measured > PLATEAU
    if long.any():
        axes.ecdf(predicted[long], color=INK, linewidth=3.5, alpha=0.25, label="a pair alone")
        axes.ecdf(measured[long], color=OKABE_ITO[0], label="measured")
        axes.legend(loc="lower right")
    axes.set(title=f"plateaus, {int(long.sum())} in all", ylabel="share that is shorter")
    write_times(axes.xaxis, "length of a plateau")
    fix_ticks(axes)


def _caption(runs: list[xr.Dataset], predicted: np.ndarray, measured: np.ndarray) -> str:
    long = measured > PLATEAU
    several = "s" if len(runs) > 1 else ""
    words = f"{len(runs)} run{several} of {runs[0].sizes['token']} tokens, {len(measured)} merges. A pair alone takes "
    words += "exp(β (1 - cos θ)) / (β (r + 1/r) sin² θ), r the ratio of masses, θ the angle as the plateau begins. "
    if long.any():
        ratio = np.exp(np.median(np.abs(measured - predicted)[long]))
        words += f"Half of the plateaus are within a factor of {ratio:.3g}."
    return words
