"""The page that a picture is drawn for: its size, the size of its text, its fonts and its colours."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import Colormap, LinearSegmentedColormap, ListedColormap, to_rgb

from attnflow._common.checks import InputError, require_known

HOUSE_TEXT = 10.0  # points, at the natural size of a picture, to be seen on a screen
SIZES: dict[str, tuple[float, float | None, float]] = {
    # Width and height in inches (None: as the panels need) and text in points.
    "column": (3.4, None, 9.0),  # one column of a paper of two
    "page": (7.0, None, 9.0),  # the text width of a page
    "slide": (13.33, 7.5, 17.0),  # 16:9
}
STYLES: dict[str, str | None] = {"paper": "page", "slides": "slide", "dark": None}  # with the size of each


@dataclass(frozen=True)
class Theme:
    """Colours of everything that is no data, and the colours of lines in their order."""

    ink: str
    grey: str
    pale: str
    """Lines that should hardly be seen."""
    grid: str
    paper: str
    """Background."""
    tint: str
    """Faint fill, such as that of a globe."""
    cycle: tuple[str, ...]


# Colours of Okabe and Ito, distinct for all kinds of colour vision; yellow, hard to see on white, is last.
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
LIGHT = Theme("#262626", "#7a7a7a", "#d9d9d9", "#ececec", "#ffffff", "#f5f7fa", OKABE_ITO)
# The same hues, lighter, for a dark page.
ON_DARK = ("#56B4E9", "#FF8A3D", "#2FCB9A", "#E79BC6", "#F5B942", "#A6D8FF", "#F2F2F2", "#F0E442")
DARK = Theme("#ececec", "#a3a8b0", "#4a4f58", "#2c3038", "#15181d", "#1d2128", ON_DARK)


@dataclass(frozen=True)
class Palette:
    """Colours chosen by the user: a list, or a colour map."""

    colormap: Colormap
    is_list: bool
    """Whether it is a list of separate colours, which repeat, instead of a scale."""

    def colours(self, count: int) -> np.ndarray:
        """`count` colours, shape (count, 3): the list in its order, or values evenly spread over the scale."""
        places: Any = np.arange(count) % self.colormap.N if self.is_list else np.linspace(0.05, 0.95, count)
        return self.colormap(places)[:, :3]

    def scale(self) -> Colormap:
        """The colour map; a list is interpolated."""
        if not self.is_list:
            return self.colormap
        return LinearSegmentedColormap.from_list("attnflow palette", self.colours(max(self.colormap.N, 2)))


@dataclass(frozen=True)
class Page:
    """Size, text and colours of a picture."""

    theme: Theme = LIGHT
    width: float | None = None
    """Inches; None: the natural size of the picture."""
    height: float | None = None
    """Inches; None: as high as the panels need."""
    text: float = HOUSE_TEXT
    """Points of the labels; ticks and legends have nine tenths, titles eleven tenths."""
    is_serif: bool = False
    palette: Palette | None = None

    @property
    def scale(self) -> float:
        """Size of the text in units of that at the natural size."""
        return self.text / HOUSE_TEXT

    @property
    def settings(self) -> dict[Any, Any]:
        """Settings of matplotlib."""
        theme, text, scale = self.theme, self.text, self.scale
        fonts = {"font.family": ["STIXGeneral", "DejaVu Sans"], "mathtext.fontset": "stix"}
        return (fonts if self.is_serif else {"font.family": "sans-serif", "mathtext.fontset": "dejavusans"}) | {
            "font.size": text,
            "text.color": theme.ink,
            "axes.edgecolor": theme.grey,
            "axes.facecolor": theme.paper,
            "axes.labelcolor": theme.ink,
            "axes.labelsize": text,
            "axes.linewidth": 0.8 * scale,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlesize": text,
            "axes.unicode_minus": True,
            "grid.color": theme.grid,
            "grid.linewidth": 0.6 * scale,
            "figure.facecolor": theme.paper,
            "figure.titlesize": 1.1 * text,
            "hatch.linewidth": 1.0,
            "legend.fontsize": 0.9 * text,
            "legend.frameon": False,
            "lines.linewidth": 1.4,
            "xtick.color": theme.grey,
            "ytick.color": theme.grey,
            "xtick.labelcolor": theme.ink,
            "ytick.labelcolor": theme.ink,
            "xtick.labelsize": 0.9 * text,
            "ytick.labelsize": 0.9 * text,
            "savefig.dpi": 200,  # of PNG files
            "savefig.facecolor": "auto",
            "svg.hashsalt": "attnflow",  # the same picture is the same file
            # Type 3 fonts, the default, are refused by many publishers.
            "pdf.fonttype": 42,
            "ps.fonttype": 42,
            "svg.fonttype": "none",
        }


_CURRENT: ContextVar[Page] = ContextVar("page")
_NATURAL = Page()


def current_page() -> Page:
    """The page that is drawn on at the moment."""
    return _CURRENT.get(_NATURAL)


def theme() -> Theme:
    """The colours of the page that is drawn on at the moment."""
    return current_page().theme


@contextmanager
def drawing_on(page: Page) -> Iterator[Page]:
    """Context in which pictures are drawn on a page, with its settings of matplotlib; outside nothing changes."""
    token = _CURRENT.set(page)
    try:
        with mpl.rc_context(page.settings):
            yield page
    finally:
        _CURRENT.reset(token)


def page_of(size: Any, style: str | None, palette: Any) -> Page:
    """The page of a size and a style; a size chooses its style where none is given, and a style its size.

    Examples
    --------
    >>> page_of("column", None, None).width, page_of(None, "slides", None).text
    (3.4, 17.0)
    """
    if style is not None:
        require_known(style, STYLES, "style")
    size = STYLES[style] if size is None and style is not None else size
    width, height, text = (None, None, HOUSE_TEXT) if size is None else _measures(size, style)
    is_paper = style == "paper" or (style is None and isinstance(size, str) and size != "slide")
    colours = DARK if style == "dark" else LIGHT
    return Page(colours, width, height, text, is_paper, palette_of(palette))


def palette_of(palette: Any) -> Palette | None:
    """The palette that a user names or lists; None for the colours of the package."""
    if palette is None:
        return None
    if isinstance(palette, str):
        if palette not in mpl.colormaps:
            raise InputError(
                f"`palette` must name a colormap of matplotlib, such as 'viridis', but it is '{palette}'. "
                "List colours to choose them one by one."
            )
        colormap = mpl.colormaps[palette]
        # Maps of matplotlib with few colours, such as tab10, are lists of separate colours.
        return Palette(colormap, is_list=isinstance(colormap, ListedColormap) and colormap.N <= 20)
    try:
        colours = [to_rgb(colour) for colour in palette]
    except (TypeError, ValueError):
        colours = []
    if not colours:
        raise InputError(
            f"`palette` must be the name of a colormap of matplotlib or a list of colours, but it is {palette!r}."
        )
    return Palette(ListedColormap(colours), is_list=True)


def _measures(size: Any, style: str | None) -> tuple[float, float | None, float]:
    """Width, height and text of a named size, or of a width and height in inches."""
    if isinstance(size, str) and not re.search(r"\d", size):
        require_known(size, SIZES, "size")
        return SIZES[size]
    try:
        width, height = (float(side) for side in (size.split("x") if isinstance(size, str) else size))
    except (TypeError, ValueError):
        width = height = np.nan
    if not (1 <= width <= 100 and 1 <= height <= 100):  # inches: beyond this no text can be right
        raise InputError(
            f"`size` must be 'column', 'page', 'slide' or a width and a height of 1 to 100 inches, such as '5x3', but "
            f"it is {size!r}."
        )
    slide, page = SIZES["slide"], SIZES["page"]
    if style == "slides":
        return width, height, max(slide[2] * min(width / slide[0], 1.0), page[2])
    return width, height, page[2] if width <= page[0] else HOUSE_TEXT
