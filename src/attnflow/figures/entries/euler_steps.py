"""Euler steps against the continuous limit: the difference of mean cosines, from the same starts."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.figures.entries.sweep_data import swept
from attnflow.figures.figure import Figure
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour

CONTINUOUS = "tsit5"  # adaptive steps with a relative error of 1e-8, far below that of Euler's method


def euler_spec(*, n: int, steps: list[float], betas: list[float], end: float, saves: int, runs: int, seed: int) -> dict:
    """The sweep of the figure, as `sweeps/euler_step.toml` has it."""
    return {
        "scenario": "sphere", "n": n, "end": end, "saves": saves, "runs": runs, "seed": seed, "common_starts": True,
        "reduce": ["mean", "all"],
        "over": {"solver": [*(f"euler:{step:g}" for step in steps), CONTINUOUS], "beta": betas},
        "observables": {"mean_cosine": "mean-cosine"},
    }  # fmt: skip


def compute_euler(progress: Progress, *, store: str, **settings: Any) -> xr.Dataset:
    """Mean cosines over (solver, beta, time), and the largest difference from the flow over (step, beta, run)."""
    found = swept(progress, euler_spec(**settings), store)
    values = found.mean_cosine.transpose("solver", "beta", "run", "time").values
    variables = {
        "cosine": (("solver", "beta", "time"), values.mean(axis=2)),
        "difference": (("step", "beta", "run"), np.abs(values[:-1] - values[-1]).max(axis=-1)),
    }
    coordinates = {
        "solver": [str(word) for word in found.solver.values], "step": settings["steps"], "beta": found.beta.values,
        "time": found.time.values,
    }  # fmt: skip
    return xr.Dataset(variables, coordinates, {name: settings[name] for name in ("n", "runs")})


def draw_euler(data: xr.Dataset) -> Picture:
    """Draw the mean cosine over time for every step, and the largest difference against the step."""
    beta = float(data.beta[-1])
    names = [f"step {step:g}" for step in data.step.values.tolist()] + ["continuous"]
    over_time = [
        Line(data.time.values, data.cosine[place].sel(beta=beta).values, name,
             theme().ink if name == "continuous" else line_colour(place), "--" if name == "continuous" else "-")
        for place, name in enumerate(names)
    ]  # fmt: skip
    against = [
        Line(data.step.values, data.difference.sel(beta=one).mean("run").values, f"β = {one:g}", line_colour(place),
             marker="o", band=tuple(np.quantile(data.difference.sel(beta=one), [0.1, 0.9], axis=-1)))
        for place, one in enumerate(data.beta.values.tolist())
    ]  # fmt: skip
    least = float(data.difference.mean("run").isel(step=-1).min()) / 2
    slope = Line(data.step.values, least * data.step.values / float(data.step[-1]), "slope 1", theme().grey, ":")
    panels = [
        Lines(over_time, ylabel="mean cosine", title=f"β = {beta:g}", columns=2),
        Lines([*against, slope], xlabel="step", ylabel="largest difference", xscale="log", yscale="log",
              title="Difference from the continuous limit", xticks=data.step.values.tolist(), columns=2),
    ]  # fmt: skip
    caption = (
        f"{data.attrs['n']} tokens on the sphere, means over the same {data.attrs['runs']} starts for every step. "
        f"Right: largest difference over time of the mean cosine of a run from that of the flow; bands: 0.1 to 0.9 "
        f"quantiles. {order_in_words(data)}"
    )
    return panel_picture([panels], "Euler steps and the continuous limit", caption, width=3.9, heights=[3.6])


def orders(data: xr.Dataset) -> dict[float, float]:
    """The order between the two shortest steps, by beta: log of the ratio of differences over that of steps."""
    means = data.difference.mean("run")
    ratio = float(data.step[-2] / data.step[-1])
    return {
        beta: float(np.log(means.sel(beta=beta)[-2] / means.sel(beta=beta)[-1]) / np.log(ratio))
        for beta in data.beta.values.tolist()
    }


def order_in_words(data: xr.Dataset) -> str:
    """Sentence on the order of the two shortest steps."""
    words = [f"{order:.2f} for β = {beta:g}" for beta, order in orders(data).items()]
    return f"Order between the two shortest steps, 1 in theory: {', '.join(words)}."


def euler_numbers(data: xr.Dataset) -> dict[str, Any]:
    """Mean differences by step and beta, and the orders."""
    means = data.difference.mean("run")
    numbers: dict[str, Any] = {
        f"largest difference, step {step:g}, beta = {beta:g}": float(means.sel(step=step, beta=beta))
        for step in data.step.values.tolist()
        for beta in data.beta.values.tolist()
    }
    return numbers | {f"order, beta = {beta:g} (1 in theory)": order for beta, order in orders(data).items()}


FIGURES = (
    Figure(
        id="euler-step",
        source="arXiv:2305.05465, layers as Euler steps of the flow",
        title="Euler steps and the continuous limit",
        shows="The mean cosine of tokens on the sphere for Euler steps of several lengths, and its largest difference "
        "from that of the flow against the step. In theory the difference is proportional to the step.",
        deviates="The publication takes the limit as the model; here the difference is measured.",
        compute=compute_euler,
        draw=draw_euler,
        numbers=euler_numbers,
        settings={
            "n": 32, "steps": [1.0, 0.5, 0.25, 0.125], "betas": [1.0, 4.0], "end": 10.0, "saves": 11, "runs": 200,
            "seed": 0, "store": "",
        },
        quick={"n": 16, "runs": 8},
        seconds=(6.0, 4.0),
    ),
)  # fmt: skip
