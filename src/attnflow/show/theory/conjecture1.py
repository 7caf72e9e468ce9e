"""`conjecture1`: equilibria of the second token, and the Q^T K for which one away from ±xi is stable."""

import os

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from attnflow.show.parts.style import GREY, INK, OKABE_ITO, in_house_style, new_figure, save_and_return, write_heading
from attnflow.theorems.studies.conjecture1 import Counterexample, angular_velocity, scan_diagonal


@in_house_style()
def conjecture1(
    found: Counterexample, scan: xr.DataArray | None = None, path: str | os.PathLike | None = None
) -> Figure:
    """Draw the angular velocity of the second token with its equilibria, and the scan over Q^T K = diag(k1, k2).

    Parameters
    ----------
    found
        The result of `investigate`.
    scan
        The result of `scan_diagonal`; computed with the same V and beta if left out.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    """
    scan = scan_diagonal(eigenvalues=found.eigenvalues, beta=found.beta) if scan is None else scan
    figure = new_figure(9.0, 4.2)
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
    _draw_velocity(left, found)
    _draw_scan(right, scan, found)
    share = f"{100 * found.interior.fraction:.0f} % of {found.interior.total} random starts end at a filled circle"
    caption = f"V = diag{found.eigenvalues}, beta = {found.beta:g}, first token at xi. {share}."
    write_heading(figure, "Does the second token end at plus or minus xi?", caption)
    return save_and_return(figure, path)


def _draw_velocity(axes: Axes, found: Counterexample) -> None:
    angles = np.linspace(-np.pi, np.pi, 721)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.plot(np.degrees(angles), angular_velocity(angles, found), color=OKABE_ITO[0])
    for equilibrium in found.equilibria:
        face = OKABE_ITO[1] if equilibrium.is_stable else "white"
        axes.plot(np.degrees(equilibrium.angle), 0, "o", color=OKABE_ITO[1], markerfacecolor=face, markersize=8)
    for angle in (-180, 0, 180):
        axes.plot(angle, 0, "D", color=INK, markersize=6)
    axes.plot([], [], "o", color=OKABE_ITO[1], label="stable, away from ±ξ")
    axes.plot([], [], "o", color=OKABE_ITO[1], markerfacecolor="white", label="unstable")
    axes.plot([], [], "D", color=INK, label="±ξ")
    axes.set(
        xlabel="angle φ from the first token, in degrees",
        ylabel="angular velocity φ'",
        xticks=[-180, -90, 0, 90, 180],
        title="Equilibria of the second token",
    )
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, handletextpad=0.3, columnspacing=1.2)


def _draw_scan(axes: Axes, scan: xr.DataArray, found: Counterexample) -> None:
    first, second = scan.k1.values, scan.k2.values
    colours = ListedColormap(["white", OKABE_ITO[1]])
    axes.pcolormesh(first, second, scan.values.T.astype(float), cmap=colours, vmin=0, vmax=1, alpha=0.55)
    axes.axhline(0, color=GREY, linewidth=0.6)
    axes.axvline(0, color=GREY, linewidth=0.6)
    axes.plot(first, first, color=GREY, linewidth=0.8, linestyle=":")
    if np.allclose(found.query_key, np.diag(np.diag(found.query_key))):
        axes.plot(*np.diag(found.query_key), "*", color=INK, markersize=11, label="this Q$^T$K")
        axes.legend(loc="lower right")
    axes.set(
        xlabel="k$_1$",
        ylabel="k$_2$",
        aspect="equal",
        title="Q$^T$K = diag(k$_1$, k$_2$) with a stable equilibrium",
        xlim=(first.min(), first.max()),
        ylim=(second.min(), second.max()),
    )
