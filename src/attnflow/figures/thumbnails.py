"""Thumbnails of figures: one whole panel of the picture."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

THUMBNAIL = (400, 300)  # pixels: about twice the size at which it is shown, for screens of high resolution


def panel_box(figure: Any) -> list[float]:
    """Left, upper, right and lower edge of the last panel of the first row, with its labels, as shares of the picture.

    In the figures of this package later times are further right.
    """
    renderer = FigureCanvasAgg(figure).get_renderer()
    size = np.array([figure.bbox.width, figure.bbox.height] * 2)
    panels = [axes for axes in figure.axes if axes.get_subplotspec() is not None and axes.get_label() != "<colorbar>"]
    boxes = [np.array(axes.get_tightbbox(renderer).extents) / size for axes in panels]
    heights = [axes.get_position().y1 for axes in panels]
    first_row = [box for box, height in zip(boxes, heights, strict=True) if height > max(heights) - 0.1]
    left, lower, right, upper = np.clip(max(first_row, key=lambda box: box[0]), 0, 1)
    return [float(edge) for edge in (left, 1 - upper, right, 1 - lower)]


def thumbnail(path: Path, panel: list[float]) -> bytes:
    """PNG of one panel of a picture, scaled to fit on white; without a panel, of the whole picture."""
    with Image.open(path) as picture:
        edges = np.array(panel or [0, 0, 1, 1]) * np.array([picture.width, picture.height] * 2)
        part = picture.convert("RGB").crop(tuple(edges.round().astype(int).tolist()))
    part.thumbnail(THUMBNAIL, Image.Resampling.LANCZOS)
    small = Image.new("RGB", THUMBNAIL, "white")
    small.paste(part, ((THUMBNAIL[0] - part.width) // 2, (THUMBNAIL[1] - part.height) // 2))
    content = io.BytesIO()
    small.quantize(64).save(content, "PNG", optimize=True)
    return content.getvalue()
