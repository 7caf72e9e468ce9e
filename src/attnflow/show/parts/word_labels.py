"""Words beside dots, as far as there is room."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from attnflow.show.parts.style import INK

SIZE = 8.0  # points
LETTER = 0.62  # of the size: how wide a letter is
AWAY = 10.0  # from the middle of a dot to that of its word
MOST = 120  # tokens whose words can still be read


def write_words(axes: Axes, points: np.ndarray, words: Sequence[str]) -> None:
    """Write each word above its point, or below it; not where another one stands already. Points are (token, 2)."""
    if len(words) > MOST:
        return
    paper = [withStroke(linewidth=2, foreground="white")]
    for token, rise in _with_room(_on_paper(axes, points), words):
        axes.annotate(
            words[token], points[token], (0, rise), textcoords="offset points", ha="center", va="center",
            fontsize=SIZE, color=INK, path_effects=paper, zorder=5, parse_math=False,
        )  # fmt: skip


def _on_paper(axes: Axes, points: np.ndarray) -> np.ndarray:
    """Points in units of type."""
    axes.apply_aspect()
    figure = axes.get_figure(root=True)
    assert figure is not None  # these are axes of one
    return axes.transData.transform(points) * 72 / figure.dpi


def _with_room(places: np.ndarray, words: Sequence[str]) -> list[tuple[int, float]]:
    """Tokens whose words touch none of an earlier one, and how much higher than the point each stands.

    Examples
    --------
    >>> _with_room(np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [90.0, 0.0]]), ["cat", "cat", "cat", "mat"])
    [(0, 10.0), (1, -10.0), (3, 10.0)]
    """
    found: list[tuple[int, float]] = []
    taken: list[tuple[float, float, float]] = []  # x, y and half the width
    for token, (x, y) in enumerate(places.tolist()):
        half = LETTER * SIZE * len(words[token]) / 2
        for rise in (AWAY, -AWAY):
            if not any(abs(a - x) < half + other and abs(b - y - rise) < SIZE for a, b, other in taken):
                found.append((token, rise))
                taken.append((x, y + rise, half))
                break
    return found
