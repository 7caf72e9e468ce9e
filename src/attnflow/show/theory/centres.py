"""`centres`: the tokens near Renyi centres, and how far the centres move, over logarithmic time."""

import os
from typing import Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from attnflow._common.checks import InputError
from attnflow.analyse import renyi
from attnflow.analyse.clusters import angles_between
from attnflow.results.provenance import flow_of
from attnflow.show.parts.drawing import PageOptions, draws
from attnflow.show.parts.drawn_run import one_run
from attnflow.show.parts.layout import PanelRow
from attnflow.show.parts.page import theme
from attnflow.show.parts.picture import HEADLINE, FunctionPanel, Picture, Title
from attnflow.show.parts.style import fix_ticks, legend_below, line_colour
from attnflow.show.parts.symbols import BETA, TIME_AXIS, typeset

MOST_COLOURS = 7  # of strong centres that can be told apart
MOVED_SHARE = 0.1  # of the separation: a centre that has moved farther has left its place
LEAST_ANGLE, LEAST_ANGLE_TEXT = 1e-8, "$10^{-8}$"  # radians: smaller angles are rounding, and not drawn


@draws
def centres(
    run: xr.Dataset,
    path: str | os.PathLike | None = None,
    title: Title = HEADLINE,
    c: float = 4.0,
    *,
    member: int | None = None,
    **page: Unpack[PageOptions],
) -> Picture:
    """Draw the Renyi centres of a causal run: the share of tokens near them, and how far each centre has moved.

    Centres are found in the initial tokens, `c` beta^-1/2 apart. Left: the share of tokens within beta^-1/2 of the
    current position of a centre, and the share of centres that have not moved by more than a tenth of their
    separation. Right: the angle by which each centre has moved, with the time until which Lemma 5.1 of
    arXiv:2411.04990 promises that a strong centre has moved by less than a tenth of c beta^-1/2.

    Parameters
    ----------
    run
        One run on the sphere, such as one made by `stream`, with two positive times or more.
    path
        Where to write the picture: ``.png``, ``.pdf`` or ``.svg``.
    title
        Instead of a sentence with the number of centres; None: no title and no caption.
    c
        Least distance of centres, in units of beta^-1/2.
    member
        Which run of an ensemble; by default the first.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(64.0), af.masks.causal)
    >>> run = af.simulate(flow, af.initial.circle(10, rng=0), np.geomspace(0.01, 10, 20))
    >>> [axes.get_ylabel() for axes in centres(run, size="page").axes]
    ['share', 'angle moved']
    """
    run = one_run(run, member)
    beta = _require_drawable(run)
    first, delta = run.initial_tokens.values, renyi.separation(beta, c)
    weak, strong = renyi.centres(first, delta).values, renyi.strong_centres(first, delta).values
    panels = [
        FunctionPanel(lambda axes: _draw_captured(axes, run, beta, delta)),
        FunctionPanel(lambda axes: _draw_moves(axes, run, beta, c, weak, strong)),
    ]
    counts = f"{weak.sum()} Rényi centres among {len(first)} tokens, {strong.sum()} of them strong"
    apart = rf"{BETA} = {beta:g}, centres more than {c:g} $\beta^{{-1/2}}$ = {delta:.3g} apart."
    caption = f"{apart} {typeset(run.attrs['outcome'])}"
    caption = f"{caption} {_resting(run, strong)}".strip()
    is_named = isinstance(title, str)
    return Picture([PanelRow(panels, 4.25)], counts, f"{counts}. {caption}" if is_named else caption, 9.6)


def _require_drawable(run: xr.Dataset) -> float:
    beta = flow_of(run).beta
    if beta is None or not beta > 0 or "tokens" not in run:
        raise InputError("`run` must be one run with tokens and beta > 0, made by `stream` or `simulate`.")
    if int(np.sum(run.time.values > 0)) < 2:
        raise InputError("`run` must have two positive times or more. Save at `numpy.geomspace(0.01, 1e6, 200)`.")
    return beta


