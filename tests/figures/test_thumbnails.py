"""Thumbnails: one whole panel, the last of the first row."""

import io

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from attnflow.figures import thumbnails
from attnflow.show.parts.style import save_figure


def test_a_thumbnail_holds_the_last_panel_of_the_first_row_and_no_other(tmp_path):
    figure = Figure(figsize=(8, 4), layout="constrained")
    for place, colour in enumerate(("red", "lime", "blue", "red", "red", "red")):
        axes = figure.add_subplot(2, 3, place + 1, facecolor=colour)
        axes.set(xlabel="x", title="panel")
    path = save_figure(figure, tmp_path / "panels.png")

    content = thumbnails.thumbnail(path, thumbnails.panel_box(figure))

    with Image.open(io.BytesIO(content)) as opened:
        assert opened.size == thumbnails.THUMBNAIL
        colours = np.asarray(opened.convert("RGB")).reshape(-1, 3)
    share = lambda colour: np.mean(np.abs(colours.astype(int) - colour).max(axis=1) < 30)
    # The fourth panel of six is below the first, the third is blue.
    assert share((0, 0, 255)) > 0.2
    assert share((255, 0, 0)) == 0
    assert share((0, 255, 0)) == 0


def test_a_picture_without_a_known_panel_is_shown_whole(tmp_path):
    figure = Figure(figsize=(4, 1), facecolor="black")
    path = save_figure(figure, tmp_path / "black.png")

    with Image.open(io.BytesIO(thumbnails.thumbnail(path, []))) as opened:
        grey = np.asarray(opened.convert("L"))
    assert abs(np.mean(grey < 128) - 1 / 3) < 0.01  # 400 x 100 pixels of 400 x 300
