"""Rows of the attention matrix that are not Boolean in the plane: tokens with two equally good leaders."""

from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import brentq

from attnflow._common.plain import number_with_error
from attnflow._common.progress import Progress, parts_of
from attnflow.analyse import attention_matrices
from attnflow.figures.entries.joined_runs import joined, separated
from attnflow.figures.figure import Figure
from attnflow.integrate.evaluate import attention_over_time
from attnflow.integrate.simulate import simulate
from attnflow.model import initial
from attnflow.model.attention import Softmax
from attnflow.model.flows import RescaledAttention
from attnflow.model.heads import Head
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour

UNDECIDED_ENTROPY = 0.1  # nats; rows above it are counted as not Boolean: less than 98 % of the weight on one token
LEADERS = np.array([[-1.0, 1.0], [1.0, 1.0]])  # coordinates whose products with weights are exact in binary


def compute_exceptions(
    progress: Progress, *, beta: float, axis: int, offsets: list[float], end: float, saves: int, runs: int, seed: int
) -> xr.Dataset:
    """Row entropies of mirrored starts over (offset, time, token), and of random starts over (dimension, run, ...).

    A mirrored start has two leaders at (-1, 1) and (1, 1) and the other tokens on the axis between them, moved by
    `offset` to the right. The symmetric triple -1, 0, 1 of the line has its own entropies.
    """
    times, n = np.linspace(0.0, end, saves), axis + 2
    coarse = np.linspace(0.0, end, 41)  # of random starts, whose many matrices take most of the time
    heights = np.linspace(0.1, 0.5, axis)
    starts = [np.r_[LEADERS, np.c_[np.full(axis, offset), heights]] for offset in offsets]
    tasks = {
        "mirrored": (np.stack(starts), times),
        "random_plane": (initial.box(n, 2, -1.0, 1.0, rng=seed, runs=runs), coarse),
        "random_line": (initial.box(n, 1, -1.0, 1.0, rng=seed, runs=runs), coarse),
        "triple": (np.array([[[-1.0], [0.0], [1.0]]]), coarse),
    }
    results = {}
    for (name, (tokens, saved)), share in zip(tasks.items(), parts_of(progress, len(tasks)), strict=True):
        flow = RescaledAttention(Head.identity(tokens.shape[-1]), Softmax(beta))
        results[name] = simulate(flow, tokens, saved, rng=seed, progress=share)
    entropies = {name: attention_matrices.row_entropy(attention_over_time(run)) for name, run in results.items()}
    random = np.stack([entropies["random_line"], entropies["random_plane"]])
    variables = {
        "entropy": (("offset", "time", "token"), entropies["mirrored"]),
        "random_entropy": (("dimension", "run", "coarse_time", "token"), random),
        "triple_entropy": (("coarse_time", "place"), entropies["triple"][0]),
    }  # fmt: skip
    mirrored = [results["mirrored"].isel(run=place, drop=True) for place in range(len(offsets))]
    data = joined(mirrored, xr.Variable("offset", offsets)).assign(variables).assign_attrs(beta=beta)
    return data.assign_coords(coarse_time=coarse, dimension=[1, 2])


def exception_runs(data: xr.Dataset) -> dict[str, xr.Dataset]:
    """The run of the mirrored start with each offset."""
    return {f"offset {offset:g}": run for offset, run in zip(data.offset.values, separated(data), strict=True)}


def predicted_time(offset: float, beta: float) -> float:
    """The time at which the row of a token at a small `offset` from the axis has half of its entropy log 2.

    Near the axis x' = (beta e^{2t} - 1) x, hence x = offset * e^{beta (e^{2t} - 1)/2 - t}; the two weights are in the
    ratio e^{2 beta e^{2t} x}, and the entropy is log(2)/2 where this ratio is 8.11. An offset of zero never leaves.
    """
    if offset == 0:
        return np.inf
    needed = np.log(np.log(8.11) / (2 * beta))  # log of e^{2t} x at that time
    excess = lambda t: np.log(offset) + beta * np.expm1(2 * t) / 2 + t - needed
    found: Any = brentq(excess, 0.0, 5.0) if excess(0.0) < 0 else 0.0
    return float(found)


def measured_times(data: xr.Dataset) -> np.ndarray:
    """For every offset the first saved time at which the highest axis token's row has at most half of log 2."""
    rows = data.entropy[..., -1].values <= np.log(2) / 2
    return np.where(rows.any(axis=1), data.time.values[np.argmax(rows, axis=1)], np.inf)


def draw_exceptions(data: xr.Dataset) -> Picture:
    """Draw the tokens' paths, the entropy of a row for each offset, and the share of rows that are not Boolean."""
    rows = f"{_count_at_end(data)} of {data.sizes['token']}"
    caption = (
        f"β = {data.attrs['beta']:g}, V = Q = K = I, z = e$^{{-t}}$x. Mirrored start: axis tokens have offset 0; at "
        f"t = {float(data.time[-1]):g}, {rows} rows are not Boolean (entropy above {UNDECIDED_ENTROPY:g}). Middle: the "
        f"highest axis token. Random: {data.sizes['run']} starts of as many tokens in [−1, 1]$^d$."
    )
    title = f"Rows of attention that are not Boolean at t = {float(data.time[-1]):g}: {rows} from a mirrored start"
    return panel_picture([[_paths(data), _entropies(data), _shares(data)]], title, caption, width=3.5, heights=[3.9])


