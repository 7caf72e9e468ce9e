"""`HeatMap`: a number over two parameters, with curves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line
from attnflow.show.parts.style import fix_ticks, legend_below, weights_colormap


@dataclass(frozen=True)
class HeatMap:
    """Panel of values over a grid, light to dark, with curves such as those of a theory."""

    x: np.ndarray
    y: np.ndarray
    values: np.ndarray
    """(y, x)."""
    xlabel: str = ""
    ylabel: str = ""
    title: str = ""
    curves: Sequence[Line] = ()
    limits: tuple[float, float] = (0.0, 1.0)
    bar: str = ""
    """Label of the colour bar; empty: no colour bar."""
    xscale: str = "linear"
    yscale: str = "linear"
    projection: str = "rectilinear"

    def draw(self, axes: Axes) -> None:
        """Draw the panel into empty axes."""
        how: dict[str, Any] = {"cmap": weights_colormap(), "vmin": self.limits[0], "vmax": self.limits[1]}
        across, up = (
            cell_edges(centres, scale == "log") for centres, scale in ((self.x, self.xscale), (self.y, self.yscale))
        )
        image = axes.pcolormesh(across, up, self.values, shading="flat", rasterized=True, **how)
        axes.set(xscale=self.xscale, yscale=self.yscale)
        for curve in self.curves:
            style: dict[str, Any] = {
                "color": curve.colour or theme().ink,
                "linestyle": curve.style,
                "linewidth": curve.width,
            }
            axes.plot(curve.x, curve.y, label=curve.label or None, **style)
        axes.set(xlim=across[[0, -1]], ylim=up[[0, -1]], xlabel=self.xlabel, ylabel=self.ylabel)
        axes.set_title(self.title, loc="left")
        for axis, centres, scale in ((axes.xaxis, self.x, self.xscale), (axes.yaxis, self.y, self.yscale)):
            if scale == "log" and centres[-1] <= 1e3 * centres[0]:
                plain_log_ticks(axis)
        # No ticks in the outer halves of the outer cells.
        axes.set_xticks([tick for tick in axes.get_xticks() if self.x[0] <= tick <= self.x[-1]])
        axes.set_yticks([tick for tick in axes.get_yticks() if self.y[0] <= tick <= self.y[-1] * 1.001])
        fix_ticks(axes)
        if any(curve.label for curve in self.curves):
            legend_below(axes)
        if self.bar:
            bar = axes.figure.colorbar(image, ax=axes, aspect=25, pad=0.02)
            bar.set_label(self.bar)
            fix_ticks(bar.ax)


def plain_log_ticks(axis: Axis) -> None:
    """Set ticks at 1, 2, 5, 10, ... as plain numbers, for a logarithmic axis over one or two decades."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def cell_edges(centres: np.ndarray, is_logarithmic: bool = False) -> np.ndarray:
    """Edges of the cells around rising centres, half way between them; the first and last cell are whole.

    Examples
    --------
    >>> cell_edges(np.array([0.0, 1.0, 2.0])).tolist()
    [-0.5, 0.5, 1.5, 2.5]
    >>> cell_edges(np.array([1.0, 4.0]), is_logarithmic=True).round(9).tolist()
    [0.5, 2.0, 8.0]
    """
    if is_logarithmic:
        return np.exp(cell_edges(np.log(centres)))
    if len(centres) == 1:
        return centres[0] + np.array([-0.5, 0.5])
    between = (centres[1:] + centres[:-1]) / 2
    return np.r_[2 * centres[0] - between[0], between, 2 * centres[-1] - between[-1]]
