"""The automatic choice of a method of summation: the least estimated time among the methods that serve a flow.

The times are those of one evaluation on one core, from the constants below, which `benchmarks/fast_sums.py` measures.
Only their ratios matter.
"""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from scipy.special import ive

from attnflow._common.extras import is_found
from attnflow.model.fast_sums import fourier, gauss, harmonics, heavy_tokens, neighbours
from attnflow.model.fast_sums.problem import Positions, SumProblem
from attnflow.model.fast_sums.summation import (
    FAST,
    USUAL_TOLERANCE,
    AbstractFastSum,
    Automatic,
    Dense,
    Fourier,
    Gauss,
    Harmonics,
    HeavyTokens,
    Neighbours,
    require_available,
)
from attnflow.model.native import host_calls

LEAST_TOKENS = 1000  # below, whole runs are integrated natively, and no method is faster
# Tokens from which times are bounded below before all of them are looked at: in this many groups, a million tokens in
# heavy tokens take 3 s, more than any expansion takes.
SAMPLE = 4096
LOOKING_AT_ALL = (Gauss, HeavyTokens, Neighbours)  # the methods whose time depends on where the tokens are


@dataclasses.dataclass(frozen=True)
class Seconds:
    """Processor seconds of the parts of a sum."""

    pair: float = 4.5e-10
    """A pair of tokens, in the native kernel."""
    numpy_pair: float = 2e-8
    """A pair of a leaf, in NumPy."""
    call: float = 2.5e-3
    """The plans of two transforms."""
    fourier: float = 1e-7
    """A token, in the series of its cell there and back."""
    circle_cell: float = 3e-7
    """A cell of the circle, in the transforms of its series there and back."""
    transform: float = 5e-7
    """A token, in two complex transforms of finufft on a line there and back."""
    harmonics: float = 8e-7
    """A token, in four transforms on the sphere there and back."""
    degree: float = 6e-9
    """Four transforms on the sphere there and back, over the cube of the degree."""
    mode: float = 1e-7
    """A frequency of a grid in two or three dimensions, in two complex transforms there and back."""
    cell: float = 7e-7
    """A token, put into a group."""
    neighbour: float = 4e-7
    """A token that counts, found and summed."""
    search: float = 7e-6
    """A token, whose nearest is searched for."""


SECONDS = Seconds()


def with_method(flow: Any, tokens: np.ndarray, rtol: float | None = None) -> Any:
    """The flow with the method that sums for these first tokens, of shape ([runs,] n, d), in place of `Automatic`."""
    if isinstance(flow.summation, AbstractFastSum):
        require_available(flow.summation)
        return flow
    if isinstance(flow.summation, Dense):
        return flow
    first = np.asarray(tokens).reshape(-1, *np.shape(tokens)[-2:])[0]
    return dataclasses.replace(flow, summation=chosen(flow, first, _tolerance(flow.summation, rtol)))


def _tolerance(method: Automatic | None, rtol: float | None) -> float:
    if method is not None and method.tolerance is not None:
        return method.tolerance
    return USUAL_TOLERANCE if rtol is None else rtol / 100


