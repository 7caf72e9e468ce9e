"""`density_movie`: the law of infinitely many tokens, one curve or map for each saved time."""

import numpy as np
import xarray as xr

from attnflow.show.parts.animation import MOST_FRAMES, Movie
from attnflow.show.parts.mark_sizes import scale_marks
from attnflow.show.parts.page import current_page
from attnflow.show.parts.picture import Heading, Title
from attnflow.show.parts.style import new_figure, write_heading
from attnflow.show.parts.symbols import typeset
from attnflow.show.theory.density_panels import heading_of, moment_panel


def density_movie(run: xr.Dataset, title: Title) -> Movie:
    """The movie of a dataset made by `mean_field.evolve`."""
    page = current_page()
    width = page.width or 5.0  # inches
    figure = new_figure(width, page.height or 0.8 * width)
    if title is not None:
        shown = heading_of(run) if isinstance(title, Heading) else title
        write_heading(figure, shown, typeset(run.attrs["outcome"]))
    axes = figure.add_subplot()
    count = run.sizes["time"]
    indices = np.unique(np.linspace(0, count - 1, min(MOST_FRAMES, count)).round().astype(int))

    def show_frame(frame: int) -> None:
        for other in figure.axes[1:]:  # colour bars of the frame before
            other.remove()
        axes.clear()
        moment_panel(run, int(indices[frame])).draw(axes)
        scale_marks([axes], page.scale)

    return Movie(figure, len(indices), show_frame)
