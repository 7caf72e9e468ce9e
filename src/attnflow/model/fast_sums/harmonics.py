"""The sphere S^2: e^{kappa (<x, y> - 1)} in spherical harmonics, summed at arbitrary points by ducc0.

    e^{kappa (t - 1)} = sum_l a_l P_l(t),    a_l = (2l + 1) sqrt(pi / (2 kappa)) e^{-kappa} I_{l + 1/2}(kappa),

and P_l(<x, y>) = 4 pi / (2l + 1) sum_m Y_lm(x) conj(Y_lm(y)). The coefficients a_l are positive and sum to one, so that
errors of the two transforms are relative to the gross weight, as on the circle.
"""

import functools
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ive

from attnflow._common.extras import imported
from attnflow.model.fast_sums.fourier import TOKENS_PER_THREAD, TRANSFORM_ERROR
from attnflow.model.fast_sums.problem import SumProblem

EPS = 1e-13  # asked of ducc0: smaller ones are refused for some numbers of points
LEAF = 4096  # tokens; beyond, harmonics take less time than pairs
SMALLEST_KAPPA = 1e-18  # below, the kernel is one up to rounding, and the formula divides by zero


class SphereKernel:
    """e^{f <q_i, k_j> - b} for queries and keys of constant lengths in space; b = |f| |q| |k|."""

    leaf = LEAF

    def __init__(self, queries: np.ndarray, keys: np.ndarray, factor: float):
        lengths = [float(np.mean(_lengths(array))) for array in (queries, keys)]
        self.kappa = abs(factor) * lengths[0] * lengths[1]
        signed = keys if factor >= 0 else -keys  # a negative factor is a positive one of the opposite keys
        is_same = factor >= 0 and np.array_equal(queries, keys)
        first = _unit(queries)
        self.directions = first, first if is_same else _unit(signed)
        self.targets = _colatitudes_and_longitudes(first)
        self.sources = self.targets if is_same else _colatitudes_and_longitudes(self.directions[1])
        self.coefficients = _coefficients(max(self.kappa, SMALLEST_KAPPA))
        self.unit_error = TRANSFORM_ERROR  # three times the largest measured, too
        self.row_shifts = np.full(len(queries), self.kappa)
        self.column_factors = np.ones(len(keys))

    def sums(self, targets: slice, sources: slice, columns: np.ndarray) -> np.ndarray:
        """Sums over the sources at the targets, column by column."""
        degree = len(self.coefficients) - 1
        threads = 0 if len(columns) >= TOKENS_PER_THREAD else 1
        by_mode = self.coefficients[_degrees(degree)]
        options = {"spin": 0, "lmax": degree, "epsilon": EPS, "nthreads": threads}
        sht, found = ducc0().sht, []
        for column in np.ascontiguousarray(columns.T):
            modes = sht.adjoint_synthesis_general(map=column[None], loc=self.sources[sources], **options)
            found.append(sht.synthesis_general(alm=modes * by_mode, loc=self.targets[targets], **options)[0])
        return np.stack(found, axis=1)

    def diagonal(self) -> np.ndarray:
        """Kernel values of every token with itself."""
        queries, keys = self.directions
        return np.exp(self.kappa * (np.einsum("nk,nk->n", queries, keys) - 1))

    def adapted(self, problem: SumProblem) -> SumProblem:
        """The problem with unit queries and keys, and the factor kappa."""
        return replace(problem, queries=self.directions[0], keys=self.directions[1], factor=self.kappa)


def degree_of(kappa: float) -> int:
    """The largest degree l, beyond which the coefficients sum to less than rounding."""
    return len(_coefficients(max(float(kappa), SMALLEST_KAPPA))) - 1


@functools.lru_cache(maxsize=64)
def _coefficients(kappa: float) -> np.ndarray:
    """4 pi a_l / (2l + 1) for l = 0, 1, ..., until the a_l that are left sum to less than 1e-16."""
    degrees = np.arange(int(np.sqrt(100 * kappa)) + 40)
    radial = np.sqrt(np.pi / (2 * kappa)) * ive(degrees + 0.5, kappa)
    tails = np.cumsum(((2 * degrees + 1) * radial)[::-1])[::-1]
    last = max(int(np.argmax(tails < 1e-16)), 1)
    return 4 * np.pi * radial[: last + 1]


@functools.lru_cache(maxsize=8)
def _degrees(degree: int) -> np.ndarray:
    """The degree l of every mode, in ducc0's order: m = 0, 1, ..., and l = m, ..., degree for each."""
    return np.concatenate([np.arange(m, degree + 1) for m in range(degree + 1)])


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / _lengths(vectors)[:, None]


def _lengths(vectors: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("nk,nk->n", vectors, vectors))


def _colatitudes_and_longitudes(directions: np.ndarray) -> np.ndarray:
    x, y, z = directions.T
    return np.column_stack([np.arctan2(np.hypot(x, y), z), np.arctan2(y, x) % (2 * np.pi)])


def ducc0() -> Any:
    """The library ducc0."""
    return imported("ducc0", "A fast sum by spherical harmonics")
