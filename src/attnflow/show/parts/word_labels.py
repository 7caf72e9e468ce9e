"""Words beside tokens, where there is room for them."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from attnflow.show.parts.page import current_page, theme

FONT_SIZE = 8.0  # points
LETTER_WIDTH = 0.62 * FONT_SIZE  # points, mean over letters
WORD_OFFSET = 10.0  # points from the centre of a dot to the centre of its word


def write_words(axes: Axes, points: np.ndarray, words: Sequence[str]) -> None:
    """Write each word above its point (token, 2), or below it, unless it would overlap an earlier word.

    Words of more than 120 tokens could not be read and are left out.
    """
    if len(words) > 120:
        return
    outline = [withStroke(linewidth=2, foreground=theme().paper)]
    for token, rise in _words_with_room(_in_typographic_points(axes, points), words):
        axes.annotate(
            words[token], points[token], (0, rise), textcoords="offset points", ha="center", va="center",
            fontsize=0.8 * current_page().text, color=theme().ink, path_effects=outline, zorder=5, parse_math=False,
        )  # fmt: skip


def _in_typographic_points(axes: Axes, points: np.ndarray) -> np.ndarray:
    """Positions on the page, in units of 1/72 inch."""
    axes.apply_aspect()
    figure = axes.get_figure(root=True)
    assert figure is not None  # axes that are drawn belong to a figure
    return axes.transData.transform(points) * 72 / figure.dpi


def _words_with_room(positions: np.ndarray, words: Sequence[str]) -> list[tuple[int, float]]:
    """Tokens whose words overlap no earlier word, and the height of each word above its token.

    Examples
    --------
    >>> positions = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [90.0, 0.0]])
    >>> _words_with_room(positions, ["cat", "cat", "cat", "mat"])
    [(0, 10.0), (1, -10.0), (3, 10.0)]
    """
    written: list[tuple[int, float]] = []
    taken: list[tuple[float, float, float]] = []  # x, y and half the width of each word written
    for token, (x, y) in enumerate(positions.tolist()):
        half = LETTER_WIDTH * len(words[token]) / 2
        for rise in (WORD_OFFSET, -WORD_OFFSET):
            if not any(abs(a - x) < half + other and abs(b - y - rise) < FONT_SIZE for a, b, other in taken):
                written.append((token, rise))
                taken.append((x, y + rise, half))
                break
    return written
