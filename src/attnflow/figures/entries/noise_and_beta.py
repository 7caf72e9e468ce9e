"""Figures of the role of beta on the circle: order against noise, and the number of clusters."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress, parts_of
from attnflow.analyse import circle, clusters, renyi
from attnflow.figures.entries.exponents import exponent_in_words
from attnflow.figures.entries.sweep_data import swept
from attnflow.figures.figure import Figure
from attnflow.integrate.simulate import simulate
from attnflow.model import initial, masks
from attnflow.model.attention import Softmax
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.show.parts.heatmaps import HeatMap, plain_log_ticks
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.theorems.catalogue import find
from attnflow.theorems.statement import Computation

# -- Order against noise -----------------------------------------------------------------------------------------------

STARTS = {"uniform": "circle", "hemisphere": "hemisphere"}  # words of the first tokens by the name of the panel
NAMES = tuple(STARTS)
LEAST_HYSTERESIS = 0.3  # difference of orders that is no fluctuation, which for n tokens is of order n^-1/2
LARGEST_CONTINUOUS_BETA = 2.4469  # on the circle, where I_2(beta) / I_1(beta) = 1/2 (arXiv:2606.05140)


def order_spec(
    *, n: int, largest_beta: float, betas: int, least_kappa: float, largest_kappa: float, kappas: int, end: float,
    step: float, runs: int, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """The sweep of the figure, as `sweeps/noise.toml` has it."""
    return {
        "space": "sphere", "d": 2, "attention": "unnormalised", "solver": f"stochastic-heun:{step:g}", "n": n,
        "end": end, "saves": 33, "runs": runs, "seed": seed, "reduce": ["mean"],
        "over": {
            "start": list(STARTS.values()), "kappa": f"{least_kappa!r}:{largest_kappa!r}:{kappas}log",
            "beta": f"0:{largest_beta!r}:{betas}",
        },
        "observables": {"order_parameter": "order-parameter"},
    }  # fmt: skip


def compute_order(progress: Progress, *, store: str, **settings: Any) -> xr.Dataset:
    """Order parameter over (start, kappa, beta), the mean over runs and the second half of their time."""
    found, end = swept(progress, order_spec(**settings), store), settings["end"]
    late = found.order_parameter_mean.sel(time=slice(end / 2, None)).mean("time")
    fine = np.linspace(0, settings["largest_beta"], 101)
    variables = {
        "order": (("start", "kappa", "beta"), late.transpose("start", "kappa", "beta").values),
        "critical": (("fine_beta",), [circle.critical_kappa(beta) for beta in fine]),
    }
    axes = {"kappa": found.kappa.values, "beta": found.beta.values}
    attributes = {name: settings[name] for name in ("n", "end", "runs")}
    return xr.Dataset(variables, {"start": list(STARTS), **axes, "fine_beta": fine}, attributes)


def draw_order(data: xr.Dataset) -> Picture:
    """Draw one map for each start, with the curve at which the uniform distribution loses its stability."""
    panels = []
    for start in STARTS:
        label = "κ = β / I₁(β)" if start == NAMES[0] else ""
        panels.append(
            HeatMap(
                data.beta.values,
                data.kappa.values,
                data.order.sel(start=start).values,
                xlabel="β",
                ylabel="κ",
                title=f"{start} start",
                curves=[Line(data.fine_beta, data.critical, label, line_colour(1), width=2.0)],
                bar="length of the mean token" if start == NAMES[-1] else "",
                yscale="log",
            )
        )
    end = data.attrs["end"]
    caption = (
        f"{data.attrs['n']} tokens on the circle, noise of strength (2/κ)$^{{1/2}}$, mean over t = {end / 2:g} to "
        f"{end:g} and over {_runs(data)}. In theory, for many tokens, the uniform distribution is "
        f"unstable above the curve, and the transition is continuous up to β = {LARGEST_CONTINUOUS_BETA:.4g}; several "
        f"clusters around the circle have a short mean, too. {order_sentence(data)} {hysteresis_sentence(data)}"
    )
    title = "Length of the mean token over β and κ, and the κ above which the uniform distribution is unstable"
    return panel_picture([panels], title, caption, width=4.0, heights=[3.8])


def order_sentence(data: xr.Dataset) -> str:
    """Sentence on the mean order well below and well above the curve, for both starts."""
    means = [[f"{mean:.2f}" for mean in _mean_orders(data, start).values()] for start in STARTS]
    return (
        f"Mean below half of the curve's κ and above twice: {' and '.join(means[0])} from the {NAMES[0]} start, "
        f"{' and '.join(means[1])} from the {NAMES[1]} one; independent tokens have {_independent_order(data):.2f}."
    )


def _runs(data: xr.Dataset) -> str:
    return "one run" if data.attrs["runs"] == 1 else f"{data.attrs['runs']} runs"


def hysteresis_sentence(data: xr.Dataset) -> str:
    """Sentence on the largest difference of the order between the two starts, and on its place."""
    difference = data.order.sel(start=NAMES[1]) - data.order.sel(start=NAMES[0])
    largest = float(difference.max())
    if largest < LEAST_HYSTERESIS:
        return f"The two starts differ by {largest:.2f} at most."
    kappa, beta = difference.stack(place=("kappa", "beta")).idxmax("place").item()
    return (
        f"The two starts differ most at κ = {kappa:.3g}, β = {beta:.3g}, by {largest:.2f}: at that time the state "
        "depends on its history."
    )


def order_numbers(data: xr.Dataset) -> dict:
    """Mean order well below and well above the curve, for both starts."""
    return {
        "critical kappa at beta = 0": float(data.critical[0]),
        f"critical kappa at beta = {float(data.fine_beta[-1]):g}": float(data.critical[-1]),
        "order of independent tokens": _independent_order(data),
        "largest difference of the orders from the two starts": float(
            (data.order.sel(start=NAMES[1]) - data.order.sel(start=NAMES[0])).max()
        ),
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
        shows="The length of the mean token over β and κ, from uniform starts and from a hemisphere. In theory the "
        "uniform distribution is unstable above the curve; several clusters around the circle have a short mean, too.",
        deviates="The printed equation has the sign of its Laplacian reversed; the curve is that of the corrected one. "
        "Finitely many tokens have an order of about n^-1/2 even when they are independent. Gathered tokens return at "
        "the rate e^β. At β = 4, κ = 0.5 steps of 0.02, 0.01 and 0.005 give the orders 0.919, 0.926 and 0.926 ± 0.002, "
        "and the law of infinitely many tokens has 0.93; at κ = 0.4, next to the transition, 0.66, 0.69 and 0.70 ± "
        "0.01, where the law has 0.74: what is left is that 128 tokens are finitely many.",
        compute=compute_order,
        draw=draw_order,
        numbers=order_numbers,
        settings={
            "n": 128, "largest_beta": 4.0, "betas": 17, "least_kappa": 0.2, "largest_kappa": 8.0, "kappas": 17,
            "end": 20.0, "step": 0.005, "runs": 2, "seed": 0, "store": "",
        },
        quick={"n": 64, "betas": 7, "kappas": 7, "end": 8.0, "runs": 1, "step": 0.01},
        seconds=(240.0, 12.0),
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
