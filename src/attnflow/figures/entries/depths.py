"""What happens over time in R^d: attention becomes Boolean and of low rank, coordinates converge or run away."""

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.analyse import attention_matrices, leaders, polytope, rates
from attnflow.figures.entries.runs import followed, moments
from attnflow.integrate.evaluate import attention_matrix, attention_over_time
from attnflow.integrate.simulate import simulate
from attnflow.model.flows import EuclideanAttention
from attnflow.model.heads import Head
from attnflow.model.initial import box
from attnflow.show.parts.matrix import Matrix, colour_scale
from attnflow.show.parts.panels import Line, Lines, panel_figure
from attnflow.show.parts.style import GREY, OKABE_ITO
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.layers import Layers

BLUE, ORANGE = OKABE_ITO[:2]
UNSURE = 3.0  # units of time before the end, in which tokens are as close to their limit as the limit itself is known
RANK_TIMES = (0.0, 4.0, 7.0)


# -- The line: attention becomes Boolean -------------------------------------------------------------------------------


def follow_boolean(progress: Progress, moments: list[float], **settings: Any) -> xr.Dataset:
    """Tokens of the line from left to right, P over time, and log(1 - P) of the last token's own weight.

    `moments` are the times at which P is drawn.
    """
    run = followed(progress, **settings)
    run = run.isel(token=np.argsort(run.initial_tokens.values[:, 0]))
    weights = attention_over_time(run)
    scores = np.exp(2 * run.time.values[:, None, None]) * np.einsum("tid,tjd->tij", run.tokens, run.tokens)
    missing = attention_matrices.log_of_missing_weight(scores)[:, -1, -1]
    return run.assign(attention=weights, log_missing=("time", missing)).assign_coords(moment=moments)


def draw_boolean(run: xr.Dataset) -> Any:
    """Matrices at some moments with the columns that are left, and below how everyone gets there."""
    chosen = moments(run, run.moment.values.tolist())
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
    caption = "Tokens are numbered from left to right. Triangles: tokens that get most of someone's attention."
    title = f"On the line attention becomes Boolean: {run.sizes['token']} tokens follow the first or the last"
    return panel_figure([matrices, below], title, caption, width=2.5, heights=[2.6, 3.1])


def boolean_numbers(run: xr.Dataset) -> dict[str, float | int | str]:
    """Who leads, how Boolean P is, and the slope of the double logarithm."""
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
        Line(run.time, run.tokens[:, token, 0], colour=BLUE if is_upper[token] else ORANGE, width=0.8, alpha=0.7)
        for token in range(run.sizes["token"])
    ]
    return Lines(lines, ylabel="z", title="Tokens")


def _distance_to_boolean(run: xr.Dataset) -> Lines:
    distance = attention_matrices.distance_to_boolean(run.attention.values)
    lines = [Line(run.time, np.where(distance > 0, distance, np.nan), colour=BLUE)]
    return Lines(lines, ylabel="largest entry", title="Distance of P to Boolean", yscale="log", ylim=(1e-30, 2))


def _double_logarithm(run: xr.Dataset) -> Lines:
    growth = _growth(run)
    with np.errstate(divide="ignore"):
        heights = np.log(-run.log_missing.values)
    line = np.log(growth.constant) + growth.slope * run.time.values
    lines = [
        Line(run.time, heights, "last token's weight on itself", BLUE),
        Line(run.time, line, f"line of slope {growth.slope:.3f}", GREY, "--"),
    ]
    return Lines(lines, ylabel="log(−log(1 − P))", title="1 − P ~ exp(−c e$^t$)")


def _growth(run: xr.Dataset) -> attention_matrices.Growth:
    """Over the second half, before float64 ends what it can separate."""
    late = run.where(run.time > 0.55 * run.time[-1], drop=True)
    return attention_matrices.doubly_exponential_rate(late.time.values, late.log_missing.values)


# -- Many dimensions: the rank of P ------------------------------------------------------------------------------------


