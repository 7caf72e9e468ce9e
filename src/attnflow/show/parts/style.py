"""Colours, headings and legends of all pictures; and writing pictures to files."""

import io
import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text
from matplotlib.transforms import ScaledTranslation

from attnflow._common.files import require_free_picture, written_beside
from attnflow.show.parts.page import LIGHT, Page, current_page, drawing_on, theme
from attnflow.show.parts.symbols import emphasised, letters_seen, typeset, wrapped

DOTS_PER_INCH = 200  # of PNG files
# Size of text, in units of that of the page, by which lines of a caption are broken: above its 0.9, lest one be cut.
CAPTION_LETTER = 0.94
SANS_LETTER, SERIF_LETTER = 0.56, 0.45  # mean width of a letter in units of the size of its text


def in_house_style():
    """Context manager and decorator in which pictures are drawn at their natural size; outside nothing changes."""
    return drawing_on(Page())


def colours(count: int) -> np.ndarray:
    """`count` different colours, shape (count, 3): those of the page, then hues at multiples of the golden angle.

    Examples
    --------
    >>> len(np.unique(colours(100), axis=0))
    100
    """
    palette = current_page().palette
    if palette is not None:
        return palette.colours(count)
    named = np.array([to_rgb(name) for name in theme().cycle])
    further = np.arange(max(count - len(named), 0))
    lightness = np.array([0.55, 0.72, 0.63])[further % 3]
    golden_angle = np.pi * (3 - np.sqrt(5))  # its first multiples are far from each other
    cycle = from_oklch(lightness, np.full(len(further), 0.12), 0.5 + golden_angle * further)
    return np.concatenate([named, cycle])[:count]


def line_colour(index: int) -> str:
    """The colour of line number `index`, counted from 0; after eight lines colours repeat."""
    return to_hex(colours(len(theme().cycle))[index % len(theme().cycle)])


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


def weights_colormap(*, is_chosen: bool = False) -> Colormap:
    """Colour map from the colour of the page to blue, of one hue, with evenly changing lightness.

    `is_chosen`: the palette of the user instead, in a picture that has no other colours.
    """
    palette = current_page().palette
    if is_chosen and palette is not None:
        return palette.scale()
    share = np.linspace(0, 1, 64)
    if theme() is LIGHT:
        lightness, chroma = 1 - 0.72 * share, 0.5 * share * (1.12 - share)
    else:
        lightness, chroma = 0.21 + 0.67 * share, 0.4 * share * (1.2 - share)
    ramp = from_oklch(lightness, chroma, np.full(64, 4.5))
    return LinearSegmentedColormap.from_list("attnflow weights", ramp)


class PageFigure(Figure):
    """A figure that is saved with the settings of its page, such as embedded fonts, also by `savefig`."""

    def __init__(self, *positional: Any, page: Page | None = None, **named: Any):
        super().__init__(*positional, **named)
        self.page = page or current_page()

    def savefig(self, *positional: Any, **named: Any) -> None:
        """Save the figure as matplotlib does, with the settings of its page."""
        with drawing_on(self.page):
            super().savefig(*positional, **named)

    def _repr_png_(self) -> bytes:
        """The picture that notebooks show for a figure at the end of a cell."""
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi="figure")
        return picture.getvalue()


def new_figure(width: float, height: float) -> PageFigure:
    """An empty figure, in inches, with constrained layout."""
    scale = min(current_page().scale, 1.0)
    layout = ConstrainedLayoutEngine(w_pad=0.08 * scale, h_pad=0.07 * scale, wspace=0.05, hspace=0.03)
    return PageFigure(figsize=(width, height), layout=layout)


