"""The automatic choice of a method of summation: the least estimated time among the methods that serve a flow.

The times are those of one evaluation on one core, from the constants below, which `benchmarks/fast_sums.py` measures.
Only their ratios matter.
"""

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from attnflow._common.extras import is_found
from attnflow.model.attention import Sinkhorn
from attnflow.model.fast_sums import fourier, gauss, harmonics, heavy_tokens, neighbours
from attnflow.model.fast_sums.problem import Positions, SumProblem, slope_of
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
ROWS_TRIED = 64
LARGEST_SAFE_SCORE = 300.0  # kSafeExponent of `native/pair_sums.h`
LOOKING_AT_ALL = (Gauss, HeavyTokens, Neighbours)  # the methods whose time depends on where the tokens are


@dataclasses.dataclass(frozen=True)
class Seconds:
    """Processor seconds of the parts of a sum."""

    pair: float = 2.5e-10
    """A pair of tokens, in the native kernel."""
    coordinate: float = 2e-11
    """A coordinate of the key or the value of a pair."""
    compiled_pair: float = 1.7e-9
    """A pair under a rule or mask that the native kernel does not serve, in XLA."""
    numpy_pair: float = 2e-8
    """A pair of a row that is summed one by one under a mask, in NumPy."""
    leaf: float = 5e-5
    """The call for a leaf of a mask by positions."""
    call: float = 1e-3
    """The plans of two transforms."""
    fourier: float = 8e-8
    """A token, in the series of its cell there and back."""
    circle_cell: float = 3e-7
    """A cell of the circle, in the transforms of its series there and back."""
    transform: float = 1e-7
    """A token, in two complex transforms of finufft on a line there and back; in d dimensions 6^(d - 1) times that."""
    harmonics: float = 3.7e-7
    """A token, in four transforms on the sphere there and back."""
    degree: float = 2.3e-7
    """Four transforms on the sphere there and back, over the square of the degree."""
    mode: float = 1e-7
    """A frequency of a grid in two or three dimensions, in two complex transforms there and back."""
    cell: float = 1.05e-7
    """A coordinate of one of 10^4 tokens that are put into groups; grows like n^0.3, by sorting and by memory."""
    neighbour: float = 1.4e-7
    """A token that counts, found and summed."""
    search: float = 1e-6
    """A token, whose nearest is searched for, without the next two."""
    search_coordinate: float = 3e-7
    """A coordinate in that search."""
    search_all: float = 4e-13
    """The part of that search that grows with the number of tokens, over the square of the dimension."""


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
    """About the least time that a method may take for n tokens of which some are in `sample`, found in milliseconds."""
    if isinstance(method, HeavyTokens):
        return _of_groups(sample, n, _expected_groups(sample, method.tolerance, n))
    if isinstance(method, Gauss):
        return _gauss_tokens(sample, n)
    return _of_search(sample, n) if isinstance(method, Neighbours) else 0.0


def seconds(method: Any, problem: SumProblem, n: int) -> float:
    """The estimated processor seconds of one evaluation; infinity where the method cannot keep its tolerance.

    The problem may hold some of the n tokens, unless the method is one of `LOOKING_AT_ALL`.
    """
    if isinstance(method, HeavyTokens):
        return _of_groups(problem, n, len(heavy_tokens.formed(problem, method.tolerance).weights))
    if isinstance(method, Neighbours):
        return _of_search(problem, n) + n * SECONDS.neighbour * neighbours.mean_count(problem, method.tolerance)
    if isinstance(method, Fourier | Harmonics | Gauss):
        return (1 + problem.sweeps / 2) * _of_expansion(method, problem, n)
    visible = n * n if problem.positions.is_full else n * n / (1 if problem.positions.later else 2)
    is_native = problem.sweeps == 0 and problem.positions.slope == 0
    return visible * _pair(problem) if is_native else (1 + 2 * problem.sweeps) * n * n * SECONDS.compiled_pair


def _pair(problem: SumProblem) -> float:
    """The time of a pair in the native kernel, which seeks the largest exponent of a row only if it may be large."""
    is_large = _largest_score(problem) > LARGEST_SAFE_SCORE
    size = problem.keys.shape[1] + problem.values.shape[1]
    return (4 / 3 if is_large else 1) * (SECONDS.pair + size * SECONDS.coordinate)


def _largest_score(problem: SumProblem) -> float:
    longest = [float(np.linalg.norm(array, axis=1).max()) for array in (problem.queries, problem.keys)]
    return abs(problem.factor) * longest[0] * longest[1]


