"""Figures of arXiv:2410.06833: clusters that last for times exponential in beta, by coalescing dynamics."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.plain import number_with_error, text_with_error
from attnflow._common.progress import Progress, parts_of
from attnflow.analyse import plateau_forecasts
from attnflow.coalescence.coalesce import coalesce
from attnflow.figures.drawing import described
from attnflow.figures.entries.joined_runs import joined, separated
from attnflow.figures.figure import Figure
from attnflow.model import initial
from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.show.merging.merge_tree import merge_tree
from attnflow.show.merging.plateau_lengths import plateau_lengths
from attnflow.show.merging.staircase import staircases
from attnflow.show.merging.through_clusters import through_clusters
from attnflow.show.parts.picture import Picture
from attnflow.theorems.verify import verify

PAPER = "arXiv:2410.06833"


# -- Five tokens on the circle -----------------------------------------------------------------------------------------


def compute_five(progress: Progress, *, tokens: list[list[float]], beta: float) -> xr.Dataset:
    """The published start, to one cluster."""
    flow = SphereAttention(Head.identity(2), Softmax(beta))
    return coalesce(flow, np.array(tokens), progress=progress)


def draw_five(data: xr.Dataset) -> Picture:
    """Draw the circle at several times, and all angles."""
    return described(through_clusters, data, title=five_title(data))


def five_title(data: xr.Dataset) -> str:
    """Title with the number of merges and the time of the last one."""
    times, n = data.merge_log_time.values, data.sizes["token"]
    last = f", the last at t = {np.exp(times[-1]):.4g}" if len(times) else ""
    return f"{n} tokens on the circle: {len(times)} merge{'' if len(times) == 1 else 's'}{last}"


def five_numbers(data: xr.Dataset) -> dict:
    """Time of each merge, and the number of clusters on the longest plateau."""
    times, n = np.exp(data.merge_log_time.values), data.sizes["token"]
    closer = f"two being closer than {data.attrs['merge']:g}"
    numbers: dict[str, Any] = {
        f"time of the merge that leaves {n - place - 1}, {closer}": float(time) for place, time in enumerate(times)
    }
    if len(times) > 1:
        numbers["longest plateau, clusters"] = int(n - 1 - np.argmax(np.diff(data.merge_log_time.values)))
    return numbers


# -- The staircase of energy -------------------------------------------------------------------------------------------


def compute_staircase(progress: Progress, *, betas: list[float], units: list[float]) -> xr.Dataset:
    """Runs of the published start at every beta: five tokens at angles `units` log(2000) / (2 sqrt(2000))."""
    tokens = initial.on_circle(0.5 * np.array(units) * np.log(2000) / np.sqrt(2000))
    runs = [
        coalesce(SphereAttention(Head.identity(2), Unnormalised(float(beta), 1.0)), tokens, progress=share)
        for beta, share in zip(betas, parts_of(progress, len(betas)), strict=True)
    ]
    return joined(runs, xr.Variable("beta", np.array(betas, dtype=float)))


def draw_staircase(data: xr.Dataset) -> Picture:
    """Draw all energies over logarithmic time."""
    return described(staircases, separated(data), title=staircase_title(data))


def staircase_title(data: xr.Dataset) -> str:
    """Title with the largest distance of the energy from the sum of squared shares, at the largest beta."""
    apart = text_with_error(*_distance_from_levels(data), 2)
    return (
        f"Energy at β = {float(data.beta[-1]):g}: within {apart} of the sum of squared shares before every merge but "
        "the first"
    )


def _distance_from_levels(data: xr.Dataset) -> tuple[float, float]:
    """Largest distance of the energy from its level at the largest beta, and the rounding error of the distance.

    Terms of the energy are e^{beta (cos - 1)}: a rounding error of the cosine of a pair is multiplied by beta.
    """
    late = data.isel(merge=slice(1, None))
    distance = float(np.abs(late.energy_before - late.level_before)[-1].max())
    return distance, float(data.beta[-1]) * np.finfo(float).eps


def staircase_numbers(data: xr.Dataset) -> dict:
    """Energies of the plateaus against the sum of squared shares, and the times of the last merges."""
    late = data.isel(merge=slice(1, None))
    numbers: dict[str, Any] = {
        "levels of the plateaus, sum of squared shares": ", ".join(
            f"{level:.3g}" for level in late.level_before[-1].values
        ),
        "largest distance of the energy from its level before a merge, largest beta": number_with_error(
            *_distance_from_levels(data)
        ),
    }
    for beta, last in zip(data.beta.values, data.merge_log_time[:, -1].values, strict=True):
        numbers[f"log t of the last merge, beta = {beta:g}"] = float(last)
    return numbers


def staircase_runs(data: xr.Dataset) -> dict[str, xr.Dataset]:
    """The run at each beta."""
    return {f"β = {beta:g}": run for beta, run in zip(data.beta.values, separated(data), strict=True)}


def staircase_verdicts(data: xr.Dataset) -> list:
    """Verdict on the levels at the largest beta."""
    return verify(separated(data)[-1], only=["staircase-levels"])


# -- Many tokens -------------------------------------------------------------------------------------------------------


def compute_plateaus(progress: Progress, *, n: int, beta: float, starts: int, seed: int) -> xr.Dataset:
    """Runs of random starts on the circle, each to one cluster."""
    flow = SphereAttention(Head.identity(2), Softmax(beta))
    tokens = initial.circle(n, rng=seed, runs=starts)
    shares = parts_of(progress, starts)
    runs = [coalesce(flow, one, progress=share) for one, share in zip(tokens, shares, strict=True)]
    return joined(runs, xr.Variable("run", np.arange(starts)))


def draw_plateaus(data: xr.Dataset) -> Picture:
    """Draw the duration before every merge against the formula for an isolated pair."""
    return described(plateau_lengths, separated(data))


def plateau_numbers(data: xr.Dataset) -> dict:
    """Number of plateaus with a forecast, and the largest error of the formula for an isolated pair."""
    known = [run.isel(merge=plateau_forecasts.is_forecast(run)) for run in separated(data)]
    errors = np.abs(np.concatenate([run.log_duration.values - run.forecast_log_duration.values for run in known]))
    return {
        "merges": int(np.isfinite(data.merge_log_time.values).sum()),
        "plateaus forecast at their start": len(errors),
        "largest error of the formula there, in log t": float(errors.max(initial=0.0)),
        "largest log t at which one cluster is left": float(data.merge_log_time.max()),
    }


def plateau_verdicts(data: xr.Dataset) -> list:
    """Verdict on the lengths of plateaus in the first run."""
    return verify(separated(data)[0], only=["plateau-lengths"])


def compute_tree(progress: Progress, *, n: int, beta: float, seed: int) -> xr.Dataset:
    """One random start, to one cluster."""
    flow = SphereAttention(Head.identity(2), Softmax(beta))
    return coalesce(flow, initial.circle(n, rng=seed), progress=progress)


def draw_tree(data: xr.Dataset) -> Picture:
    """Draw the tree of merges."""
    return described(merge_tree, data, title="The tree of merges")


def tree_numbers(data: xr.Dataset) -> dict:
    """Clusters, beginning and end of the longest plateau, and the time of the last merge."""
    times = data.merge_log_time.values
    if len(times) < 2:
        return {"tokens": data.sizes["token"], "merges": len(times)}
    longest = int(np.argmax(np.diff(times)))
    return {
        "tokens": data.sizes["token"],
        "clusters on the longest plateau": int(data.sizes["token"] - 1 - longest),
        "the longest plateau begins and ends at log t": f"{times[longest]:.4g}, {times[longest + 1]:.4g}",
        "log t at which one cluster is left": float(times[-1]),
    }


def tree_verdicts(data: xr.Dataset) -> list:
    """Verdict on the lengths of plateaus."""
    return verify(data, only=["plateau-lengths"])


FIVE = [
    [0.99806638, 0.06215705],
    [0.97712061, 0.21268594],
    [-0.24578194, 0.96932515],
    [-0.97354734, 0.2284854],
    [-0.99892629, -0.04632772],
]
FIGURES = (
    Figure(
        id="five-tokens",
        source=f"{PAPER}, five tokens on the circle",
        title="A few tokens on the circle, merge by merge",
        shows="The circle at several times and the angles of all tokens, to the last merge. Time is shown by its "
        "logarithm.",
        deviates="The published code takes Euler steps of 0.1 to t = 400; here tokens that have met become one token "
        "of larger mass, and steps in time follow the fastest of them to the last merge.",
        compute=compute_five,
        draw=draw_five,
        numbers=five_numbers,
        settings={"tokens": FIVE, "beta": 4.0},
        quick={},
        seconds=(1.0, 1.0),
    ),
    Figure(
        id="energy-staircase",
        source=f"{PAPER}, energy staircase",
        title="The staircase of energy",
        shows="The energy of a few tokens over time and over log t / β, at several β. Between merges it is the sum of "
        "the squared shares of the clusters, in the limit of large β; the title gives the distance from it.",
        deviates="The published steps have unit length and glue tokens by thresholds, which is fragile; here "
        "coalescing dynamics gives the times themselves. The energy is n^-2 times the sum of e^(β(cos - 1)), in (0, "
        "1], as drawn in the paper; its printed form has a factor 1/(2β) more.",
        compute=compute_staircase,
        draw=draw_staircase,
        numbers=staircase_numbers,
        settings={"betas": [500.0, 1000.0, 1500.0, 2000.0, 3000.0, 4000.0], "units": [0.0, 0.5, 2.0, 4.0, 7.0]},
        quick={},
        seconds=(2.0, 2.0),
        verdicts=staircase_verdicts,
        runs=staircase_runs,
    ),
    Figure(
        id="merge-tree",
        source=f"{PAPER}, metastable states of many tokens",
        title="The tree of merges",
        shows="Which tokens and clusters merge, and when, from a random start on the circle to the last merge. Time is "
        "shown by its logarithm.",
        deviates="Not published in this form: coalescing dynamics reaches the last merge, at a time of order e^(2β).",
        compute=compute_tree,
        draw=draw_tree,
        numbers=tree_numbers,
        settings={"n": 100, "beta": 60.0, "seed": 2},
        quick={"n": 40},
        seconds=(2.0, 1.0),
        verdicts=tree_verdicts,
    ),
    Figure(
        id="plateau-lengths",
        source=f"{PAPER}, lengths of plateaus",
        title="Lengths of plateaus against the formula for a pair",
        shows="Every merge of many runs: the length of the plateau before it against the time in which the two "
        "clusters would meet if they were alone. On the diagonal the formula for a pair is exact.",
        deviates="Not published in this form. The paper's lemma has the centre 2/c where 1/(2c) is right; the formula "
        "here is that of two isolated clusters to leading order in β.",
        compute=compute_plateaus,
        draw=draw_plateaus,
        numbers=plateau_numbers,
        settings={"n": 100, "beta": 60.0, "starts": 100, "seed": 0},
        quick={"n": 40, "starts": 6},
        seconds=(40.0, 3.0),
        verdicts=plateau_verdicts,
        runs=lambda data: dict(zip((f"start {place + 1}" for place in data.run.values), separated(data), strict=True)),
    ),
)
