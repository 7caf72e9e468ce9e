"""Numbers of clusters and of Renyi centres on spheres: the power of beta, predicted beside measured."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.analyse import renyi
from attnflow.analyse.renyi_counts import expected_count, growth_exponent
from attnflow.figures.entries.causal import PAPER
from attnflow.figures.entries.exponents import exponent_in_words
from attnflow.figures.entries.sweep_data import swept
from attnflow.figures.figure import Figure
from attnflow.model import initial
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.theorems.catalogue import find
from attnflow.theorems.statement import Computation

KINDS = ("renyi", "strong")


def cluster_spec(
    *, n: int, dimensions: list[int], least_beta: float, largest_beta: float, betas: int, radius: float, end: float,
    runs: int, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """The sweep of the figure, as `sweeps/cluster_number.toml` has it.

    The error of the solver is far below the distance of half a beta^-1/2 within which tokens cluster.
    """
    return {
        "space": "sphere", "mask": "causal", "start": "sphere", "n": n, "rtol": 1e-5, "atol": 1e-7, "end": end,
        "saves": 2, "runs": runs, "seed": seed, "reduce": ["mean", "quantiles:0.1,0.5,0.9", "counts", "all"],
        "over": {"beta": f"{least_beta!r}:{largest_beta!r}:{betas}log", "d": dimensions},
        "observables": {"clusters": f"scaled-clusters:{radius:g}"},
    }  # fmt: skip


def compute_clusters(progress: Progress, *, c: float, draws: int, store: str, **settings: Any) -> xr.Dataset:
    """Clusters at time `end` over (dimension, beta, run); centres over (kind, dimension, beta, draw), and their means.

    All starts are independent. The control holds the centres of tokens on a great circle of S^2, over (beta, draw).
    """
    found = swept(progress, cluster_spec(**settings), store)
    n, dimensions, grid = settings["n"], settings["dimensions"], found.beta.values
    generator = np.random.default_rng(settings["seed"])
    deltas = [renyi.separation(float(beta), c) for beta in grid]
    centres = [
        [_centres(initial.sphere(n, d, rng=generator, runs=draws), delta) for delta in deltas] for d in dimensions
    ]
    expected = [
        [[expected_count(delta, d, n), renyi.expected_strong_count(delta, d, n)] for delta in deltas]
        for d in dimensions
    ]
    control = [_centres(initial.circle(n, 3, rng=generator, runs=draws), delta)[0] for delta in deltas]
    variables = {
        "clusters": (("dimension", "beta", "run"), found.clusters.transpose("d", "beta", "run").values),
        "centres": (("dimension", "beta", "kind", "draw"), np.array(centres)),
        "expected": (("dimension", "beta", "kind"), np.array(expected)),
        "control": (("beta", "draw"), np.array(control)),
    }
    coordinates = {"kind": list(KINDS), "dimension": dimensions, "beta": grid}
    return xr.Dataset(variables, coordinates, {"c": c} | {name: settings[name] for name in ("n", "radius", "end")})


def _centres(tokens: np.ndarray, delta: float) -> list[np.ndarray]:
    """Numbers of Renyi centres and of strong ones, in the order of `KINDS`."""
    return [renyi.count(tokens, delta, strong=kind == "strong").values for kind in KINDS]


def draw_clusters(data: xr.Dataset) -> Picture:
    """Draw counts with error bars over beta beside their predictions, one panel for each sphere."""
    panels = [_panel(data.sel(dimension=d), int(d)) for d in data.dimension.values]
    exponents = "; ".join(
        f"S$^{{{d - 1}}}$ {exponent_in_words(data.beta, data.clusters.sel(dimension=d))}" for d in data.dimension.values
    )
    caption = (
        f"{data.attrs['n']} tokens, δ = {data.attrs['c']:g} β$^{{-1/2}}$; means of {data.sizes['run']} runs and of "
        f"{data.sizes['draw']} draws with two standard errors. Clusters: tokens linked within {data.attrs['radius']:g} "
        f"β$^{{-1/2}}$ at t = {data.attrs['end']:g}. Lines: predicted numbers of centres. Exponents of β measured for "
        f"clusters, with 95 % intervals: {exponents}."
    )
    title = "Clusters and Rényi centres of causal attention on spheres, beside the power β$^{(d-1)/2}$"
    return panel_picture([panels], title, caption, width=3.5, heights=[3.7])


def _panel(data: xr.Dataset, d: int) -> Lines:
    colours = {"renyi": theme().ink, "strong": line_colour(1)}
    names = {"renyi": "Rényi centres", "strong": "strong centres"}
    lines = [_with_errors(data.beta, data.clusters, "clusters", line_colour(0), "s")]
    for kind in KINDS:
        lines.append(_with_errors(data.beta, data.centres.sel(kind=kind), names[kind], colours[kind], "o"))
        lines.append(Line(data.beta, data.expected.sel(kind=kind), "", colours[kind]))
    first = float(data.expected.sel(kind="strong")[0]) / 2
    power = first * (data.beta.values / float(data.beta[0])) ** ((d - 1) / 2)
    lines.append(Line(data.beta, power, f"slope {(d - 1) / 2:g}", theme().grey, "--"))
    return Lines(
        lines,
        xlabel="β",
        ylabel="number",
        title=f"S$^{{{d - 1}}}$, d = {d}",
        xscale="log",
        yscale="log",
        xticks=data.beta.values.round(1).tolist(),
        yticks=[1, 2, 5, 10, 20, 50, 100, 200, 500],
        columns=2,
    )


def _with_errors(betas: xr.DataArray, counts: xr.DataArray, name: str, colour: str, marker: str) -> Line:
    values = counts.values
    error = values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])
    return Line(betas, values.mean(axis=-1), name, colour, "", marker, error=2 * error)


def cluster_numbers(data: xr.Dataset) -> dict:
    """Exponents of beta with their intervals beside predicted ones, and that of the control."""
    numbers: dict[str, Any] = {}
    for d in data.dimension.values:
        numbers[f"d = {d}: (d - 1) / 2"] = float(d - 1) / 2
        for kind in KINDS:
            name = "Renyi centres" if kind == "renyi" else "strong Renyi centres"
            at = {"kind": kind, "dimension": d}
            numbers[f"d = {d}: exponent of {name}, 95 % interval"] = _text(data.beta, data.centres.sel(at))
            slope = growth_exponent(data.beta, data.expected.sel(at).values[:, None]).slope
            numbers[f"d = {d}: exponent of {name}, predicted for these n and beta"] = slope
            ratio = data.centres.sel(at).mean("draw") / data.expected.sel(at)
            numbers[f"d = {d}: largest relative error of predicted {name}"] = float(abs(ratio - 1).max())
        numbers[f"d = {d}: exponent of clusters, 95 % interval"] = _text(data.beta, data.clusters.sel(dimension=d))
    numbers["control: exponent of Renyi centres of tokens on a great circle of S^2, 95 % interval"] = _text(
        data.beta, data.control
    )
    return numbers


def _text(betas: xr.DataArray, counts: xr.DataArray) -> str:
    return exponent_in_words(betas, counts, 3)


def cluster_verdicts(data: xr.Dataset) -> list:
    """Verdicts on the exponents and the strong count of every dimension shown."""
    exponent, count = find("renyi-exponent"), find("strong-renyi-count")
    assert isinstance(exponent, Computation)
    assert isinstance(count, Computation)
    dimensions = [int(d) for d in data.dimension.values]
    n, beta = data.attrs["n"], float(data.beta[-1])
    return [
        verdict for d in dimensions for verdict in (exponent.check(d=d), count.check(beta=beta, n=n, d=d, runs=200))
    ]


FIGURES = (
    Figure(
        id="cluster-number-sphere",
        source=f"{PAPER}, section 5: numbers of centres of order β^((d-1)/2)",
        title="Numbers of clusters on spheres",
        shows="Numbers of clusters, of Rényi centres and of strong Rényi centres on spheres, over β. Caps "
        "are curved and n is finite, so that predictions for these n and β stand beside the power (d - 1)/2 of the "
        "limit.",
        deviates="The publication shows no such figure. Strong centres and centres on the circle have exact means; "
        "those of centres on S² and S³ are interpolated between few tokens and saturation.",
        compute=compute_clusters,
        draw=draw_clusters,
        numbers=cluster_numbers,
        settings={
            "n": 400, "dimensions": [2, 3, 4], "least_beta": 16.0, "largest_beta": 128.0, "betas": 4, "c": 4.0,
            "radius": 0.5, "end": 40.0, "runs": 16, "draws": 200, "seed": 0, "store": "",
        },
        quick={"n": 100, "runs": 6, "draws": 50},
        seconds=(50.0, 12.0),
        verdicts=cluster_verdicts,
    ),
)  # fmt: skip
