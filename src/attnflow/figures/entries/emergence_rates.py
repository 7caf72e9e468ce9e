"""Rates in R^d: coordinates by the sign of their eigenvalue, V = -I, and the two time scales of V = I."""

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.analyse import polytope, rates
from attnflow.figures.entries.scenario_runs import scenario_run
from attnflow.integrate.evaluate import attention_over_time
from attnflow.integrate.simulate import simulate
from attnflow.model.flows import EuclideanAttention
from attnflow.model.heads import Head
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.solvers.layers import Layers

UNRESOLVED_TIME = 3.0  # before the end: the limit is known to the final distance of the tokens, e^-3 of that before


# -- Coordinates that converge, and coordinates that diverge ----------------------------------------------------------


def compute_coordinates(progress: Progress, *, n: int, d: int, end: float, step: float, seed: int) -> xr.Dataset:
    """Layers x + step P V x with a sparse symmetric V: spread of z = (I + step V)^-k x over time, and z at the end.

    Coordinates are along the eigenvectors of V.
    """
    rng = np.random.default_rng(seed)
    eigenvalues, vectors = sparse_spectrum(d, rng)
    tokens = rng.uniform(-0.5, 0.5, (n, d)) @ vectors
    flow = EuclideanAttention(Head.bilinear(np.eye(d), np.diag(eigenvalues)))
    times = step * np.arange(round(end / step) + 1)
    run = simulate(flow, tokens, times, solver=Layers(step), progress=progress)
    layers = np.arange(len(times))[:, None, None]
    rescaled = run.tokens.copy(data=run.tokens.values / (1 + step * eigenvalues) ** layers)
    final = {"initial_tokens": run.initial_tokens, "rescaled": rescaled[-1].drop_vars("time")}
    return xr.Dataset(final | {"spread": rescaled.std("token"), "eigenvalue": ("coordinate", eigenvalues)})


