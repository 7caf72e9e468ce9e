"""The measure that decides what a run shows: the rate at which tokens meet, the order of noisy tokens, or clusters."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from attnflow._common.plain import evenly_spaced, interval_texts
from attnflow.analyse import order
from attnflow.experiments.centres import renyi_centres
from attnflow.experiments.convergence_rates import SMALLEST_HEIGHT, Meeting, meeting
from attnflow.model import masks
from attnflow.results.provenance import solver_of
from attnflow.show.parts.drawn_run import DrawnRun, one_run, recorded_flow
from attnflow.show.parts.page import current_page, theme
from attnflow.show.parts.style import fix_ticks, line_colour, weights_colormap
from attnflow.show.parts.symbols import TIME_AXIS
from attnflow.show.runs.over_time import continuous_angles, draw_counts, is_logarithmic, set_time_axis
from attnflow.solvers.layers import Layers

MOST_CENTRES = 40  # of a picture: more marks hide the tokens


@dataclass(frozen=True)
class ShownMeasures:
    """What is drawn of a run besides its tokens and attention."""

    meeting: Meeting | None = None
    """The rate at which tokens on the sphere meet, where they do."""
    order: np.ndarray | None = None
    """Length of the mean of the tokens over time, of a run with noise."""
    centres: tuple[int, ...] = ()
    """Renyi centres of the first tokens on the circle."""
    sorted_tokens: np.ndarray | None = None
    """Order of the tokens for attention matrices; None where a mask gives tokens an order."""
    sorted_by: str = "clusters"
    """What that order is one of."""
    first_token: np.ndarray | None = None
    """The place where the first token starts, for causal attention that gathers all tokens in one point."""

    @property
    def note(self) -> str:
        """Sentences for the caption."""
        parts = []
        if self.meeting is not None:
            parts.append("1 − cosine is that of the two tokens farthest apart.")
        if self.meeting is not None and (fit := self.meeting.fit) is not None:
            rate, low, high = interval_texts(fit.rate, fit.low, fit.high)
            parts.append(f"Fitted rate {rate}, 95 % interval {low} to {high}.")
        if self.meeting is not None and self.first_token is not None:
            parts.append("Thin lines: of each token and the start of the first token, later tokens darker.")
        if self.centres:
            parts.append("Black: Rényi centres, which start farther than the Rényi distance from all earlier ones.")
        return " ".join(parts)


def shown_measures(run: xr.Dataset, member: int | None, drawn: DrawnRun) -> ShownMeasures:
    """The measures of one run, by its model and by where its tokens are at the end."""
    flow, one = recorded_flow(run), one_run(run, member)
    if flow is None or not drawn.is_followed or "word" in one.coords:
        return ShownMeasures()
    has_groups = len(drawn.cluster_sizes) > 1 and isinstance(flow.mask, masks.Full)
    in_order = _in_order(drawn) if has_groups else None
    if flow.noise is not None:
        return ShownMeasures(order=order.mean_length(drawn.tokens).values if drawn.is_sphere else None)
    if not drawn.is_sphere:
        return ShownMeasures(sorted_tokens=in_order, sorted_by="positions" if drawn.dimension == 1 else "clusters")
    centres = renyi_centres(flow, drawn.tokens[0]) if drawn.dimension == 2 else []
    meets = len(drawn.cluster_sizes) == 1 and len(drawn.labels) > 1 and len(drawn.times) > 4
    first = one.initial_tokens.values.astype(float)
    solver = solver_of(run)
    layers = solver if isinstance(solver, Layers) else None
    is_led = len(drawn.cluster_sizes) == 1 and isinstance(flow.mask, masks.Causal)
    return ShownMeasures(
        meeting=meeting(flow, first, drawn.times, drawn.tokens, layers=layers) if meets else None,
        first_token=drawn.tokens[0, 0] if is_led else None,
        centres=tuple(centres) if len(centres) <= MOST_CENTRES else (),
        sorted_tokens=in_order,
    )


def _in_order(drawn: DrawnRun) -> np.ndarray:
    """Tokens in the order of their positions on the line, elsewhere of their last clusters, the largest first."""
    if drawn.dimension == 1:
        return np.argsort(drawn.tokens[0, :, 0], kind="stable")  # tokens on the line keep their order
    return np.argsort(drawn.labels, kind="stable")


def draw_measure(axes: Axes, drawn: DrawnRun, shown: ShownMeasures) -> None:
    """Draw the measure over time that decides what the run shows."""
    if shown.order is not None:
        _draw_order(axes, drawn, shown.order)
    elif shown.meeting is not None:
        if shown.first_token is not None:
            _draw_distances_to_first(axes, drawn, shown.first_token)
        _draw_meeting(axes, shown.meeting)
    else:
        draw_counts(axes, drawn)


def _draw_order(axes: Axes, drawn: DrawnRun, lengths: np.ndarray) -> None:
    """Draw the length of the mean, and the mean of that length for as many independent uniform tokens."""
    n = len(drawn.labels)
    axes.plot(drawn.times, lengths, color=theme().ink, linewidth=1.1, label="order")
    # Of n independent uniform tokens the mean has E|m|^2 = 1/n.
    axes.axhline(n**-0.5, color=theme().grey, linestyle=":", linewidth=1.0)
    above: dict[str, Any] = {"xytext": (-2, 3), "textcoords": "offset points", "ha": "right", "color": theme().grey}
    small = 0.9 * current_page().text
    axes.annotate(f"{n} uniform tokens", (1, n**-0.5), xycoords=("axes fraction", "data"), fontsize=small, **above)
    axes.set(ylabel="length of the mean", ylim=(0, 1.04))
    set_time_axis(axes, drawn)


def _draw_meeting(axes: Axes, shown: Meeting) -> None:
    """Draw 1 - cosine over time, with the fitted and the predicted law."""
    heights = np.where(shown.heights > SMALLEST_HEIGHT, shown.heights, np.nan)
    style: dict[str, Any] = {"color": theme().ink, "linewidth": 1.6, "label": "run"}
    dots = {"marker": ".", "markersize": 3.5, "linestyle": "none", "label": "layers"} if shown.is_layered else {}
    axes.plot(shown.times, heights, **(style | dots))
    if shown.fit is not None:
        label = f"fitted {shown.law(shown.fit.rate)}"
        axes.plot(shown.times, shown.values(shown.fit.rate), color=line_colour(1), linestyle="--", label=label)
        if shown.expected is not None:
            label = f"predicted {shown.law(shown.expected)}"
            axes.plot(
                shown.times, shown.values(shown.expected), color=line_colour(0), linestyle=":", lw=2.2, label=label
            )
    axes.set(yscale="log", ylabel="1 − cosine", xlabel=TIME_AXIS, xlim=(shown.times[0], shown.times[-1]))
    if is_logarithmic(shown.times):
        axes.set(xscale="log", xlim=(shown.times[1], shown.times[-1]))
    axes.yaxis.set_major_locator(LogLocator(numticks=6))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.legend(loc="lower left", handlelength=1.8)
    fix_ticks(axes)


def _draw_distances_to_first(axes: Axes, drawn: DrawnRun, place: np.ndarray) -> None:
    """Draw 1 - cosine of each token and the place where the first one starts, later tokens darker."""
    chosen = evenly_spaced(drawn.tokens.shape[1] - 1, MOST_CENTRES) + 1
    for position, token in enumerate(chosen):
        heights = ((drawn.tokens[:, token] - place) ** 2).sum(axis=-1) / 2
        shade = weights_colormap()(0.25 + 0.55 * position / max(len(chosen) - 1, 1))
        axes.plot(drawn.times, np.where(heights > SMALLEST_HEIGHT, heights, np.nan), color=shade, linewidth=0.6)


def mark_first_token(globe: Axes, place: np.ndarray, camera: np.ndarray) -> Line2D:
    """Mark where the first token starts on the globe, and return the handle of a legend."""
    style: dict[str, Any] = {"color": theme().ink, "marker": "D", "linestyle": "none"}
    globe.plot(*(camera @ place)[:2], markersize=8, markeredgecolor=theme().paper, zorder=6, **style)
    return Line2D([], [], markersize=5, label="first token", **style)


def mark_centres(circle: Axes, angles: Axes, drawn: DrawnRun, centres: tuple[int, ...]) -> Line2D:
    """Mark centres on the circle and their paths over time, and return the handle of a legend."""
    chosen = list(centres)
    style = {"color": theme().ink, "s": 26, "linewidths": 0.7, "edgecolors": theme().paper, "marker": "D"}
    circle.scatter(*drawn.tokens[0, chosen].T, zorder=4, **style)
    paths = continuous_angles(drawn.tokens)[:, chosen]
    angles.plot(drawn.times, paths, color=theme().ink, linewidth=0.9, zorder=2.5)
    angles.scatter(np.full(len(chosen), drawn.times[0]), paths[0], zorder=4, clip_on=False, **style)
    return Line2D([], [], color=theme().ink, marker="D", linestyle="none", markersize=5, label="Rényi centre")
