"""Robustness: how numbers of vertices, clusters and leaders and the rate depend on the law of first tokens, n and d."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count, require_known, require_positive_number
from attnflow._common.memory import require_array_memory
from attnflow.analyse import clusters, leaders, polytope, rates
from attnflow.integrate.evaluate import attention_matrix
from attnflow.integrate.simulate import simulate
from attnflow.model import initial
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import RescaledAttention
from attnflow.model.heads import Head
from attnflow.solvers.adaptive import Adaptive
from attnflow.sweeps.grids import computed_cells
from attnflow.theorems.prediction.observed_limits import PLACE_DISTANCE

Law = Callable[..., np.ndarray]

# All with mean squared coordinate one, so that laws differ by shape and not by size.
LAWS: dict[str, Law] = {
    "gaussian": initial.gaussian,
    "box": lambda n, d, **options: initial.box(n, d, -np.sqrt(3), np.sqrt(3), **options),
    "ball": lambda n, d, **options: initial.ball(n, d, np.sqrt(d + 2), **options),
    "shell": lambda n, d, **options: np.sqrt(d) * initial.sphere(n, d, **options),
}
QUANTITIES = {
    "vertices": "vertices of the final hull",
    "clusters": "clusters at the end",
    "leaders": "tokens that receive most of another token's attention",
    "rate": "rate of e^(-rate t) at which tokens come to rest, fitted over a window; intervals are over starts only",
}
SOLVER = Adaptive(rtol=1e-7, atol=1e-10, max_steps=100_000)  # seconds; runs until 12 take about fifty steps
SMALLEST_MOVE = 1e-6  # of the largest coordinate: three times the moves by errors of the solver in tokens at rest


def robustness(
    laws: str | Sequence[str] | Mapping[str, Law] = ("gaussian", "box", "ball"),
    n: int | Sequence[int] = (10, 20, 40),
    d: int | Sequence[int] = (2, 3),
    *,
    flow: Callable[[int], AbstractDynamics] | None = None,
    seeds: int = 12,
    end: float = 12.0,
    confidence: float = 0.95,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[float, str], Any] | None = None,
) -> xr.Dataset:
    """Outcomes of a flow from many random starts, with confidence intervals of their means.

    Parameters
    ----------
    laws
        Names ("gaussian", "box", "ball", "shell"), or functions ``law(n, d, rng=, runs=)`` by name.
    flow
        The flow in dimension d; rescaled attention with Q = K = V = I when left out.
    seeds
        Starts of each kind, two or more.
    end
        Time at which vertices, clusters and leaders are counted.
    confidence
        Level of the Student intervals of the means.
    workers
        Number of local processes. By default cells are computed in this one.
    progress
        Called with the share done and a sentence.

    Returns
    -------
    `vertices`, `clusters`, `leaders` and `rate` over (law, n, d, seed), and of each the mean with its confidence
    interval, such as `vertices_interval` over (law, n, d, bound) with bounds low, mean, high. A run that does not reach
    `end` within 100,000 steps has NaN, which the means leave out; the attribute `unfinished` counts such runs.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.robustness("box", n=5, d=2, seeds=2, end=4.0)
    >>> found.vertices_interval.dims
    ('law', 'n', 'd', 'bound')
    """
    chosen, sizes, dimensions = require_robustness_arguments(laws, n, d, seeds=seeds, end=end, confidence=confidence)
    flow = flow or (lambda d: RescaledAttention(Head.identity(d)))
    found = np.full((len(QUANTITIES), len(chosen), len(sizes), len(dimensions), seeds), np.nan)
    cells = list(itertools.product(chosen, sizes, dimensions))
    results = computed_cells(
        outcomes,
        ((flow(d), chosen[law](n, d, rng=seed, runs=seeds), end) for law, n, d in cells),
        words=lambda done: "{}, n = {}, d = {}".format(*cells[done - 1]),
        workers=workers,
        progress=progress or False,
    )
    for place, result in zip(np.ndindex(found.shape[1:4]), results, strict=True):
        found[:, *place] = result
    return _dataset(found, list(chosen), sizes, dimensions, confidence, end)


def outcomes(flow: AbstractDynamics, tokens: np.ndarray, end: float) -> np.ndarray:
    """The four quantities for every start, shape (quantity, run); NaN where a run failed."""
    run = simulate(flow, tokens, np.linspace(0, end, 49), solver=SOLVER, progress=False)
    nothing = [np.nan] * len(QUANTITIES)
    ends = zip(run.tokens.values, run.failed.values, strict=True)
    return np.array([nothing if failed else _outcome(flow, run.time.values, path) for path, failed in ends]).T


def _outcome(flow: AbstractDynamics, times: np.ndarray, path: np.ndarray) -> list[float]:
    last = path[-1]
    distance = PLACE_DISTANCE * (float(np.ptp(path[0], axis=0).max()) or 1.0)
    matrix = attention_matrix(flow, last, times[-1])
    matrix = matrix if matrix.ndim == 2 else matrix.mean(axis=0)
    return [
        len(polytope.limit_vertices(last, distance)),
        int(clusters.labels(last, distance).max()) + 1,
        len(leaders.attended(matrix, 0.5)),
        _rate(times, path),
    ]


def _rate(times: np.ndarray, path: np.ndarray) -> float:
    """The exponential rate of the moves between saved times, over the last two thirds of the time in which tokens move.

    NaN where fewer saved times than a fit needs are among them.
    """
    moves = np.linalg.norm(np.diff(path, axis=0), axis=-1).mean(axis=-1)
    is_moving = moves > SMALLEST_MOVE * np.abs(path).max()
    rest = times[1:][is_moving].max(initial=0.0)
    late = is_moving & (times[:-1] >= rest / 3)
    return rates.exponential(times[:-1][late], moves[late]).rate if late.sum() >= rates.MIN_POINTS else np.nan


def interval(samples: Any, confidence: float = 0.95) -> np.ndarray:
    """The Student interval of the mean along the last axis: low, mean, high. NaN are left out.

    Examples
    --------
    >>> interval([1.0, 2.0, 3.0]).round(3)
    array([-0.484,  2.   ,  4.484])
    """
    from scipy.stats import t  # slow to import

    samples = np.asarray(samples, dtype=float)
    count = np.isfinite(samples).sum(axis=-1)
    safe = np.maximum(count, 1)
    mean = np.where(count > 0, np.nansum(samples, axis=-1) / safe, np.nan)
    squares = np.nansum((samples - mean[..., None]) ** 2, axis=-1)
    error = np.sqrt(squares / np.maximum(count - 1, 1) / safe)
    half = np.where(count > 1, t.ppf((1 + confidence) / 2, np.maximum(count - 1, 1)) * error, np.nan)
    return np.stack([mean - half, mean, mean + half], axis=-1)


def _dataset(found: np.ndarray, laws: list[str], n: list[int], d: list[int], confidence: float, end: float):
    axes = ("law", "n", "d")
    variables = {}
    for (name, text), samples in zip(QUANTITIES.items(), found, strict=True):
        variables[name] = ((*axes, "seed"), samples, {"long_name": text})
        variables[f"{name}_interval"] = ((*axes, "bound"), interval(samples, confidence), {"long_name": text})
    coordinates = {"law": laws, "n": n, "d": d, "bound": ["low", "mean", "high"]}
    unfinished = int(np.isnan(found[0]).sum())
    return xr.Dataset(variables, coordinates, {"confidence": confidence, "end": end, "unfinished": unfinished})


def laws_by_name(laws: Any) -> dict[str, Law]:
    """The laws by name, from names or from functions by name."""
    if isinstance(laws, Mapping):
        return dict(laws)
    names = [laws] if isinstance(laws, str) else list(laws)
    for name in names:
        require_known(name, LAWS, "laws")
    if not names:
        raise InputError(f"`laws` must name one or more laws, but it is empty. Known: {', '.join(LAWS)}.")
    return {name: LAWS[name] for name in names}


def _sizes(sizes: Any, argument: str) -> list[int]:
    sizes = [sizes] if np.ndim(sizes) == 0 else list(sizes)
    if not sizes:
        raise InputError(f"`{argument}` must hold one or more numbers, but it is empty.")
    for size in sizes:
        require_count(size, argument)
    return list(dict.fromkeys(int(size) for size in sizes))


def require_robustness_arguments(
    laws: Any, n: Any, d: Any, *, seeds: int, end: float, confidence: float = 0.95
) -> tuple[dict[str, Law], list[int], list[int]]:
    """Laws by name, numbers of tokens and dimensions, after a check of all arguments of `robustness` but the seed."""
    chosen, sizes, dimensions = laws_by_name(laws), _sizes(n, "n"), _sizes(d, "d")
    require_count(seeds, "seeds", least=2)  # one start has no interval
    require_positive_number(end, "end")
    if not 0 < confidence < 1:
        raise InputError(f"`confidence` must be between 0 and 1, but it is {confidence}. Use 0.95.")
    require_array_memory(len(chosen), max(sizes), max(dimensions), seeds, what=f"{seeds} starts of each kind")
    return chosen, sizes, dimensions