def follow_rank(progress: Progress, *, n: int, d: int, end: float, saves: int, seed: int) -> xr.Dataset:
    """P over time with attention, and of the flow x' = V x from the same start."""
    rng = np.random.default_rng(seed)
    factor = rng.uniform(-1, 1, (d, d))
    value = factor @ factor.T / np.linalg.norm(factor, 2) ** 2
    flow, tokens = EuclideanAttention(Head.bilinear(np.eye(d), value)), box(n, d, -1, 1, rng=rng)
    times = np.linspace(0, end, saves)
    run = simulate(flow, tokens, times, solver=Adaptive(rtol=1e-6, atol=1e-9), progress=progress)
    eigenvalues, vectors = np.linalg.eigh(value)
    free = np.einsum("nk,tk,dk->tnd", tokens @ vectors, np.exp(np.outer(times, eigenvalues)), vectors)
    dims = ("time", "token", "attended")
    without = np.stack([attention_matrix(flow, snapshot) for snapshot in free])
    return run.assign(attention=attention_over_time(run), attention_free=(dims, without))


def draw_rank(run: xr.Dataset) -> Any:
    """Matrices of both flows at four times, and their ranks."""
    chosen = moments(run, [*RANK_TIMES, float(run.time[-1])])
    scale = colour_scale(np.stack([one.attention for one in chosen]))
    rows = [
        [Matrix(one[name].values, _rank_title(one, name, words), (), scale) for one in chosen]
        for name, words in (("attention", "attention"), ("attention_free", "x' = V x"))
    ]
    ranks = [
        Line(run.time, attention_matrices.rank(run.attention), "with attention", BLUE),
        Line(run.time, attention_matrices.rank(run.attention_free), "x' = V x, without", ORANGE, "--"),
    ]
    panel = Lines(ranks, ylabel="rank of P", title="The rank falls", ylim=(0, None), columns=2)
    n, d = run.sizes["token"], run.sizes["coordinate"]
    title = f"{n} tokens in dimension {d}: the attention matrix loses its rank"
    return panel_figure([*rows, [panel]], title, "", width=2.7, heights=[2.8, 2.8, 3.0])


def rank_numbers(run: xr.Dataset) -> dict[str, float | int | str]:
    """First and last ranks of both flows."""
    ranks = attention_matrices.rank(run.attention)
    free = attention_matrices.rank(run.attention_free)
    return {
        "rank of P at the start": int(ranks[0]),
        "rank of P at the end": int(ranks[-1]),
        "rank of P at the end of x' = V x": int(free[-1]),
        "largest difference of the two ranks": int(np.abs(ranks - free).max()),
    }


def _rank_title(one: xr.Dataset, name: str, words: str) -> str:
    return f"{words}, t = {float(one.time):.3g}: rank {int(attention_matrices.rank(one[name]))}"


# -- Coordinates that converge, and coordinates that run away ----------------------------------------------------------


def follow_coordinates(progress: Progress, *, n: int, d: int, end: float, step: float, seed: int) -> xr.Dataset:
    """Layers x + step P V x under a sparse symmetric V, seen through z = (I + step V)^-k x in its eigenvectors."""
    rng = np.random.default_rng(seed)
    eigenvalues, vectors = sparse_spectrum(d, rng)
    tokens = rng.uniform(-0.5, 0.5, (n, d)) @ vectors
    flow = EuclideanAttention(Head.bilinear(np.eye(d), np.diag(eigenvalues)))
    times = step * np.arange(round(end / step) + 1)
    run = simulate(flow, tokens, times, solver=Layers(step), progress=progress)
    layers = np.arange(len(times))[:, None, None]
    rescaled = run.tokens.copy(data=run.tokens.values / (1 + step * eigenvalues) ** layers)
    return run.assign(rescaled=rescaled, eigenvalue=("coordinate", eigenvalues))


