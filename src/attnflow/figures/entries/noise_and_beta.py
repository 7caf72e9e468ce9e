"""Figures of the role of beta on the circle: order against noise, and the number of clusters."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress, parts_of
from attnflow.analyse import circle, clusters, renyi
from attnflow.figures.entries.exponents import exponent_in_words
from attnflow.figures.figure import Figure
from attnflow.integrate.simulate import simulate
from attnflow.model import initial, masks
from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.model.noise import Noise
from attnflow.show.parts.heatmaps import HeatMap, plain_log_ticks
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.solvers import observables
from attnflow.solvers.fixed_step import StochasticHeun
from attnflow.theorems.catalogue import find
from attnflow.theorems.statement import Computation

# -- Order against noise -----------------------------------------------------------------------------------------------

STARTS = ("uniform", "gathered")
LARGEST_CONTINUOUS_BETA = 2.4469  # on the circle, where I_2(beta) / I_1(beta) = 1/2 (arXiv:2606.05140)


def compute_order(
    progress: Progress,
    *,
    n: int,
    largest_beta: float,
    betas: int,
    least_kappa: float,
    largest_kappa: float,
    kappas: int,
    end: float,
    step: float,
    seed: int,
) -> xr.Dataset:
    """Order parameter over (start, kappa, beta), the mean of the second half of every run."""
    grid = np.linspace(0, largest_beta, betas), np.geomspace(least_kappa, largest_kappa, kappas)
    small_angles = np.random.default_rng(seed).normal(scale=0.1, size=n)
    tokens = np.stack([initial.circle(n, rng=seed), initial.on_circle(small_angles)])
    times = np.linspace(0, end, 33)
    tasks = [(beta, kappa) for kappa in grid[1] for beta in grid[0]]
    orders = []
    for (beta, kappa), share in zip(tasks, parts_of(progress, len(tasks)), strict=True):
        flow = SphereAttention(Head.identity(2), Unnormalised(float(beta)), noise=Noise(float(kappa)))
        how: dict[str, Any] = {"observables": {"order": observables.order_parameter}, "keep_tokens": False}
        run = simulate(flow, tokens, times, solver=StochasticHeun(step), rng=seed, progress=share, **how)
        orders.append(run.order.sel(time=slice(end / 2, None)).mean("time").values)
    values = np.moveaxis(np.reshape(orders, (kappas, betas, len(STARTS))), -1, 0)
    fine = np.linspace(0, largest_beta, 101)
    variables = {
        "order": (("start", "kappa", "beta"), values),
        "critical": (("fine_beta",), [circle.critical_kappa(beta) for beta in fine]),
    }
    coordinates = {"start": list(STARTS), "kappa": grid[1], "beta": grid[0], "fine_beta": fine}
    return xr.Dataset(variables, coordinates, {"n": n, "end": end})


def draw_order(data: xr.Dataset) -> Picture:
    """Draw one map for each start, with the curve at which the uniform distribution loses its stability."""
    panels = []
    for start in STARTS:
        label = "κ = β / I₁(β)" if start == STARTS[0] else ""
        panels.append(
            HeatMap(
                data.beta.values,
                data.kappa.values,
                data.order.sel(start=start).values,
                xlabel="β",
                ylabel="κ" if start == STARTS[0] else "",
                title=f"{start} start",
                curves=[Line(data.fine_beta, data.critical, label, line_colour(1), width=2.0)],
                bar="length of the mean token" if start == STARTS[-1] else "",
                yscale="log",
            )
        )
    end = data.attrs["end"]
    caption = (
        f"{data.attrs['n']} tokens on the circle, noise of strength (2/κ)$^{{1/2}}$, mean over t = {end / 2:g} to "
        f"{end:g}. In theory, for many tokens, the uniform distribution is unstable above the curve, and the "
        f"transition is continuous up to β = {LARGEST_CONTINUOUS_BETA:.4g}; several clusters around the circle have a "
        f"short mean, too. {order_sentence(data)}"
    )
    title = "Length of the mean token over β and κ, and the κ above which the uniform distribution is unstable"
    return panel_picture([panels], title, caption, width=4.0, heights=[3.8])


def order_sentence(data: xr.Dataset) -> str:
    """Sentence on the mean order well below and well above the curve, for both starts."""
    means = [[f"{mean:.2f}" for mean in _mean_orders(data, start).values()] for start in STARTS]
    return (
        f"Mean below half of the curve's κ and above twice: {' and '.join(means[0])} from the {STARTS[0]} start, "
        f"{' and '.join(means[1])} from the {STARTS[1]} one; independent tokens have {_independent_order(data):.2f}."
    )


def order_numbers(data: xr.Dataset) -> dict:
    """Mean order well below and well above the curve, for both starts."""
    return {
        "critical kappa at beta = 0": float(data.critical[0]),
        f"critical kappa at beta = {float(data.fine_beta[-1]):g}": float(data.critical[-1]),
        "order of independent tokens": _independent_order(data),
        **{
            f"mean order {where} the critical kappa, {start} start": mean
            for start in STARTS
            for where, mean in _mean_orders(data, start).items()
        },
    }


def _mean_orders(data: xr.Dataset, start: str) -> dict[str, float]:
    """Mean order of the cells far from the critical kappa, by side."""
    critical = np.array([circle.critical_kappa(beta) for beta in data.beta.values])
    ratio, order = data.kappa.values[:, None] / critical, data.order.sel(start=start).values
    return {"below half of": _mean(order[ratio < 0.5]), "above twice": _mean(order[ratio > 2])}


def _independent_order(data: xr.Dataset) -> float:
    """Mean length of the mean of n independent uniform tokens of the circle: (pi / n)^1/2 / 2."""
    return float(np.sqrt(np.pi / data.attrs["n"]) / 2)


def order_verdicts(data: xr.Dataset) -> list:
    """Verdicts on the threshold, from the growth of a perturbation in the mean-field equation."""
    statement = find("noisy-threshold")
    betas = [beta for beta in (1.0, 2.0) if beta <= data.beta.values[-1]]
    return [statement.check(beta=beta) for beta in betas] if isinstance(statement, Computation) else []


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else float("nan")


# -- The number of clusters --------------------------------------------------------------------------------------------

CASES = ("nearly uniform start", "random start", "random start, causal")


def compute_counts(
    progress: Progress, *, n: int, betas: list[float], runs: int, end: float, ripple: float, seed: int
) -> xr.Dataset:
    """Clusters at the end over (case, beta, run)."""
    spacing = 2 * np.pi / n
    generator = np.random.default_rng(seed)
    even = spacing * (np.arange(n) + ripple * generator.normal(size=(runs, n)))
    random = initial.circle(n, rng=seed, runs=runs)
    starts = ((initial.on_circle(even), masks.full), (random, masks.full), (random, masks.causal))
    tasks = [(tokens, mask, beta) for tokens, mask in starts for beta in betas]
    counts = []
    for (tokens, mask, beta), share in zip(tasks, parts_of(progress, len(tasks)), strict=True):
        flow = SphereAttention(Head.identity(2), Softmax(float(beta)), mask)
        run = simulate(flow, tokens, np.array([0.0, end]), progress=share)
        counts.append(clusters.count(run.isel(time=-1), 0.25 / np.sqrt(beta)).values)
    values = np.reshape(counts, (len(CASES), len(betas), runs))
    variables = {"clusters": (("case", "beta", "run"), values)}
    coordinates = {"case": list(CASES), "beta": np.array(betas, dtype=float)}
    return xr.Dataset(variables, coordinates, {"n": n, "end": end, "c": 4.0})


def draw_counts(data: xr.Dataset) -> Picture:
    """Draw mean counts with their ranges, and the laws."""
    betas, c = data.beta.values, data.attrs["c"]
    fine = np.geomspace(betas[0], betas[-1], 400)  # so that the jumps of the mode are vertical
    expected = [renyi.expected_count_on_circle(renyi.separation(beta, c)) for beta in fine]
    lines = [
        Line(fine, np.sqrt(2 * fine), "(2β)$^{1/2}$", theme().grey, "--"),
        Line(
            fine,
            [circle.predicted_clusters(beta) for beta in fine],
            "mode that grows fastest",
            theme().grey,
            "-",
            width=0.9,
        ),
        Line(fine, expected, f"Rényi centres, δ = {c:g} β$^{{-1/2}}$", theme().ink, ":"),
    ]
    for place, (case, marker) in enumerate(zip(CASES, "os^", strict=True)):
        counts, shifted = data.clusters.sel(case=case), betas * 1.06 ** (place - 1)  # bars side by side
        ranges = zip(shifted, counts.min("run").values, counts.max("run").values, strict=True)
        lines += [Line([x, x], [low, high], "", line_colour(place), width=1.2, alpha=0.6) for x, low, high in ranges]
        lines.append(Line(shifted, counts.mean("run").values, case, line_colour(place), "", marker))
    panel = Lines(lines, xlabel="β", ylabel="clusters", xscale="log", yscale="log", columns=2)
    caption = (
        f"{data.attrs['n']} tokens on the circle, t = {data.attrs['end']:g}. Points: mean of {data.sizes['run']} "
        f"starts; bars: least to most. {exponent_sentence(data)}"
    )
    title = "Mean number of clusters against β"
    picture = panel_picture([[panel]], title, caption, width=6.2, heights=[4.6])
    return replace(picture, complete=_set_plain_ticks)


def _set_plain_ticks(axes: Sequence[Any]) -> None:
    for axis in (axes[0].xaxis, axes[0].yaxis):
        plain_log_ticks(axis)


def exponent_sentence(data: xr.Dataset) -> str:
    """Sentence on the fitted exponent of beta of every case, beside the expected one."""
    words = [f"{case} {exponent_in_words(data.beta, data.clusters.sel(case=case))}" for case in CASES]
    return f"Exponents of β with 95 % intervals, 1/2 expected: {'; '.join(words)}."


def count_numbers(data: xr.Dataset) -> dict:
    """Exponent of beta, and mean ratios of the counts to the laws."""
    betas = data.beta.values
    means = data.clusters.mean("run")
    modes = np.array([circle.predicted_clusters(beta) for beta in betas])
    centres = np.array([renyi.expected_count_on_circle(renyi.separation(beta, data.attrs["c"])) for beta in betas])
    numbers = {}
    for case in CASES:
        counts = means.sel(case=case).values
        exponent = exponent_in_words(betas, data.clusters.sel(case=case), 3)
        numbers[f"{case}: exponent of beta with its 95 % interval (expected 1/2)"] = exponent
        numbers[f"{case}: mean of clusters over the fastest mode"] = float(np.mean(counts / modes))
        numbers[f"{case}: mean of clusters over Renyi centres"] = float(np.mean(counts / centres))
    return numbers


FIGURES = (
    Figure(
        id="noise-phases",
        source="arXiv:2512.01868, with noise",
        title="Order against noise",
        shows="The length of the mean token over β and κ, from a uniform and from a gathered start. In theory the "
        "uniform distribution is unstable above the curve; several clusters around the circle have a short mean, too.",
        deviates="The printed equation has the sign of its Laplacian reversed; the curve is that of the corrected one. "
        "Finitely many tokens have an order of about n^-1/2 even when they are independent.",
        compute=compute_order,
        draw=draw_order,
        numbers=order_numbers,
        settings={
            "n": 128, "largest_beta": 4.0, "betas": 17, "least_kappa": 0.2, "largest_kappa": 8.0, "kappas": 17,
            "end": 20.0, "step": 0.01, "seed": 0,
        },
        quick={"n": 64, "betas": 7, "kappas": 7, "end": 8.0},
        seconds=(55.0, 9.0),
        verdicts=order_verdicts,
    ),
    Figure(
        id="cluster-number",
        source="arXiv:2410.23228 and arXiv:2411.04990, laws side by side",
        title="Mean number of clusters against β",
        shows="Numbers of clusters from nearly uniform and from random starts, with and without a causal mask. Lines "
        "are laws of theory: the periods of the fastest Fourier mode, about (2β)^1/2, and the number of Rényi centres.",
        deviates="The laws come from different papers and are compared with the same runs here.",
        compute=compute_counts,
        draw=draw_counts,
        numbers=count_numbers,
        settings={
            "n": 400, "betas": [4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0], "runs": 16, "end": 30.0,
            "ripple": 1e-3, "seed": 0,
        },
        quick={"n": 200, "betas": [8.0, 32.0, 128.0], "runs": 6},
        seconds=(42.0, 6.0),
    ),
)  # fmt: skip
