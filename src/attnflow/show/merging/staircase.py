"""`staircase` and `staircases`: the energy of coalescing runs on logarithmic time."""

import os
from collections.abc import Sequence
from typing import Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from attnflow.experiments.headline import coalescing_parts
from attnflow.results.provenance import flow_of
from attnflow.show.merging.log_time import (
    require_coalescing,
    require_several,
    states_after_start,
    write_note,
    write_times,
)
from attnflow.show.merging.merge_tree import draw_tree
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.page import LIGHT, current_page, theme
from attnflow.show.parts.picture import HEADLINE, FunctionPanel, Picture, Title
from attnflow.show.parts.style import colours, fix_ticks, from_oklch, legend_below, line_colour
from attnflow.show.parts.symbols import BETA, typeset

SCALED_TIME = r"$\log\,t\,/\,\beta$"


@draws
def staircase(
    run: xr.Dataset,
    path: str | os.PathLike | None = None,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw a run of `coalesce`: left its energy with the levels of its clusters, right the tree of merges.

    Parameters
    ----------
    run
        A dataset made by `coalesce`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of the headline, which states the model, the number of merges and the clusters that are left; None: no
        title and no caption.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(100.0))
    >>> figure = staircase(af.coalesce(flow, af.initial.on_circle(np.array([0.0, 0.6, 2.0]))))
    >>> [axes.get_title() for axes in figure.axes]
    ['Energy', 'Merge tree']
    """
    require_coalescing(run)
    panels = [FunctionPanel(lambda axes: _draw_energy(axes, run)), FunctionPanel(lambda axes: _draw_merges(axes, run))]
    heading = typeset("\n".join(coalescing_parts(flow_of(run), run)))
    return Picture([PanelRow(panels, 3.75)], heading, typeset(run.attrs["outcome"]))


@draws
def staircases(
    results: Sequence[xr.Dataset] | xr.Dataset,
    path: str | os.PathLike | None = None,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw the energies of several runs: left against time, right against log t / beta.

    Two clusters at an angle theta merge at log t = beta (1 - cos theta) to leading order: on the right their step is at
    1 - cos theta for every beta, and becomes steeper as beta grows.

    Parameters
    ----------
    results
        Datasets made by `coalesce`, from one start with different beta.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of "Energy of merging clusters"; None: no title and no caption.

    Examples
    --------
    >>> import attnflow as af
    >>> tokens, head = af.initial.on_circle(np.array([0.0, 0.6, 2.0])), af.Head.identity(2)
    >>> runs = [af.coalesce(af.SphereAttention(head, af.Softmax(beta)), tokens) for beta in (50.0, 100.0)]
    >>> [line.get_label()[-3:] for line in staircases(runs).axes[0].get_lines()]
    [' 50', '100']
    """
    runs = sorted(require_several(results), key=_beta)
    panels = [
        FunctionPanel(lambda axes: _draw_energies(axes, runs, has_scaled_time=False)),
        FunctionPanel(lambda axes: _draw_energies(axes, runs, has_scaled_time=True)),
    ]
    return Picture([PanelRow(panels, 3.65)], "Energy of merging clusters", _caption(runs))


def _draw_energies(axes: Axes, runs: list[xr.Dataset], *, has_scaled_time: bool) -> None:
    """Draw the energies of runs against log t, or against log t / beta."""
    units = [_beta(run) if has_scaled_time else 1.0 for run in runs]
    for run, shade, unit in zip(runs, _shades(len(runs)), units, strict=True):
        states = states_after_start(run)
        axes.plot(states.log_time / unit, states.energy, color=shade, label=f"{BETA} = {_beta(run):g}")
    lowest = min(float(states_after_start(run).energy.min()) for run in runs)
    last = max(float(run.log_time[-1]) / unit for run, unit in zip(runs, units, strict=True))
    axes.set(ylabel="energy, at most one", ylim=(lowest - 0.04, 1.04), xlim=(-0.03 * last, None))
    if has_scaled_time:
        axes.set(title=f"against {SCALED_TIME}", xlabel=SCALED_TIME)
    else:
        axes.set_title("against time")
        write_times(axes.xaxis)
        legend_below(axes, columns=3)
    fix_ticks(axes)


def _shades(count: int) -> np.ndarray:
    """Colours of runs in the order of beta: the user's palette, or one hue from light to dark, reversed on dark."""
    if count == 1 or current_page().palette is not None:
        return colours(count)
    lightness = np.linspace(0.78, 0.35, count) if theme() is LIGHT else np.linspace(0.5, 0.88, count)
    return from_oklch(lightness, np.full(count, 0.12), np.full(count, 4.4))


def _draw_merges(axes: Axes, run: xr.Dataset) -> None:
    draw_tree(axes, run, max_labelled=18)
    axes.set_title("Merge tree")


def _beta(run: xr.Dataset) -> float:
    return flow_of(run).beta


def _caption(runs: list[xr.Dataset]) -> str:
    last = runs[-1]
    return (
        f"{last.sizes['token']} tokens in dimension {last.sizes['coordinate']}. Between merges the energy is the sum "
        "of the squared mass fractions of the clusters, in the limit of large $\\beta$."
    )


def _draw_energy(axes: Axes, run: xr.Dataset) -> None:
    states = states_after_start(run)
    if states.sizes["state"] < 2:
        axes.set_title("Energy")
        write_note(axes, f"energy {float(run.energy[-1]):.4g} from the start")
        return
    axes.plot(states.log_time, states.level, color=theme().grey, linewidth=3.5, alpha=0.35, drawstyle="steps-post")
    axes.plot(states.log_time, states.energy, color=line_colour(0))
    axes.plot([], [], color=theme().grey, linewidth=3.5, alpha=0.35, label="sum of squared mass fractions")
    axes.plot([], [], color=line_colour(0), label="energy")
    axes.set(ylabel="energy, at most one", ylim=(-0.03, 1.06), title="Energy")
    write_times(axes.xaxis)
    fix_ticks(axes)
    legend_below(axes)
