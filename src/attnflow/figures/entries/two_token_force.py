"""Figure 4 of arXiv:2411.04990: the force between two tokens at an angle."""

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.analyse import renyi
from attnflow.figures.entries.causal import PAPER
from attnflow.figures.figure import Figure
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.theorems.catalogue import find
from attnflow.theorems.statement import Computation


def compute_force(progress: Progress, *, beta: float, points: int) -> xr.Dataset:
    """The force h and its derivative over the angle, and the angle of its peak over beta."""
    del progress  # closed forms
    angles, betas = np.linspace(0, np.pi, points), np.geomspace(1.0, 1000.0, 61)
    variables = {
        "force": (("angle",), renyi.interaction(angles, beta)),
        "slope": (("angle",), renyi.interaction_slope(angles, beta)),
        "peak": (("beta",), [renyi.interaction_peak(one) for one in betas]),
    }
    return xr.Dataset(variables, {"angle": angles, "beta": betas}, {"beta_shown": beta})


def draw_force(data: xr.Dataset) -> Picture:
    """Draw h with its peak, and the peak between its bounds."""
    beta = data.attrs["beta_shown"]
    peak_angle = renyi.interaction_peak(beta)
    peak_force = renyi.interaction(peak_angle, beta)
    force = Lines(
        [
            Line(data.angle, data.force, "h", line_colour(0)),
            Line([peak_angle], [peak_force], f"τ* = {peak_angle:.4f}", line_colour(0), "", "o"),
        ],
        xlabel="angle x", ylabel="h(x)", title=f"β = {beta:g}", ylim=(0, None), columns=3,
        marked_x={f"β$^{{-1/2}}$ = {beta**-0.5:.4f}": beta**-0.5},
    )  # fmt: skip
    scale = np.sqrt(data.beta.values)
    peak = Lines(
        [
            Line(data.beta, data.peak * scale, "τ*", line_colour(0)),
            Line(data.beta, scale / np.sqrt(data.beta.values + 0.5), "(β + 1/2)$^{-1/2}$", line_colour(2), "--"),
            Line(data.beta, np.ones_like(scale), "β$^{-1/2}$", line_colour(1), ":"),
        ],
        xlabel="β", ylabel="angle times β$^{1/2}$", title="the peak between its bounds", xscale="log", columns=3,
    )  # fmt: skip
    return panel_picture([[force, peak]], "The force between two tokens at an angle", "", width=4.0, heights=[3.6])


def force_numbers(data: xr.Dataset) -> dict:
    """Angle and height of the peak, and the bounds of the angle."""
    beta = data.attrs["beta_shown"]
    peak = renyi.interaction_peak(beta)
    return {
        "tau*": peak,
        "h(tau*)": float(renyi.interaction(peak, beta)),
        "lower bound (beta + 1/2)^-1/2": float((beta + 0.5) ** -0.5),
        "upper bound beta^-1/2": float(beta**-0.5),
    }


def force_verdicts(data: xr.Dataset) -> list:
    """Verdicts on the peak, its bracket and the bounds of h, at the beta shown."""
    names = ("interaction-peak", "interaction-peak-bracket", "interaction-bounds")
    return [one.check(beta=data.attrs["beta_shown"]) for one in map(find, names) if isinstance(one, Computation)]


FIGURES = (
    Figure(
        id="force",
        source=f"{PAPER}, Figure 4",
        title="The force between two tokens",
        shows="h(x), the force between two tokens at angle x, with its peak at τ*. The second panel shows the peak "
        "between its bounds (β + 1/2)^-1/2 and β^-1/2.",
        deviates="",
        compute=compute_force,
        draw=draw_force,
        numbers=force_numbers,
        settings={"beta": 10.0, "points": 721},
        quick={},
        seconds=(1.0, 1.0),
        verdicts=force_verdicts,
    ),
)
