"""The circle: e^{kappa (cos a - 1)} as a Fourier series, summed by fast Fourier transforms at tokens anywhere.

    e^{kappa (cos a - 1)} = sum_k c_k e^{ika},    c_k = e^{-kappa} I_k(kappa),    sum_k c_k = 1.

The moments sum_j w_j e^{-ik phi_j} of all columns are formed first, then the sums at the angles theta_i. Many tokens
are put into equal cells of the circle (`cell_sums`): with a token at g + delta in the cell around g,

    e^{-ik (g + delta)} = e^{-ik g} sum_{p < P} (-ik delta)^p / p! + rest,    |rest| <= |k delta|^P / P!,

so that moments follow from sums of w delta^p over each cell by P uniform transforms, and sums at the targets from P
derivatives at the centres. With half a cell as the largest delta the rests are at most 2 sum_k c_k |k delta|^P / P!,
which is kept below rounding. Where that takes too many cells for the tokens, finufft does both (`are_cells_faster`).

Errors are relative to the gross weight: with W = sum_j |w_j| a moment is off by eps W, a sum by eps sum_k c_k W = eps W
more.
"""

import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import factorial, ive

from attnflow._common.extras import imported
from attnflow.model.fast_sums.problem import SumProblem
from attnflow.model.native import cell_series

EPS = 1e-14  # asked of finufft: smaller ones reach no smaller error
# Errors over the gross weight, three times the largest measured with all tokens at one to three places, where errors of
# one sign add up: that of the transforms, and that of the phases k theta for each mode; and that of series in cells, in
# which a token and its neighbours have the same phases, seven times the largest measured (up to kappa = 10^6).
TRANSFORM_ERROR = 1e-13
PHASE_ERROR = 3e-16
CELL_ERROR = 1e-14
LARGEST_REST = 3e-17  # of the series in cells, over the gross weight
TOKENS_PER_THREAD = 30_000  # below, starting threads takes longer than it saves
LEAF = 2048  # tokens; beyond, series take less time than their pairs
LEAST_SPARE_CELLS = 512  # more cells than tokens by this number take less time than plans of finufft
# Cells whose series stay in the cache of a processor. More of them are faster than finufft from eight tokens a cell on.
CACHED_CELLS = 8192


class CircleKernel:
    """e^{f <q_i, k_j> - b} for queries and keys of constant lengths in the plane; b = |f| |q| |k|."""

    leaf = LEAF

    def __init__(self, queries: np.ndarray, keys: np.ndarray, factor: float):
        lengths = [float(np.mean(np.sqrt(np.einsum("nk,nk->n", array, array)))) for array in (queries, keys)]
        # A negative factor is a positive one of the opposite keys.
        self.kappa = abs(factor) * lengths[0] * lengths[1]
        self.targets = np.arctan2(queries[:, 1], queries[:, 0])
        is_same = factor > 0 and np.array_equal(queries, keys)
        signed = keys if factor >= 0 else -keys
        self.sources = self.targets if is_same else np.arctan2(signed[:, 1], signed[:, 0])
        self.coefficients = _coefficients(self.kappa)
        self.unit_error = unit_error_of(self.kappa, len(keys))
        self.is_in_cells = self.unit_error == CELL_ERROR
        self.row_shifts = np.full(len(queries), self.kappa)
        self.column_factors = np.ones(len(keys))

    def sums(self, targets: slice, sources: slice, columns: np.ndarray) -> np.ndarray:
        """Sums over the sources at the targets, by cells or two real columns as one complex one."""
        width = columns.shape[1]
        if self.is_in_cells or are_cells_faster(self.kappa, len(columns)):
            cells = cells_of(self.kappa)
            return cell_sums(self.coefficients, cells, self.targets[targets], self.sources[sources], columns)
        padded = columns if width % 2 == 0 else np.column_stack([columns, np.zeros(len(columns))])
        strengths = np.ascontiguousarray(padded).view(complex).T
        moments = self._transformed(1, -1, self.sources[sources], strengths)
        found = self._transformed(2, 1, self.targets[targets], self.coefficients * moments)
        return np.ascontiguousarray(found.T).view(float)[:, :width]

    def diagonal(self) -> np.ndarray:
        """Kernel values of every token with itself, with 1 - cos a = 2 sin^2(a / 2)."""
        return np.exp(-2 * self.kappa * np.sin((self.targets - self.sources) / 2) ** 2)

    def adapted(self, problem: SumProblem) -> SumProblem:
        """The problem with unit queries and keys, and the factor kappa."""
        at = lambda angles: np.column_stack([np.cos(angles), np.sin(angles)])
        return replace(problem, queries=at(self.targets), keys=at(self.sources), factor=self.kappa)

    def _transformed(self, kind: int, sign: int, angles: np.ndarray, values: np.ndarray) -> np.ndarray:
        return transformed(kind, sign, (len(self.coefficients),), [angles], values)


