"""Rates and times of convergence of rescaled tokens, against the number of heads."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.analyse import rates
from attnflow.integrate.evaluate import attention_matrix
from attnflow.integrate.simulate import simulate
from attnflow.model import initial
from attnflow.model.flows import RescaledAttention
from attnflow.model.heads import Head
from attnflow.show.parts.page import theme
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour
from attnflow.solvers.adaptive import Adaptive

LAWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "positive": lambda matrix: matrix @ matrix.T / len(matrix),
    "Gaussian": lambda matrix: matrix,
}
SOLVER = Adaptive(rtol=1e-9, atol=1e-12)
FIT_TIME = 4.0  # units of time from which a rate is read: the last ones in which steps exceed the error of the solver
RATE_TOLERANCE = 0.02  # largest difference of the rates of the two halves of that time


def compute_rates(
    progress: Progress, *, heads: list[int], runs: int, n: int, d: int, end: float, seed: int
) -> xr.Dataset:
    """Runs with V_h = I/H: time and rate of convergence, and the rate that the final weights predict."""
    tasks = [(law, count, run) for law in LAWS for count in heads for run in range(runs)]
    measures, times = [], np.linspace(0, end, 121)
    for done, (law, count, run_number) in enumerate(tasks):
        rng = np.random.default_rng([seed, count, run_number])
        flow = RescaledAttention([_averaging_head(law, count, d, rng) for _ in range(count)])
        run = simulate(flow, initial.gaussian(n, d, 2.0, rng=rng), times, solver=SOLVER, progress=False)
        measures.append((_steps(run), time_at_rest(times, run.tokens.values), _predicted_rate(flow, run)))
        if callable(progress):
            progress((done + 1) / len(tasks), f"{count} heads, Q^T K {law}")
    steps, at_rest, predicted = (
        np.array(each).reshape(len(LAWS), len(heads), runs, -1) for each in zip(*measures, strict=True)
    )
    measured = np.apply_along_axis(lambda one: final_rate(times[:-1], one), -1, steps)
    dims = ("law", "heads", "run")
    variables: dict[str, Any] = {"measured": (dims, measured), "step": ((*dims, "time"), steps)}
    variables |= {"at_rest": (dims, at_rest[..., 0]), "predicted": (dims, predicted[..., 0])}
    return xr.Dataset(variables, {"law": list(LAWS), "heads": heads, "time": times[:-1]})


def draw_rates(dataset: xr.Dataset) -> Picture:
    """Draw rates and times of all runs with their medians, and the steps of one run for every number of heads."""
    heads = dataset.heads.values
    first = dataset.step.sel(law="Gaussian").isel(run=0)
    moving = [Line(dataset.time, first[k], _heads(count), line_colour(k)) for k, count in enumerate(heads)]
    moving.append(Line(dataset.time, float(first[0, 0]) * np.exp(-dataset.time.values), "e$^{-t}$", theme().grey, "--"))
    against: dict[str, Any] = {"xlabel": "heads H", "xscale": "log", "xticks": heads}
    panels = [
        Lines(
            _every_run(dataset.measured),
            ylabel="rate",
            title="Final rate",
            ylim=_around_one(dataset.measured),
            levels={"rate 1": 1.0},
            **against,
        ),
        Lines(
            _every_run(dataset.at_rest), ylabel="time t", title="1 % of the distance left", ylim=(0, None), **against
        ),
        Lines(moving, ylabel="step between saved times", title="Convergence", yscale="log", columns=2),
    ]
    title = "Rate of convergence against the number of heads"
    caption = (
        f"Rates are read from the last {FIT_TIME:g} units of time above the error of the solver, where both halves of "
        f"them agree within {RATE_TOLERANCE:g}: in {_settled(dataset)} runs. Dots: runs. Diamonds: medians."
    )
    return panel_picture([panels], title, caption, width=3.7, heights=[4.2])


def rate_numbers(dataset: xr.Dataset) -> dict[str, float | int | str]:
    """Rates and times for every number of heads, and the number of rates that the final weights predict."""
    numbers: dict[str, float | int | str] = {"runs whose rate has settled": _settled(dataset)}
    for law in dataset.law.values:
        for count in dataset.heads.values:
            one, of = dataset.sel(law=law, heads=count), f"Q^T K {law}, {_heads(count)}"
            numbers[f"rate, {of}: median, least and largest"] = _spread_words(one.measured.values)
            numbers[f"time by which 99 % of the way is done, {of}: median"] = float(one.at_rest.median())
    is_near = np.abs(dataset.measured - dataset.predicted) < RATE_TOLERANCE
    near = f"{int(is_near.sum())} of {int(np.isfinite(dataset.measured).sum())}"
    return numbers | {f"settled runs within {RATE_TOLERANCE:g} of the rate of their last weights": near}


def final_rate(times: np.ndarray, steps: np.ndarray) -> float:
    """The exponential rate at which the steps finally decrease; NaN if it still changes.

    A rate fitted to all times would mix phases. It is fitted to the last `FIT_TIME` units of time in which steps
    exceed 1e-6 of the first one, far above the error of the solver, and counts only if both halves of that time give
    it within `RATE_TOLERANCE`.

    Examples
    --------
    >>> times = np.linspace(0, 16, 121)
    >>> round(final_rate(times, np.exp(-times)), 6)
    1.0
    >>> final_rate(times, np.exp(-np.maximum(times, 2 * times - 10)))  # at t = 10 the rate becomes two
    nan
    """
    below = np.flatnonzero(steps <= 1e-6 * steps[0])
    last = times[below[0] if len(below) else -1]
    windows = [(last - FIT_TIME, last - FIT_TIME / 2), (last - FIT_TIME / 2, last), (last - FIT_TIME, last)]
    chosen = [(times >= low) & (times < high) for low, high in windows]
    if min(one.sum() for one in chosen) < rates.MIN_POINTS:
        return np.nan
    first, second, both = (rates.exponential(times[one], steps[one]).rate for one in chosen)
    return both if abs(first - second) < RATE_TOLERANCE else np.nan


def time_at_rest(times: np.ndarray, tokens: np.ndarray) -> float:
    """Time after which the distance of tokens (time, token, coordinate) to the end is below 1 % of the first."""
    left = np.linalg.norm(tokens - tokens[-1], axis=(1, 2))
    return float(times[np.flatnonzero(left > 0.01 * left[0]).max(initial=-1) + 1])


def _every_run(values: xr.DataArray) -> list[Line]:
    """Lines of medians over runs against the number of heads, and one dot for every run."""
    medians, every = [], []
    for place, law in enumerate(values.law.values):
        one, shade = values.sel(law=law), line_colour(place)
        medians.append(Line(values.heads, one.median("run"), f"Q\u1d40K {law}", shade, marker="D"))
        every += [Line(values.heads, one[:, run], "", shade, "", "o", alpha=0.3) for run in range(one.sizes["run"])]
    return [*medians, *every]


def _around_one(values: xr.DataArray) -> tuple[float, float]:
    """Limits of an axis that hold 1 and all finite values, with room on both sides."""
    low, high = min(1.0, float(values.min())), max(1.0, float(values.max()))
    return low - 0.1 - 0.1 * (high - low), high + 0.1 + 0.1 * (high - low)


def _settled(dataset: xr.Dataset) -> str:
    return f"{int(np.isfinite(dataset.measured).sum())} of {dataset.measured.size}"


def _spread_words(values: np.ndarray) -> str:
    known = values[np.isfinite(values)]
    return f"{np.median(known):.3f}, {known.min():.3f}, {known.max():.3f}" if len(known) else "still changing"


def _heads(count: int) -> str:
    return f"{count} head{'' if count == 1 else 's'}"


def _averaging_head(law: str, count: int, d: int, rng: np.random.Generator) -> Head:
    return Head.bilinear(LAWS[law](rng.normal(size=(d, d))), np.eye(d) / count)


def _steps(run: xr.Dataset) -> np.ndarray:
    """Distance that the tokens move between saved times; it decreases at the rate of the slowest mode left."""
    return np.linalg.norm(np.diff(run.tokens.values, axis=0), axis=(1, 2))


def _predicted_rate(flow: RescaledAttention, run: xr.Dataset) -> float:
    """Rate of Z' = (P - I) Z with the mean P of all heads: one minus the largest real part below one."""
    matrices = attention_matrix(flow, run.final_tokens.values, float(run.final_time))
    mean = matrices if matrices.ndim == 2 else matrices.mean(axis=0)
    real = np.linalg.eigvals(mean).real
    return float(1 - real[real < 1 - 1e-9].max(initial=-np.inf))
