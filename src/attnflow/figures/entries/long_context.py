"""Figure of arXiv:2510.05554: one layer on long contexts."""

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.figures.figure import Figure
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.theorems.catalogue import find
from attnflow.theorems.statement import Computation
from attnflow.theorems.statements.long_context import critical_gamma, output_cosine


def compute_contexts(
    progress: Progress, *, rho: float, exponents: list[float], largest: float, points: int
) -> xr.Dataset:
    """Cosine after one layer over (log10 n, gamma), in closed form."""
    del progress  # a closed form
    critical = critical_gamma(rho)
    gammas = np.union1d(np.linspace(0, largest, points), [critical])
    values = [[output_cosine(rho, gamma, exponent * np.log(10)) for gamma in gammas] for exponent in exponents]
    coordinates = {"log10_n": exponents, "gamma": gammas}
    return xr.Dataset({"cosine": (("log10_n", "gamma"), values)}, coordinates, {"rho": rho, "critical": critical})


def draw_contexts(data: xr.Dataset) -> Picture:
    """Draw one line for each n, and the jump in the limit."""
    rho, critical = data.attrs["rho"], data.attrs["critical"]
    shades = np.linspace(0.35, 1.0, data.sizes["log10_n"])
    lines = [
        Line(data.gamma, data.cosine.sel(log10_n=exponent), f"n = 10$^{{{exponent:g}}}$", line_colour(0), alpha=shade)
        for exponent, shade in zip(data.log10_n.values, shades, strict=True)
    ]
    ends = float(data.gamma[0]), float(data.gamma[-1])
    lines.append(
        Line([ends[0], critical, np.nan, critical, ends[1]], [1, 1, np.nan, rho, rho], "n = ∞", line_colour(1))
    )
    lines.append(Line([critical], [limit_at_critical(rho)], "n = ∞ at γ = 1/(1 − ρ)", line_colour(1), "", "o"))
    panel = Lines(
        lines,
        xlabel="γ = β / log n",
        ylabel="cosine after one layer",
        levels={"ρ, before": rho},
        ylim=(0, 1.05),
        columns=3,
    )
    caption = f"Tokens with common cosine ρ = {rho:g} before the layer. {critical_sentence(data)}"
    title = "Cosine of tokens after one layer against γ = β / log n"
    return panel_picture([[panel]], title, caption, width=6.6, heights=[4.2])


def critical_sentence(data: xr.Dataset) -> str:
    """Sentence on the cosine at the critical gamma for the largest n, beside its limit."""
    largest, critical = data.log10_n.values[-1], data.attrs["critical"]
    cosine = float(data.cosine.sel(log10_n=largest, gamma=critical))
    limit = limit_at_critical(data.attrs["rho"])
    return f"At γ = {critical:g} the cosine is {cosine:.3f} for n = 10$^{{{largest:g}}}$, {limit:.3f} in the limit."


def limit_at_critical(rho: float) -> float:
    """Limit of the cosine at the critical gamma, 4 rho / (1 + 3 rho)."""
    return 4 * rho / (1 + 3 * rho)


def context_numbers(data: xr.Dataset) -> dict:
    """The critical gamma, and the cosine there for each n."""
    rho, critical = data.attrs["rho"], data.attrs["critical"]
    numbers = {"critical gamma": critical, "limit at the critical gamma": limit_at_critical(rho)}
    for exponent in data.log10_n.values:
        cosine = data.cosine.sel(log10_n=exponent, gamma=critical)
        numbers[f"cosine at the critical gamma, n = 10^{exponent:g}"] = float(cosine)
    return numbers


def context_verdicts(data: xr.Dataset) -> list:
    """Verdicts below, at and above the critical gamma, at the largest n shown."""
    rho, critical, size = data.attrs["rho"], data.attrs["critical"], float(data.log10_n[-1])
    cases = {
        "long-context-below": critical / 2,
        "long-context-critical": critical,
        "long-context-above": 1.5 * critical,
    }
    checks = [(find(name), gamma) for name, gamma in cases.items()]
    return [
        statement.check(rho=rho, gamma=gamma, log10_n=size)
        for statement, gamma in checks
        if isinstance(statement, Computation)
    ]


FIGURES = (
    Figure(
        id="long-context",
        source="arXiv:2510.05554, limits of long contexts",
        title="Long contexts",
        shows="The cosine of equiangular tokens after one layer with β = γ log n, against γ for several n. In the "
        "limit of large n it jumps from 1 to ρ at γ = 1/(1 − ρ).",
        deviates="Everything is the closed form of one layer on equiangular tokens, so that n = 10^24 can be shown.",
        compute=compute_contexts,
        draw=draw_contexts,
        numbers=context_numbers,
        settings={"rho": 0.2, "exponents": [2.0, 4.0, 6.0, 12.0, 24.0], "largest": 2.5, "points": 251},
        quick={},
        seconds=(1.0, 1.0),
        verdicts=context_verdicts,
    ),
)