def chosen(flow: Any, tokens: np.ndarray, tolerance: float) -> AbstractFastSum | Dense:
    """The method with the least estimated time for these tokens, shape (n, d)."""
    if len(tokens) < LEAST_TOKENS or host_calls.reason_unavailable() is not None:
        return Dense()
    kinds = [kind for kind in FAST if kind.reason_against(flow) is None and all(map(is_found, kind.modules()))]
    methods = [kind(max(tolerance, kind.least_tolerance())) for kind in kinds if kind.least_tolerance() <= tolerance]
    if not methods:
        return Dense()
    n = len(tokens)
    sample, whole = _problem(flow, tokens, -(-n // SAMPLE)), functools.cache(lambda: _problem(flow, tokens, 1))
    fastest: AbstractFastSum | Dense = Dense()
    least = seconds(fastest, sample, n)
    for method in sorted(methods, key=lambda method: isinstance(method, LOOKING_AT_ALL)):
        if _least_seconds(method, sample, n) >= least:
            continue
        time = seconds(method, whole() if isinstance(method, LOOKING_AT_ALL) else sample, n)
        if time < least:
            fastest, least = method, time
    return fastest


def _least_seconds(method: AbstractFastSum, sample: SumProblem, n: int) -> float:
    """A lower bound on the time of a method for n tokens of which some are in `sample`, found in milliseconds."""
    if isinstance(method, HeavyTokens):  # all tokens are in at least as many groups as some of them
        return seconds(method, sample, n)
    if isinstance(method, Gauss):
        return _gauss_tokens(sample, n)
    return n * SECONDS.search if isinstance(method, Neighbours) else 0.0


def seconds(method: Any, problem: SumProblem, n: int) -> float:
    """The estimated processor seconds of one evaluation; infinity if most rows would be summed directly.

    The problem may hold some of the n tokens, unless the method is one of `LOOKING_AT_ALL`.
    For expansions that is so if the error over the sum of a row, at least its share of the gross weight for tokens
    spread evenly, exceeds the tolerance.
    """
    size = problem.keys.shape[1] + problem.values.shape[1]
    visible = n * n if problem.positions.is_full else n * n / (1 if problem.positions.later else 2)
    dense = visible * SECONDS.pair * (1 + size / 8)
    kappa = _kappa(problem)
    if isinstance(method, Fourier):
        share = max(1 / n, float(ive(0, kappa)))
        if 2 * fourier.unit_error_of(kappa, n) > method.tolerance * share:
            return math.inf
        if fourier.are_cells_faster(kappa, n):
            one_call = fourier.cells_of(kappa) * SECONDS.circle_cell
            return _of_expansion(problem, n, fourier.LEAF, n * SECONDS.fourier, one_call)
        return _of_expansion(problem, n, fourier.LEAF, n * SECONDS.transform, SECONDS.call)
    if isinstance(method, Harmonics):
        share = max(1 / n, -math.expm1(-2 * kappa) / (2 * kappa) if kappa else 1.0)
        if method.tolerance * share < 2 * fourier.TRANSFORM_ERROR:
            return math.inf
        degree = harmonics.degree_of(kappa)
        return _of_expansion(problem, n, harmonics.LEAF, n * SECONDS.harmonics, SECONDS.degree * degree**3)
    if isinstance(method, Gauss):
        return _of_gauss(problem, method.tolerance)
    if isinstance(method, HeavyTokens):
        groups = len(heavy_tokens.formed(problem, method.tolerance).weights)
        return n * SECONDS.cell + dense * groups / n
    if isinstance(method, Neighbours):
        return n * (SECONDS.search + SECONDS.neighbour * neighbours.mean_count(problem, method.tolerance))
    return dense


def _of_expansion(problem: SumProblem, n: int, leaf: int, all_tokens: float, one_call: float) -> float:
    """The time of full sums, or of those of all levels of dyadic halves."""
    if problem.positions.is_full:
        return all_tokens + one_call
    levels = max(math.log2(n / leaf), 0)
    directions = int(problem.positions.earlier) + int(problem.positions.later)
    return directions * (levels * all_tokens / 2 + n / leaf * one_call) + n * leaf * SECONDS.numpy_pair


def _of_gauss(problem: SumProblem, tolerance: float) -> float:
    kernel = gauss.GaussKernel(problem.queries, problem.keys, problem.factor)
    # Rows are direct where the gross weight over the sum, at most e^{f R^2 / 2} or so, exceeds tolerance / error.
    radius = float(np.linalg.norm(kernel.targets, axis=1).max())
    if kernel.unit_error * math.exp(min(kernel.factor * radius**2, 700.0)) > tolerance:
        return math.inf
    d = problem.keys.shape[1]
    grid = (2 * kernel.modes) ** d
    n = len(problem.keys)
    return _of_expansion(problem, n, kernel.leaf, _gauss_tokens(problem, n), SECONDS.call + grid * SECONDS.mode)


def _gauss_tokens(problem: SumProblem, n: int) -> float:
    return n * SECONDS.transform * 3 ** (problem.keys.shape[1] - 1)


def _kappa(problem: SumProblem) -> float:
    lengths = [float(np.linalg.norm(array[0])) for array in (problem.queries, problem.keys)]
    return abs(problem.factor) * lengths[0] * lengths[1]


def _problem(flow: Any, all_tokens: np.ndarray, every: int) -> SumProblem:
    """The sum of the first head over each `every`-th token, as tokens are: the other heads take about as long."""
    head, rule, tokens = flow.heads[0], flow.attention.exponential(), all_tokens[::every]
    masses = np.ones(len(tokens)) if flow.masses is None else np.asarray(flow.masses)[::every]
    directions = tokens / np.linalg.norm(tokens, axis=1, keepdims=True) if flow.has_radii else tokens
    queries, keys, values = (directions @ np.asarray(matrix).T for matrix in (head.query, head.key, head.value))
    positions = Positions.of(flow.mask)
    assert positions is not None  # one of the methods serves the mask
    return SumProblem(queries, keys, values, masses, float(rule.factor), positions)
