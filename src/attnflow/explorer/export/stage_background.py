"""The background of the stage, as in page/background.js: a sphere with its graticule, a circle, or labelled axes."""

from typing import Any

import numpy as np

from attnflow.explorer.export.stage_pen import StagePen

ANGLES = np.linspace(0, 2 * np.pi, 73)
LONGEST_TIP = 1.08  # of an axis, over its extent
LEAST_LENGTH = 90  # pixels of an axis with texts


def draw_background(pen: StagePen, d: int, is_sphere: bool, leading: Any) -> None:
    """Draw what lies below the tokens."""
    if not is_sphere:
        if d == 1:
            _line(pen)
        else:
            _axes(pen, min(d, 3), has_ticks=True, names=d)
        return
    _disc(pen, d >= 3)
    if d == 3:
        _graticule(pen)
    if d > 3:
        _axes(pen, 3, has_ticks=False, names=d)
    if d <= 3 and leading is not None:
        _poles(pen, leading)


def _disc(pen: StagePen, is_ball: bool) -> None:
    around = pen.view.origin + pen.view.scale * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=-1)
    if is_ball:
        pen.polygon(around, pen.theme["card"], 1.0)
    pen.lines([around], pen.theme["rule"], 1.2 if is_ball else 1.4)


def _graticule(pen: StagePen) -> None:
    """Parallels and meridians every 30 degrees, the equator stronger; the far half is fainter."""
    c, s = np.cos(ANGLES), np.sin(ANGLES)
    meridians = [np.stack([c * np.cos(a), s, c * np.sin(a)], -1) for a in np.arange(6) * np.pi / 6]
    parallels = [
        np.stack([np.cos(a) * c, np.full_like(c, np.sin(a)), np.cos(a) * s], -1)
        for a in np.array([-2, -1, 1, 2]) * np.pi / 6
    ]
    equator = [np.stack([c, np.zeros_like(c), s], -1)]
    for is_far, alpha in ((True, 0.25), (False, 0.7)):
        for rings, width in (([*meridians, *parallels], 0.8), (equator, 1.5)):
            halves = [half for ring in rings for half in _half(pen.view.seen(ring), is_far)]
            pen.lines(halves, pen.theme["rule"], width, alpha)


def _half(seen: np.ndarray, is_far: bool) -> list[np.ndarray]:
    """The pieces of a ring on the near or the far half."""
    is_drawn = seen[:, 2] <= 0.02 if is_far else seen[:, 2] >= -0.02
    pieces = np.split(np.arange(len(seen)), np.flatnonzero(np.diff(is_drawn)) + 1)
    return [seen[piece, :2] for piece in pieces if is_drawn[piece[0]] and len(piece) > 1]


def _poles(pen: StagePen, leading: Any) -> None:
    tip = np.zeros(3)
    tip[: len(leading)] = leading
    ends = pen.view.seen(np.stack([tip, -tip]))[:, :2]
    pen.lines([ends], pen.theme["bad"], 1.2, 0.7)
    origin, beyond = np.array(pen.view.origin), 1 + 28 / pen.view.scale
    for end, text in zip(ends, ("ξ", "−ξ"), strict=True):
        x, y = origin + beyond * (end - origin)
        pen.text(text, x, y + 5, pen.theme["bad"], 14)


def _axes(pen: StagePen, count: int, has_ticks: bool, names: int) -> None:
    for k in range(count):
        extent, tip = pen.view.extents[k], np.zeros(3)
        tip[k] = LONGEST_TIP * extent
        to, start = pen.view.seen(np.stack([tip, -tip]))[:, :2]
        pen.lines([np.stack([start, to])], pen.theme["rule"], 1.0)
        length = float(np.hypot(*(to - start)))
        if length < LEAST_LENGTH:
            continue
        _name(pen, pen.axis_name(k, names), to)
        if has_ticks:
            _ticks(pen, k, (to - start) / length)


def _name(pen: StagePen, text: str, at: np.ndarray) -> None:
    away = at - pen.view.origin
    size = float(np.hypot(*away)) or 1.0
    is_beside = abs(away[0]) > 0.3 * size
    align = "center" if not is_beside else "left" if away[0] > 0 else "right"
    x = at[0] + (5 * np.sign(away[0]) if is_beside else 0)
    y = at[1] + (4 if is_beside else 12 * away[1] / size + 4)
    pen.text(text, x, y, pen.theme["grey"], 12, align=align)


def _ticks(pen: StagePen, k: int, along: np.ndarray) -> None:
    tick = nice_below(pen.view.extents[k])
    mark = np.zeros(3)
    mark[k] = tick
    u, v = along
    for side in (-1, 1):
        x, y = pen.view.seen(side * mark)[:2]
        pen.lines([np.array([[x - 4 * v, y + 4 * u], [x + 4 * v, y - 4 * u]])], pen.theme["rule"], 1.0)
    pen.text(f"{tick:g}", x + 15 * abs(v), y + 16 * abs(u) + 4 * abs(v), pen.theme["grey"], 12)


def _line(pen: StagePen) -> None:
    """Tokens on the line are drawn above each other, the first on top, over an axis with zero marked."""
    reach, height, _ = pen.view.extents
    low, tick = -0.86 * height, nice_below(reach)
    for ends in ([[-1.05 * reach, low, 0], [1.05 * reach, low, 0]], [[0, low, 0], [0, 0.8 * height, 0]]):
        pen.lines([pen.view.seen(np.array(ends))[:, :2]], pen.theme["rule"], 1.0)
    for at in (-tick, 0.0, tick):
        x, y = pen.view.seen(np.array([at, low, 0]))[:2]
        pen.lines([np.array([[x, y - 4], [x, y + 4]])], pen.theme["rule"], 1.0)
        pen.text(f"{at:g}".replace("-", "−"), x, y + 18, pen.theme["grey"], 12)


def nice_below(size: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that is not above `size`.

    Examples
    --------
    >>> nice_below(7.3), nice_below(0.3)
    (5.0, 0.2)
    """
    power = 10.0 ** np.floor(np.log10(size or 1.0))
    digit = next((one for one in (5, 2, 1) if one * power <= size), 1)
    return float(f"{digit * power:.0e}")
