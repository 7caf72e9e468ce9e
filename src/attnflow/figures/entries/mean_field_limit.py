"""Figure of the mean-field limit: the distance between n tokens and their law against n."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress, parts_of
from attnflow.figures.entries.exponents import exponent_in_words
from attnflow.figures.figure import Figure
from attnflow.integrate.simulate import simulate
from attnflow.mean_field.continuity_equation import evolve
from attnflow.mean_field.densities import box, von_mises, von_mises_fisher
from attnflow.mean_field.distances import distance
from attnflow.model import initial
from attnflow.model.attention import Softmax
from attnflow.model.flows import EuclideanAttention, SphereAttention
from attnflow.model.heads import Head
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour

SPACES = ("circle", "line", "sphere")


def compute_limit(progress: Progress, *, sizes: list[int], runs: int, end: float, seed: int) -> xr.Dataset:
    """W_1 (sliced on S^2) between n tokens and their law, over (space, n, run), and to the law of the start."""
    tasks = [(space, n) for space in SPACES for n in sizes]
    found, control = [], []
    laws = {space: evolve(*_problem(space), [0.0, end], progress=False) for space in SPACES}
    for (space, n), share in zip(tasks, parts_of(progress, len(tasks)), strict=True):
        tokens = _drawn(space, n, runs, np.random.default_rng([seed, n]))
        flow = _problem(space)[0]
        last = simulate(flow, tokens, np.array([0.0, end]), progress=share).final_tokens.values
        first_law, last_law = laws[space].isel(time=0), laws[space].isel(time=-1)
        found.append([distance(one, last_law) for one in last])
        control.append([distance(one, first_law) for one in last])
    shape = (len(SPACES), len(sizes), runs)
    dimensions = ("space", "n", "run")
    variables = {
        "distance": (dimensions, np.reshape(found, shape)),
        "control": (dimensions, np.reshape(control, shape)),
    }
    return xr.Dataset(variables, {"space": list(SPACES), "n": sizes}, {"end": end})


def _problem(space: str) -> tuple[Any, Any]:
    """The flow and the first density of each space."""
    if space == "line":
        return EuclideanAttention(Head(value=np.array([[-1.0]]))), box([-1.0], [1.0])
    d, start = (2, von_mises(1.0)) if space == "circle" else (3, von_mises_fisher(1.0))
    return SphereAttention(Head.identity(d), Softmax(2.0)), start


def _drawn(space: str, n: int, runs: int, generator: np.random.Generator) -> np.ndarray:
    """Random tokens of the first density, (runs, n, d); on S^2 by inverting the distribution function of z."""
    if space == "line":
        return generator.uniform(-1, 1, (runs, n, 1))
    if space == "circle":
        return initial.on_circle(generator.vonmises(0.0, 1.0, (runs, n)))
    z = 1 + np.log1p(-generator.random((runs, n)) * -np.expm1(-2.0))
    angle = generator.uniform(0, 2 * np.pi, (runs, n))
    radius = np.sqrt(1 - z**2)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=-1)


def _exponent(data: xr.Dataset, space: str, name: str = "distance") -> str:
    """The exponent of n with its interval over runs."""
    return exponent_in_words(data.n.values, data[name].sel(space=space).values)


def draw_limit(data: xr.Dataset) -> Picture:
    """Draw mean distances against n, beside n^-1/2 and the distances to the law of another time."""
    lines = []
    for index, space in enumerate(SPACES):
        mean, error = _mean_and_error(data.distance.sel(space=space))
        colour = line_colour(index)
        lines.append(Line(data.n, mean, f"{space}: {_exponent(data, space)}", colour, "-", "o", error=error))
        lines.append(Line(data.n, data.control.sel(space=space).mean("run"), "", colour, ":", ""))
    guide = float(data.distance[0, 0].mean()) * np.sqrt(float(data.n[0]) / data.n)
    lines.append(Line(data.n, guide, "n$^{-1/2}$", theme().grey, "--"))
    panel = Lines(
        lines,
        xlabel="n",
        ylabel="Wasserstein distance",
        xscale="log",
        yscale="log",
        columns=2,
        xticks=list(data.n.values),
    )
    caption = (
        f"Mean over {data.sizes['run']} random starts of the distance between n tokens and their law at "
        f"t = {data.attrs['end']:g}, with its exponent and the 95 % interval over starts; on the sphere the sliced "
        "distance. Dotted: the distance to the law of the start, a control."
    )
    return panel_picture([[panel]], "Distance of n tokens from their law", caption, width=5.4, heights=[4.2])


def _mean_and_error(values: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
    mean = values.mean("run").values
    return mean, values.std("run", ddof=1).values / np.sqrt(values.sizes["run"])


def limit_numbers(data: xr.Dataset) -> dict:
    """The exponents of n, measured and of the control."""
    return {
        f"{space}: exponent of n of the distance to the {law}": _exponent(data, space, name)
        for space in SPACES
        for law, name in (("law at the end (expected -1/2)", "distance"), ("law of the start (control)", "control"))
    }


FIGURES = (
    Figure(
        id="mean-field-limit",
        source="arXiv:2305.05465 and arXiv:2312.10794, on the limit of many tokens",
        title="Tokens against their law",
        shows="The Wasserstein distance between n random tokens and the solution of the mean-field equation against n, "
        "on the circle, the line and the sphere. Dotted lines are distances to the law of the start.",
        deviates="The papers state the limit; the measurement is attnflow's.",
        compute=compute_limit,
        draw=draw_limit,
        numbers=limit_numbers,
        settings={"sizes": [64, 256, 1024, 4096], "runs": 12, "end": 1.0, "seed": 0},
        quick={"sizes": [32, 128, 512], "runs": 6},
        seconds=(26.0, 12.0),
    ),
)  # fmt: skip
