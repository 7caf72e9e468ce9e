"""`staircase` and `staircases`: the energy of coalescing runs on logarithmic time."""

import os
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
from attnflow.show.parts.style import (
    GREY,
    OKABE_ITO,
    colours,
    fix_ticks,
    from_oklch,
    in_house_style,
    legend_below,
    new_figure,
    save_and_return,
    write_heading,
)


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
        Instead of the headline, which states the model, the number of merges and the clusters that are left.
    """
    require_coalescing(run)
    figure = new_figure(9.0, 4.5)
    left, right = figure.subplots(1, 2)
    _draw_energy(left, run)
    draw_tree(right, run, max_labelled=18)
    right.set_title("Merge tree")
    write_heading(figure, title or "\n".join(coalescing_parts(flow_of(run), run)), run.attrs["outcome"])
    return save_and_return(figure, path)


@in_house_style()
def staircases(
    results: Sequence[xr.Dataset] | xr.Dataset, path: str | os.PathLike | None = None, title: str | None = None
) -> Figure:
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
        Instead of "Energy of merging clusters".
    """
    runs = sorted(require_several(results), key=_beta)
    figure = new_figure(9.0, 4.4)
    left, right = figure.subplots(1, 2, sharey=True)
    lightness = np.linspace(0.78, 0.35, len(runs))
    shades = from_oklch(lightness, np.full(len(runs), 0.12), np.full(len(runs), 4.4))
    for run, shade in zip(runs, shades if len(runs) > 1 else colours(1), strict=True):
        states, beta = states_after_start(run), _beta(run)
        for axes, unit in ((left, 1.0), (right, beta)):
            axes.plot(states.log_time / unit, states.energy, color=shade, label=f"β = {beta:g}")
    lowest = min(float(states_after_start(run).energy.min()) for run in runs)
    left.set(ylabel="energy, at most one", ylim=(lowest - 0.04, 1.04), title="against time")
    right.set(title="against log t / β", xlabel="log t / β")
    left.set_xlim(-0.03 * max(float(run.log_time[-1]) for run in runs), None)
    right.set_xlim(-0.03 * max(float(run.log_time[-1]) / _beta(run) for run in runs), None)
    write_times(left.xaxis)
    legend_below(left, columns=3)
    for axes in (left, right):
        fix_ticks(axes)
    write_heading(figure, title or "Energy of merging clusters", _caption(runs))
    return save_and_return(figure, path)


def _beta(run: xr.Dataset) -> float:
    return flow_of(run).beta


def _caption(runs: list[xr.Dataset]) -> str:
    last = runs[-1]
    return (
        f"{last.sizes['token']} tokens in dimension {last.sizes['coordinate']}. Between merges the energy is the sum "
        "of the squared mass fractions of the clusters, in the limit of large β."
    )


def _draw_energy(axes: Axes, run: xr.Dataset) -> None:
    states = states_after_start(run)
    if states.sizes["state"] < 2:
        axes.set_title("Energy")
        write_note(axes, f"energy {float(run.energy[-1]):.4g} from the start")
        return
    axes.plot(states.log_time, states.level, color=GREY, linewidth=3.5, alpha=0.35, drawstyle="steps-post")
    axes.plot(states.log_time, states.energy, color=OKABE_ITO[0])
    axes.plot([], [], color=GREY, linewidth=3.5, alpha=0.35, label="sum of squared mass fractions")
    axes.plot([], [], color=OKABE_ITO[0], label="energy")
    axes.set(ylabel="energy, at most one", ylim=(-0.03, 1.06), title="Energy")
    write_times(axes.xaxis)
    fix_ticks(axes)
    legend_below(axes)
