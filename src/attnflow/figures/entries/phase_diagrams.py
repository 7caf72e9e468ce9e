"""Figure of arXiv:2312.10794: phase diagrams of close pairs in time and beta."""

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import quad

from attnflow._common.progress import Progress
from attnflow.analyse import circle
from attnflow.figures.entries.sweep_data import swept
from attnflow.show.parts.heatmaps import HeatMap
from attnflow.show.parts.panels import Line, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour


def phase_spec(
    *, n: int, dimensions: list[int], least_beta: float, largest_beta: float, betas: int, end: float, saves: int,
    runs: int, cosine: float, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """The sweep of the figure, as `sweeps/phase_diagram.toml` has it."""
    return {
        "space": "sphere", "n": n, "start": "sphere", "end": end, "saves": saves, "float32": True, "runs": runs,
        "seed": seed, "reduce": ["mean"], "over": {"beta": f"{least_beta!r}:{largest_beta!r}:{betas}", "d": dimensions},
        "observables": {"close_pairs": f"close-pairs:{cosine!r}"},
    }  # fmt: skip


def compute_phases(progress: Progress, *, published_n: int, store: str, **settings: Any) -> xr.Dataset:
    """Share of close pairs over (dimension, beta, time), its standard error, and the times of the curve.

    The curve is the time at which tokens that start orthogonal are that close.
    """
    found = swept(progress, phase_spec(**settings), store)
    n, cosine = settings["n"], settings["cosine"]
    dims = ("dimension", "beta", "time")
    variables = {
        name: (dims, found[f"close_pairs_{part}"].transpose("d", "beta", "time").values)
        for name, part in (("share", "mean"), ("error", "error"))
    }
    variables |= {
        "arrival": (("beta",), [arrival(n, beta, cosine) for beta in found.beta.values]),
        "published_arrival": (("beta",), [arrival(published_n, beta, cosine) for beta in found.beta.values]),
    }
    coordinates = {"dimension": found.d.values, "beta": found.beta.values, "time": found.time.values}
    attributes = {"n": n, "published_n": published_n, "cosine": cosine, "runs": settings["runs"]}
    return xr.Dataset(variables, coordinates, attributes)


def arrival(n: int, beta: float, cosine: float) -> float:
    """Time at which n tokens that start orthogonal have a cosine: the integral of 1 / (d cosine / dt).

    Examples
    --------
    Two tokens at beta = 0 have the cosine tanh t.

    >>> bool(abs(arrival(2, 0.0, 0.999) - np.arctanh(0.999)) < 1e-9)
    True
    """
    inverse_speed = lambda rho: 1 / circle.equiangular_rate(rho, n, beta)
    return float(quad(inverse_speed, 0.0, cosine, epsabs=1e-10, limit=200)[0])


def draw_phases(data: xr.Dataset) -> Picture:
    """Draw one panel for each dimension, with the curve of equiangular tokens."""
    n, published_n, cosine = data.attrs["n"], data.attrs["published_n"], data.attrs["cosine"]
    curves = [
        Line(data.arrival, data.beta, f"orthogonal tokens, n = {n}", line_colour(1)),
        Line(data.published_arrival, data.beta, f"n = {published_n}, as published", line_colour(1), ":"),
    ]
    dimensions = data.dimension.values.tolist()
    panels = [
        HeatMap(
            data.time.values,
            data.beta.values,
            data.share.sel(dimension=d).values,
            xlabel="time t",
            ylabel="β",
            title=f"d = {d}",
            curves=[replace(curve, label=curve.label if d == dimensions[0] else "") for curve in curves],
            bar="share of close pairs" if d == dimensions[-1] else "",
        )
        for d in dimensions
    ]
    caption = (
        f"Share of pairs of {n} tokens with cosine above {cosine:g}, mean over {data.attrs['runs']} uniform starts; "
        f"its standard error is {_below(data.error.max())} everywhere, {_below(data.error.mean())} on average. "
        "Curves: when tokens that start orthogonal to each other reach that cosine. "
        f"{half_time_sentence(data)}"
    )
    return panel_picture([panels], "Share of close pairs of tokens over time and β", caption)


def half_time_sentence(data: xr.Dataset) -> str:
    """Sentence on the time at which half of the pairs are close, by dimension, beside the time of the curve."""
    beta = float(data.beta.sel(beta=1.0, method="nearest"))
    times = {d: _half_time(data, d, beta) for d in data.dimension.values.tolist()}
    words = [f"{'not in the run' if np.isnan(time) else f't = {time:.3g}'} for d = {d}" for d, time in times.items()]
    curve = float(data.arrival.sel(beta=beta))
    return f"At β = {beta:.3g} half of the pairs are close: {', '.join(words)}; on the curve t = {curve:.3g}."


def _half_time(data: xr.Dataset, d: int, beta: float) -> float:
    return half_time(data.time.values, data.share.sel(dimension=d, beta=beta).values)


def _below(error: Any) -> str:
    """An error as an upper bound of two digits."""
    return f"below {float(error) * 1.05:.2g}"


def phase_numbers(data: xr.Dataset) -> dict:
    """Time at which half of the pairs are close, at the beta nearest to one, and standard errors, by dimension."""
    beta = float(data.beta.sel(beta=1.0, method="nearest"))
    curve = float(data.arrival.sel(beta=beta))
    numbers: dict[str, Any] = {f"time on the curve at beta = {beta:.3g}, n = {data.attrs['n']}": curve}
    for d in data.dimension.values.tolist():
        numbers[f"time at which half of the pairs are close, d = {d}"] = _half_time(data, d, beta)
        numbers[f"largest standard error of a share, d = {d}"] = float(data.error.sel(dimension=d).max())
    return numbers


def half_time(times: np.ndarray, shares: np.ndarray) -> float:
    """Time at which a share first exceeds one half, interpolated; NaN if it never does.

    Examples
    --------
    >>> half_time(np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.4, 0.8]))
    1.25
    """
    above = np.flatnonzero(shares > 0.5)
    if len(above) == 0:
        return float("nan")
    last = above[0]
    return float(np.interp(0.5, shares[last - 1 : last + 1], times[last - 1 : last + 1])) if last else float(times[0])
