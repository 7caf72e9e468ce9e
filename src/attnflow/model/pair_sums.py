"""Sums over tokens, sum_j w_ij v_j, by the native kernel or in blocks of rows, without an n x n array for large n.

A flow that names a method of `fast_sums` takes its sums from there.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from attnflow._common.arrays import AnyArray, Masses, Tokens
from attnflow.model.attention import AbstractAttention, ScoreModifiers, Sinkhorn, Softmax
from attnflow.model.coordinates import SMALL_DIMENSION
from attnflow.model.fast_sums import attention_output
from attnflow.model.fast_sums.summation import AbstractFastSum, AbstractSummation
from attnflow.model.masks import AbstractMask
from attnflow.model.native import attention_sums
from attnflow.model.native.library import reason_unused
from attnflow.model.pair_derivatives import averages, blocked_totals, fused_totals

BLOCK_ENTRIES = 2**20  # weights formed at a time: 8 MB in float64, little beside the default memory limit


class Pairs(eqx.Module):
    """All pairs of tokens under one head: the rule, the mask, queries, keys, and masses."""

    attention: AbstractAttention
    mask: AbstractMask
    queries: Tokens
    keys: Tokens
    masses: Masses | None = None
    log_scale: AnyArray | None = None
    summation: AbstractSummation | None = None

    def weighted_sums(self, values: Tokens) -> Tokens:
        """sum_j w_ij values_j for every row i."""
        if isinstance(self.summation, AbstractFastSum):
            parts = (self.attention, self.mask, self.queries, self.keys, self.masses, self.log_scale)
            return attention_output.outputs(attention_output.FastSum(self.summation, *parts), values)
        potentials = self._column_potentials()
        if isinstance(self.attention, Softmax | Sinkhorn):
            return averages(self, potentials, values)
        return self.quotients(potentials, values)

    def weights(self, rows: AnyArray | None = None) -> AnyArray:
        """The matrix of weights, n x n, or only the given rows of it."""
        rows = jnp.arange(len(self.queries)) if rows is None else rows
        numerators = self.numerators((rows, self.queries[rows]), self._column_potentials())
        return numerators / self.attention.denominator(jnp.sum(numerators, axis=-1, keepdims=True), self._total_mass())

    def numerators(self, block: tuple, potentials: AnyArray | None) -> AnyArray:
        """The numerators of a block of rows, which is given by row numbers and queries."""
        rows, queries = block
        return self.attention.numerators(self._scores(queries), self._modifiers(rows, potentials))

    def log_numerators(self, block: tuple, potentials: AnyArray | None) -> AnyArray:
        """The logarithms of the numerators of a block of rows, for `Softmax` and `Sinkhorn`."""
        rule, (rows, queries) = self.attention, block
        assert isinstance(rule, Softmax | Sinkhorn)
        return rule.log_numerators(self._scores(queries), self._modifiers(rows, potentials))

    def log_columns(self, potentials: AnyArray | None) -> AnyArray | None:
        """The logarithm of the factor that each column has in all rows (mass and potential); None for no factor."""
        return _sum_of_given([None if self.masses is None else jnp.log(self.masses), potentials])

    def map_rows(self, function: Callable) -> AnyArray:
        """The values of `function(block)` for all blocks of rows, concatenated."""
        whole, rest = self._row_blocks()
        parts = []
        if whole is not None:
            stacked = jax.lax.map(function, whole)
            parts.append(stacked.reshape(-1, *stacked.shape[2:]))
        if rest is not None:
            parts.append(function(rest))
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts)

    def quotients(self, potentials: AnyArray | None, values: Tokens) -> Tokens:
        """The sums of the numerators times values, over the denominators."""
        is_fused = self.is_fusable() and values.shape[1] <= attention_sums.MAX_COORDINATES
        totals = (fused_totals if is_fused else blocked_totals)(self, potentials, values)
        return totals[:, :-1] / self.attention.denominator(totals[:, -1:], self._total_mass())

    def is_fusable(self) -> bool:
        """Whether the native kernel has this rule, mask and number of coordinates, and is used."""
        applies = self.attention.exponential() is not None and self.mask.reach() is not None
        return applies and self.queries.shape[1] <= attention_sums.MAX_COORDINATES and reason_unused() is None

    def _total_mass(self):
        return float(len(self.keys)) if self.masses is None else jnp.sum(self.masses)

    def _scores(self, queries):
        if queries.shape[1] > SMALL_DIMENSION:
            return queries @ self.keys.T
        first, *others = [queries[:, c, None] * self.keys[None, :, c] for c in range(queries.shape[1])]
        return sum(others, start=first)

    def _modifiers(self, rows, potentials) -> ScoreModifiers:
        i, j = rows[:, None], jnp.arange(len(self.keys))[None, :]
        columns = self.log_columns(potentials)
        return ScoreModifiers(
            visible=self.mask.visible(i, j),
            log_weight=_sum_of_given([self.mask.log_weight(i, j), None if columns is None else columns[None, :]]),
            log_scale=self.log_scale,
        )

    def _column_potentials(self):
        """The logarithms of Sinkhorn's column factors; None for the other rules."""
        rule = self.attention
        if not isinstance(rule, Sinkhorn):
            return None
        start = jnp.zeros(len(self.keys), self.keys.dtype)
        sweep = lambda _, potentials: self._next_potentials(rule, potentials)
        return jax.lax.fori_loop(0, rule.sweeps(), sweep, start)

    def _next_potentials(self, rule: Sinkhorn, potentials):
        """The potentials after one column normalisation: g_j + log(m_j / sum_i m_i w_ij)."""
        log_masses = jnp.zeros_like(potentials) if self.masses is None else jnp.log(self.masses)

        def log_received(block):
            rows, queries = block
            weights = rule.log_weights(self._scores(queries), self._modifiers(rows, potentials))
            return logsumexp(weights + log_masses[rows, None], axis=0)

        start = jnp.full_like(potentials, -jnp.inf)
        change = log_masses - self._fold_rows(log_received, jnp.logaddexp, start)
        return potentials + jnp.where(jnp.isfinite(change), change, 0)

    def _fold_rows(self, function: Callable, combine: Callable, start: AnyArray) -> AnyArray:
        """`start` combined with `function(block)` of every block of rows in turn."""
        whole, rest = self._row_blocks()
        if whole is not None:
            fold = lambda carry, block: (combine(carry, function(block)), None)
            start, _ = jax.lax.scan(fold, start, whole)
        return start if rest is None else combine(start, function(rest))

    def _row_blocks(self):
        """Row numbers and queries as a stack of equal blocks and a shorter rest; either may be None."""
        n = len(self.queries)
        all_rows = (jnp.arange(n), self.queries)
        block = max(1, BLOCK_ENTRIES // n)
        if n <= block:
            return None, all_rows
        split = n - n % block
        whole = jax.tree.map(lambda array: array[:split].reshape(-1, block, *array.shape[1:]), all_rows)
        rest = jax.tree.map(lambda array: array[split:], all_rows)
        return whole, rest if split < n else None


def _sum_of_given(terms: list) -> AnyArray | None:
    given = [term for term in terms if term is not None]
    return sum(given[1:], start=given[0]) if given else None
