"""Legends of whole pictures: one for panels that share it, under all panels, or beside the caption."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attnflow.show.parts.mark_sizes import scale_marks
from attnflow.show.parts.page import current_page
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import letters_in
from attnflow.show.parts.symbols import letters_seen

LEGEND_COLUMN = 1.05  # inches, of a short entry in text of 10 points


def common_handles(axes: Sequence[Axes], is_kept: bool) -> list[Any]:
    """Entries of the legends under panels where all of several have the same, which are removed; else none.

    If a legend `is_kept`, it is that of the first panel in the last row that has one, and there are no other entries.
    """
    having = {one: legend for one in axes if (legend := one.get_legend()) is not None}
    handles = [one.get_legend_handles_labels()[0] for one in having]
    if len(having) < 2 or any(_looks(other) != _looks(handles[0]) for other in handles):
        return []
    lowest = min(one.get_position().y0 for one in having)
    last = next(one for one in having if one.get_position().y0 < lowest + 0.01)  # places differ by rounding
    for one, legend in having.items():
        if not (is_kept and one is last):
            legend.remove()
    return [] if is_kept else handles[0]


def _looks(handles: Sequence[Any]) -> list[Any]:
    """Label of every entry, with colour, style and marker of a line."""
    styles = ("label", "color", "linestyle", "marker")
    return [
        [str(getattr(one, f"get_{style}")()) for style in styles] if isinstance(one, Line2D) else one.get_label()
        for one in handles
    ]


def legend_height(axes: Axes) -> float:
    """Height of the legend under axes in inches, 0 without one."""
    legend, figure = axes.get_legend(), axes.get_figure(root=True)
    if legend is None or figure is None:
        return 0.0
    box = legend.get_window_extent()
    return box.height / figure.dpi if box.y1 <= axes.get_window_extent().y0 else 0.0


def legend_in(strip: Axes, handles: list[Any], figure: Figure) -> dict[str, float]:
    """Draw the legend into axes of its own under all panels."""
    text, width = current_page().text, figure.get_figwidth()
    longest = max(letters_seen(str(handle.get_label())) for handle in handles)
    columns = int(np.clip(letters_in(width, 0.9 * text) / (longest + 8), 1, len(handles)))  # 8 letters for a handle
    rows = -(-len(handles) // columns)
    strip.set_axis_off()
    tight: dict[str, float] = {"borderaxespad": 0, "borderpad": 0, "columnspacing": 1.2, "handletextpad": 0.4}
    strip.legend(handles=handles, loc="upper left", ncols=-(-len(handles) // rows), **tight)
    scale_marks([strip], current_page().scale)
    place: Any = strip.get_subplotspec()
    grid = place.get_gridspec()
    heights = list(grid.get_height_ratios())
    needed = rows * text * 1.4 / 72
    if current_page().height is None:
        figure.set_figheight(figure.get_figheight() + needed - heights[-1])
    grid.set_height_ratios([*heights[:-1], needed])
    return {}


def outer_legend(figure: Figure, handles: list[Any], picture: Picture) -> dict[str, float]:
    """Draw the legend beside or under the caption or beside the panels, and return the room that it takes."""
    if picture.is_legend_beside:
        figure.legend(handles=handles, loc="outside right upper")
        return {"beside": 1.5 * LEGEND_COLUMN}
    longest = max(len(str(handle.get_label())) for handle in handles)
    if longest > 14:  # letters: such entries leave no room for a caption
        columns = int(np.clip(picture.width * 11 / (longest + 5), 1, len(handles)))  # 11 letters an inch
        figure.legend(handles=handles, loc="outside lower left", ncols=columns, columnspacing=1.6, handlelength=1.4)
        return {"lines_under": 1.5 * -(-len(handles) // columns)}
    columns = len(handles) if len(handles) <= 4 else -(-len(handles) // 2)
    figure.legend(handles=handles, loc="outside lower right", ncols=columns, columnspacing=1.2, handletextpad=0.4)
    return {"below": LEGEND_COLUMN * columns}
