"""Times of collapse of causal attention, and the distance from one cluster under normalisation schemes."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.figures.entries.sweep_data import swept
from attnflow.figures.figure import Figure
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour

ROUNDING = 1e-12  # one minus a mean of cosines near one has an error of about a hundredth of it

# -- Collapse of causal attention --------------------------------------------------------------------------------------


def collapse_spec(
    *, n: list[int], least_beta: float, largest_beta: float, betas: int, distance: float, end: float, runs: int,
    seed: int,
) -> dict[str, Any]:  # fmt: skip
    """The sweep of the figure, as `sweeps/causal_collapse.toml` has it."""
    return {
        "scenario": "causal", "value": "identity", "clustered": distance, "end": end, "saves": 2, "spacing": "linear",
        "runs": runs, "seed": seed, "over": {"beta": f"{least_beta!r}:{largest_beta!r}:{betas}", "n": n},
        "observables": {"collapse_time": {"measure": "end-time", "reduce": ["mean", "quantiles:0.1,0.5,0.9", "all"]}},
    }  # fmt: skip


def compute_collapse(progress: Progress, *, store: str, **settings: Any) -> xr.Dataset:
    """Times of collapse over (n, beta, run); NaN for runs that have not collapsed at the last time."""
    found = swept(progress, collapse_spec(**settings), store)
    times = found.collapse_time.transpose("n", "beta", "run").values
    collapsed = np.where(times < settings["end"], times, np.nan)
    attributes = {name: settings[name] for name in ("distance", "end", "runs")}
    coordinates = {"n": found.n.values, "beta": found.beta.values}
    return xr.Dataset({"collapse_time": (("n", "beta", "run"), collapsed)}, coordinates, attributes)


def draw_collapse(data: xr.Dataset) -> Picture:
    """Draw medians with bands of quantiles against beta, one line for each n."""
    low, middle, high = (quantile_of_times(data, level) for level in (0.1, 0.5, 0.9))
    end = data.attrs["end"]
    lines = [
        Line(
            data.beta.values,
            middle.sel(n=n).where(np.isfinite(middle.sel(n=n))).values,
            f"n = {n}",
            line_colour(place),
            marker="o",
            band=(np.minimum(low.sel(n=n).values, end), np.minimum(high.sel(n=n).values, end)),
        )
        for place, n in enumerate(data.n.values.tolist())
    ]
    panel = Lines(lines, xlabel="β", ylabel="time of collapse", yscale="log", columns=len(lines))
    caption = (
        f"Causal attention with V = Q = K = I; time at which all tokens are within {data.attrs['distance']:g} of each "
        f"other. Lines: medians of {data.attrs['runs']} starts; bands: 0.1 to 0.9 quantiles, up to the "
        f"end of the runs. {collapse_sentence(data)}"
    )
    return panel_picture([[panel]], "Time of collapse of causal attention", caption, width=6.2, heights=[4.0])


def quantile_of_times(data: xr.Dataset, level: float) -> xr.DataArray:
    """A quantile over runs, over (n, beta); infinity where it is among the runs that have not collapsed."""
    times = data.collapse_time.fillna(np.inf)
    values = np.quantile(times.values, level, axis=-1, method="inverted_cdf")
    return xr.DataArray(values, {"n": data.n, "beta": data.beta}, ("n", "beta"))


def collapse_sentence(data: xr.Dataset) -> str:
    """Sentence on the runs that have not collapsed, and on the median at the least and the largest beta."""
    late, n = int(data.collapse_time.isnull().sum()), int(data.n[-1])
    first, last = (quantile_of_times(data, 0.5).sel(n=n)[place] for place in (0, -1))
    words = [f"{_time(float(one))} at β = {float(one.beta):g}" for one in (first, last)]
    return (
        f"{late} of {data.collapse_time.size} runs have not collapsed at t = {data.attrs['end']:g}. For n = {n} the "
        f"median is {' and '.join(words)}."
    )


def _time(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "after the end"


def collapse_numbers(data: xr.Dataset) -> dict[str, Any]:
    """Medians at the least and the largest beta, by n, and the share of runs that have not collapsed."""
    medians = quantile_of_times(data, 0.5)
    numbers: dict[str, Any] = {
        f"median time of collapse, n = {n}, beta = {float(data.beta[place]):g}": _time(float(medians.sel(n=n)[place]))
        for n in data.n.values.tolist()
        for place in (0, -1)
    }
    return numbers | {"share of runs that have not collapsed": float(data.collapse_time.isnull().mean())}


# -- Normalisation schemes ---------------------------------------------------------------------------------------------


def schemes_spec(*, schemes: list[str], n: int, beta: float, end: float, saves: int, runs: int, seed: int) -> dict:
    """The sweep of the figure, as `sweeps/normalisation.toml` has it."""
    return {
        "scenario": "sphere", "n": n, "start": "hemisphere", "beta": beta, "end": end, "saves": saves,
        "spacing": "log", "runs": runs, "seed": seed, "common_starts": True, "reduce": ["mean", "quantiles:0.1,0.9"],
        "over": {"normalisation": schemes}, "observables": {"mean_cosine": "mean-cosine"},
    }  # fmt: skip


def compute_schemes(progress: Progress, *, store: str, **settings: Any) -> xr.Dataset:
    """One minus the mean cosine over (scheme, time), its mean over runs and its quantiles."""
    found = swept(progress, schemes_spec(**settings), store)
    quantiles = found.mean_cosine_quantiles.transpose("quantile", "normalisation", "time").values
    variables = {
        "apart": (("scheme", "time"), 1 - found.mean_cosine_mean.values),
        "high": (("scheme", "time"), 1 - quantiles[0]),
        "low": (("scheme", "time"), 1 - quantiles[1]),
    }
    coordinates = {"scheme": [str(word) for word in found.normalisation.values], "time": found.time.values}
    return xr.Dataset(variables, coordinates, {name: settings[name] for name in ("n", "beta", "runs")})


def draw_schemes(data: xr.Dataset) -> Picture:
    """Draw the mean distance from one cluster over time, one line for each scheme."""
    later = data.sel(time=slice(min(0.1, float(data.time[-1]) / 10), None))  # before that tokens have hardly moved
    lines = [
        Line(
            later.time.values,
            np.maximum(later.apart.sel(scheme=scheme), ROUNDING / 10),
            scheme,
            line_colour(place),
            band=(
                np.maximum(later.low.sel(scheme=scheme), ROUNDING / 10),
                np.maximum(later.high.sel(scheme=scheme), ROUNDING / 10),
            ),
        )
        for place, scheme in enumerate(data.scheme.values.tolist())
    ]
    panel = Lines(lines, ylabel="1 − mean cosine", xscale="log", yscale="log", ylim=(ROUNDING, 2), columns=3)
    caption = (
        f"{data.attrs['n']} tokens from a hemisphere, β = {data.attrs['beta']:g}, the same {data.attrs['runs']} starts "
        f"for every scheme. Lines: means; bands: 0.1 to 0.9 quantiles. {schemes_sentence(data)}"
    )
    return panel_picture([[panel]], "Distance from one cluster under normalisation schemes", caption, width=6.2,
                         heights=[4.2])  # fmt: skip


def schemes_sentence(data: xr.Dataset) -> str:
    """Sentence on the schemes at the last time, from the closest to the farthest."""
    ends = data.apart.isel(time=-1)
    order = np.argsort(ends.values, kind="stable")
    below = f"below {ROUNDING:g}"
    words = [
        f"{data.scheme.values[place]} {below if ends[place] < ROUNDING else f'{float(ends[place]):.2g}'}"
        for place in order
    ]
    return f"At t = {float(data.time[-1]):g}: {', '.join(words)}."


def schemes_numbers(data: xr.Dataset) -> dict[str, Any]:
    """The mean at the last time, and the first saved time at which it is below a hundredth, by scheme."""
    numbers: dict[str, Any] = {}
    for scheme in data.scheme.values.tolist():
        apart = data.apart.sel(scheme=scheme).values
        reached = np.flatnonzero(apart < 0.01)
        numbers[f"1 - mean cosine at the end, {scheme}"] = float(apart[-1])
        numbers[f"first saved time with 1 - mean cosine below 0.01, {scheme}"] = (
            float(data.time[reached[0]]) if len(reached) else "not reached"
        )
    return numbers


FIGURES = (
    Figure(
        id="causal-collapse",
        source="arXiv:2411.04990, Theorem 4.1: all tokens go to the first; its time is measured here",
        title="Time of collapse of causal attention",
        shows="The time at which all tokens are near each other, against β, for several numbers of tokens. Lines "
        "are medians, bands hold eight tenths of the starts.",
        deviates="The publication proves the limit and shows no times.",
        compute=compute_collapse,
        draw=draw_collapse,
        numbers=collapse_numbers,
        settings={
            "n": [8, 16, 32], "least_beta": 0.5, "largest_beta": 6.0, "betas": 12, "distance": 0.01, "end": 1000.0,
            "runs": 200, "seed": 0, "store": "",
        },
        quick={"n": [8, 16], "betas": 4, "runs": 8},
        seconds=(16.0, 4.0),
    ),
    Figure(
        id="normalisation-schemes",
        source="arXiv:2510.22026, schemes side by side over many starts",
        title="Distance from one cluster under normalisation schemes",
        shows="The distance of the mean cosine from one over time, for every scheme from the same random starts. Lines "
        "are means, bands hold eight tenths of the starts.",
        deviates="The publication shows single runs; here are means and quantiles over many starts.",
        compute=compute_schemes,
        draw=draw_schemes,
        numbers=schemes_numbers,
        settings={
            "schemes": ["post", "pre", "mix:3", "peri", "ngpt:0.2", "sqrt"], "n": 16, "beta": 2.0, "end": 100.0,
            "saves": 41, "runs": 100, "seed": 0, "store": "",
        },
        quick={"runs": 4},
        seconds=(17.0, 12.0),
    ),
)  # fmt: skip
