"""The velocity of weighted clusters in the log domain: e^log_scale times a mantissa of order one.

Cluster i with mass m_i has the velocity

    v_i = P_i (1 / D_i) sum_j m_j e^{s_ij} V x_j,      s_ij = beta <Q x_i, K x_j>,

with P_i the projection to the tangent space at x_i. The divisor D_i is the sum of the row's weights for softmax, and
e^offset times the total mass for unnormalised attention. At large beta velocities are of order e^-1000, below the
smallest float; hence each row's sum is divided by e^{its largest exponent}, and all rows by one common e^log_scale.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np

from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.native.attention_sums import sums_of_others


class AttentionSums(NamedTuple):
    """Sums over all other clusters j of each row i, divided by e^{max_exponent_i}."""

    values: np.ndarray
    """sum_j m_j e^{s_ij} V x_j."""
    weights: np.ndarray
    """sum_j m_j e^{s_ij}."""
    max_exponent: np.ndarray
    """max_j (s_ij + log m_j)."""

    def take(self, rows: np.ndarray) -> "AttentionSums":
        """The sums of the given rows."""
        return AttentionSums(*(array[rows] for array in self))

    def replaced(self, rows: np.ndarray, new: "AttentionSums") -> "AttentionSums":
        """A copy in which the given rows are replaced by `new`."""
        arrays = [array.copy() for array in self]
        for array, new_rows in zip(arrays, new, strict=True):
            array[rows] = new_rows
        return AttentionSums(*arrays)


class ScaledVelocity(NamedTuple):
    """Velocities e^log_scale * mantissa of some rows, with the sums they were computed from."""

    mantissa: np.ndarray
    log_scale: float
    term_size: float
    """Largest norm of the terms that add up to a mantissa, before they cancel."""
    sums: AttentionSums

    @property
    def log_speed(self) -> float:
        """Logarithm of the largest absolute coordinate of all velocities."""
        with np.errstate(divide="ignore"):
            return self.log_scale + float(np.log(np.abs(self.mantissa).max()))

    @property
    def is_equilibrium(self) -> bool:
        """Whether the terms cancel: rounding leaves 1e-16 of them, a generic configuration far more than 1e-9."""
        return bool(np.abs(self.mantissa).max(initial=0.0) <= 1e-9 * self.term_size)

    def displacement(self, log_duration: float) -> np.ndarray:
        """Velocity times e^log_duration."""
        return self.mantissa * np.exp(self.log_scale + log_duration)


@dataclasses.dataclass(frozen=True)
class LogField:
    """The velocity field of clusters under one constant head on the sphere with a full mask."""

    score_matrix: np.ndarray
    """beta Q^T K."""
    value_matrix: np.ndarray
    offset: float | None
    """Offset of unnormalised attention, times beta; None for softmax."""
    total_mass: float
    is_value_scalar: bool
    """Whether V = c I: the term of a cluster on itself then has no tangent part and is left out."""
    value_norm: float
    score_norm: float

    @classmethod
    def of(cls, flow: AbstractDynamics, total_mass: float) -> "LogField":
        """The field of a flow that `coalesce` supports."""
        head: Any = flow.heads[0]
        rule = flow.attention
        assert isinstance(rule, Softmax | Unnormalised)  # checked by `request`
        beta = float(rule.beta)
        offset = beta * float(rule.offset) if isinstance(rule, Unnormalised) else None
        value = np.asarray(head.value_matrix)
        mean = np.trace(value) / len(value)
        # Relative to its size, V differs from c I by no more than rounding.
        is_scalar = bool(np.abs(value - mean * np.eye(len(value))).max() <= 1e-12 * max(abs(mean), 1e-300))
        scores = beta * np.asarray(head.query_key)
        norms = (float(np.linalg.norm(matrix, 2)) for matrix in (value, scores))
        return cls(scores, value, offset, total_mass, is_scalar, *norms)

    @functools.cached_property
    def is_plain_attraction(self) -> bool:
        """Whether scores are beta <x, y> with beta > 0 and V is a positive multiple of I."""
        beta = self.score_matrix[0, 0]
        is_attracting = self.is_value_scalar and self.value_matrix[0, 0] > 0 and beta > 0
        return bool(is_attracting and np.array_equal(self.score_matrix, beta * np.eye(len(self.score_matrix))))

    @property
    def beta(self) -> float:
        """Beta of plain attraction; NaN for every other field."""
        return float(self.score_matrix[0, 0]) if self.is_plain_attraction else np.nan

    @property
    def value_scale(self) -> float:
        """The c of V = c I."""
        return float(self.value_matrix[0, 0])

    @property
    def fixed_log_divisor(self) -> float | None:
        """Logarithm of the divisor of unnormalised attention, offset + log(total mass); None for softmax."""
        return None if self.offset is None else self.offset + np.log(self.total_mass)

    def log_divisor(self, *log_weights: np.ndarray) -> np.ndarray:
        """Logarithm of D_i, given the logarithms of all parts of the row's weight (one of them of full shape).

        log sum exp of the parts for softmax; a constant for unnormalised attention.
        """
        if self.fixed_log_divisor is None:
            return functools.reduce(np.logaddexp, log_weights)
        return np.full_like(log_weights[-1], self.fixed_log_divisor)

    def velocity(self, positions: np.ndarray, masses: np.ndarray, rows: np.ndarray | None = None) -> ScaledVelocity:
        """Tangent velocity of all clusters, or of some rows, at positions near the sphere."""
        chosen = slice(None) if rows is None else rows
        return self.velocity_from(self.sums(positions, masses, rows), positions[chosen], masses[chosen])

    def sums(self, positions: np.ndarray, masses: np.ndarray, rows: np.ndarray | None = None) -> AttentionSums:
        """Sums over all others, of all clusters or of some rows."""
        chosen = np.arange(len(positions)) if rows is None else rows
        queries = (positions if rows is None else positions[rows]) @ self.score_matrix
        values = positions @ self.value_matrix.T
        sums, max_exponent = sums_of_others(queries, positions, values, np.log(masses), chosen)
        return AttentionSums(sums[:, :-1], sums[:, -1], max_exponent)

    def velocity_from(self, sums: AttentionSums, positions: np.ndarray, masses: np.ndarray) -> ScaledVelocity:
        """Tangent velocity of the rows at `positions`, given their sums over the others."""
        own, others = self._log_weights(sums, positions, masses)
        logs = sums.max_exponent - self.log_divisor(own, others)
        log_scale = float(logs.max())
        factors = np.exp(logs - log_scale)
        forces, sizes = factors[:, None] * sums.values, factors * sums.weights
        if not self.is_value_scalar:
            # Add the term of each cluster on itself, (m_i e^{s_ii} / D_i) V x_i.
            own_logs = own - self.log_divisor(own, others)
            larger = max(log_scale, float(own_logs.max()))
            weights = np.exp(own_logs - larger)
            forces = np.exp(log_scale - larger) * forces + weights[:, None] * (positions @ self.value_matrix.T)
            log_scale, sizes = larger, np.exp(log_scale - larger) * sizes + weights
        along = np.sum(positions * forces, axis=1) / np.sum(positions * positions, axis=1)
        tangent = forces - along[:, None] * positions
        return ScaledVelocity(tangent, log_scale, float(sizes.max() * self.value_norm), sums)

    def log_divisors(self, sums: AttentionSums, positions: np.ndarray, masses: np.ndarray) -> np.ndarray:
        """Logarithms of the divisors D_i of the rows at `positions`, given their sums over the others."""
        return self.log_divisor(*self._log_weights(sums, positions, masses))

    def _log_weights(
        self, sums: AttentionSums, positions: np.ndarray, masses: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms of each row's weight on itself and of the sum of its weights on the others."""
        own = np.sum((positions @ self.score_matrix) * positions, axis=1) + np.log(masses)
        with np.errstate(divide="ignore"):  # NaN positions of a step that is too long have no weights
            return own, sums.max_exponent + np.log(sums.weights)

    def contribution_of(
        self, sources: np.ndarray, masses: np.ndarray, positions: np.ndarray, log_divisors: np.ndarray
    ) -> np.ndarray:
        """Part of the velocities at `positions` due to clusters at `sources`, before projection to tangent spaces."""
        exponents = (positions @ self.score_matrix) @ sources.T + np.log(masses)
        return np.exp(exponents - log_divisors[:, None]) @ (sources @ self.value_matrix.T)