def _draw_captured(axes: Axes, run: xr.Dataset, beta: float, delta: float) -> None:
    later, moved = _later(run)
    for strong, colour, name in ((False, theme().ink, "Rényi"), (True, line_colour(0), "strong")):
        caught = renyi.captured_fraction(run, delta, beta=beta, strong=strong).values[later]
        is_centre = (renyi.strong_centres if strong else renyi.centres)(run.initial_tokens.values, delta).values
        axes.plot(run.time.values[later], caught, color=colour, label=f"tokens near a {name} centre")
        stay = np.mean(moved[:, is_centre] <= MOVED_SHARE * delta, axis=1)
        axes.plot(run.time.values[later], stay, color=colour, linestyle=(0, (4, 2)), label=f"{name} centres in place")
    axes.set(xscale="log", xlabel=TIME_AXIS, ylabel="share", ylim=(-0.03, 1.05), title="Tokens near centres")
    axes.set_xlim(run.time.values[later][0], run.time.values[later][-1])
    legend_below(axes)
    fix_ticks(axes)


def _draw_moves(axes: Axes, run: xr.Dataset, beta: float, c: float, weak: np.ndarray, strong: np.ndarray) -> None:
    later, moved = _later(run)
    times = run.time.values[later]
    drawn, moves = np.where(moved > LEAST_ANGLE, moved, np.nan), np.any(moved > LEAST_ANGLE, axis=0)
    axes.plot(times, drawn[:, weak & ~strong], color=theme().pale, linewidth=1.0)
    allowed, pull = MOVED_SHARE * c / np.sqrt(beta), float(renyi.interaction(c / np.sqrt(beta), beta))
    axes.axhline(allowed, color=theme().grey, linewidth=0.8, linestyle=":")
    # Lemma 5.1: the strong centre that is token number k moves at speed k h(c beta^-1/2) or less.
    promised = allowed / (np.arange(1, len(strong) + 1) * pull)
    resting = np.flatnonzero(strong & ~moves)
    resting = resting[resting > 0]  # the first token never moves
    axes.plot(promised[resting], np.full(len(resting), allowed), "v", markersize=5, color=theme().pale)
    for place, token in enumerate(np.flatnonzero(strong & moves)):
        colour = line_colour(place) if place < MOST_COLOURS else theme().grey
        label = {MOST_COLOURS: "more strong centres"}.get(place, f"token {token + 1}" if place < MOST_COLOURS else None)
        axes.plot(times, drawn[:, token], color=colour, label=label)
        axes.plot([promised[token]], [allowed], marker="v", markersize=5, color=colour)
    if (weak & ~strong & moves).any():
        axes.plot([], [], color=theme().pale, label="Rényi, not strong")
    if not (weak & moves).any():
        text = f"No centre has moved by {LEAST_ANGLE_TEXT}."
        axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", color=theme().grey)
    axes.plot([], [], marker="v", color=theme().grey, linestyle="none", markersize=5, label="stays until then (lemma)")
    axes.set(
        xscale="log", yscale="log", xlabel=TIME_AXIS, ylabel="angle moved", title="Angles by which strong centres move"
    )
    axes.set(xlim=(times[0], times[-1]), ylim=(LEAST_ANGLE, 2 * np.pi))
    legend_below(axes, columns=2)
    fix_ticks(axes)


def _resting(run: xr.Dataset, strong: np.ndarray) -> str:
    """Sentence on the strong centres that have no curve, since they have not moved."""
    resting = np.flatnonzero(strong & ~np.any(_later(run)[1] > LEAST_ANGLE, axis=0)) + 1
    if len(resting) == 0:
        return ""
    names = ", ".join(str(token) for token in resting[:12])
    rest = f" and {len(resting) - 12} more" if len(resting) > 12 else ""
    tokens = "tokens" if len(resting) > 1 else "token"
    return f"Strong centres that have not moved by {LEAST_ANGLE_TEXT}: {tokens} {names}{rest}."


def _later(run: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Positive times (True), and the angle by which each token has moved by each of them."""
    later = run.time.values > 0
    return later, angles_between(run.tokens.values[later], run.initial_tokens.values)
