"""The quantity that distinguishes the model of a run on the sphere from softmax attention with one head.

It is the attention of each head, the attention that tokens receive where it is doubly stochastic, the energy of a
gradient flow, or the speed that a scheme of layer normalisation gives to tokens.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from attnflow._common.plain import evenly_spaced
from attnflow._common.precision import double
from attnflow.analyse import energy
from attnflow.integrate.evaluate import attention_matrix
from attnflow.model import masks
from attnflow.model.attention import Sinkhorn, Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.model.normalisation import NGPT, Sqrt
from attnflow.show.parts.drawn_run import DrawnRun
from attnflow.show.parts.matrix import draw_matrix
from attnflow.show.parts.page import theme
from attnflow.show.parts.picture import FunctionPanel
from attnflow.show.parts.style import fix_ticks, line_colour
from attnflow.show.runs.over_time import set_time_axis
from attnflow.theorems.hypotheses import query_key_matrix, value_matrix

MOST_TOKENS, MOST_TIMES, MOST_HEADS = 300, 60, 4  # of this panel; attention is computed for all pairs of tokens


def characteristic_panel(
    flow: AbstractDynamics | None, drawn: DrawnRun, first: np.ndarray | None
) -> FunctionPanel | None:
    """Panel of the quantity that distinguishes a model on the sphere; None where there is none to draw.

    `first` is the attention of each head at the start, if it is known.
    """
    if not isinstance(flow, SphereAttention) or not drawn.is_sphere or len(drawn.labels) > MOST_TOKENS:
        return None
    draw = _drawing(flow, drawn, first)
    return None if draw is None else FunctionPanel(draw)


Draw = Callable[[Axes], None]


def _drawing(flow: SphereAttention, drawn: DrawnRun, first: np.ndarray | None) -> Draw | None:
    """Function that draws the panel of a model; None for softmax attention with one head and Post-LN."""
    if first is not None and first.ndim == 3 and len(first) > 1:
        return lambda axes: _draw_heads(axes, first[:MOST_HEADS])
    if flow.perceptron is not None:
        return None
    if isinstance(flow.normalisation, Sqrt | NGPT):
        return lambda axes: _draw_speed(axes, flow, drawn)
    if isinstance(flow.attention, Sinkhorn):
        return lambda axes: _draw_received(axes, flow, drawn)
    beta = flow.beta
    if isinstance(flow.attention, Unnormalised) and beta is not None and _is_gradient_flow(flow):
        return lambda axes: _draw_energy(axes, beta, drawn)
    return None


def _is_gradient_flow(flow: SphereAttention) -> bool:
    """Whether beta > 0, Q^T K = V = I and no mask: the flow ascends the energy E_beta."""
    if (
        len(flow.heads) != 1
        or flow.perceptron is not None
        or not isinstance(flow.mask, masks.Full)
        or not (flow.beta or 0.0) > 0
    ):
        return False
    identity = np.eye(flow.dimension)
    return np.array_equal(query_key_matrix(flow), identity) and np.array_equal(value_matrix(flow), identity)


def _draw_heads(axes: Axes, matrices: np.ndarray) -> None:
    """Draw the attention of up to four heads at the start as tiles, two in a row."""
    count, n, _ = matrices.shape
    rows, gap = -(-count // 2), max(n // 12, 1)
    tiles = np.full((rows * (n + gap) - gap, 2 * n + gap), np.nan)
    for place, matrix in enumerate(matrices):
        top, left = (place // 2) * (n + gap), (place % 2) * (n + gap)
        tiles[top : top + n, left : left + n] = matrix
    largest = float(np.nanmax(matrices))
    draw_matrix(axes, tiles, Normalize(0, largest), f"heads 1 to {count}, start")
    axes.set(xlabel=f"darkest: {largest:.2g}", ylabel="", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _draw_speed(axes: Axes, flow: SphereAttention, drawn: DrawnRun) -> None:
    """Draw 1/s over time, s the slowness of the scheme: its median over tokens and its range, beside Post-LN."""
    chosen = evenly_spaced(len(drawn.times), MOST_TIMES)
    times = drawn.times[chosen]
    speeds = np.array([_speeds(flow, drawn.tokens[index], float(drawn.times[index])) for index in chosen])
    axes.plot(times, np.median(speeds, axis=1), color=theme().ink, linewidth=1.6)
    axes.fill_between(times, speeds.min(axis=1), speeds.max(axis=1), color=theme().ink, alpha=0.15, linewidth=0)
    axes.axhline(1.0, color=line_colour(0), linestyle=":", linewidth=1.4)
    axes.set(title="speed; dotted: Post-LN", ylim=(0, None))
    set_time_axis(axes, drawn)


def _speeds(flow: SphereAttention, tokens: np.ndarray, time: float) -> np.ndarray:
    """1/s of every token, by which the attention output is multiplied."""
    matrices = np.asarray(attention_matrix(flow, tokens, time)).reshape(-1, len(tokens), len(tokens))
    values = [np.asarray(head.at(time).value_matrix) for head in flow.heads]
    output = sum(matrix @ tokens @ value.T for matrix, value in zip(matrices, values, strict=True))
    with double():
        slowness = np.asarray(flow.normalisation.slowness(time, None, np.asarray(output))).ravel()
    return np.broadcast_to(1 / slowness, len(tokens))


def _draw_received(axes: Axes, flow: SphereAttention, drawn: DrawnRun) -> None:
    """Draw the sums of the columns of attention at the start in falling order, beside those of softmax attention."""
    softmax = replace(flow, attention=Softmax(flow.beta or 0.0))
    ranks = np.arange(1, len(drawn.labels) + 1)
    for colour, name, one in ((theme().ink, "Sinkhorn", flow), (line_colour(0), "softmax", softmax)):
        matrix = np.asarray(attention_matrix(one, drawn.tokens[0], float(drawn.times[0])))
        axes.plot(ranks, np.sort(matrix.sum(axis=0))[::-1], color=colour, label=name)
    axes.set(xlabel="tokens, sorted", ylabel="sum of a column", title="attention received")
    axes.margins(y=0.15)
    # In falling order, lines leave the upper right free.
    axes.legend(loc="upper right", handlelength=1.0, borderpad=0, borderaxespad=0, labelspacing=0.2)
    fix_ticks(axes)


def _draw_energy(axes: Axes, beta: float, drawn: DrawnRun) -> None:
    """Draw E_beta over its largest value e^beta / (2 beta), which is that of one cluster."""
    share = energy.interaction(drawn.tokens, beta).values * 2 * beta * np.exp(-beta)
    axes.plot(drawn.times, share, color=theme().ink, linewidth=1.6)
    axes.axhline(1.0, color=theme().grey, linestyle=":", linewidth=1.0)
    axes.set(title=r"energy $E_\beta$ / its maximum", ylim=(min(0.0, float(share.min())), 1.04))
    set_time_axis(axes, drawn)