def sparse_spectrum(d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of a random symmetric matrix, a tenth of whose entries differ from zero.

    Eigenvalues in [-1, 1] are replaced by random numbers of the same sign and modulus in [1, 2].
    """
    sparse = np.where(rng.random((d, d)) < 0.1, rng.uniform(-1, 1, (d, d)), 0.0)
    eigenvalues, vectors = np.linalg.eigh((sparse + sparse.T) / 2)
    moved = np.where(eigenvalues < 0, -1, 1) * rng.uniform(1, 2, d)
    return np.where(np.abs(eigenvalues) <= 1, moved, eigenvalues), vectors


def draw_coordinates(run: xr.Dataset) -> Picture:
    """Draw the standard deviation of every coordinate over time, and at the end against its eigenvalue."""
    spread, eigenvalues = run.spread, run.eigenvalue.values
    shades = np.where(eigenvalues > 0, line_colour(0), line_colour(1))
    every = [Line(run.time, spread[:, k], colour=shades[k], width=0.7, alpha=0.5) for k in range(len(eigenvalues))]
    every += [Line([], [], "eigenvalue above 0", line_colour(0)), Line([], [], "eigenvalue below 0", line_colour(1))]
    mean, final = run.rescaled.mean("token").values, spread[-1].values
    ends = [
        Line(eigenvalues[is_side], final[is_side], colour=shade, style="", marker="o", alpha=0.8)
        for is_side, shade in ((eigenvalues > 0, line_colour(0)), (eigenvalues < 0, line_colour(1)))
    ]
    order = np.flatnonzero(eigenvalues > 0)
    means = [Line(eigenvalues[order], mean[order], "mean", line_colour(0), band=None, style="", marker="o")]
    means += [
        Line([eigenvalues[k]] * 2, mean[k] + final[k] * np.array([-1, 1]), colour=line_colour(0), width=0.8)
        for k in order
    ]
    panels = [
        Lines(every, ylabel="standard deviation over tokens", yscale="log", title="Every coordinate of z", columns=1),
        Lines(ends, "eigenvalue of V", "standard deviation", "At the end", yscale="log"),
        Lines(means, "eigenvalue of V", "coordinate", "Eigenvalue above 0: mean \N{PLUS-MINUS SIGN} deviation"),
    ]
    return panel_picture([panels], coordinate_title(run), "", width=3.6, heights=[3.9])


def coordinate_title(run: xr.Dataset) -> str:
    """Title with the number of bounded coordinates among those of positive and of negative eigenvalue."""
    stays, is_positive = _is_bounded(run), run.eigenvalue.values > 0
    counts = [f"{int(stays[one].sum())} of {int(one.sum())}" for one in (is_positive, ~is_positive)]
    return (
        f"|z| < 1 for all tokens at t = {float(run.time[-1]):g}: {counts[0]} coordinates of positive eigenvalue, "
        f"{counts[1]} of negative"
    )


def _is_bounded(run: xr.Dataset) -> np.ndarray:
    return np.abs(run.rescaled).max("token").values < 1


def coordinate_numbers(run: xr.Dataset) -> dict[str, float | int | str]:
    """Number of coordinates that stay bounded, and of positive eigenvalues among them."""
    stays = _is_bounded(run)
    is_positive = run.eigenvalue.values > 0
    return {
        "coordinates": len(stays),
        "positive eigenvalues": int(is_positive.sum()),
        "coordinates with |z| < 1 at the end": int(stays.sum()),
        "of these, with a positive eigenvalue": int((stays & is_positive).sum()),
    }


# -- V = -I ------------------------------------------------------------------------------------------------------------


def compute_minus(progress: Progress, **settings: Any) -> xr.Dataset:
    """Tokens under V = -I, with the covariance and the distance of P to 1/n over time."""
    run = scenario_run(progress, **settings)
    n = run.sizes["token"]
    centred = run.tokens - run.tokens.mean("token")
    covariance = np.einsum("tni,tnj->tij", centred, centred) / n
    apart = n * np.abs(attention_over_time(run).values - 1 / n).max(axis=(1, 2))
    return run.assign(covariance=(("time", "row", "column"), covariance), apart=("time", apart))


def draw_minus(run: xr.Dataset) -> Picture:
    """Draw the norms, the covariance against 1/(2t), and the weights against 1/n."""
    later = run.isel(time=slice(1, None))
    time, levels = later.time.values, np.linalg.eigvalsh(later.covariance.values)
    norms = np.linalg.norm(later.tokens, axis=-1)
    tokens = [
        Line(time, norms[:, token], colour=line_colour(0), width=0.6, alpha=0.4) for token in range(norms.shape[1])
    ]
    tokens += [Line([], [], "tokens", line_colour(0)), Line(time, time**-0.5, "t$^{-1/2}$", theme().grey, "--")]
    spread = [
        Line(time, 2 * time * levels[:, k], f"eigenvalue {k + 1} of 2t cov", line_colour(k))
        for k in range(levels.shape[1])
    ]
    weights = [
        Line(time, later.apart, "n max |P − 1/n|", line_colour(0)),
        Line(time, 2 / time, "2 / t", theme().grey, "--"),
    ]
    log: dict[str, Any] = {"xscale": "log", "yscale": "log"}
    panels = [
        Lines(tokens, ylabel="|x|", title="Norms of the tokens", **log),
        Lines(spread, title="2t times the covariance", xscale="log", levels={"1, the limit": 1.0}),
        Lines(weights, title="Distance of attention from 1/n", **log),
    ]
    return panel_picture([panels], minus_title(run), "", width=3.4, heights=[3.9])


def minus_title(run: xr.Dataset) -> str:
    """Title with the fitted power of t by which tokens shrink."""
    fit = _shrinking(run)
    return (
        f"V = −I: size of the tokens like t$^{{-p}}$ with p = {fit.rate:.3f} (95 % interval {fit.low:.3f} to "
        f"{fit.high:.3f}), 1/2 in theory"
    )


def _shrinking(run: xr.Dataset) -> rates.Fit:
    """Power of t of the root mean square of the tokens around their mean, over the last 97 % of the time."""
    late = run.where(run.time > 0.03 * run.time[-1], drop=True)
    return rates.algebraic(late.time.values, np.sqrt(np.einsum("tii->t", late.covariance.values)))


def minus_numbers(run: xr.Dataset) -> dict[str, float | int | str]:
    """The covariance against its limit, and the exponent at which the tokens shrink."""
    levels = 2 * float(run.time[-1]) * np.linalg.eigvalsh(run.covariance[-1].values)
    shrinking = _shrinking(run)
    return {
        "eigenvalues of 2t cov at the end, 1 in theory": ", ".join(f"{level:.4f}" for level in levels),
        "power of t at which tokens shrink, 0.5 in theory": shrinking.rate,
        "its 95 % interval": f"{shrinking.low:.4f} to {shrinking.high:.4f}",
        "largest token at the end": float(np.linalg.norm(run.tokens[-1], axis=-1).max()),
        "n max|P - 1/n| at the end": float(run.apart[-1]),
    }


# -- Two time scales ---------------------------------------------------------------------------------------------------


def compute_scales(progress: Progress, **settings: Any) -> xr.Dataset:
    """A run with V = I: volume of the hull, distance of attention from hardmax, distance of tokens to their limits."""
    run = scenario_run(progress, **settings)
    weights = attention_over_time(run)
    corners = polytope.points_of_s(polytope.limit_vertices(run, 1e-4 * float(np.abs(run.initial_tokens).max())))
    return run.assign(
        volume=polytope.volume(run),
        softness=1 - weights.max("attended").median("token"),
        distance=polytope.distance_to_s(run, corners).median("token"),
    )


def draw_scales(run: xr.Dataset) -> Picture:
    """Draw the shrinking hull, the approach of attention to hardmax, and that of tokens to vertices, like e^-t."""
    left, soft = _above(run.volume - run.volume[-1], 1e-6 * float(run.volume[0])), _above(run.softness, 1e-16)
    late, hardmax = float(run.time[-1]) / 2, hardmax_time(run)
    distance = run.distance.where(run.time < run.time[-1] - UNRESOLVED_TIME)
    reference = float(run.distance.sel(time=late, method="nearest")) * np.exp(late - run.time.values)
    panels = [
        Lines(
            [Line(run.time, left / float(run.volume[0]), "volume still to be lost", line_colour(0))], title="1. Hull"
        ),
        Lines([Line(run.time, soft, "1 - largest weight, median token", line_colour(0))], title="2. Attention"),
        Lines(
            [
                Line(run.time, distance, "distance to the limit, median token", line_colour(0)),
                Line(run.time, reference, "e$^{-t}$", theme().grey, "--"),
            ],
            title="3. Tokens",
        ),
    ]
    options = {
        "yscale": "log",
        "xlim": (0, float(run.time[-1])),
        "marked_x": {"hardmax within 0.01": hardmax} if np.isfinite(hardmax) else {},
    }
    shown = [replace(panel, **options) for panel in panels]
    return panel_picture([shown], scale_title(run), "", width=3.4, heights=[3.9])


def scale_title(run: xr.Dataset) -> str:
    """Title with the time from which attention is hardmax, and the share of the hull's loss done by then."""
    hardmax = hardmax_time(run)
    if np.isinf(hardmax):
        return f"Attention of the median token is not within 0.01 of hardmax by t = {float(run.time[-1]):g}"
    return (
        f"Attention of the median token is within 0.01 of hardmax from t = {hardmax:.3g}, after "
        f"{100 * _lost_share(run, hardmax):.0f} % of the hull's loss"
    )


def _lost_share(run: xr.Dataset, time: float) -> float:
    """Share of the loss of the hull's volume over the whole run that is done at a time."""
    now = run.volume.sel(time=time, method="nearest")
    return float((run.volume[0] - now) / (run.volume[0] - run.volume[-1]))


def scale_numbers(run: xr.Dataset) -> dict[str, float | int | str]:
    """Time at which attention is hardmax, share of the hull's loss by then, and rate of approach afterwards."""
    hardmax = hardmax_time(run)
    if np.isinf(hardmax):
        return {"time at which the median token's attention is hardmax within 0.01": "not within the run"}
    late = run.where((run.time > max(hardmax, 4.0)) & (run.time < run.time[-1] - UNRESOLVED_TIME), drop=True)
    approach = rates.exponential(late.time.values, late.distance.values)
    return {
        "time at which the median token's attention is hardmax within 0.01": hardmax,
        "share of the hull's loss done by then": _lost_share(run, hardmax),
        "rate of approach afterwards, 1 in theory": approach.rate,
        "its 95 % interval": f"{approach.low:.4f} to {approach.high:.4f}",
    }


def hardmax_time(run: xr.Dataset) -> float:
    """The first saved time from which on the median token gives 0.99 of its attention to one token; inf if none."""
    is_soft = run.softness.values > 0.01
    return np.inf if is_soft[-1] else float(run.time.values[np.flatnonzero(is_soft).max(initial=-1) + 1])


def _above(values: xr.DataArray, least: float) -> np.ndarray:
    """Values above `least`, and NaN elsewhere: zeros and rounding cannot be drawn on a logarithmic axis."""
    return np.where(values.values > least, values.values, np.nan)
