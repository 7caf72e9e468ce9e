"""Figure of arXiv:2605.09213: the influence of positions under strictly causal attention with ALiBi weights."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.figures.figure import Figure
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.theorems.catalogue import find
from attnflow.theorems.statement import Computation
from attnflow.theorems.statements.lost_in_middle import FULL, critical_time, influence, iterated_influence

MASKS = ("strictly causal", FULL)


def compute_influence(
    progress: Progress, *, slope: float, beta: float, width: float, factors: list[float], n: int
) -> xr.Dataset:
    """Influence over (factor of the critical time, place), in closed form and by iteration with both masks."""
    del progress  # a closed form and a matrix
    parameters = {"slope": slope, "beta": beta, "width": width}
    critical = critical_time(**parameters)
    places = (np.arange(n - 1) + 0.5) / n
    iterated = [
        [iterated_influence(n, factor * critical, **parameters, mask=mask) for factor in factors] for mask in MASKS
    ]
    variables = {
        "closed": (("factor", "place"), np.stack([influence(places, f * critical, **parameters) for f in factors])),
        "iterated": (("mask", "factor", "place"), np.array(iterated)),
    }
    coordinates = {"factor": factors, "place": places, "mask": list(MASKS)}
    return xr.Dataset(variables, coordinates, {**parameters, "critical": critical, "n": n})


def draw_influence(data: xr.Dataset) -> Picture:
    """Draw closed form and iteration for each time; beside it the iteration with a full mask."""
    every = slice(2, None, max(1, data.sizes["place"] // 28))
    places, causal, full = data.place.values, [], []
    for index, factor in enumerate(data.factor.values):
        colour, name = line_colour(index), f"t = {factor:g} t$_c$"
        causal.append(Line(places, _over_mean(data.closed.sel(factor=factor)), name, colour))
        dots = _over_mean(data.iterated.sel(mask=MASKS[0], factor=factor))
        causal.append(Line(places[every], dots[every], "", colour, "", "o"))
        full.append(Line(places, _over_mean(data.iterated.sel(mask=FULL, factor=factor)), name, colour, "--"))
    how: dict[str, Any] = {"xlabel": "place s", "ylabel": "influence over its mean", "columns": 3}
    panels = [
        Lines(causal, title="strictly causal", ylim=(0, 4), **how),
        Lines(full, title="control: full mask", ylim=(0, 4), **how),
    ]
    parameters = data.attrs
    caption = (
        f"λ = {parameters['slope']:g}, β = {parameters['beta']:g}, width {parameters['width']:g}, "
        f"t$_c$ = {parameters['critical']:.4g}. Lines: closed form for many tokens; dots and dashed lines: "
        f"iteration of the weights of {parameters['n']} tokens."
    )
    title = "Influence of a place on the last place, before and after the critical time"
    return panel_picture([panels], title, caption, width=4.4, heights=[3.9])


def _over_mean(values: xr.DataArray) -> np.ndarray:
    """Values over their mean: profiles of all times fit one axis."""
    return values.values / values.values.mean()


def influence_numbers(data: xr.Dataset) -> dict:
    """The critical time, the place of least influence, and the error of the closed form, for each time."""
    numbers: dict[str, Any] = {"critical time": data.attrs["critical"]}
    away = data.place.values > 0.1  # next to s = 0 the influence diverges
    for factor in data.factor.values:
        closed = data.closed.sel(factor=factor).values
        errors = np.abs(data.iterated.sel(factor=factor) / closed - 1).values[:, away].max(axis=1)
        numbers[f"t = {factor:g} t_c: place of least influence"] = float(data.place[int(np.argmin(closed))])
        for mask, error in zip(MASKS, errors, strict=True):
            numbers[f"t = {factor:g} t_c: largest relative difference from the closed form, {mask} mask"] = float(error)
    return numbers


def influence_verdicts(data: xr.Dataset) -> list:
    """Verdicts on the profile at each time, and on the critical time."""
    profile, critical = find("lost-in-the-middle"), find("recency-lost")
    assert isinstance(profile, Computation)
    assert isinstance(critical, Computation)
    parameters = {name: data.attrs[name] for name in ("slope", "beta", "width")}
    times = [float(factor) * data.attrs["critical"] for factor in data.factor.values]
    return [*(profile.check(**parameters, time=time) for time in times), critical.check(**parameters)]


FIGURES = (
    Figure(
        id="lost-in-the-middle",
        source="arXiv:2605.09213, profile of influence and critical time",
        title="Lost in the middle",
        shows="The influence of every place on the last token at several multiples of the critical time, under a "
        "strictly causal mask with ALiBi weights. A full mask is the control; the numbers give the place of least "
        "influence.",
        deviates="The publication's figures are not known to us; parameters are chosen to show both regimes.",
        compute=compute_influence,
        draw=draw_influence,
        numbers=influence_numbers,
        settings={"slope": 2.0, "beta": 1.0, "width": 4.0, "factors": [0.25, 0.5, 1.0, 2.0], "n": 400},
        quick={},
        seconds=(2.0, 2.0),
        verdicts=influence_verdicts,
    ),
)