def write_heading(
    figure: Figure, title: str, caption: str, *, beside: float = 0.0, below: float = 0.0, lines_under: float = 0.0
) -> None:
    """Write title and caption, wrapped.

    Legends take `beside` inches of the title's width, `below` of the caption's, and `lines_under` the caption.
    """
    width, text = figure.get_figwidth(), current_page().text
    left = 0.1 / width
    heading = emphasised(wrapped(title, letters_in(width - beside, 1.28 * text)))
    figure.suptitle(heading, x=left, ha="left", fontweight="bold")
    note = wrapped(caption, letters_in(width - below, CAPTION_LETTER * text))
    note += "\n" * math.ceil(lines_under) if note else ""
    figure.supxlabel(note, x=left, ha="left", fontsize=0.9 * text, color=theme().grey)


def letters_in(inches: float, points: float) -> float:
    """Number of letters of text of a size that fit into a length."""
    letter = SERIF_LETTER if current_page().is_serif else SANS_LETTER
    return 72 * inches / (letter * points)


def size_in_inches(axes: Axes) -> tuple[float, float]:
    """Width and height of axes before the layout engine moves them."""
    figure = axes.get_figure(root=True)
    assert figure is not None  # axes that are drawn belong to a figure
    box = axes.get_position()
    return box.width * figure.get_figwidth(), box.height * figure.get_figheight()


def typeset_labels(axes: Axes) -> None:
    """Set the mathematics in the headings, names of axes and legend of axes."""
    headings = {axes.get_title(loc=side) for side in ("left", "center", "right")}
    titles = [text for text in axes.get_children() if isinstance(text, Text) and text.get_text() in headings]
    named = [getattr(axes, f"{letter}axis").label for letter in "xyz" if hasattr(axes, f"{letter}axis")]
    legend = axes.get_legend()
    for text in (*titles, *named, *(legend.get_texts() if legend is not None else ())):
        text.set_text(typeset(text.get_text()))


def fix_ticks(axes: Axes) -> None:
    """Set the style of the ticks now: they are made when a figure is drawn, perhaps outside this style."""
    text, scale = current_page().text, current_page().scale
    axes.tick_params(labelsize=0.9 * text, color=theme().grey, labelcolor=theme().ink)
    axes.tick_params(width=0.8 * scale, length=3.5 * scale)


def legend_below(axes: Axes, columns: int = 1, handles: Any = None) -> None:
    """Put the legend under the axes, where it covers no data, in as many of the columns as have room."""
    text = current_page().text
    entries = handles if handles is not None else axes.get_legend_handles_labels()[0]
    inches = size_in_inches(axes)[0]
    longest = max((letters_seen(str(entry.get_label())) for entry in entries), default=1)
    letters = letters_in(inches, 0.9 * text)
    room = letters / (longest + 6)  # six letters for the handle
    # Under the label of the axis, whose height is that of its text and of the ticks.
    below = axes.transAxes + ScaledTranslation(0, -0.055 * text, axes.figure.dpi_scale_trans)
    legend = axes.legend(
        handles=entries, loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below, borderaxespad=0,
        ncols=int(np.clip(room, 1, columns)), fontsize=0.9 * text,
    )  # fmt: skip
    if room < 1:  # a legend wider than its panel would make room for itself beside the panels above
        for entry in legend.get_texts():
            entry.set_text(wrapped(entry.get_text(), letters - 6))


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
    page = figure.page if isinstance(figure, PageFigure) else Page()
    with written_beside(path) as beside, drawing_on(page):
        if kind == "png":
            _write_png(figure, beside)
        else:
            with _errors_of_fonts_only():
                figure.savefig(beside, format=kind, dpi=DOTS_PER_INCH, metadata=undated[kind])
    return path


@contextmanager
def _errors_of_fonts_only() -> Iterator[None]:
    """Context manager in which fontTools reports no warnings, such as one on the date of a font."""
    log = logging.getLogger("fontTools")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _write_png(figure: Figure, path: Path) -> None:
    """Draw a figure into a PNG file. `savefig` would draw it twice, the first time only to place the axes."""
    canvas, dots = figure.canvas, figure.dpi
    try:
        figure.dpi = DOTS_PER_INCH
        FigureCanvasAgg(figure).print_png(path)
    finally:
        figure.dpi = dots
        figure.set_canvas(canvas)
