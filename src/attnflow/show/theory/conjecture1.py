"""`conjecture1`: equilibria of the second token, and the Q^T K for which one away from ±xi is stable."""

import os
from typing import Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.page import theme
from attnflow.show.parts.picture import HEADLINE, FunctionPanel, Picture, Title
from attnflow.show.parts.style import fix_ticks, legend_below, line_colour
from attnflow.show.parts.symbols import BETA, PLUS_MINUS_XI, QUERY_KEY
from attnflow.theorems.studies.conjecture1 import Counterexample, angular_velocity, scan_diagonal


@draws
def conjecture1(
    found: Counterexample,
    scan: xr.DataArray | None = None,
    path: str | os.PathLike | None = None,
    *,
    title: Title = HEADLINE,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw the angular velocity of the second token with its equilibria, and the scan over Q^T K = diag(k1, k2).

    Parameters
    ----------
    found
        The result of `investigate`.
    scan
        The result of `scan_diagonal`; computed with the same V and beta if left out.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of the question that the conjecture answers; None: no title and no caption.

    Examples
    --------
    >>> from attnflow.theorems.studies.conjecture1 import investigate
    >>> figure = conjecture1(investigate(runs=8, end=20.0), size="page")
    >>> len(figure.axes)
    2
    """
    scan = scan_diagonal(eigenvalues=found.eigenvalues, beta=found.beta) if scan is None else scan
    panels = [
        FunctionPanel(lambda axes: _draw_velocity(axes, found)),
        FunctionPanel(lambda axes: _draw_scan(axes, scan, found)),
    ]
    share = f"{100 * found.interior.fraction:.0f} % of {found.interior.total} random starts end at a filled circle"
    caption = rf"$V$ = diag{found.eigenvalues}, {BETA} = {found.beta:g}, first token at $\xi$. {share}."
    question = f"Does the second token end at {PLUS_MINUS_XI}?"
    return Picture([PanelRow(panels, 3.45, widths=(1.25, 1.0))], question, caption)


def _draw_velocity(axes: Axes, found: Counterexample) -> None:
    angles = np.linspace(-np.pi, np.pi, 721)
    axes.axhline(0, color=theme().grey, linewidth=0.8)
    axes.plot(np.degrees(angles), angular_velocity(angles, found), color=line_colour(0))
    for equilibrium in found.equilibria:
        face = line_colour(1) if equilibrium.is_stable else theme().paper
        axes.plot(np.degrees(equilibrium.angle), 0, "o", color=line_colour(1), markerfacecolor=face, markersize=8)
    for angle in (-180, 0, 180):
        axes.plot(angle, 0, "D", color=theme().ink, markersize=6)
    axes.plot([], [], "o", color=line_colour(1), label=f"stable, away from {PLUS_MINUS_XI}")
    axes.plot([], [], "o", color=line_colour(1), markerfacecolor=theme().paper, label="unstable")
    axes.plot([], [], "D", color=theme().ink, label=PLUS_MINUS_XI)
    axes.set(
        xlabel=r"angle $\varphi$ from the first token, in degrees",
        ylabel=r"angular velocity $\dot{\varphi}$",
        xticks=[-180, -90, 0, 90, 180],
        title="Equilibria of the second token",
    )
    legend_below(axes, columns=3)
    fix_ticks(axes)


def _draw_scan(axes: Axes, scan: xr.DataArray, found: Counterexample) -> None:
    first, second = scan.k1.values, scan.k2.values
    colours = ListedColormap([theme().paper, line_colour(1)])
    axes.pcolormesh(first, second, scan.values.T.astype(float), cmap=colours, vmin=0, vmax=1, alpha=0.55)
    axes.axhline(0, color=theme().grey, linewidth=0.6)
    axes.axvline(0, color=theme().grey, linewidth=0.6)
    axes.plot(first, first, color=theme().grey, linewidth=0.8, linestyle=":")
    if np.allclose(found.query_key, np.diag(np.diag(found.query_key))):
        axes.plot(*np.diag(found.query_key), "*", color=theme().ink, markersize=11, label=f"this {QUERY_KEY}")
        legend_below(axes)
    axes.set(
        xlabel="$k_1$",
        ylabel="$k_2$",
        aspect="equal",
        title=f"{QUERY_KEY} = diag($k_1$, $k_2$) with a stable equilibrium",
        xlim=(first.min(), first.max()),
        ylim=(second.min(), second.max()),
    )
    fix_ticks(axes)
