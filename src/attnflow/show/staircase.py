"""`staircase`: the energy of a coalescing run on logarithmic time, and who joined whom when."""

import os

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnflow._checks import InputError
from attnflow.show.style import GREY, INK, OKABE_ITO, in_house_style, new_figure, save_figure, write_heading

MOST_NAMED = 40  # tokens up to which the tree names them


@in_house_style()
def staircase(run: xr.Dataset, path: str | os.PathLike | None = None, title: str | None = None) -> Figure:
    """Draw a run of `coalesce`: left its energy with the levels of its clusters, right the tree of merges.

    Parameters
    ----------
    run
        A dataset made by `coalesce`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of the outcome.
    """
    if not isinstance(run, xr.Dataset) or "merge_log_time" not in run:
        raise InputError("`run` must be a dataset made by `coalesce`. Use `show.trajectories` for one of `simulate`.")
    figure = new_figure(9.0, 4.2)
    left, right = figure.subplots(1, 2)
    _draw_energy(left, run)
    _draw_tree(right, run)
    write_heading(figure, title or "Through every metastable state", run.attrs["outcome"])
    if path is not None:
        save_figure(figure, path)
    return figure


def _draw_energy(axes: Axes, run: xr.Dataset) -> None:
    known = np.isfinite(run.log_time.values)
    times = run.log_time.values[known]
    axes.plot(times, run.level.values[known], color=GREY, linewidth=3.5, alpha=0.35, drawstyle="steps-post")
    axes.plot(times, run.energy.values[known], color=OKABE_ITO[0])
    axes.plot([], [], color=GREY, linewidth=3.5, alpha=0.35, label="sum of squared cluster shares")
    axes.plot([], [], color=OKABE_ITO[0], label="energy, its largest value being one")
    axes.set(xlabel="log t", ylabel="energy", ylim=(-0.03, 1.06), title="The staircase")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=1)


def _draw_tree(axes: Axes, run: xr.Dataset) -> None:
    """Every merge a bracket at its time; leaves are ordered so that no lines cross."""
    heights = run.merge_log_time.values
    merges = list(zip(run["first"].values.tolist(), run["second"].values.tolist(), heights, strict=True))
    order = _leaves(merges, run.sizes["token"])
    places = {token: float(place) for place, token in enumerate(order)}
    floor = float(heights.min()) - 0.06 * (float(np.ptp(heights)) or 1.0) if len(heights) else 0.0
    bottoms = dict.fromkeys(order, floor)
    width = 1.0 if len(order) <= MOST_NAMED else 0.4
    for first, second, height in merges:
        for token in (first, second):
            axes.plot([places[token]] * 2, [bottoms[token], height], color=INK, linewidth=width)
        axes.plot([places[first], places[second]], [height] * 2, color=INK, linewidth=width)
        places[first], bottoms[first] = (places[first] + places[second]) / 2, height
    named = range(len(order)) if len(order) <= MOST_NAMED else []
    axes.set(xlabel="token", ylabel="log t", title="Who joined whom", xticks=list(named))
    axes.set_xticklabels([str(order[place]) for place in named])
    axes.set_xlim(-0.7, max(len(order) - 0.3, 0.7))


def _leaves(merges: list[tuple[int, int, float]], count: int) -> list[int]:
    """Tokens side by side with those they join: each merge puts one row of leaves after the other.

    Examples
    --------
    >>> _leaves([(0, 2, 1.0), (0, 1, 2.0)], 3)
    [0, 2, 1]
    """
    rows = {token: [token] for token in range(count)}
    for first, second, _ in merges:
        rows[first] += rows.pop(second)
    return [token for row in rows.values() for token in row]
