"""R^1 to R^3: e^{f <q, k>} as a Gauss transform, by non-uniform fast Fourier transforms.

For any centres a of the queries and c of the keys, q = a + q' and k = c + k',

    f <q, k> = f <q, c> + f |q'|^2 / 2  +  f <a, k'> + f |k'|^2 / 2  -  f |q' - k'|^2 / 2:

a factor of the row, a factor of the column, and a Gaussian. Both factors are kept as logarithms. The Gaussian is
periodic up to rounding in a box, where its Fourier coefficients are those of a Gaussian (trapezoidal rule).

The error of a row is relative to the gross weight sum_j w_j e^{f <a, k'_j> + f |k'_j|^2 / 2}, which exceeds the sum
itself by up to e^{f R^2 / 2}, R being the radius of the tokens: rows for which that matters are summed directly.
"""

import math
from typing import Any

import numpy as np

from attnflow.model.fast_sums.fourier import LEAF, TRANSFORM_ERROR, transformed
from attnflow.model.fast_sums.problem import SumProblem

LOG_EPS = -math.log(1e-17)  # of the Gaussian that is cut off in space and in frequency
# f R^2 beyond which no row profits: e^{f R^2 / 2} times the unit error exceeds one.
LARGEST_SPREAD = 60.0


class GaussKernel:
    """e^{f <q_i, k_j> - b_i} for queries and keys of any lengths in R^1, R^2 or R^3."""

    def __init__(self, queries: np.ndarray, keys: np.ndarray, factor: float):
        keys = keys if factor >= 0 else -keys  # a negative factor is a positive one of the opposite keys
        centres = queries.mean(axis=0), keys.mean(axis=0)
        self.targets, self.sources = queries - centres[0], keys - centres[1]
        self.leaf = leaf_of(keys.shape[1])
        radius = max(float(np.abs(array).max()) for array in (self.targets, self.sources))
        # At factor zero the kernel is constant, which it also is, up to rounding, at a tiny factor.
        self.factor = abs(factor) or 1e-16 / (1 + np.abs(queries).max() * np.abs(keys).max())
        of_columns = self.factor * (self.sources @ centres[0] + _squares(self.sources) / 2)
        top = of_columns.max()
        self.row_shifts = self.factor * (queries @ centres[1] + _squares(self.targets) / 2) + top
        self.column_factors = np.exp(of_columns - top)
        self.unit_error = TRANSFORM_ERROR
        self.frequency, self.modes = grid_of(self.factor, radius)
        if self.factor * radius**2 > LARGEST_SPREAD:
            self.unit_error = np.inf  # every row is summed directly

    def sums(self, targets: slice, sources: slice, columns: np.ndarray) -> np.ndarray:
        """Sums over the sources at the targets, two real columns as one complex one."""
        width = columns.shape[1]
        if not np.isfinite(self.unit_error):
            return np.zeros((len(self.targets[targets]), width))
        weighted = self.column_factors[sources, None] * columns
        padded = weighted if width % 2 == 0 else np.column_stack([weighted, np.zeros(len(weighted))])
        strengths = np.ascontiguousarray(padded).view(complex).T
        moments = self._transformed(1, -1, self.sources[sources], strengths)
        found = self._transformed(2, 1, self.targets[targets], self._coefficients() * moments)
        return np.ascontiguousarray(found.T).view(float)[:, :width]

    def diagonal(self) -> np.ndarray:
        """Kernel values of every token with itself."""
        return np.exp(-self.factor / 2 * _squares(self.targets - self.sources)) * self.column_factors

    def adapted(self, problem: SumProblem) -> SumProblem:
        """The problem itself: the kernel stands for queries and keys of any lengths."""
        return problem

    def _coefficients(self) -> np.ndarray:
        """(h / sqrt(2 pi f))^d e^{-|h k|^2 / (2 f)} on the grid of whole vectors k."""
        half = self.modes // 2
        steps = self.frequency * np.arange(-half, half + 1)
        line = self.frequency / np.sqrt(2 * np.pi * self.factor) * np.exp(-(steps**2) / (2 * self.factor))
        grid = line
        for _ in range(self.targets.shape[1] - 1):
            grid = np.multiply.outer(grid, line)
        return grid

    def _transformed(self, kind: int, sign: int, points: np.ndarray, values: np.ndarray) -> np.ndarray:
        d = points.shape[1]
        coordinates = [self.frequency * points[:, axis] for axis in range(d)]
        return transformed(kind, sign, (self.modes,) * d, coordinates, values)


def leaf_of(d: int) -> int:
    """The number of tokens beyond which transforms on a grid in d dimensions take less time than their pairs."""
    return LEAF * 2 ** (d - 1)


def grid_of(factor: float, radius: float) -> tuple[float, int]:
    """The distance h of frequencies and their number on a line, for |q'|, |k'| at most `radius` in every coordinate.

    The period 2 pi / h keeps images of the Gaussian away by sqrt(2 log(1/eps) / f); frequencies end at
    sqrt(2 f log(1/eps)).
    """
    tail = math.sqrt(2 * LOG_EPS / factor)
    frequency = 2 * math.pi / (2 * radius + tail)
    half = math.ceil(math.sqrt(2 * factor * LOG_EPS) / frequency)
    return frequency, 2 * half + 1


def _squares(vectors: Any) -> np.ndarray:
    return np.einsum("...k,...k->...", vectors, vectors)
