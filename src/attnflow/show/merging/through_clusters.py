"""`through_clusters`: tokens on the circle at times between their merges, and their angles over log t."""

import os
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import FuncFormatter, MultipleLocator

from attnflow._common.checks import InputError, require_positive_number
from attnflow.analyse import clusters
from attnflow.show.merging.log_time import require_coalescing, states_after_start, time_name, write_note, write_times
from attnflow.show.parts.style import (
    PALE,
    colours,
    fix_ticks,
    in_house_style,
    new_figure,
    save_and_return,
    write_heading,
)
from attnflow.show.runs.over_time import angle_name, continuous_angles

MAX_CIRCLES = 4  # as many as fit side by side
SHOWN = "Above: the start, the middles of the longest plateaus, and the end."


@in_house_style()
def through_clusters(
    run: xr.Dataset, path: str | os.PathLike | None = None, title: str | None = None, distance: float = 0.1
) -> Figure:
    """Draw tokens on the circle at the start and on their longest plateaus, and below their angles over time.

    Parameters
    ----------
    run
        A dataset made by `coalesce`, of tokens on the circle.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of "Merging clusters on the circle".
    distance
        Tokens connected by gaps of at most this length are counted as one cluster.
    """
    require_coalescing(run)
    require_positive_number(distance, "distance", "Use 0.1.")
    if run.sizes["coordinate"] != 2:
        raise InputError(
            f"`run` must have tokens on the circle, but d is {run.sizes['coordinate']}. Use `show.merge_tree`."
        )
    labels = clusters.over_time(run.tokens.values, distance).values
    moments = moments_of(run.log_time.values, labels.max(axis=1) + 1)
    shades = colours(int(labels.max()) + 1)[labels[moments[min(1, len(moments) - 1)][0]]]
    figure = new_figure(2.1 * max(len(moments), 3) + 0.6, 5.0)
    mosaic: Any = [[f"moment {place}" for place in range(len(moments))], ["angles"] * len(moments)]
    axes = figure.subplot_mosaic(mosaic, height_ratios=[1.0, 1.15])
    for place, (state, log_time) in enumerate(moments):
        _draw_circle(axes[f"moment {place}"], run.tokens.values[state], log_time, labels[state], shades)
    _draw_angles(axes["angles"], run, moments, shades)
    write_heading(figure, title or "Merging clusters on the circle", f"{run.attrs['outcome']} {SHOWN}")
    return save_and_return(figure, path)


def moments_of(log_times: np.ndarray, counts: np.ndarray) -> list[tuple[int, float]]:
    """States to draw with their log t: the first, the middles of the longest plateaus between, and the last.

    Examples
    --------
    >>> moments_of(np.array([-np.inf, 0.0, 1.0, 2.0, 9.0, 10.0, 30.0]), np.array([5, 5, 4, 3, 3, 2, 1]))
    [(0, -inf), (3, 6.0), (5, 20.0), (6, 30.0)]
    """
    starts = np.flatnonzero(np.diff(counts, prepend=counts[0] + 1) != 0)
    ends = np.append(starts[1:], len(counts) - 1)
    between = [place for place in range(1, len(starts)) if starts[place] < len(counts) - 1]
    lengths = [log_times[ends[place]] - log_times[starts[place]] for place in between]
    chosen = sorted(between[place] for place in np.argsort(lengths, kind="stable")[-(MAX_CIRCLES - 2) :])
    middles = [_middle(log_times, int(starts[place]), int(ends[place])) for place in chosen]
    first, last = ((place, float(log_times[place])) for place in (0, len(counts) - 1))
    return list(dict.fromkeys([first, *middles, last]))


def _middle(log_times: np.ndarray, start: int, end: int) -> tuple[int, float]:
    """The last state before the middle of a plateau, and the middle: in log t all motion is at the end of a plateau."""
    middle = float(log_times[start] + log_times[end]) / 2
    return max(start, int(np.searchsorted(log_times, middle, side="right")) - 1), middle


def _draw_circle(axes: Axes, tokens: np.ndarray, log_time: float, labels: np.ndarray, shades: np.ndarray) -> None:
    """Draw a dot for each cluster, in the commonest colour of its tokens."""
    axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=PALE, linewidth=1.2))
    groups = [np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1)]
    centres = np.stack([tokens[group].mean(axis=0) for group in groups])
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    areas = [30 + 200 * (len(group) - 1) / len(tokens) for group in groups]
    colours_of = [_commonest(shades[group]) for group in groups]
    axes.scatter(*centres.T, s=areas, c=colours_of, edgecolors="white", linewidths=0.8, zorder=3)
    count = int(labels.max()) + 1
    what = f"{count} cluster{'s' if count > 1 else ''}" if count < len(tokens) else f"{count} tokens"
    when = "t = 0" if np.isneginf(log_time) else f"t = {time_name(round(log_time, 1))}"
    axes.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal", xticks=[], yticks=[], title=f"{what}, {when}")
    axes.spines[:].set_visible(False)


def _commonest(shades: np.ndarray) -> np.ndarray:
    kinds, counts = np.unique(shades, axis=0, return_counts=True)
    return kinds[np.argmax(counts)]


def _draw_angles(axes: Axes, run: xr.Dataset, moments: list[tuple[int, float]], shades: np.ndarray) -> None:
    states = states_after_start(run)
    if states.sizes["state"] < 2:
        write_note(axes, "no motion")
        return
    angles = continuous_angles(states.tokens.values)
    for token, shade in enumerate(shades):
        axes.plot(states.log_time, angles[:, token], color=shade, alpha=0.9)
    for _, log_time in moments:
        if np.isfinite(log_time):
            axes.axvline(log_time, color=PALE, linewidth=1.0, zorder=0)
    axes.yaxis.set_major_locator(MultipleLocator(np.pi / 2 if np.ptp(angles) > np.pi / 2 else np.pi / 4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda angle, _: angle_name(angle)))
    axes.set_ylabel("angle")
    write_times(axes.xaxis)
    fix_ticks(axes)
