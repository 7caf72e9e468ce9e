"""Positions, angles, cosines and the number of clusters over time."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, MultipleLocator

from attnflow.show.parts.drawn_run import DrawnRun
from attnflow.show.parts.page import current_page, theme
from attnflow.show.parts.style import fix_ticks, letters_in, size_in_inches, weights_colormap
from attnflow.show.parts.symbols import TIME_AXIS
from attnflow.show.parts.token_artists import draw_tokens, longest_side

LETTERS_OF_A_POWER = 7  # room for a label such as 10^-3 and the space beside it


def draw_positions(axes: Axes, drawn: DrawnRun) -> None:
    """Draw the position on the line."""
    _draw_numbers(axes, drawn, drawn.tokens[..., 0])
    axes.set_ylabel(drawn.coordinate_name(0))


def draw_angles(axes: Axes, drawn: DrawnRun) -> None:
    """Draw the angle on the circle, continuous in time."""
    angles = continuous_angles(drawn.tokens)
    _draw_numbers(axes, drawn, angles)
    axes.yaxis.set_major_locator(MultipleLocator(_angle_step(np.ptp(angles))))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda angle, _: angle_name(angle)))
    axes.set_ylabel("angle")


def draw_cosines(axes: Axes, drawn: DrawnRun) -> None:
    """Draw the distribution of the cosines between distinct tokens; the coordinates if there is one token."""
    if len(drawn.labels) == 1:
        axes.plot(drawn.times, drawn.tokens[:, 0], color=theme().grey, linewidth=0.9)
        axes.set_ylabel("coordinates")
    else:
        _draw_cosine_image(axes, drawn)
    set_time_axis(axes, drawn)


def draw_counts(axes: Axes, drawn: DrawnRun) -> None:
    """Draw the number of clusters, or of parallel lines or planes."""
    times, counts = drawn.cluster_counts()
    if drawn.is_followed:
        axes.plot(times, counts, color=theme().ink, drawstyle="steps-post", label="counts")
    else:
        axes.plot(times, counts, "o", color=theme().ink, clip_on=False, label="counts")
    axes.set(ylabel=drawn.groups_name, ylim=(0, 1.08 * counts.max()))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True, steps=[1, 2, 5, 10]))
    set_time_axis(axes, drawn)


def continuous_angles(tokens: np.ndarray) -> np.ndarray:
    """Angles of tokens (time, token, 2), continuous in time.

    The circle is cut in the widest gap between final tokens, so that a final cluster is drawn in one place.
    """
    angles = np.arctan2(tokens[..., 1], tokens[..., 0])
    final = np.sort(angles[-1])
    gaps = np.diff(final, append=final[0] + 2 * np.pi)
    widest = np.argmax(gaps)
    cut = final[widest] + gaps[widest] / 2 - 2 * np.pi
    angles[-1] = cut + np.mod(angles[-1] - cut, 2 * np.pi)
    angles[-1] -= 2 * np.pi * np.round(angles[-1].mean() / (2 * np.pi))
    return np.unwrap(angles[::-1], axis=0)[::-1]


def angle_name(angle: float) -> str:
    """Text of a multiple of a quarter of pi.

    Examples
    --------
    >>> [angle_name(quarters * np.pi / 4) for quarters in (-4, -1, 0, 2, 6)]
    ['−π', '−π/4', '0', 'π/2', '3π/2']
    """
    quarters = round(4 * angle / np.pi)
    if quarters == 0:
        return "0"
    below = {0: 1, 1: 4, 2: 2, 3: 4}[quarters % 4]
    above = abs(quarters) * below // 4
    sign = "\N{MINUS SIGN}" if quarters < 0 else ""
    return f"{sign}{'' if above == 1 else above}π" + (f"/{below}" if below > 1 else "")


def set_time_axis(axes: Axes, drawn: DrawnRun) -> None:
    """Set the axis of time, logarithmic where the saved times are."""
    times = drawn.times
    if len(times) > 1:
        axes.set_xlim(times[0], times[-1])
    if is_logarithmic(times):
        set_logarithmic_time(axes, _first_move(drawn), times[-1])
    axes.set_xlabel(TIME_AXIS)
    fix_ticks(axes)


def set_logarithmic_time(axes: Axes, first: float, last: float) -> None:
    """Set an axis of time that is linear up to a power of ten below `first`, and logarithmic from there.

    The part from zero is short, so that the power of ten at its end has no label.
    """
    least = int(np.floor(np.log10(first)))
    axes.set_xscale("symlog", linthresh=10.0**least, linscale=0.3)
    powers = np.arange(least + 1, max(int(np.floor(np.log10(last))), least + 1) + 1)
    room = int(letters_in(size_in_inches(axes)[0], current_page().text) / LETTERS_OF_A_POWER)
    every = -(-len(powers) // max(room, 2))
    axes.xaxis.set_major_locator(FixedLocator([0.0, *(10.0 ** powers[(len(powers) - 1) % every :: every])]))


def is_logarithmic(times: np.ndarray) -> bool:
    """Whether half of the times lie in the first twentieth."""
    return len(times) > 4 and bool(np.median(times) - times[0] < 0.05 * (times[-1] - times[0]))


def _first_move(drawn: DrawnRun) -> float:
    """A power of ten close to the time at which a token has moved by 1 % of the largest displacement."""
    distances = np.abs(drawn.tokens - drawn.tokens[0]).max(axis=(1, 2))
    first = drawn.times[np.argmax(distances > 0.01 * distances.max())]
    return float(10.0 ** np.floor(np.log10(max(first, drawn.times[1]))))


def _draw_numbers(axes: Axes, drawn: DrawnRun, values: np.ndarray) -> None:
    """Draw one number a token over time, values of shape (time, token)."""
    times = np.broadcast_to(drawn.times[:, None], values.shape)
    draw_tokens(axes, drawn, np.stack([times, values], axis=-1))
    for dots in axes.collections[-2:]:
        dots.set_clip_on(False)  # the first and last times are the edges of the panel
    set_time_axis(axes, drawn)
    margin = 0.05 * longest_side(values.reshape(-1, 1))
    axes.set_ylim(values.min() - margin, values.max() + margin)


def _draw_cosine_image(axes: Axes, drawn: DrawnRun) -> None:
    chosen = drawn.times_of_interest(120)
    edges = np.linspace(-1, 1, 61)  # of bins of 1/30
    shares = np.stack([_cosine_shares(drawn.tokens[index], edges) for index in chosen], axis=1)
    middles = (edges[1:] + edges[:-1]) / 2
    scale = PowerNorm(0.5, 0, 1)  # the square root of the share, so that rare cosines are seen beside frequent ones
    how = {"shading": "nearest", "cmap": weights_colormap(), "norm": scale, "rasterized": True}
    image = axes.pcolormesh(drawn.times[chosen], middles, shares, **how)
    bar = axes.figure.colorbar(image, ax=axes, ticks=[0, 0.05, 0.25, 0.5, 1], aspect=30, pad=0.01, format="%g")
    bar.set_label("share of pairs")
    fix_ticks(bar.ax)
    axes.set(ylabel="cosine of two tokens", ylim=(-1, 1))


def _cosine_shares(tokens: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Share of pairs in each bin, from at most 300 tokens."""
    tokens = tokens[:: -(-len(tokens) // 300)]
    norms = np.linalg.norm(tokens, axis=-1, keepdims=True)
    units = tokens / np.where(norms > 0, norms, 1)
    cosines = np.clip((units @ units.T)[np.triu_indices(len(units), 1)], -1, 1)
    return np.histogram(cosines, edges)[0] / len(cosines)


def _angle_step(extent: float) -> float:
    """Distance of ticks, a multiple of pi / 4, that gives about six ticks."""
    steps = np.pi * np.array([1 / 4, 1 / 2, 1, 2, 5, 10, 50, 100])
    return float(steps[min(np.searchsorted(steps, extent / 6), len(steps) - 1)])