def cell_sums(
    coefficients: np.ndarray, cells: int, targets: np.ndarray, sources: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """sum_j sum_k c_k e^{ik (theta_i - phi_j)} columns_j, for c_k = c_{-k} with k = -K, ..., K, by series in cells."""
    half = coefficients[len(coefficients) // 2 :, None, None]
    modes, terms = np.arange(len(half))[:, None, None], np.arange(cell_series.TERMS)
    # (ik h/2)^p / p!: half a cell, h/2 = pi / cells, is the unit of the offsets u.
    powers = (1j * np.pi / cells * modes) ** terms / factorial(terms)
    by_cell = np.fft.rfft(cell_series.moments(sources, columns, cells), axis=0)[: len(half)]
    moments = np.sum(by_cell * powers.conj(), axis=2, keepdims=True)
    table = np.fft.irfft(half * moments * powers, cells, axis=0, norm="forward")
    return cell_series.values(targets, table)


@functools.lru_cache(maxsize=64)
def cells_of(kappa: float) -> int:
    """The number of cells, a power of two above twice the number of modes, for which the rests are below rounding."""
    half, terms = _coefficients(kappa)[len(_coefficients(kappa)) // 2 :], cell_series.TERMS
    moment = 4 * float(np.sum(half * np.arange(len(half), dtype=float) ** terms)) / float(factorial(terms))
    least = max(np.pi * (moment / LARGEST_REST) ** (1 / terms), 2.0 * len(half))
    return 2 ** math.ceil(math.log2(least))


def are_cells_faster(kappa: float, tokens: int) -> bool:
    """Whether series in cells take less time than finufft for that many tokens, and no more memory than they do."""
    cells = cells_of(kappa)
    return cells <= min(LEAST_SPARE_CELLS + tokens, CACHED_CELLS + tokens // 8) and cell_series.is_available()


def unit_error_of(kappa: float, tokens: int) -> float:
    """The error of a sum over that many tokens, or over some of them, relative to the gross weight.

    Where all tokens are summed in few cells, parts of them are, too, so that finufft is never called.
    """
    if are_cells_faster(kappa, tokens) and cells_of(kappa) <= CACHED_CELLS:
        return CELL_ERROR
    return TRANSFORM_ERROR + PHASE_ERROR * (2 * modes_of(kappa) + 1)


def transformed(
    kind: int, sign: int, modes: tuple[int, ...], points: list[np.ndarray], values: np.ndarray
) -> np.ndarray:
    """Transforms of type 1 or 2 of several rows of values at points, which are given by their coordinates."""
    count, threads = len(values), 0 if len(points[0]) >= TOKENS_PER_THREAD else 1
    plan = finufft().Plan(kind, modes, n_trans=count, eps=EPS, isign=sign, nthreads=threads)
    plan.setpts(*map(np.ascontiguousarray, points))
    found = plan.execute(np.ascontiguousarray(values if count > 1 else values[0]))
    return found if count > 1 else found[None]


def modes_of(kappa: float) -> int:
    """The number of Fourier modes on each side of zero, beyond which the coefficients sum to less than rounding."""
    return (len(_coefficients(float(kappa))) - 1) // 2


@functools.lru_cache(maxsize=64)
def _coefficients(kappa: float) -> np.ndarray:
    """c_k for k = -K, ..., K, where those beyond K sum to less than 1e-17."""
    half = ive(np.arange(int(np.sqrt(100 * kappa)) + 40), kappa)
    tails = np.cumsum(half[::-1])[::-1]
    last = max(int(np.argmax(tails < 1e-17)), 1)
    return np.concatenate([half[last:0:-1], half[: last + 1]])


def finufft() -> Any:
    """The library finufft."""
    return imported("finufft", "A fast sum by Fourier series")