def _of_expansion(method: AbstractFastSum, problem: SumProblem, n: int) -> float:
    """The time of an expansion, and of the rows that are summed one by one since their error is too large."""
    kernel_of, unit_error, all_tokens, one_call = _parts_of_expansion(method, problem, n)
    if not unit_error < math.inf:
        return math.inf
    direct = direct_share(problem, kernel_of, unit_error, method.tolerance, n)
    positions, pair = problem.positions, _pair(problem)
    if positions.is_full:
        return all_tokens + one_call + direct * n * n * pair
    leaf = kernel_of(problem.queries[:2], problem.keys[:2], problem.factor).leaf
    levels, leaves = max(math.ceil(math.log2(n / leaf)), 0), max(n / leaf, 1)
    directions = int(positions.earlier) + int(positions.later)
    of_leaves = leaves * SECONDS.leaf + n * n / leaves / 2 * pair
    return (
        directions * (levels * all_tokens / 2 + (leaves - 1) * one_call + of_leaves)
        + direct * n * n * SECONDS.numpy_pair
    )


def _parts_of_expansion(method: AbstractFastSum, problem: SumProblem, n: int) -> tuple[Any, float, float, float]:
    """The kernel of an expansion, its error over the gross weight, the time of n tokens, and that of a call."""
    if isinstance(method, Fourier):
        kappa = _kappa(problem)
        error = fourier.unit_error_of(kappa, n)
        if fourier.are_cells_faster(kappa, n):
            return fourier.CircleKernel, error, n * SECONDS.fourier, fourier.cells_of(kappa) * SECONDS.circle_cell
        return fourier.CircleKernel, error, n * SECONDS.transform, SECONDS.call
    if isinstance(method, Harmonics):
        one_call = SECONDS.call + SECONDS.degree * harmonics.degree_of(_kappa(problem)) ** 2
        return harmonics.SphereKernel, fourier.TRANSFORM_ERROR, n * SECONDS.harmonics, one_call
    kernel = gauss.GaussKernel(problem.queries, problem.keys, problem.factor)
    grid = kernel.modes ** problem.keys.shape[1] * 2 ** problem.keys.shape[1]
    return gauss.GaussKernel, kernel.unit_error, _gauss_tokens(problem, n), SECONDS.call + grid * SECONDS.mode


def direct_share(problem: SumProblem, kernel_of: Any, unit_error: float, tolerance: float, n: int) -> float:
    """The share of rows in which an expansion misses the tolerance, estimated from some rows and `SAMPLE` columns.

    Each of the columns stands for n over their number of tokens, but the row's own token for itself alone.
    """
    every = -(-len(problem.keys) // SAMPLE)
    queries, keys, masses = (array[::every] for array in (problem.queries, problem.keys, problem.masses))
    kernel = kernel_of(queries, keys, problem.factor)
    rows, columns = np.linspace(0, len(keys) - 1, min(ROWS_TRIED, len(keys))).astype(int), np.arange(len(keys))
    stands_for = n / len(keys)
    positions = dataclasses.replace(problem.positions, slope=problem.positions.slope * stands_for)
    adapted = kernel.adapted(dataclasses.replace(problem, queries=queries, keys=keys))
    exponents = adapted.factor * adapted.queries[rows] @ adapted.keys.T - kernel.row_shifts[rows, None]
    weights = np.exp(np.minimum(exponents + positions.log_factors(rows, columns), 0.0)) * masses
    weights[np.arange(len(rows)), rows] /= stands_for
    error = unit_error * positions.gross(masses * kernel.column_factors)[rows]
    return float(np.mean(2 * error > tolerance * (weights.sum(axis=1) - error)))


def _of_groups(problem: SumProblem, n: int, groups: float) -> float:
    """The time to put n tokens into groups, and to sum over these."""
    each = SECONDS.cell * problem.keys.shape[1] * (n / 10**4) ** 0.3
    return n * (each + groups * _pair(problem))


def _expected_groups(sample: SumProblem, tolerance: float, n: int) -> float:
    """The number of groups of n tokens, if it grows with their number as it does within a sample."""
    half = dataclasses.replace(
        sample, **{name: getattr(sample, name)[::2] for name in ("queries", "keys", "values", "masses")}
    )
    few, many = (len(heavy_tokens.formed(one, tolerance).weights) for one in (half, sample))
    return many * (n / len(sample.keys)) ** min(math.log2(many / few), 1.0)


def _of_search(problem: SumProblem, n: int) -> float:
    """The time to search for the nearest of n tokens."""
    d = problem.keys.shape[1]
    return n * (SECONDS.search + d * SECONDS.search_coordinate + n * d**2 * SECONDS.search_all)


def _gauss_tokens(problem: SumProblem, n: int) -> float:
    return n * SECONDS.transform * 6 ** (problem.keys.shape[1] - 1)


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
    positions = dataclasses.replace(positions, slope=float(slope_of(flow.mask)))
    sweeps = flow.attention.sweeps() if isinstance(flow.attention, Sinkhorn) else 0
    return SumProblem(queries, keys, values, masses, float(rule.factor), positions, sweeps=sweeps)
