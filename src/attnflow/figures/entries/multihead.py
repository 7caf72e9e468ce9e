"""Several heads: where tokens go and how fast, and what the eigenvalues of the heads say of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.analyse import clusters, hyperplanes, rates
from attnflow.integrate.evaluate import attention_matrix
from attnflow.integrate.simulate import simulate
from attnflow.model import initial
from attnflow.model.flows import EuclideanAttention, RescaledAttention
from attnflow.model.heads import Head
from attnflow.show.parts.panels import Line, Lines, panel_figure
from attnflow.show.parts.scene import Scene, Snapshot, scene_of, snapshots
from attnflow.show.parts.style import GREY, OKABE_ITO
from attnflow.show.parts.subspaces import AffineSubspace
from attnflow.solvers.adaptive import Adaptive

CLOSE = 0.05  # of the largest norm: tokens this close are one cluster
REACH = 1.1  # of axes, in largest norms
STARTS = {"gaussian": initial.gaussian, "circle": initial.circle}
LAWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "positive": lambda matrix: matrix @ matrix.T / len(matrix),
    "Gaussian": lambda matrix: matrix,
}
SOLVER = Adaptive(rtol=1e-9, atol=1e-12)
NOISE = 1e-6  # of the first step: far above what the tolerance leaves
LATE = 4.0  # units of time, the last ones above the noise, that a rate is read from
AGREE = 0.02  # by which the rates of their two halves may differ
AT_REST = 0.01  # of the first distance to the last place
NOTE = "Tokens are divided by the largest norm at each time. Grey line: leading eigenvector of the sum of all V."


def random_heads(count: int, d: int, rng: np.random.Generator) -> list[Head]:
    """Heads with Gaussian V of size one in all, and random positive definite Q^T K."""
    values = rng.normal(size=(count, d, d)) / np.sqrt(d * count)
    factors = rng.normal(size=(count, d, d))
    return [Head.bilinear(factor @ factor.T / d, value) for factor, value in zip(factors, values, strict=True)]


# -- One start ---------------------------------------------------------------------------------------------------------


def follow_heads(
    progress: Progress, *, n: list[int], d: int, heads: int, start: str, end: float, saves: int, seed: int
) -> xr.Dataset:
    """Runs of the same heads, one for every number of tokens, with how fast the largest token grows."""
    weights = random_heads(heads, d, np.random.default_rng(seed))
    flow, times = EuclideanAttention(weights), np.linspace(0, end, saves)
    found = {}
    for count in n:
        run = simulate(flow, STARTS[start](count, d, rng=seed), times, progress=progress)
        sizes = np.linalg.norm(run.tokens.values, axis=-1).max(axis=1)
        dims = ("time", f"token_{count}", "coordinate")
        found[f"tokens_{count}"] = (dims, run.tokens.values)
        found[f"growth_{count}"] = ("time", np.gradient(np.log(sizes), times))
    found["value"] = (("head", "row", "column"), np.stack([np.asarray(head.value_matrix) for head in weights]))
    return xr.Dataset(found, {"time": times, "n": n}, {"flow": run.attrs["flow"]})


def draw_heads(dataset: xr.Dataset) -> Any:
    """Three moments, the eigenvalues of every head and of their sum, and the growth they predict."""
    count = int(dataset.n[-1])
    scene = _scene(dataset, count)
    end = float(dataset.time[-1])
    moments = snapshots(scene, [0, end / 3, end])
    below = [_eigenvalue_panel(dataset), _growth_panel(dataset)]
    heads, d = dataset.sizes["head"], dataset.sizes["coordinate"]
    title = f"{heads} heads in dimension {d}: tokens line up along the leading eigenvector of the sum"
    return panel_figure([moments, below], title, NOTE, width=3.3, heights=[3.4, 3.6])


def draw_more_tokens(dataset: xr.Dataset) -> Any:
    """The end of every run, and the growth of all."""
    last = len(dataset.time) - 1
    ends = [Snapshot(_scene(dataset, n), last, f"n = {n}, t = {float(dataset.time[-1]):.3g}") for n in _counts(dataset)]
    below = [_growth_panel(dataset), _eigenvalue_panel(dataset)]
    title = f"{dataset.sizes['head']} heads: more tokens, the same line"
    return panel_figure([ends, below], title, NOTE, width=3.3, heights=[3.4, 3.6])


def head_numbers(dataset: xr.Dataset) -> dict[str, float | int | str]:
    """Predicted and measured growth, and how well tokens are lined up."""
    leading = leading_eigenvalue(dataset)
    found: dict[str, float | int | str] = {
        "leading eigenvalue of the sum of all V": _complex(leading),
        "largest real part of a single head": float(np.linalg.eigvals(dataset.value.values).real.max()),
    }
    for n in _counts(dataset):
        of = f" (n = {n})" if len(_counts(dataset)) > 1 else ""
        found[f"growth rate at the end{of}"] = float(dataset[f"growth_{n}"][-2])
        found[f"clusters at the end{of}"] = int(clusters.labels(_scaled_end(dataset, n), CLOSE).max() + 1)
        found[f"largest angle to the eigenvector, degrees{of}"] = _largest_angle(dataset, n)
    return found


def leading_eigenvalue(dataset: xr.Dataset) -> complex:
    """Of the sum of all value matrices, the one of largest real part."""
    return complex(hyperplanes.left_eigenvectors(dataset.value.sum("head").values).eigenvalues[0])


def _counts(dataset: xr.Dataset) -> list[int]:
    return dataset.n.values.tolist()


def _right_eigenvector(dataset: xr.Dataset) -> np.ndarray:
    """The direction in which x grows: real part where the leading eigenvalue is complex."""
    eigenvalues, vectors = np.linalg.eig(dataset.value.sum("head").values)
    vector = np.real(vectors[:, np.argmax(np.real(eigenvalues))])
    return vector / np.linalg.norm(vector)


def _scaled_end(dataset: xr.Dataset, n: int) -> np.ndarray:
    tokens = dataset[f"tokens_{n}"].values[-1]
    return tokens / np.linalg.norm(tokens, axis=-1).max()


def _largest_angle(dataset: xr.Dataset, n: int) -> float:
    tokens, axis = _scaled_end(dataset, n), _right_eigenvector(dataset)
    across = np.linalg.norm(tokens - np.outer(tokens @ axis, axis), axis=1)
    return float(np.degrees(np.arctan2(across, np.abs(tokens @ axis))).max())


def _scene(dataset: xr.Dataset, n: int) -> Scene:
    tokens = dataset[f"tokens_{n}"].rename({f"token_{n}": "token"})
    run = xr.Dataset({"tokens": tokens, "initial_tokens": tokens.isel(time=0, drop=True)}, attrs=dataset.attrs)
    scene = scene_of(run, distance=CLOSE)
    sizes = np.linalg.norm(tokens.values, axis=-1).max(axis=1)
    scaled = tokens.values / sizes[:, None, None]
    labels = clusters.labels(scaled[-1], CLOSE)
    axis = _right_eigenvector(dataset)
    across = np.linalg.svd(axis[None])[2][1:]
    flat = AffineSubspace(across, np.zeros(len(across)), GREY)
    drawn = replace(scene.drawn, tokens=scaled, labels=labels, is_scaled=False)
    return replace(scene, subspaces=(flat,), reach=REACH, drawn=drawn)


def _eigenvalue_panel(dataset: xr.Dataset) -> Lines:
    each = np.linalg.eigvals(dataset.value.values).ravel()
    total = np.linalg.eigvals(dataset.value.sum("head").values)
    lines = [
        Line(each.real, each.imag, "of every head", OKABE_ITO[5], "", "o"),
        Line(total.real, total.imag, "of the sum of all V", OKABE_ITO[1], "", "D"),
    ]
    most = 1.15 * float(np.abs(np.concatenate([each, total])).max())
    box: dict[str, Any] = {"xlim": (-most, most), "ylim": (-most, most), "is_square": True}
    return Lines(lines, "real part", "imaginary part", "Eigenvalues", **box)


def _growth_panel(dataset: xr.Dataset) -> Lines:
    counts = _counts(dataset)
    lines = [Line(dataset.time, dataset[f"growth_{n}"], f"n = {n}", OKABE_ITO[k]) for k, n in enumerate(counts)]
    level = {"real part of the sum's leading eigenvalue": leading_eigenvalue(dataset).real}
    return Lines(lines, ylabel="d/dt log of the largest norm", title="Growth", levels=level)


def _complex(number: complex) -> str:
    return f"{number.real:.4g}" if abs(number.imag) < 1e-12 else f"{number.real:.4g}{number.imag:+.4g}i"


# -- How fast, against the number of heads -----------------------------------------------------------------------------


def follow_rates(
    progress: Progress, *, heads: list[int], runs: int, n: int, d: int, end: float, seed: int
) -> xr.Dataset:
    """How rescaled tokens come to rest under V_h = I/H: when, at which rate, and what the last weights predict."""
    places = [(law, count, run) for law in LAWS for count in heads for run in range(runs)]
    found, times = [], np.linspace(0, end, 121)
    for done, (law, count, place) in enumerate(places):
        rng = np.random.default_rng([seed, count, place])
        flow = RescaledAttention([_averaging_head(law, count, d, rng) for _ in range(count)])
        run = simulate(flow, initial.gaussian(n, d, 2.0, rng=rng), times, solver=SOLVER, progress=False)
        found.append((_steps(run), time_at_rest(times, run.tokens.values), _predicted_rate(flow, run)))
        if callable(progress):
            progress((done + 1) / len(places), f"{count} heads, Q^T K {law}")
    steps, at_rest, predicted = (
        np.array(each).reshape(len(LAWS), len(heads), runs, -1) for each in zip(*found, strict=True)
    )
    measured = np.apply_along_axis(lambda one: late_rate(times[:-1], one), -1, steps)
    dims = ("law", "heads", "run")
    variables: dict[str, Any] = {"measured": (dims, measured), "step": ((*dims, "time"), steps)}
    variables |= {"at_rest": (dims, at_rest[..., 0]), "predicted": (dims, predicted[..., 0])}
    return xr.Dataset(variables, {"law": list(LAWS), "heads": heads, "time": times[:-1]})


def draw_rates(dataset: xr.Dataset) -> Any:
    """Rates and times of all runs with their medians, and how one run of every number of heads comes to rest."""
    heads = dataset.heads.values
    first = dataset.step.sel(law="Gaussian").isel(run=0)
    moving = [Line(dataset.time, first[k], _heads(count), OKABE_ITO[k]) for k, count in enumerate(heads)]
    moving.append(Line(dataset.time, float(first[0, 0]) * np.exp(-dataset.time.values), "e$^{-t}$", GREY, "--"))
    against: dict[str, Any] = {"xlabel": "heads H", "xscale": "log", "xticks": heads}
    panels = [
        Lines(_every_run(dataset.measured), ylabel="rate", title="Rate in the end", ylim=(0, 1.5), **against),
        Lines(_every_run(dataset.at_rest), ylabel="time t", title="99 % of the way is done", ylim=(0, None), **against),
        Lines(moving, ylabel="step between saved times", title="Coming to rest", yscale="log", columns=2),
    ]
    title = "How fast tokens come to rest, against the number of heads"
    caption = (
        f"Rates are read from the last {LATE:g} units of time above the error of the solver, where both halves of them "
        f"agree within {AGREE:g}: in {_settled(dataset)} runs. Dots: runs. Diamonds: medians."
    )
    return panel_figure([panels], title, caption, width=3.7, heights=[4.2])


def rate_numbers(dataset: xr.Dataset) -> dict[str, float | int | str]:
    """Rates and times for every number of heads, and how well the last weights predict the rates."""
    found: dict[str, float | int | str] = {"runs whose rate has settled": _settled(dataset)}
    for law in dataset.law.values:
        for count in dataset.heads.values:
            one, of = dataset.sel(law=law, heads=count), f"Q^T K {law}, {_heads(count)}"
            found[f"rate, {of}: median, least and largest"] = _spread_words(one.measured.values)
            found[f"time by which 99 % of the way is done, {of}: median"] = float(one.at_rest.median())
    is_near = np.abs(dataset.measured - dataset.predicted) < AGREE
    near = f"{int(is_near.sum())} of {int(np.isfinite(dataset.measured).sum())}"
    return found | {f"settled runs within {AGREE:g} of the rate of their last weights": near}


def late_rate(times: np.ndarray, steps: np.ndarray) -> float:
    """The rate at which steps shrink in the end; NaN while it still changes.

    A rate fitted to all times would mix phases. The last `LATE` units of time above the noise are one phase if
    either half of them gives the same rate within `AGREE`; only then is there a rate to speak of.

    Examples
    --------
    >>> times = np.linspace(0, 16, 121)
    >>> round(late_rate(times, np.exp(-times)), 6)
    1.0
    >>> late_rate(times, np.exp(-np.maximum(times, 2 * times - 10)))  # at t = 10 the rate becomes two
    nan
    """
    below = np.flatnonzero(steps <= NOISE * steps[0])
    last = times[below[0] if len(below) else -1]
    windows = [(last - LATE, last - LATE / 2), (last - LATE / 2, last), (last - LATE, last)]
    chosen = [(times >= low) & (times < high) for low, high in windows]
    if min(one.sum() for one in chosen) < rates.FEWEST_POINTS:
        return np.nan
    first, second, both = (rates.exponential(times[one], steps[one]).rate for one in chosen)
    return both if abs(first - second) < AGREE else np.nan


def time_at_rest(times: np.ndarray, tokens: np.ndarray) -> float:
    """From when on the tokens (time, token, coordinate) are within `AT_REST` of their first distance to the end."""
    left = np.linalg.norm(tokens - tokens[-1], axis=(1, 2))
    return float(times[np.flatnonzero(left > AT_REST * left[0]).max(initial=-1) + 1])


def _every_run(values: xr.DataArray) -> list[Line]:
    """Medians over runs against the number of heads, and every run as a dot."""
    medians, every = [], []
    for shade, law in zip(OKABE_ITO, values.law.values, strict=False):
        one = values.sel(law=law)
        medians.append(Line(values.heads, one.median("run"), f"Q\u1d40K {law}", shade, marker="D"))
        every += [Line(values.heads, one[:, run], "", shade, "", "o", alpha=0.3) for run in range(one.sizes["run"])]
    return [*medians, *every]


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
    """How far all tokens go between saved times: it shrinks at the rate of the slowest mode that is left."""
    return np.linalg.norm(np.diff(run.tokens.values, axis=0), axis=(1, 2))


def _predicted_rate(flow: RescaledAttention, run: xr.Dataset) -> float:
    """Z' = (P - I) Z with the mean P of all heads: one minus the largest real part below one."""
    matrices = attention_matrix(flow, run.final_tokens.values, float(run.final_time))
    mean = matrices if matrices.ndim == 2 else matrices.mean(axis=0)
    real = np.linalg.eigvals(mean).real
    return float(1 - real[real < 1 - 1e-9].max(initial=-np.inf))
