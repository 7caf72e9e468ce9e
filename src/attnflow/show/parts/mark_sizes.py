"""Sizes of lines and dots that grow with the text of a page."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection, PathCollection
from matplotlib.lines import Line2D


def scale_marks(axes: Sequence[Axes], scale: float, share: float = 1.0) -> None:
    """Scale lines and dots with the text, by `scale`, and the areas of dots also by `share`, that of the panels."""
    for one in axes:
        for line in one.lines:
            _scale_line(line, scale)
        for collection in one.collections:
            _scale_collection(collection, scale, share)
        legend = one.get_legend()
        for handle in legend.legend_handles if legend is not None else ():
            if isinstance(handle, Line2D):
                _scale_line(handle, scale)
            elif isinstance(handle, Collection):
                _scale_collection(handle, scale, 1.0)


def _scale_line(line: Line2D, scale: float) -> None:
    line.set(linewidth=scale * line.get_linewidth(), markersize=scale * line.get_markersize())


def _scale_collection(collection: Collection, scale: float, share: float) -> None:
    collection.set_linewidth((scale * np.atleast_1d(collection.get_linewidth())).tolist())
    if isinstance(collection, PathCollection):
        collection.set_sizes(scale**2 * share * np.asarray(collection.get_sizes()))
