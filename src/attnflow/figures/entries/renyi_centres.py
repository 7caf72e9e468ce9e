"""Figures 2 and 3 of arXiv:2411.04990: Renyi centres and the tokens they capture."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.plain import evenly_spaced
from attnflow._common.progress import Progress
from attnflow.analyse import clusters, renyi
from attnflow.figures.entries.causal import PAPER
from attnflow.figures.entries.sweep_data import swept
from attnflow.figures.figure import Figure
from attnflow.integrate.simulate import simulate
from attnflow.model import initial, masks
from attnflow.model.attention import Softmax
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.show.parts.circle_panel import CirclePanel, circle_movie
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.show.runs.over_time import continuous_angles
from attnflow.theorems.verify import verify

RTOL, ATOL = 1e-6, 1e-8  # of the solver: captures the same tokens as the default tolerances, in half the time
KINDS = ("centres", "strong centres")


def _flow(beta: float) -> SphereAttention:
    return SphereAttention(Head.identity(2), Softmax(beta), masks.causal)


# -- Figure 2: the centres ---------------------------------------------------------------------------------------------


def compute_centres(
    progress: Progress,
    *,
    n: int,
    beta: float,
    c: float,
    end: float,
    saves: int,
    moments: list[float],
    frames: int,
    seed: int,
) -> xr.Dataset:
    """One run, with the Renyi centres and strong Renyi centres of its start."""
    moments = [*(moment for moment in sorted(moments) if moment < end), end]
    times = np.union1d(np.r_[0.0, np.geomspace(0.05, end, saves)], moments)
    run = simulate(_flow(beta), initial.circle(n, rng=seed), times, rng=seed, progress=progress)
    delta = renyi.separation(beta, c)
    first = run.tokens[0]
    is_centre, is_strong = renyi.centres(first, delta), renyi.strong_centres(first, delta)
    centres = {"centre": ("token", is_centre.values), "strong": ("token", is_strong.values)}
    return run.assign(centres).assign_coords(moment=moments).assign_attrs(beta=beta, delta=delta, frames=frames)


def _kinds(data: xr.Dataset) -> list[tuple[str, str, np.ndarray]]:
    is_centre, is_strong = data.centre.values, data.strong.values
    return [("Rényi centres", theme().ink, is_centre & ~is_strong), ("strong Rényi centres", line_colour(1), is_strong)]


def draw_centres(data: xr.Dataset) -> Picture:
    """Draw the circle at several times, and all angles over time."""
    kinds, moments = _kinds(data), data.moment.values
    circles = [CirclePanel(data.tokens.sel(time=moment).values, kinds, f"t = {moment:g}") for moment in moments]
    later = data.isel(time=slice(1, None))
    angles = continuous_angles(later.tokens.values)
    lines = [
        Line(later.time, angles[:, token], "", theme().grey, width=0.5, alpha=0.35) for token in range(angles.shape[1])
    ]
    for name, colour, is_kind in kinds:
        for place, token in enumerate(np.flatnonzero(is_kind)):
            lines.append(Line(later.time, angles[:, token], name if place == 0 else "", colour, width=1.5))
    paths = Lines(lines, ylabel="angle", xscale="log", xlim=(float(later.time[0]), float(later.time[-1])), columns=2)
    n, beta, delta = data.sizes["token"], data.attrs["beta"], data.attrs["delta"]
    caption = f"{n} tokens in order of arrival, β = {beta:g}, δ = {delta:g}. Dots at one place are stacked outwards."
    return panel_picture([circles, [paths]], centre_title(data), caption, width=2.35, heights=[2.7, 3.2], least=1.4)


def centre_title(data: xr.Dataset) -> str:
    """Title with the numbers of strong and of other centres that are near their start at the end."""
    is_near = _moved(data)[-1] < 1 / np.sqrt(data.attrs["beta"])
    strong, others = data.strong.values, data.centre.values & ~data.strong.values
    counts = [f"{int(np.sum(is_near[kind]))} of {int(np.sum(kind))}" for kind in (strong, others)]
    return (
        f"Within β$^{{-1/2}}$ of their start at t = {float(data.time[-1]):g}: {counts[0]} strong Rényi centres, "
        f"{counts[1]} other Rényi centres"
    )


def _moved(data: xr.Dataset) -> np.ndarray:
    """Angle of every token to its start, over (time, token)."""
    return clusters.angle(np.linalg.norm(data.tokens - data.tokens[0], axis=-1))


def centre_numbers(data: xr.Dataset) -> dict:
    """Numbers of centres against their expectations, and of centres that have not left their place."""
    n, delta, beta = data.sizes["token"], data.attrs["delta"], data.attrs["beta"]
    moved = _moved(data)
    within = 1 / np.sqrt(beta)
    numbers: dict[str, Any] = {
        "Renyi centres": int(data.centre.sum()),
        "Renyi centres expected": renyi.expected_count_on_circle(delta, n),
        "strong Renyi centres": int(data.strong.sum()),
        "strong Renyi centres expected": renyi.expected_strong_count(delta, 2, n),
    }
    for moment in data.moment.values[1:]:
        place = int(np.flatnonzero(data.time.values == moment)[0])
        numbers[f"clusters at t = {moment:g}"] = int(clusters.count(data.tokens[place], within / 2))
        for kind, members in (("Renyi", data.centre.values), ("strong Renyi", data.strong.values)):
            stayed = int(np.sum(moved[place, members] < within))
            numbers[f"{kind} centres within beta^-1/2 of their start at t = {moment:g}"] = stayed
    return numbers


def centre_verdicts(data: xr.Dataset) -> list:
    """Verdict on Lemma 5.1 for this run."""
    return verify(data, only=["quasi-stationary"])


def centre_movie(data: xr.Dataset) -> Any:
    """Movie over logarithmic time."""
    chosen = evenly_spaced(data.sizes["time"], data.attrs["frames"])
    tokens, times = data.tokens.values[chosen], data.time.values[chosen]
    return circle_movie(tokens, times, _kinds(data), "Tokens and Rényi centres on the circle")


# -- Figure 3: what they capture ---------------------------------------------------------------------------------------


def captured_spec(
    *, n: int, beta: float, c: float, radius: float, end: float, saves: int, runs: int, seed: int
) -> dict[str, Any]:
    """The sweep of the figure, as `sweeps/captured_fraction.toml` has it."""
    return {
        "space": "sphere", "d": 2, "start": "circle", "mask": "causal", "n": n, "beta": beta, "rtol": RTOL,
        "atol": ATOL, "end": end, "saves": saves, "spacing": "log", "runs": runs, "seed": seed,
        "reduce": ["mean", "quantiles:0.1,0.9", "all"],
        "observables": {
            "captured": f"captured:{c:g},{radius:g}", "strongly_captured": f"strongly-captured:{c:g},{radius:g}"
        },
    }  # fmt: skip


def compute_captured(progress: Progress, *, store: str, **settings: Any) -> xr.Dataset:
    """Captured fraction over (kind, run, time)."""
    found = swept(progress, captured_spec(**settings), store)
    values = np.stack([found.captured.values, found.strongly_captured.values])
    beta, radius = settings["beta"], settings["radius"] / np.sqrt(settings["beta"])
    attributes = {"n": settings["n"], "beta": beta, "delta": renyi.separation(beta, settings["c"]), "radius": radius}
    coordinates = {"kind": list(KINDS), "time": found.time.values}
    return xr.Dataset({"captured": (("kind", "run", "time"), values)}, coordinates, attributes)


def draw_captured(data: xr.Dataset) -> Picture:
    """Draw mean and quantiles over time, for both kinds of centres."""
    lines = []
    for kind, colour in zip(KINDS, (theme().ink, line_colour(1)), strict=True):
        shares = data.captured.sel(kind=kind)[:, 1:]
        band = (shares.quantile(0.1, "run").values, shares.quantile(0.9, "run").values)
        name = f"Rényi {kind}" if kind == KINDS[0] else "strong Rényi centres"
        lines.append(Line(shares.time.values, shares.mean("run").values, name, colour, band=band))
    limits = (float(data.time[-1]) / 3000, float(data.time[-1]))  # before that no token has moved
    panel = Lines(lines, ylabel="share of tokens captured", xscale="log", xlim=limits, ylim=(0, 1.02), columns=2)
    caption = (
        f"{data.attrs['n']} tokens, β = {data.attrs['beta']:g}, δ = {data.attrs['delta']:g}; captured: within "
        f"{data.attrs['radius']:.3g} of a centre of the start. Lines: mean of {data.sizes['run']} runs. "
        f"Bands: 0.1 to 0.9 quantiles. {captured_sentence(data)}"
    )
    return panel_picture(
        [[panel]], "Share of tokens near a Rényi centre of the start", caption, width=6.4, heights=[4.0]
    )


def captured_sentence(data: xr.Dataset) -> str:
    """Sentence on the mean shares at the start and at t near 10."""
    moments = [data.captured.mean("run").sel(time=time, method="nearest") for time in (0.0, 10.0)]
    words = [f"{float(now.sel(kind=kind)):.2f}" for kind in KINDS for now in moments]
    return (
        f"Mean shares at t = 0 and t = {float(moments[1].time):.3g}: {words[0]} and {words[1]} near a centre, "
        f"{words[2]} and {words[3]} near a strong one."
    )


def captured_numbers(data: xr.Dataset) -> dict:
    """Mean and quantiles at the start, at t near 10 and at the end."""
    numbers = {}
    for time in (0.0, 10.0, float(data.time[-1])):
        now = data.captured.sel(time=time, method="nearest")
        for kind in KINDS:
            shares = now.sel(kind=kind).values
            low, high = np.quantile(shares, [0.1, 0.9])
            name = f"captured by {kind} at t = {float(now.time):.3g}: mean, 0.1 and 0.9 quantile"
            numbers[name] = f"{shares.mean():.3f}, {low:.3f}, {high:.3f}"
    return numbers


_CIRCLE = {"n": 200, "beta": 64.0, "c": 4.0}
FIGURES = (
    Figure(
        id="renyi-centres",
        source=f"{PAPER}, Figure 2",
        title="Rényi centres",
        shows="Tokens on the circle at several times and their angles over time. A Rényi centre is farther than δ from "
        "all centres before it, a strong one from all tokens before it; the title counts the centres near their start "
        "at the end.",
        deviates="Besides the published times 75 and 150 the run goes on to t = 5000. The published start is not "
        "known; the seed of this one was chosen by eye, for centres of both kinds that can be told apart.",
        compute=compute_centres,
        draw=draw_centres,
        numbers=centre_numbers,
        settings={
            **_CIRCLE,
            "end": 5000.0,
            "saves": 119,
            "moments": [0.0, 10.0, 75.0, 150.0, 5000.0],
            "frames": 60,
            "seed": 1,
        },
        quick={"frames": 8},
        seconds=(11.0, 6.0),
        verdicts=centre_verdicts,
        movie=centre_movie,
    ),
    Figure(
        id="captured-fraction",
        source=f"{PAPER}, Figure 3",
        title="Tokens captured by Rényi centres",
        shows="The share of tokens near a Rényi centre and near a strong one, over time, for random starts. Lines are "
        "means, bands hold eight tenths of the starts.",
        deviates="The radius within which a token counts as captured is not published; it is β^-1/2 here, and "
        "a setting.",
        compute=compute_captured,
        draw=draw_captured,
        numbers=captured_numbers,
        settings={**_CIRCLE, "radius": 1.0, "end": 150.0, "saves": 40, "runs": 5000, "seed": 0, "store": ""},
        quick={"runs": 16},
        seconds=(170.0, 4.0),
    ),
)
