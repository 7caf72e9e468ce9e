"""Conjecture 1 of arXiv:2411.04990 over random Q^T K: how often tokens end away from the leading eigenvector of V."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.figures.entries.sweep_data import swept
from attnflow.figures.figure import Figure
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.theorems.studies.conjecture1 import Share

CASES = {"gaussian": "Gaussian Q$^T$K", "identity": "Q$^T$K = I (control)"}


def weights_spec(
    *, n: int, d: int, value: str, betas: list[float], matrices: int, end: float, runs: int, seed: int
) -> dict[str, Any]:
    """The sweep of the figure, as `sweeps/conjecture1.toml` has it: axis `seed` draws the matrices."""
    return {
        "space": "sphere", "mask": "causal", "n": n, "d": d, "value": value, "start": "sphere", "end": end, "saves": 2,
        "runs": runs, "reduce": ["mean", "all"],
        "over": {"query_key": list(CASES), "beta": betas, "seed": list(range(seed, seed + matrices))},
        "observables": {"unaligned": "unaligned:0.01"},
    }  # fmt: skip


def compute_weights(progress: Progress, *, store: str, **settings: Any) -> xr.Dataset:
    """Share of tokens away from +-xi over (case, beta, matrix, run)."""
    found = swept(progress, weights_spec(**settings), store)
    values = found.unaligned.transpose("query_key", "beta", "seed", "run").values
    coordinates = {
        "case": [str(word) for word in found.query_key.values],
        "beta": found.beta.values,
        "matrix": found.seed.values,
    }
    attributes = {name: settings[name] for name in ("n", "d", "value", "end", "runs")}
    return xr.Dataset({"unaligned": (("case", "beta", "matrix", "run"), values)}, coordinates, attributes)


def _exceptions(data: xr.Dataset) -> xr.DataArray:
    """The share of runs of every matrix in which a token is away from +-xi."""
    return (data.unaligned > 0).mean("run")


def draw_weights(data: xr.Dataset) -> Picture:
    """Draw the share of such runs of every matrix, in falling order, one panel for each beta."""
    shares = _exceptions(data)
    places = np.arange(1, data.sizes["matrix"] + 1)
    panels = [
        Lines(
            [
                Line(places, np.sort(shares.sel(case=case, beta=beta).values)[::-1], words, line_colour(k), "", "os"[k])
                for k, (case, words) in reversed(list(enumerate(CASES.items())))
            ],
            xlabel="matrix, by falling share",
            ylabel="share of runs",
            title=f"β = {beta:g}",
            ylim=(-0.03, 1.03),
            has_integer_x=True,
        )
        for beta in data.beta.values.tolist()
    ]
    caption = (
        f"Causal attention of {data.attrs['n']} tokens in dimension {data.attrs['d']}, "
        f"V = {_matrix(data.attrs['value'])}; a point is a matrix Q$^T$K, its height the share of {data.attrs['runs']} "
        f"starts in which at t = {data.attrs['end']:g} a token is away from ±ξ (cosine below 0.99). "
        f"{weights_sentence(data)}"
    )
    return panel_picture([panels], "Runs with a token away from the leading eigenvector of V", caption, width=3.4,
                         heights=[3.4])  # fmt: skip


def _matrix(word: str) -> str:
    """The word of a diagonal matrix as a formula."""
    return f"diag({word.partition(':')[2].replace(',', ', ')})"


def _matrices(data: xr.Dataset, case: str) -> Share:
    """How many matrices have such a run at one or more of the betas."""
    has_one = (_exceptions(data).sel(case=case) > 0).any("beta")
    return Share(int(has_one.sum()), has_one.size)


def weights_sentence(data: xr.Dataset) -> str:
    """Sentence on the number of matrices with such runs, beside the control."""
    found, control = (_matrices(data, case) for case in CASES)
    return (
        f"{found.count} of {found.total} Gaussian matrices have such a run at one of these β, and {control.count} of "
        f"{control.total} in the control."
    )


def weights_numbers(data: xr.Dataset) -> dict[str, Any]:
    """Numbers of matrices with such runs with their intervals, and the shares of runs, by case and beta."""
    numbers: dict[str, Any] = {f"matrices with such runs, {case}": str(_matrices(data, case)) for case in CASES}
    for case in CASES:
        for beta in data.beta.values.tolist():
            share = float(_exceptions(data).sel(case=case, beta=beta).mean())
            numbers[f"share of runs with a token away from +-xi, {case}, beta = {beta:g}"] = share
    return numbers


FIGURES = (
    Figure(
        id="conjecture1-random",
        source="arXiv:2411.04990, Conjecture 1, over random Q and K",
        title="Conjecture 1 over random Q and K",
        shows="For every random matrix QᵀK, the share of starts from which a token of causal attention ends away from "
        "plus or minus the leading eigenvector ξ of V, which the conjecture excludes. In the control QᵀK is the "
        "identity.",
        deviates="The publication shows no such figure. A token that moves slowly counts as away; the control has the "
        "same V, starts and end.",
        compute=compute_weights,
        draw=draw_weights,
        numbers=weights_numbers,
        settings={
            "n": 12, "d": 3, "value": "diagonal:2,1,0.5", "betas": [1.0, 4.0], "matrices": 60, "end": 200.0,
            "runs": 20, "seed": 0, "store": "",
        },
        quick={"matrices": 6, "runs": 5},
        seconds=(16.0, 6.0),
        fixed=("value", "d"),
    ),
)  # fmt: skip
