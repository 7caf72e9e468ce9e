"""The arrays and numbers of one sum over tokens, and masks as functions of positions."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.model.masks import Alibi, Both, Causal, Full, Others


@dataclass(frozen=True)
class Positions:
    """A mask by positions: which of the earlier tokens, the later tokens and itself a token sees.

    The weight of token j for token i has the factor e^{-slope |i - j|}.
    """

    earlier: bool = True
    later: bool = True
    itself: bool = True
    slope: float = 0.0

    @classmethod
    def of(cls, mask: Any) -> "Positions | None":
        """The mask in this form, its slope left at zero, or None if it has another."""
        # Types, not `isinstance`: a subclass may change any rule.
        if type(mask) is Both:
            first, second = cls.of(mask.first), cls.of(mask.second)
            return None if first is None or second is None else first._and(second)
        if type(mask) is Causal:
            return cls(later=False, itself=not mask.strict)
        if type(mask) is Others:
            return cls(itself=False)
        return cls() if type(mask) in (Full, Alibi) else None

    def _and(self, other: "Positions") -> "Positions":
        return Positions(self.earlier and other.earlier, self.later and other.later, self.itself and other.itself)

    @property
    def is_full(self) -> bool:
        """Whether every token sees all tokens but perhaps itself, with equal factors."""
        return self.earlier and self.later and self.slope == 0

    def transposed(self) -> "Positions":
        """The mask with tokens i and j exchanged."""
        return Positions(self.later, self.earlier, self.itself, self.slope)

    def log_factors(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """log p_ij for rows i and columns j: minus infinity where j is hidden from i."""
        distance = rows[:, None] - columns[None, :]
        is_visible = np.where(distance > 0, self.earlier, np.where(distance < 0, self.later, self.itself))
        return np.where(is_visible, -self.slope * np.abs(distance), -np.inf)

    def gross(self, weights: np.ndarray) -> np.ndarray:
        """A bound on sum_j p_ij weights_j of every row i, for weights above or equal to zero."""
        total = weights.sum()
        bound = np.full(len(weights), total)
        if self.earlier != self.later:
            before = np.cumsum(weights)
            bound = before if self.earlier else total - before + weights
        if self.slope > 0:  # a geometric series, in both directions
            bound = np.minimum(bound, 2 * weights.max() / -np.expm1(-self.slope))
        return bound


def slope_of(mask: Any) -> Any:
    """The sum of the slopes of the ALiBi factors in a mask, which may be traced."""
    if isinstance(mask, Both):
        return slope_of(mask.first) + slope_of(mask.second)
    return mask.slope if isinstance(mask, Alibi) else 0.0


@dataclass(frozen=True)
class SumProblem:
    """Attention outputs to compute: w_ij is m_j e^{factor <q_i, k_j>} p_ij, divided as the rule says.

    Normalised rules divide by the sum of the row, after `sweeps` normalisations of the columns; the others by
    the total mass times e^{log_divisor}.
    """

    queries: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    masses: np.ndarray
    factor: float
    positions: Positions = Positions()
    is_normalised: bool = True
    sweeps: int = 0
    log_divisor: float = 0.0

    def transposed(self) -> "SumProblem":
        """The problem in which tokens receive where they gave attention."""
        return SumProblem(self.keys, self.queries, self.values, self.masses, self.factor, self.positions.transposed())

    def outputs(self, totals: np.ndarray, log_scales: np.ndarray) -> np.ndarray:
        """The attention outputs from e^{-log_scales_i} sum_j m_j e^{factor <q_i, k_j>} p_ij (v_j, 1)."""
        if self.is_normalised:
            return totals[:, :-1] / np.maximum(totals[:, -1:], np.finfo(float).tiny)
        with np.errstate(over="ignore"):  # e^{beta} may exceed all numbers, as in the sum over all pairs
            return totals[:, :-1] * np.exp(log_scales - self.log_divisor)[:, None] / self.masses.sum()
