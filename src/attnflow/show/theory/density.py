"""`density` and `branches`: the law of infinitely many tokens over time, and its stationary states on the circle."""

import os
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from attnflow._common.checks import InputError
from attnflow.results.provenance import ResultKind, kind_of
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.page import theme
from attnflow.show.parts.picture import HEADLINE, FunctionPanel, Picture, Title
from attnflow.show.parts.style import fix_ticks, legend_below, line_colour
from attnflow.show.parts.symbols import BETA, typeset
from attnflow.show.runs.moments import saved_places
from attnflow.show.theory.density_panels import ON_MAPS, curves_panel, domain_of, heading_of, image_panel, map_panel

LARGEST_RATIO = 2.0  # of kappa to that of the bifurcation; beyond it nothing but alignment follows
CURVES = 4  # densities drawn as curves unless `times` says which


@draws
def density(
    run: xr.Dataset,
    path: str | os.PathLike | None = None,
    *,
    times: Any = None,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw a result of `mean_field.evolve`.

    On the circle, on the line and for zonal laws the density is drawn over time and place on the left, and at single
    times on the right; on S^2 (in the equal-area map of Mollweide) and in the plane as a map at single times.

    Parameters
    ----------
    run
        A dataset made by `mean_field.evolve`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    times
        Times of the curves or maps; the nearest saved times are drawn. None: four from the first to the last.
    title
        Instead of the headline; None: no title and no caption.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(4.0), noise=af.Noise(20.0))
    >>> law = af.mean_field.evolve(flow, af.mean_field.uniform(3, 0.1), np.linspace(0, 2, 5))
    >>> [line.get_label() for line in density(law, times=[0, 2]).axes[2].get_lines()]
    ['$t$ = 0', '$t$ = 2']
    """
    if kind_of(run) is not ResultKind.DENSITY:
        raise InputError("`run` must be a dataset made by `mean_field.evolve`.")
    saved = run.time.values
    chosen = np.linspace(saved[0], saved[-1], CURVES) if times is None else times
    places = sorted(set(saved_places(chosen, saved)))
    title, caption = heading_of(run), typeset(run.attrs["outcome"])
    if domain_of(run) in ON_MAPS:
        height = 2.3 if domain_of(run) == "sphere" else 2.8
        per_row = 2 if domain_of(run) == "sphere" else 4
        rows = [places[index : index + per_row] for index in range(0, len(places), per_row)]
        return Picture([PanelRow([map_panel(run, index) for index in row], height) for row in rows], title, caption)
    return Picture([PanelRow([image_panel(run), curves_panel(run, places)], 3.4)], title, caption)


@draws
def branches(
    states: xr.Dataset | Sequence[xr.Dataset],
    path: str | os.PathLike | None = None,
    *,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw the order of stationary laws against kappa: solid where they are stable, dashed where not.

    Parameters
    ----------
    states
        One or several datasets made by `mean_field.branch`.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of the headline; None: no title and no caption.

    Examples
    --------
    >>> import attnflow as af
    >>> figure = branches([af.mean_field.branch(af.Unnormalised(beta), states=20) for beta in (1.0, 4.0)])
    >>> figure.axes[0].get_xlabel()
    '$\\\\kappa\\\\,/\\\\,\\\\kappa_1$'
    """
    every = [states] if isinstance(states, xr.Dataset) else list(states)
    if not every or not all("is_stable" in one for one in every):
        raise InputError("`states` must be one or several datasets made by `mean_field.branch`.")
    caption = (
        "Solid: stable. Dashed: unstable. The uniform law has order 0 and is unstable above $\\kappa_1$, the $\\kappa$ "
        "of the bifurcation; a branch that turns back allows two laws below it."
    )
    panel = FunctionPanel(lambda axes: _draw_branches(axes, every))
    return Picture([PanelRow([panel], 4.2)], "Stationary laws of noisy attention on the circle", caption, width=5.2)


def _name(states: xr.Dataset) -> str:
    """Attention rule, beta, and the mode if it is not the first."""
    mode = int(states.attrs["bifurcating_mode"])
    return f"{states.attrs['attention']}, {BETA} = {states.attrs['beta']:g}" + (f", mode {mode}" if mode > 1 else "")


def _draw_branches(axes: Axes, every: Sequence[xr.Dataset]) -> None:
    for index, states in enumerate(every):
        ratio, order, stable = (
            states.kappa.values / float(states.kappa[0]),
            states.order.values,
            states.is_stable.values,
        )
        largest = np.abs(states.moments.values[:, int(states.attrs["bifurcating_mode"]) - 1])
        order = order if int(states.attrs["bifurcating_mode"]) == 1 else largest
        colour = line_colour(index)
        # The dashed curve goes on to the next stable state, so that no gap is left between the two.
        is_dashed = ~stable | np.append(False, ~stable[:-1])
        axes.plot(ratio, np.where(stable, order, np.nan), color=colour, label=_name(states))
        axes.plot(ratio, np.where(is_dashed, order, np.nan), color=colour, linestyle="--")
    least = min(float(states.kappa.min() / states.kappa[0]) for states in every)
    low, high = min(0.85, least - 0.05), min(LARGEST_RATIO, axes.get_xlim()[1])
    axes.plot([low, 1], [0, 0], color=theme().grey, zorder=2)
    axes.plot([1, high], [0, 0], color=theme().grey, linestyle="--", zorder=2)
    axes.set(xlim=(low, high), ylim=(-0.02, 1.02), xlabel="$\\kappa\\,/\\,\\kappa_1$", ylabel="order")
    axes.grid(True)
    fix_ticks(axes)
    legend_below(axes, columns=2)
