"""`merge_tree`: the tree of merges of a coalescing run, over log t."""

import os
from typing import Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex

from attnflow.show.merging.log_time import require_coalescing, write_note, write_times
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.page import current_page, theme
from attnflow.show.parts.picture import HEADLINE, FunctionPanel, Picture, Title
from attnflow.show.parts.style import colours, fix_ticks
from attnflow.show.parts.symbols import power_of_e, typeset

MAX_LABELLED_TOKENS = 40  # more labels would overlap
MAX_COLOURED_CLUSTERS = 8  # more colours cannot be told apart


@draws
def merge_tree(
    run: xr.Dataset,
    path: str | os.PathLike | None = None,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw the tree of merges: each merge is a bracket at its time, coloured below the longest plateau.

    Parameters
    ----------
    run
        A dataset made by `coalesce`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of "Merge tree"; None: no title and no caption.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(100.0))
    >>> run = af.coalesce(flow, af.initial.on_circle(np.array([0.0, 0.6, 2.0])))
    >>> merge_tree(run, size="column", title=None).axes[0].get_ylabel()
    'time $t$'
    """
    require_coalescing(run)
    width = float(np.clip(3 + 0.16 * run.sizes["token"], 4.5, 9.0))
    panel = FunctionPanel(lambda axes: draw_tree(axes, run))
    return Picture([PanelRow([panel], 3.65)], "Merge tree", typeset(run.attrs["outcome"]), width)


def draw_tree(axes: Axes, run: xr.Dataset, max_labelled: int = MAX_LABELLED_TOKENS) -> None:
    """Draw the tree on axes, with its leaves in an order in which no lines cross."""
    heights = run.merge_log_time.values
    if not len(heights):
        write_note(axes, "no merges")
        return
    merges = list(zip(run["first"].values.tolist(), run["second"].values.tolist(), heights.tolist(), strict=True))
    order = leaves(merges, run.sizes["token"])
    plateau = longest_plateau(heights)
    brackets, shades = _brackets(merges, order, plateau)
    width = 1.3 if len(order) <= MAX_LABELLED_TOKENS else 0.6
    axes.add_collection(LineCollection(brackets, colors=shades, linewidths=width, capstyle="round"))
    axes.set_xlim(-0.7, max(len(order) - 0.3, 0.7))
    if plateau is not None:
        below = [merge for merge in merges if merge[2] <= plateau[0]]
        _mark_plateau(axes, plateau, np.array(list(_cluster_coordinates(below, order).values())))
    named = range(len(order)) if len(order) <= fitting_labels(max_labelled) else []
    axes.set(xlabel="token" if named else f"{len(order)} tokens", xticks=list(named))
    axes.set_xticklabels([str(order[place]) for place in named])
    axes.autoscale_view(scalex=False)
    write_times(axes.yaxis)
    fix_ticks(axes)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="x", length=0)


def fitting_labels(most: int) -> int:
    """At most `most` numbers of tokens, as many as fit beside each other on the page."""
    page = current_page()
    return most if page.width is None else min(most, int(5 * page.width / page.scale))  # five an inch


def leaves(merges: list[tuple[int, int, float]], count: int) -> list[int]:
    """Order of the leaves: each merge puts the leaves of its second cluster after those of its first.

    Examples
    --------
    >>> leaves([(0, 2, 1.0), (0, 1, 2.0)], 3)
    [0, 2, 1]
    """
    rows = {token: [token] for token in range(count)}
    for first, second, _ in merges:
        rows[first] += rows.pop(second)
    return [token for row in rows.values() for token in row]


def longest_plateau(heights: np.ndarray) -> tuple[float, float] | None:
    """Log times of the two consecutive merges that are farthest apart; None for fewer than two merges.

    Examples
    --------
    >>> longest_plateau(np.array([1.0, 2.0, 9.0, 12.0]))
    (2.0, 9.0)
    """
    if len(heights) < 2:
        return None
    place = int(np.argmax(np.diff(heights)))
    return float(heights[place]), float(heights[place + 1])


def _cluster_coordinates(merges: list, order: list[int]) -> dict[int, float]:
    """Coordinates of the clusters along the axis after some merges, by their smallest tokens."""
    places = {token: float(place) for place, token in enumerate(order)}
    for first, second, _ in merges:
        places[first] = (places[first] + places.pop(second)) / 2
    return places


def _brackets(merges: list, order: list[int], plateau: tuple | None) -> tuple[list, list]:
    """A line for each merge, down to its two clusters, and its colour: that of its cluster on the plateau."""
    heights = [height for _, _, height in merges]
    floor = min(heights, default=0.0) - 0.05 * (float(np.ptp(heights)) if len(heights) > 1 else 1.0)
    places = {token: float(place) for place, token in enumerate(order)}
    bottoms = dict.fromkeys(order, floor)
    shade = _shades(merges, order, plateau)
    brackets, shades = [], []
    for first, second, height in merges:
        ends = [(places[first], bottoms[first]), (places[second], bottoms[second])]
        brackets.append([ends[0], (places[first], height), (places[second], height), ends[1]])
        shades.append(shade[first] if plateau is None or height <= plateau[0] else theme().ink)
        places[first], bottoms[first] = (places[first] + places[second]) / 2, height
    return brackets, shades


def _shades(merges: list, order: list[int], plateau: tuple | None) -> dict[int, str]:
    """A colour for each token that is the smallest of its cluster on the plateau; grey where clusters are many."""
    if plateau is None:
        return dict.fromkeys(order, theme().ink)
    cluster = {token: token for token in order}
    for first, second, height in merges:
        if height <= plateau[0]:
            cluster |= {token: first for token, its in cluster.items() if its == second}
    grown = [token for token in order if token in {one for one, _, height in merges if height <= plateau[0]}]
    firsts = list(dict.fromkeys(cluster[token] for token in grown))
    if len(firsts) > MAX_COLOURED_CLUSTERS:
        return dict.fromkeys(order, theme().grey)
    shade = {first: to_hex(colour) for first, colour in zip(firsts, colours(len(firsts)), strict=True)}
    return {token: shade.get(cluster[token], theme().ink) for token in order}


def _mark_plateau(axes: Axes, plateau: tuple[float, float], coordinates: np.ndarray) -> None:
    """Draw a band over the plateau, with words in the widest gap between the lines that cross it."""
    axes.axhspan(*plateau, color=theme().grey, alpha=0.08, linewidth=0)
    edges = np.sort(np.concatenate([coordinates, axes.get_xlim()]))
    widest = int(np.argmax(np.diff(edges)))
    words = (
        f"{len(coordinates)} clusters from\n{power_of_e(round(plateau[0], 1))} to {power_of_e(round(plateau[1], 1))}"
    )
    place = (edges[widest] + edges[widest + 1]) / 2
    axes.text(place, sum(plateau) / 2, words, ha="center", va="center", color=theme().grey, linespacing=1.4)
