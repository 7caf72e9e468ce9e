"""Places of the panels of a picture: in rows at the natural size, in more and shorter rows on a narrower page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from attnflow.show.parts.page import Page

OWN_ROWS = 1.28  # factor by which panels must become larger before the rows of a picture are given up
PAPER_HEIGHT = 9.3  # inches of text on a page of a journal: a higher picture has narrower panels
LOW = 2.4  # inches at the natural size: rows that are not higher, such as a table or a few bars, keep their height
NARROW = 1.5  # inches, with text of 10 points: least width of panels in such a picture


@dataclass(frozen=True)
class PanelRow:
    """Panels side by side."""

    panels: Sequence[Any]
    """The panels, each of type `Panel`."""
    height: float
    """The height in inches at the natural size."""
    least: float = 2.3
    """The least width in inches, with text of 10 points: where a panel would be narrower, the row is broken."""
    is_shared: bool = False
    """Whether the panels have the same axes, so that only the outer ones need labels."""
    is_square: bool = False
    """Whether the panels have one scale for both axes, and need as much height as width."""
    widths: Sequence[float] = ()
    """Relative widths while the row is whole; empty: equal."""
    is_high: bool = True
    """Whether panels may need more height than the row has; not those of a table or of a few bars."""

    @property
    def is_text(self) -> bool:
        """Whether it is a panel of text, which stands under the numbers of axes, too."""
        return all(getattr(panel, "is_text", False) for panel in self.panels)


@dataclass(frozen=True)
class Arrangement:
    """The size of a figure, and its lines of panels from top to bottom."""

    width: float
    height: float
    lines: tuple[PanelRow, ...]
    is_natural: bool = False
    """Whether the lines are the rows of the picture."""


@dataclass(frozen=True)
class Extent:
    """Natural size of the panels of a picture, in inches."""

    width: float
    height: float
    around: float = 0.0
    """Height of title, caption and legend on the page at hand."""


def arranged(rows: Sequence[PanelRow], natural: Extent, page: Page) -> Arrangement:
    """The rows broken to the width of a page; panels of a page of fixed height are as large as they can be."""
    if page.width is None:
        return Arrangement(natural.width, natural.height + natural.around, tuple(rows), is_natural=True)
    if page.height is None:
        return _on_paper(rows, natural, page.width, page.scale)
    own = _broken(rows, natural, page.width, page.scale)
    panels = [panel for row in rows for panel in row.panels]
    least, high = 0.8 * max(row.least for row in rows), max(row.height for row in rows)
    best, size = own, OWN_ROWS * _smallest_side(own, natural, page)
    for columns in range(1, min(len(panels), int(page.width / page.scale / least)) + 1):
        merged = PanelRow(panels, high, page.width / page.scale / columns)
        other = _broken([merged], natural, page.width, page.scale)
        if _smallest_side(other, natural, page) > size:
            best, size = other, _smallest_side(other, natural, page)
    return Arrangement(page.width, page.height, best.lines, best.is_natural)


def _on_paper(rows: Sequence[PanelRow], natural: Extent, width: float, scale: float) -> Arrangement:
    """The rows broken to a width; while the picture is higher than a page, the highest row gets narrower panels.

    Equal rows of which any must be broken are broken as one row, so that
    their lines are full.
    """
    found, given = _broken(rows, natural, width, scale), list(rows)
    if len(found.lines) > len(rows):
        given = _joined(rows)
        found = _broken(given, natural, width, scale)
    may_shrink = [len(row.panels) > 1 for row in given]
    while found.height > PAPER_HEIGHT and any(may_shrink):
        heights = [
            sum(line.height for line in _broken([row], natural, width, scale).lines) if may else 0.0
            for row, may in zip(given, may_shrink, strict=True)
        ]
        highest = int(np.argmax(heights))
        given[highest] = replace(given[highest], least=min(NARROW, given[highest].least))
        may_shrink[highest] = False
        found = _broken(given, natural, width, scale)
    return found


def _joined(rows: Sequence[PanelRow]) -> list[PanelRow]:
    """The rows, of which neighbours that differ in their panels only are one."""
    joined = [rows[0]]
    for row in rows[1:]:
        last = joined[-1]
        is_alike = replace(row, panels=()) == replace(last, panels=()) and _projections(row) == _projections(last)
        if is_alike and len(row.panels) > 1:
            joined[-1] = replace(last, panels=[*last.panels, *row.panels])
        else:
            joined.append(row)
    return joined


def _projections(row: PanelRow) -> set[str]:
    return {panel.projection for panel in row.panels}


def _broken(rows: Sequence[PanelRow], natural: Extent, width: float, scale: float) -> Arrangement:
    """Rows broken into lines whose panels are not narrower than `least`, each as high as its width requires."""
    lines = []
    for row in rows:
        fitting = int(np.clip(width / scale / row.least, 1, len(row.panels)))
        count = -(-len(row.panels) // fitting)
        columns = -(-len(row.panels) // count)
        magnified = (width / scale / columns) / (natural.width / len(row.panels))
        height = row.height * scale * float(np.clip(magnified, 0.75, 1.0))
        if row.is_square:
            height = min(0.95 * width / columns, row.height * scale)
        elif row.height > LOW:
            height = min(height, max(0.75 * width / columns, 2.0 * scale))
        for first in range(0, len(row.panels), columns):
            widths = row.widths if count == 1 else ()
            panels = row.panels[first : first + columns]
            lines.append(replace(row, panels=panels, height=height, widths=widths, is_high=row.height > LOW))
    total = sum(line.height for line in lines) + natural.around
    return Arrangement(width, total, tuple(lines), is_natural=len(lines) == len(rows))


def _smallest_side(arrangement: Arrangement, natural: Extent, page: Page) -> float:
    """The smallest side of all panels on a page of fixed height, in inches; heights count 1.3 times."""
    assert page.width is not None
    assert page.height is not None
    total = sum(line.height for line in arrangement.lines)
    room = max(page.height - natural.around, 0.1)
    return min(min(page.width / len(line.panels), 1.3 * room * line.height / total) for line in arrangement.lines)


@dataclass(frozen=True)
class GridPlaces:
    """Places of panels in a figure."""

    panels: list[Any]
    legend: Any
    """Under all panels."""
    outer: Any
    """The grid of the panels, and of the place of the legend below."""
    lines: Any
    """The grid in `outer` that has a row for each line of panels."""
    has_common_columns: bool
    """Whether panels are cells of `lines`, so that all have the same height whatever stands under them."""


def grid_places(figure: Figure, arrangement: Arrangement, strip: float) -> GridPlaces:
    """Places of all panels in a figure, and of a legend under them with a height of `strip` inches.

    Lines of as many panels, and lines of one, share a grid, so that their panels have the same sides.
    """
    heights = [line.height for line in arrangement.lines]
    outer = figure.add_gridspec(2, 1, height_ratios=[sum(heights), max(strip, 1e-6)])
    counts = [max(len(line.panels), _columns_above(arrangement, k)) for k, line in enumerate(arrangement.lines)]
    columns = common_columns(counts) if not any(line.widths for line in arrangement.lines) else None
    grid = outer[0].subgridspec(len(heights), columns or 1, height_ratios=heights)
    places: list[Any] = []
    for index, (line, count) in enumerate(zip(arrangement.lines, counts, strict=True)):
        if columns is not None and count > 1:
            places += [grid[index, column] for column in range(len(line.panels))]
        elif columns is not None and not line.is_text:
            places.append(grid[index, :])
        else:
            inner = grid[index, :].subgridspec(1, count, width_ratios=list(line.widths) or [1.0] * count)
            places += [inner[column] for column in range(len(line.panels))]
    return GridPlaces(places, outer[1], outer, grid, columns is not None)


def common_columns(counts: Sequence[int]) -> int | None:
    """The number of columns of a grid for lines of these numbers of panels; None if they have none in common.

    Examples
    --------
    >>> common_columns([3, 1, 3]), common_columns([1, 1]), common_columns([3, 2])
    (3, 1, None)
    """
    several = set(counts) - {1}
    return None if len(several) > 1 else max(counts)


def _columns_above(arrangement: Arrangement, index: int) -> int:
    """Number of panels in the line above if this line is the shorter rest of the same row, else 0."""
    lines = arrangement.lines
    is_rest = not arrangement.is_natural and index > 0 and lines[index - 1].height == lines[index].height
    return len(lines[index - 1].panels) if is_rest else 0


Placing = Callable[[Any], list[Any]]
"""Function that gives the places of all panels, in their order, within one place of a figure."""