def sparse_spectrum(d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Of a symmetric matrix with a tenth of its entries; eigenvalues within [-1, 1] are sent to +-U(1, 2)."""
    sparse = np.where(rng.random((d, d)) < 0.1, rng.uniform(-1, 1, (d, d)), 0.0)
    eigenvalues, vectors = np.linalg.eigh((sparse + sparse.T) / 2)
    moved = np.where(eigenvalues < 0, -1, 1) * rng.uniform(1, 2, d)
    return np.where(np.abs(eigenvalues) <= 1, moved, eigenvalues), vectors


def draw_coordinates(run: xr.Dataset) -> Any:
    """Spread of every coordinate over time, and at the end against its eigenvalue."""
    spread, eigenvalues = run.rescaled.std("token"), run.eigenvalue.values
    shades = np.where(eigenvalues > 0, BLUE, ORANGE)
    every = [Line(run.time, spread[:, k], colour=shades[k], width=0.7, alpha=0.5) for k in range(len(eigenvalues))]
    every += [Line([], [], "eigenvalue above 0", BLUE), Line([], [], "eigenvalue below 0", ORANGE)]
    mean, final = run.rescaled[-1].mean("token").values, spread[-1].values
    ends = [
        Line(eigenvalues[is_side], final[is_side], colour=shade, style="", marker="o", alpha=0.8)
        for is_side, shade in ((eigenvalues > 0, BLUE), (eigenvalues < 0, ORANGE))
    ]
    order = np.flatnonzero(eigenvalues > 0)
    means = [Line(eigenvalues[order], mean[order], "mean", BLUE, band=None, style="", marker="o")]
    means += [Line([eigenvalues[k]] * 2, mean[k] + final[k] * np.array([-1, 1]), colour=BLUE, width=0.8) for k in order]
    panels = [
        Lines(every, ylabel="standard deviation over tokens", yscale="log", title="Every coordinate of z", columns=1),
        Lines(ends, "eigenvalue of V", "standard deviation", "At the end", yscale="log"),
        Lines(means, "eigenvalue of V", "coordinate", "Those that stay: mean \N{PLUS-MINUS SIGN} deviation"),
    ]
    title = "Coordinates with positive eigenvalues converge, the others run away"
    return panel_figure([panels], title, "", width=3.6, heights=[3.9])


def coordinate_numbers(run: xr.Dataset) -> dict[str, float | int | str]:
    """How many coordinates stay bounded, and the signs of their eigenvalues."""
    stays = np.abs(run.rescaled[-1]).max("token").values < 1
    is_positive = run.eigenvalue.values > 0
    return {
        "coordinates": len(stays),
        "positive eigenvalues": int(is_positive.sum()),
        "coordinates with |z| < 1 at the end": int(stays.sum()),
        "of these, with a positive eigenvalue": int((stays & is_positive).sum()),
    }


# -- V = -I ------------------------------------------------------------------------------------------------------------


def follow_minus(progress: Progress, **settings: Any) -> xr.Dataset:
    """Tokens under V = -I, with the covariance and the distance of P to 1/n over time."""
    run = followed(progress, **settings)
    n = run.sizes["token"]
    centred = run.tokens - run.tokens.mean("token")
    covariance = np.einsum("tni,tnj->tij", centred, centred) / n
    apart = n * np.abs(attention_over_time(run).values - 1 / n).max(axis=(1, 2))
    return run.assign(covariance=(("time", "row", "column"), covariance), apart=("time", apart))


def draw_minus(run: xr.Dataset) -> Any:
    """Sizes, the covariance against 1/(2t), and the weights against 1/n."""
    later = run.isel(time=slice(1, None))
    time, levels = later.time.values, np.linalg.eigvalsh(later.covariance.values)
    norms = np.linalg.norm(later.tokens, axis=-1)
    tokens = [Line(time, norms[:, token], colour=BLUE, width=0.6, alpha=0.4) for token in range(norms.shape[1])]
    tokens += [Line([], [], "tokens", BLUE), Line(time, time**-0.5, "t$^{-1/2}$", GREY, "--")]
    spread = [Line(time, 2 * time * levels[:, k], f"eigenvalue {k + 1} of 2t cov", OKABE_ITO[k]) for k in range(2)]
    weights = [Line(time, later.apart, "n max |P − 1/n|", BLUE), Line(time, 2 / time, "2 / t", GREY, "--")]
    log: dict[str, Any] = {"xscale": "log", "yscale": "log"}
    panels = [
        Lines(tokens, ylabel="|x|", title="Tokens go to 0 slowly", **log),
        Lines(spread, title="2t times the covariance", xscale="log", levels={"1, the limit": 1.0}),
        Lines(weights, title="Attention becomes equal", **log),
    ]
    return panel_figure(
        [panels], "V = −I: all tokens go to zero, but only like t$^{-1/2}$", "", width=3.4, heights=[3.9]
    )


def minus_numbers(run: xr.Dataset) -> dict[str, float | int | str]:
    """The covariance against its limit, and the power at which tokens shrink."""
    late = run.where(run.time > 0.03 * run.time[-1], drop=True)
    size = np.sqrt(np.einsum("tii->t", late.covariance.values))
    levels = 2 * float(run.time[-1]) * np.linalg.eigvalsh(run.covariance[-1].values)
    return {
        "eigenvalues of 2t cov at the end, 1 in theory": ", ".join(f"{level:.4f}" for level in levels),
        "power of t at which tokens shrink, 0.5 in theory": rates.algebraic(late.time.values, size).rate,
        "largest token at the end": float(np.linalg.norm(run.tokens[-1], axis=-1).max()),
        "n max|P - 1/n| at the end": float(run.apart[-1]),
    }


# -- Two time scales ---------------------------------------------------------------------------------------------------


def follow_scales(progress: Progress, **settings: Any) -> xr.Dataset:
    """A polytope run with the hull, how far attention is from hardmax, and how far tokens are from their limits."""
    run = followed(progress, **settings)
    weights = attention_over_time(run)
    corners = polytope.points_of_s(polytope.limit_vertices(run, 1e-4 * float(np.abs(run.initial_tokens).max())))
    return run.assign(
        volume=polytope.volume(run),
        softness=1 - weights.max("attended").median("token"),
        distance=polytope.distance_to_s(run, corners).median("token"),
    )


def draw_scales(run: xr.Dataset) -> Any:
    """First the hull shrinks, then attention is hardmax and tokens run to its vertices like e^-t."""
    left, soft = _above(run.volume - run.volume[-1], 1e-6 * float(run.volume[0])), _above(run.softness, 1e-16)
    late = float(run.time[-1]) / 2
    distance = run.distance.where(run.time < run.time[-1] - UNSURE)
    reference = float(run.distance.sel(time=late, method="nearest")) * np.exp(late - run.time.values)
    panels = [
        Lines(
            [Line(run.time, left / float(run.volume[0]), "volume still to be lost", BLUE)], title="1. The hull shrinks"
        ),
        Lines([Line(run.time, soft, "1 - largest weight, median token", BLUE)], title="2. Attention is hardmax"),
        Lines(
            [
                Line(run.time, distance, "distance to the limit, median token", BLUE),
                Line(run.time, reference, "e$^{-t}$", GREY, "--"),
            ],
            title="3. Tokens run to the vertices",
        ),
    ]
    options = {
        "yscale": "log",
        "xlim": (0, float(run.time[-1])),
        "marked_x": {"hardmax within 0.01": hardmax_time(run)},
    }
    shown = [replace(panel, **options) for panel in panels]
    return panel_figure([shown], "Two time scales: a shrinking hull, then hardmax", "", width=3.4, heights=[3.9])


def scale_numbers(run: xr.Dataset) -> dict[str, float | int | str]:
    """When attention is hardmax, how much of the hull is lost by then, and the rate afterwards."""
    hardmax = hardmax_time(run)
    lost = (run.volume[0] - run.volume) / (run.volume[0] - run.volume[-1])
    late = run.where((run.time > max(hardmax, 4.0)) & (run.time < run.time[-1] - UNSURE), drop=True)
    return {
        "time at which the median token's attention is hardmax within 0.01": hardmax,
        "share of the hull's loss done by then": float(lost.sel(time=hardmax, method="nearest")),
        "rate of approach afterwards, 1 in theory": rates.exponential(late.time.values, late.distance.values).rate,
    }


def hardmax_time(run: xr.Dataset) -> float:
    """The first saved time from which on the median token gives 0.99 of its attention to one."""
    is_soft = run.softness.values > 0.01
    return float(run.time.values[min(np.flatnonzero(is_soft).max(initial=-1) + 1, len(is_soft) - 1)])


def _above(values: xr.DataArray, least: float) -> np.ndarray:
    """Rounding and zero are not drawn on a logarithmic axis."""
    return np.where(values.values > least, values.values, np.nan)
