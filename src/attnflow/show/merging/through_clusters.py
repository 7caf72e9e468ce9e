"""`through_clusters`: tokens on the circle at times between their merges, and their angles over log t."""

import math
import os
from collections.abc import Sequence
from typing import Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.patches import Circle
from matplotlib.ticker import FuncFormatter, MultipleLocator

from attnflow._common.checks import InputError, require_positive_number
from attnflow.analyse import clusters
from attnflow.show.merging.log_time import require_coalescing, states_after_start, write_note, write_times
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.page import theme
from attnflow.show.parts.picture import HEADLINE, FunctionPanel, Picture, Title
from attnflow.show.parts.style import colours, fix_ticks
from attnflow.show.parts.symbols import power_of_e, typeset
from attnflow.show.runs.over_time import angle_name, continuous_angles

MAX_CIRCLES = 4  # as many as fit side by side
SHOWN = "Above: the start, the middles of the longest plateaus, and the end."


@draws
def through_clusters(
    run: xr.Dataset,
    path: str | os.PathLike | None = None,
    title: Title = HEADLINE,
    distance: float = 0.1,
    *,
    times: Sequence[float] | None = None,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw tokens on the circle at the start and on their longest plateaus, and below their angles over time.

    Parameters
    ----------
    run
        A dataset made by `coalesce`, of tokens on the circle.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of "Merging clusters on the circle"; None: no title and no caption.
    distance
        Tokens connected by gaps of at most this length are counted as one cluster.
    times
        Times t at which the circle is drawn, instead of the start, the longest plateaus and the end. Times beyond the
        largest float are whole numbers, such as 10**400.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(100.0))
    >>> run = af.coalesce(flow, af.initial.on_circle(np.array([0.0, 0.6, 2.0])))
    >>> [axes.get_title() for axes in through_clusters(run, times=[0, 10**12]).axes[:2]]
    ['3 tokens, $t$ = 0', '2 clusters, $t$ = $e^{27.6}$']
    """
    require_coalescing(run)
    require_positive_number(distance, "distance", "Use 0.1.")
    if run.sizes["coordinate"] != 2:
        raise InputError(
            f"`run` must have tokens on the circle, but d is {run.sizes['coordinate']}. Use `show.merge_tree`."
        )
    labels = clusters.over_time(run.tokens.values, distance).values
    log_times = run.log_time.values
    moments = moments_of(log_times, labels.max(axis=1) + 1) if times is None else _moments_at(times, log_times)
    shades = colours(int(labels.max()) + 1)[labels[moments[min(1, len(moments) - 1)][0]]]
    circles = [
        FunctionPanel(
            lambda axes, state=state, log_time=log_time: _draw_circle(
                axes, run.tokens.values[state], log_time, labels[state], shades
            )
        )
        for state, log_time in moments
    ]
    angles = FunctionPanel(lambda axes: _draw_angles(axes, run, moments, shades))
    rows = [PanelRow(circles, 1.95, least=1.6, is_square=True), PanelRow([angles], 2.3)]
    caption = f"{run.attrs['outcome']} {SHOWN if times is None else ''}".strip()
    return Picture(rows, "Merging clusters on the circle", typeset(caption), 2.1 * max(len(moments), 3) + 0.6)


def _moments_at(times: Sequence[float], log_times: np.ndarray) -> list[tuple[int, float]]:
    """The last states at or before some times, with the logarithms of those times."""
    try:
        wanted = [-math.inf if time == 0 else math.log(time) for time in np.atleast_1d(np.asarray(times, dtype=object))]
    except (TypeError, ValueError):
        wanted = []
    if not wanted or not all(log_time <= log_times[-1] for log_time in wanted):
        raise InputError(
            f"`times` must be times from 0 to the end, e^{log_times[-1]:.4g}, at least one, but it is {times!r}."
        )
    places = [max(int(np.searchsorted(log_times, log_time, side="right")) - 1, 0) for log_time in wanted]
    return list(zip(places, wanted, strict=True))


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
    axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=theme().pale, linewidth=1.2))
    groups = [np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1)]
    centres = np.stack([tokens[group].mean(axis=0) for group in groups])
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    areas = [30 + 200 * (len(group) - 1) / len(tokens) for group in groups]
    colours_of = [_commonest(shades[group]) for group in groups]
    axes.scatter(*centres.T, s=areas, c=colours_of, edgecolors=theme().paper, linewidths=0.8, zorder=3)
    count = int(labels.max()) + 1
    what = f"{count} cluster{'s' if count > 1 else ''}" if count < len(tokens) else f"{count} tokens"
    when = "0" if np.isneginf(log_time) else power_of_e(round(log_time, 1))
    heading = f"{what}, $t$ = {when}"
    axes.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal", xticks=[], yticks=[], title=heading)
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
            axes.axvline(log_time, color=theme().pale, linewidth=1.0, zorder=0)
    axes.yaxis.set_major_locator(MultipleLocator(np.pi / 2 if np.ptp(angles) > np.pi / 2 else np.pi / 4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda angle, _: angle_name(angle)))
    axes.set_ylabel("angle")
    write_times(axes.xaxis)
    fix_ticks(axes)
