"""Style of all pictures: settings of matplotlib, colours, headings; and writing them to files."""

import os
import textwrap
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.transforms import ScaledTranslation

from attnflow._common.files import require_free_picture, written_beside

DOTS_PER_INCH = 200  # of PNG files

INK = "#262626"
GREY = "#7a7a7a"
PALE = "#d9d9d9"

MATPLOTLIB_SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "axes.unicode_minus": True,
    "grid.color": "#ececec",
    "grid.linewidth": 0.6,
    "figure.facecolor": "white",
    "figure.titlesize": 11,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "savefig.dpi": DOTS_PER_INCH,
    "svg.hashsalt": "attnflow",  # the same picture is the same file
}

# Colours of Okabe and Ito, distinct for all kinds of colour vision; yellow, hard to see on white, is last.
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")


def in_house_style():
    """Context manager and decorator in which matplotlib has the settings of this package; outside nothing changes."""
    return mpl.rc_context(MATPLOTLIB_SETTINGS)


def colours(count: int) -> np.ndarray:
    """`count` different colours, shape (count, 3): those of Okabe and Ito, then hues at multiples of the golden angle.

    Examples
    --------
    >>> len(np.unique(colours(100), axis=0))
    100
    """
    named = np.array([to_rgb(name) for name in OKABE_ITO])
    further = np.arange(max(count - len(named), 0))
    lightness = np.array([0.55, 0.72, 0.63])[further % 3]
    golden_angle = np.pi * (3 - np.sqrt(5))  # its first multiples are far from each other
    cycle = from_oklch(lightness, np.full(len(further), 0.12), 0.5 + golden_angle * further)
    return np.concatenate([named, cycle])[:count]


def from_oklch(lightness: Any, chroma: Any, hue: Any) -> np.ndarray:
    """sRGB values, shape (k, 3), of colours in OKLCH, in which equal steps look equal (Ottosson, 2020)."""
    lab = np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)], axis=-1)
    to_cones = [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.2914855480]]
    to_linear = [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
    linear = np.clip((lab @ np.transpose(to_cones)) ** 3 @ np.transpose(to_linear), 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def weights_colormap() -> LinearSegmentedColormap:
    """Colour map from white to dark blue, of one hue, with evenly decreasing lightness."""
    share = np.linspace(0, 1, 64)
    ramp = from_oklch(1 - 0.72 * share, 0.5 * share * (1.12 - share), np.full(64, 4.5))
    return LinearSegmentedColormap.from_list("attnflow weights", ramp)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, with constrained layout."""
    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.07, wspace=0.05, hspace=0.03)
    return Figure(figsize=(width, height), layout=layout)


def write_heading(figure: Figure, title: str, caption: str, *, beside: float = 0.0, below: float = 0.0) -> None:
    """Write title and caption, wrapped; legends take `beside` inches of the title and `below` of the caption."""
    width = figure.get_figwidth()
    figure.suptitle(_wrapped(title, 10.0 * (width - beside)), x=0.012, ha="left", fontweight="bold")
    figure.supxlabel(_wrapped(caption, 15 * (width - below)), x=0.012, ha="left", fontsize=9, color=GREY)


def _wrapped(text: str, characters: float) -> str:
    return "\n".join(textwrap.fill(line, int(characters)) for line in text.splitlines())


def fix_ticks(axes: Axes) -> None:
    """Set the style of the ticks now: they are made when a figure is drawn, perhaps outside this style."""
    axes.tick_params(labelsize=9, color=GREY, labelcolor=INK)


def legend_below(axes: Axes, columns: int = 1) -> None:
    """Put the legend under the axes, where it covers no data."""
    below = axes.transAxes + ScaledTranslation(0, -0.55, axes.figure.dpi_scale_trans)  # inches: under the label
    axes.legend(loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below, borderaxespad=0, ncols=columns)


def save_figure(figure: Figure, path: str | os.PathLike) -> Path:
    """Write a figure as PNG, PDF or SVG by its suffix, at 200 dots an inch. Returns the path.

    The file is written beside its final name and moved into place when it is complete.

    Raises
    ------
    ValueError
        If the suffix is not a known one, or nothing can be written there.
    """
    path = require_free_picture(path)
    kind = path.suffix.lower()[1:]
    # Without the date the same figure gives the same file.
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with written_beside(path) as beside, in_house_style():
        if kind == "png":
            _write_png(figure, beside)
        else:
            figure.savefig(beside, format=kind, dpi=DOTS_PER_INCH, metadata=undated[kind])
    return path


def _write_png(figure: Figure, path: Path) -> None:
    """Draw a figure into a PNG file. `savefig` would draw it twice, the first time only to place the axes."""
    canvas, dots = figure.canvas, figure.dpi
    try:
        figure.dpi = DOTS_PER_INCH
        FigureCanvasAgg(figure).print_png(path)
    finally:
        figure.dpi = dots
        figure.set_canvas(canvas)


def save_and_return(figure: Figure, path: str | os.PathLike | None) -> Figure:
    """Write a figure if a path is given, and return the figure: the last line of every function that draws one."""
    if path is not None:
        save_figure(figure, path)
    return figure
