"""The circle: e^{kappa (cos a - 1)} as a Fourier series, summed by non-uniform fast Fourier transforms.

    e^{kappa (cos a - 1)} = sum_k c_k e^{ika},    c_k = e^{-kappa} I_k(kappa),    sum_k c_k = 1.

One transform of type 1 gives the moments sum_j w_j e^{-ik phi_j} of all columns, one of type 2 the sums at the angles
theta_i. Both have errors relative to the gross weight: with W = sum_j |w_j| a moment is off by eps W, a sum by
eps sum_k c_k W = eps W more.
"""

import functools
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ive

from attnflow._common.extras import imported
from attnflow.model.fast_sums.problem import SumProblem

EPS = 1e-14  # asked of finufft: smaller ones reach no smaller error
# Errors over the gross weight, three times the largest measured with all tokens at one to three places, where errors of
# one sign add up: that of the transforms, and that of the phases k theta for each mode.
TRANSFORM_ERROR = 1e-13
PHASE_ERROR = 3e-16
TOKENS_PER_THREAD = 30_000  # below, starting threads takes longer than it saves
LEAF = 512  # tokens; beyond, plans of finufft take less time than their pairs


class CircleKernel:
    """e^{f <q_i, k_j> - b} for queries and keys of constant lengths in the plane; b = |f| |q| |k|."""

    leaf = LEAF

    def __init__(self, queries: np.ndarray, keys: np.ndarray, factor: float):
        lengths = [float(np.mean(np.hypot(*array.T))) for array in (queries, keys)]
        # A negative factor is a positive one of the opposite keys.
        self.kappa = abs(factor) * lengths[0] * lengths[1]
        self.targets = np.arctan2(queries[:, 1], queries[:, 0])
        is_same = factor > 0 and np.array_equal(queries, keys)
        signed = keys if factor >= 0 else -keys
        self.sources = self.targets if is_same else np.arctan2(signed[:, 1], signed[:, 0])
        self.coefficients = _coefficients(self.kappa)
        self.unit_error = TRANSFORM_ERROR + PHASE_ERROR * len(self.coefficients)
        self.row_shifts = np.full(len(queries), self.kappa)
        self.column_factors = np.ones(len(keys))

    def sums(self, targets: slice, sources: slice, columns: np.ndarray) -> np.ndarray:
        """Sums over the sources at the targets, two real columns as one complex one."""
        width = columns.shape[1]
        padded = columns if width % 2 == 0 else np.column_stack([columns, np.zeros(len(columns))])
        strengths = np.ascontiguousarray(padded).view(complex).T
        moments = self._transformed(1, -1, self.sources[sources], strengths)
        found = self._transformed(2, 1, self.targets[targets], self.coefficients * moments)
        return np.ascontiguousarray(found.T).view(float)[:, :width]

    def pairs(self, targets: slice, sources: slice) -> np.ndarray:
        """e^{kappa (cos(theta_i - phi_j) - 1)}, with 1 - cos a = 2 sin^2(a / 2)."""
        half = (self.targets[targets, None] - self.sources[None, sources]) / 2
        return np.exp(-2 * self.kappa * np.sin(half) ** 2)

    def diagonal(self) -> np.ndarray:
        """The pairs of every token with itself."""
        return np.exp(-2 * self.kappa * np.sin((self.targets - self.sources) / 2) ** 2)

    def adapted(self, problem: SumProblem) -> SumProblem:
        """The problem with unit queries and keys, and the factor kappa."""
        at = lambda angles: np.column_stack([np.cos(angles), np.sin(angles)])
        return replace(problem, queries=at(self.targets), keys=at(self.sources), factor=self.kappa)

    def _transformed(self, kind: int, sign: int, angles: np.ndarray, values: np.ndarray) -> np.ndarray:
        return transformed(kind, sign, (len(self.coefficients),), [angles], values)


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