def _count_at_end(data: xr.Dataset) -> int:
    return int(np.sum(data.entropy.sel(offset=0.0)[-1] > UNDECIDED_ENTROPY))


def _paths(data: xr.Dataset) -> Lines:
    moved = data.tokens.isel(offset=int(np.argmax(data.offset.values)))
    still = data.tokens.sel(offset=0.0)
    lines = [
        Line(still[:, token, 0], still[:, token, 1], "", line_colour(0)) for token in range(2, data.sizes["token"])
    ]
    lines += [
        Line(moved[:, token, 0], moved[:, token, 1], "", line_colour(1), "--", width=0.9)
        for token in range(2, len(moved[0]))
    ]
    lines += [
        Line([0.0], [1.0], "predicted limit of the axis", line_colour(0), "", "o"),
        Line(LEADERS[:, 0], LEADERS[:, 1], "leaders", theme().grey, "", "s"),
        Line([np.nan], [np.nan], f"offset {float(data.offset.max()):g}", line_colour(1), "--"),
    ]
    return Lines(lines, xlabel="first coordinate", ylabel="second coordinate", title="Tokens", columns=2)


def _entropies(data: xr.Dataset) -> Lines:
    lines = [
        Line(data.time, data.entropy.sel(offset=offset)[:, -1], f"offset {offset:g}", line_colour(index))
        for index, offset in enumerate(data.offset.values)
    ]
    predicted = np.array([predicted_time(float(offset), data.attrs["beta"]) for offset in data.offset.values])
    predicted = predicted[np.isfinite(predicted)]
    half = np.full(len(predicted), np.log(2) / 2)
    lines.append(Line(predicted, half, "half, predicted", theme().grey, "", "x"))
    return Lines(
        lines, ylabel="entropy of the row", title="Row of the highest axis token", levels={"log 2": float(np.log(2))},
        xlim=(0.0, 1.6 * float(predicted.max())), ylim=(0.0, None), columns=2,
    )  # fmt: skip


def _shares(data: xr.Dataset) -> Lines:
    share = lambda entropies, axes: np.mean(np.asarray(entropies) > UNDECIDED_ENTROPY, axis=axes)
    lines = [
        Line(data.time, share(data.entropy.sel(offset=0.0), 1), "plane, mirrored", line_colour(0)),
        Line(
            data.coarse_time, share(data.random_entropy.sel(dimension=2), (0, 2)), "plane, random", line_colour(2), "--"
        ),
        Line(
            data.coarse_time, share(data.random_entropy.sel(dimension=1), (0, 2)), "line, random", line_colour(1), ":"
        ),
    ]
    return Lines(lines, ylabel="share of rows", title="Rows that are not Boolean", ylim=(-0.02, 1.02), columns=2)


def exception_numbers(data: xr.Dataset) -> dict:
    """Rows that are not Boolean at the end, by start, and times of leaving the axis beside predicted ones."""
    last, triple = data.random_entropy[:, :, -1], int(np.sum(data.triple_entropy[-1] > UNDECIDED_ENTROPY))
    numbers: dict[str, Any] = {
        "plane, mirrored start: rows not Boolean at the end": f"{_count_at_end(data)} of {data.sizes['token']}",
        "their least entropy": float(data.entropy.sel(offset=0.0)[-1, 2:].min()),
        "log 2": float(np.log(2)),
        "line, start -1, 0, 1: rows not Boolean at the end": f"{triple} of 3",
    }
    for d in data.dimension.values:
        rows = last.sel(dimension=d).values
        name = "plane" if d == 2 else "line"
        numbers[f"{name}, random starts: rows not Boolean at the end"] = (
            f"{int(np.sum(rows > UNDECIDED_ENTROPY))} of {rows.size}"
        )
        numbers[f"{name}, random starts: largest entropy of a row at the end"] = number_with_error(
            rows.max(), np.finfo(float).eps
        )
    for offset, time in zip(data.offset.values, measured_times(data), strict=True):
        predicted = predicted_time(float(offset), data.attrs["beta"])
        text = "never within the run" if np.isinf(time) else f"{time:.3f}"
        numbers[f"offset {offset:g}: time of half the entropy, measured and predicted"] = f"{text}, {predicted:.3f}"
    return numbers


FIGURES = (
    Figure(
        id="boolean-exceptions",
        source="arXiv:2305.05465: the Boolean limit beyond d = 1, an open question",
        title="Rows of attention with two equally good leaders",
        shows="Tokens on a mirror axis of the plane between two leaders, with several offsets from the axis. The "
        "entropy of a row is log 2 where it has two equally good leaders and 0 where it is Boolean; crosses are the "
        "predicted times of half of log 2. Random starts on the line and in the plane are the control.",
        deviates="The publication has no such figure. Leaders have coordinates ±1 and a β at which they do not move, "
        "so that sums over mirror images vanish exactly in floating point.",
        compute=compute_exceptions,
        draw=draw_exceptions,
        numbers=exception_numbers,
        runs=exception_runs,
        settings={
            "beta": 32.0, "axis": 10, "offsets": [0.0, 1e-12, 1e-8, 1e-4, 1e-2], "end": 8.0, "saves": 801, "runs": 50,
            "seed": 0,
        },
        quick={"runs": 8},
        seconds=(10.0, 6.0),
    ),
)  # fmt: skip
