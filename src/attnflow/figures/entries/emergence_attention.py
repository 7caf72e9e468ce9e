"""The attention matrix over time in R^d: its distance to Boolean on the line, and its rank in many dimensions."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.analyse import attention_matrices, leaders
from attnflow.figures.entries.scenario_runs import at_times, scenario_run, times_until_end
from attnflow.integrate.evaluate import attention_matrix, attention_over_time
from attnflow.integrate.simulate import simulate
from attnflow.model.flows import EuclideanAttention
from attnflow.model.heads import Head
from attnflow.model.initial import box
from attnflow.show.parts.matrix import Matrix, colour_scale
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.solvers.adaptive import Adaptive

BOOLEAN_WEIGHT = 0.99  # a row with this much of its weight on one token counts as Boolean in titles


# -- The line: distance to Boolean -------------------------------------------------------------------------------------


def compute_boolean(progress: Progress, moments: list[float], **settings: Any) -> xr.Dataset:
    """Tokens of the line from left to right, P over time, and log(1 - P) of the last token's weight on itself.

    `moments` are the times at which P is drawn.
    """
    run = scenario_run(progress, **settings)
    run = run.isel(token=np.argsort(run.initial_tokens.values[:, 0]))
    weights = attention_over_time(run)
    scores = np.exp(2 * run.time.values[:, None, None]) * np.einsum("tid,tjd->tij", run.tokens, run.tokens)
    missing = attention_matrices.log_of_missing_weight(scores)[:, -1, -1]
    drawn = sorted({float(run.time.sel(time=moment, method="nearest")) for moment in moments})
    return run.assign(attention=weights, log_missing=("time", missing)).assign_coords(moment=drawn)


def draw_boolean(run: xr.Dataset) -> Picture:
    """Draw P at several times with its columns above 1/2; below, positions and the distance of P to Boolean."""
    chosen = at_times(run, run.moment.values.tolist())
    scale = colour_scale(np.stack([one.attention for one in chosen[1:]]))
    matrices = [
        Matrix(
            one.attention.values,
            f"t = {float(one.time):.3g}",
            leaders.attended(one.attention.values, 0.5).tolist(),
            scale,
            has_bar=one is chosen[-1],
        )
        for one in chosen
    ]
    below = [_positions(run), _distance_to_boolean(run), _double_logarithm(run)]
    caption = "Tokens are numbered from left to right. Triangles: tokens that get over half of a token's attention."
    return panel_picture([matrices, below], boolean_title(run), caption, width=2.5, heights=[2.6, 3.1], least=1.6)


def boolean_title(run: xr.Dataset) -> str:
    """Title with the number of rows that are Boolean at the first and at the last time."""
    rows = [int(np.sum(run.attention.values[place].max(axis=1) > BOOLEAN_WEIGHT)) for place in (0, -1)]
    n, end = run.sizes["token"], float(run.time[-1])
    return (
        f"Attention of {n} tokens on the line: {rows[0]} of {n} rows have {BOOLEAN_WEIGHT:g} of their weight on one "
        f"token at t = 0, {rows[1]} at t = {end:g}"
    )


def boolean_numbers(run: xr.Dataset) -> dict[str, float | int | str]:
    """The leaders, the distance of P to Boolean and its ranks, and the slope of log(-log(1 - P))."""
    growth = _growth(run)
    final = run.attention[-1].values
    extremes = leaders.extremes(run.initial_tokens).values
    columns = leaders.attended(final, 0.5)
    return {
        "leaders": ", ".join(str(column) for column in columns),
        "leaders are the first and last of the start": "yes" if set(columns) <= set(extremes.tolist()) else "no",
        "distance of P to Boolean at the end": float(attention_matrices.distance_to_boolean(final)),
        "rank of P at the start": int(attention_matrices.rank(run.attention[0])),
        "rank of P at the end": int(attention_matrices.rank(final)),
        "slope of log(-log(1 - P)), 1 in theory": growth.slope,
        "its 95 % interval": f"{growth.low:.4f} to {growth.high:.4f}",
    }


def _positions(run: xr.Dataset) -> Lines:
    is_upper = run.tokens[-1, :, 0].values > 0
    lines = [
        Line(
            run.time,
            run.tokens[:, token, 0],
            colour=line_colour(0) if is_upper[token] else line_colour(1),
            width=0.8,
            alpha=0.7,
        )
        for token in range(run.sizes["token"])
    ]
    return Lines(lines, ylabel="z", title="Tokens")


def _distance_to_boolean(run: xr.Dataset) -> Lines:
    distance = attention_matrices.distance_to_boolean(run.attention.values)
    lines = [Line(run.time, np.where(distance > 0, distance, np.nan), colour=line_colour(0))]
    return Lines(lines, ylabel="largest entry", title="Distance of P to Boolean", yscale="log", ylim=(1e-30, 2))


def _double_logarithm(run: xr.Dataset) -> Lines:
    growth = _growth(run)
    with np.errstate(divide="ignore"):
        heights = np.log(-run.log_missing.values)
    line = np.log(growth.constant) + growth.slope * run.time.values
    lines = [
        Line(run.time, heights, "last token's weight on itself", line_colour(0)),
        Line(run.time, line, f"fit, slope {growth.slope:.3f}; in theory 1", theme().grey, "--"),
    ]
    return Lines(lines, ylabel="log(−log(1 − P))", title="Rate of the limit")


def _growth(run: xr.Dataset) -> attention_matrices.Growth:
    """Fit of log(-log(1 - P)) over the last 45 % of the time."""
    late = run.where(run.time > 0.55 * run.time[-1], drop=True)
    return attention_matrices.doubly_exponential_rate(late.time.values, late.log_missing.values)


# -- Many dimensions: the rank of P ------------------------------------------------------------------------------------


def compute_rank(progress: Progress, *, n: int, d: int, end: float, saves: int, seed: int) -> xr.Dataset:
    """P over time of the flow with attention, and of the flow x' = V x from the same start."""
    rng = np.random.default_rng(seed)
    factor = rng.uniform(-1, 1, (d, d))
    value = factor @ factor.T / np.linalg.norm(factor, 2) ** 2
    flow, tokens = EuclideanAttention(Head.bilinear(np.eye(d), value)), box(n, d, -1, 1, rng=rng)
    times = np.linspace(0, end, saves)
    run = simulate(flow, tokens, times, solver=Adaptive(rtol=1e-6, atol=1e-9), rng=seed, progress=progress)
    eigenvalues, vectors = np.linalg.eigh(value)
    free = np.einsum("nk,tk,dk->tnd", tokens @ vectors, np.exp(np.outer(times, eigenvalues)), vectors)
    dims = ("time", "token", "attended")
    without = np.stack([attention_matrix(flow, snapshot) for snapshot in free])
    return run.assign(attention=attention_over_time(run), attention_free=(dims, without))


