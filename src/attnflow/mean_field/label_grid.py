"""Functions on a box of R^1 or R^2 by their values at Gauss-Legendre nodes: integrals, derivatives, series."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.polynomial import legendre


@dataclass(frozen=True)
class LabelGrid:
    """The nodes of a box: those of the Gauss-Legendre rule on each axis, as many on every axis."""

    low: np.ndarray
    high: np.ndarray
    nodes: int

    @property
    def dimension(self) -> int:
        """Number of axes."""
        return len(self.low)

    @property
    def shape(self) -> tuple[int, ...]:
        """Nodes on each axis."""
        return (self.nodes,) * self.dimension

    @cached_property
    def rule(self) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and weights on [-1, 1]."""
        return legendre.leggauss(self.nodes)

    def axis(self, index: int) -> np.ndarray:
        """The coordinates of the nodes on one axis."""
        return self.low[index] + (self.rule[0] + 1) / 2 * (self.high[index] - self.low[index])

    @cached_property
    def points(self) -> np.ndarray:
        """All nodes, (*shape, d)."""
        return np.stack(np.meshgrid(*(self.axis(index) for index in range(self.dimension)), indexing="ij"), axis=-1)

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights of the integral over the box."""
        sides = [self.rule[1] * (high - low) / 2 for low, high in zip(self.low, self.high, strict=True)]
        return sides[0] if self.dimension == 1 else np.outer(*sides)

    @cached_property
    def analysis(self) -> np.ndarray:
        """The matrix from values to Legendre coefficients: (2k + 1) / 2 w_i P_k(x_i)."""
        places, weights = self.rule
        return legendre.legvander(places, self.nodes - 1).T * weights * (np.arange(self.nodes)[:, None] + 0.5)

    @cached_property
    def derivative(self) -> np.ndarray:
        """The matrix from values to values of the derivative, on [-1, 1]."""
        series = np.concatenate([legendre.legder(np.eye(self.nodes)), np.zeros((1, self.nodes))])
        return legendre.legvander(self.rule[0], self.nodes - 1) @ series @ self.analysis

    def determinant(self, places: np.ndarray) -> np.ndarray:
        """det dX/da of a map X with values (*shape, d) at the nodes."""
        scales = 2 / (self.high - self.low)
        if self.dimension == 1:
            return scales[0] * (self.derivative @ places[..., 0])
        first = scales[0] * np.einsum("ij,jkc->ikc", self.derivative, places)
        second = scales[1] * np.einsum("ij,kjc->kic", self.derivative, places)
        return first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]

    def series(self, values: np.ndarray) -> np.ndarray:
        """The Legendre coefficients of functions with values (*shape, functions)."""
        found = np.tensordot(self.analysis, values, (1, 0))
        return found if self.dimension == 1 else np.moveaxis(np.tensordot(self.analysis, found, (1, 1)), 0, 1)

    def tail(self, values: np.ndarray) -> float:
        """The largest coefficient of the last tenth of the degrees, relative to the largest of degree 1 and more."""
        sizes = np.abs(self.series(values)).max(axis=-1)
        last = self.nodes - (self.nodes // 10 + 1)
        is_last = np.max(np.indices(sizes.shape), axis=0) >= last
        varying = np.max(sizes.ravel()[1:], initial=np.finfo(float).tiny)
        return float(sizes[is_last].max() / max(varying, 1e-3 * sizes.ravel()[0]))

    def evaluated(self, values: np.ndarray, fine: np.ndarray) -> np.ndarray:
        """Functions with values (*shape, functions) at finer places of [-1, 1] on each axis, by their series."""
        table = legendre.legvander(fine, self.nodes - 1)
        found = np.tensordot(table, self.series(values), (1, 0))
        return found if self.dimension == 1 else np.moveaxis(np.tensordot(table, found, (1, 1)), 0, 1)
