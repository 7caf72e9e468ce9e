"""The movie of a control: tokens, targets as crosses, and a mark that moves along the bar of pieces."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow.show.parts.animation import MOST_FRAMES, Movie
from attnflow.show.parts.drawn_run import run_to_draw
from attnflow.show.parts.mark_sizes import scale_marks
from attnflow.show.parts.page import current_page, theme
from attnflow.show.parts.picture import Heading, Title
from attnflow.show.parts.style import new_figure, write_heading
from attnflow.show.parts.symbols import TIME_AXIS
from attnflow.show.runs.moments import moment_maker
from attnflow.show.runs.steering import draw_bar, draw_targets, of_all_prompts, piece_edges


def steering_movie(run: xr.Dataset, title: Title) -> Movie:
    """A movie of a run with targets, at times that are evenly spread."""
    one = of_all_prompts(run)
    drawn, targets, edges, page = run_to_draw(one), one.target.values, piece_edges(run), current_page()
    width = page.width or 5.0  # inches
    figure = new_figure(width, page.height or 1.16 * width)
    make = moment_maker(drawn)
    grid = figure.add_gridspec(2, 1, height_ratios=(16, 1))
    axes = figure.add_subplot(grid[0], projection=make(0, "", 0.0).projection)
    bar = figure.add_subplot(grid[1])
    draw_bar(bar, drawn, edges, (0.0, 1.0), bar.transData)
    bar.set(xlim=edges[[0, -1]], ylim=(0, 1), yticks=[], xlabel=TIME_AXIS)
    mark = bar.axvline(edges[0], color=theme().ink, linewidth=2.0)
    if title is not None:
        pieces = len(edges) - 1
        words = f"{len(targets)} tokens to their targets in {pieces} pieces" if isinstance(title, Heading) else title
        write_heading(figure, words, "Crosses: targets. Bar: pieces of the control.")
    moments = np.linspace(edges[0], edges[-1], MOST_FRAMES)

    def show_frame(frame: int) -> None:
        index = int(np.argmin(np.abs(drawn.times - moments[frame])))
        axes.clear()
        make(index, f"$t$ = {drawn.times[index]:.3g}", -55 + 40 * frame / MOST_FRAMES).draw(axes)
        _draw_targets_in(axes, drawn, targets)
        mark.set_xdata([moments[frame]] * 2)
        scale_marks([axes], page.scale)

    return Movie(figure, MOST_FRAMES, show_frame)


def _draw_targets_in(axes: Any, drawn: Any, targets: np.ndarray) -> None:
    """Draw the targets where the coordinates are those of the tokens."""
    if drawn.dimension in (2, 3) and not drawn.is_scaled:
        draw_targets(axes, drawn, targets)