def draw_rank(run: xr.Dataset) -> Picture:
    """Draw P of both flows at four times, and its rank over time."""
    chosen = at_times(run, times_until_end(run, [0.0, 4.0, 7.0]))
    scale = colour_scale(np.stack([one.attention for one in chosen]))
    rows = [
        [Matrix(one[name].values, _rank_title(one, name, flow), (), scale) for one in chosen]
        for name, flow in (("attention", "attention"), ("attention_free", "x' = V x"))
    ]
    ranks = [
        Line(run.time, attention_matrices.rank(run.attention), "with attention", line_colour(0)),
        Line(run.time, attention_matrices.rank(run.attention_free), "x' = V x, without", line_colour(1), "--"),
    ]
    panel = Lines(ranks, ylabel="rank of P", title="Rank over time", ylim=(0, None), columns=2)
    return panel_picture([*rows, [panel]], rank_title(run), "", width=2.7, heights=[2.8, 2.8, 3.0], least=1.9)


def rank_title(run: xr.Dataset) -> str:
    """Title with the rank of P at the first and at the last time."""
    first, last = (int(rank) for rank in attention_matrices.rank(run.attention[[0, -1]]))
    return (
        f"Attention matrix of {run.sizes['token']} tokens in dimension {run.sizes['coordinate']}: rank {first} at "
        f"t = 0, {last} at t = {float(run.time[-1]):g}"
    )


def rank_numbers(run: xr.Dataset) -> dict[str, float | int | str]:
    """Rank of P at the start and at the end of both flows."""
    ranks = attention_matrices.rank(run.attention)
    free = attention_matrices.rank(run.attention_free)
    return {
        "rank of P at the start": int(ranks[0]),
        "rank of P at the end": int(ranks[-1]),
        "rank of P at the end of x' = V x": int(free[-1]),
        "largest difference of the two ranks": int(np.abs(ranks - free).max()),
    }


def _rank_title(one: xr.Dataset, name: str, flow: str) -> str:
    return f"{flow}\nt = {float(one.time):.3g}: rank {int(attention_matrices.rank(one[name]))}"
