"""Attention rules: from a block of scores <Q x_i, K x_j> to the weights of the tokens j.

Every rule works row by row, so that a block of rows is enough. `Sinkhorn` needs to
know all rows once: it then becomes a softmax with one potential a column.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from attnflow._common.arrays import AnyArray, Scores
from attnflow._common.checks import require_finite_number, require_odd_count, require_positive_number
from attnflow._common.precision import parameter


class Setting(NamedTuple):
    """What a rule may need to know besides the scores; None means nothing special."""

    visible: AnyArray | None = None
    """False where a column is hidden from a row: its weight is then exactly zero."""
    log_weight: AnyArray | None = None
    """Logarithm of a factor on each weight: masses, ALiBi, potentials."""
    log_scale: AnyArray | None = None
    """Scores count times e^log_scale; kept apart because that may overflow."""


class Exponential(NamedTuple):
    """Shares of the form e^{factor * (score - offset)} times the setting's weights."""

    factor: AnyArray
    offset: AnyArray | float = 0.0
    relative: bool = True
    """Whether each row is divided by its largest share."""


class AbstractAttention(eqx.Module):
    """Turns scores into weights: shares, divided by a number a row."""

    @abc.abstractmethod
    def shares(self, scores: Scores, setting: Setting) -> AnyArray:
        """Share of every column j in some rows i, from the scores <Q x_i, K x_j>."""

    @abc.abstractmethod
    def divisor(self, row_sums: AnyArray, total_mass: AnyArray | float) -> AnyArray | float:
        """What the shares of a row are divided by; `row_sums` are their sums, `total_mass` that of all tokens."""

    def exponential(self) -> Exponential | None:
        """The shares as an exponential of the scores, where they are one."""
        return None


class Softmax(AbstractAttention):
    """e^{beta * score}, each row divided by its sum.

    At ``beta = 0`` every visible token counts the same; as ``beta`` grows a row
    concentrates on its best matches; a negative ``beta`` prefers the worst.
    """

    beta: AnyArray = eqx.field(default=1.0, converter=parameter)

    def __check_init__(self):
        require_finite_number(self.beta, "beta")

    def shares(self, scores: Scores, setting: Setting) -> AnyArray:
        """Exponentials, at most one; a row that sees nobody is zero."""
        return jnp.exp(_shifted(self.beta * scores, setting))

    def divisor(self, row_sums: AnyArray, total_mass: AnyArray | float) -> AnyArray:
        """The row's sum."""
        del total_mass
        return _at_least_tiny(row_sums)

    def exponential(self) -> Exponential:
        """e^{beta * score}."""
        return Exponential(self.beta)


class Sinkhorn(AbstractAttention):
    """Rows and columns of e^{beta * score} divided by their sums in turn, rows first and last.

    One iteration is `Softmax`; as `iterations` grows the weights become doubly
    stochastic (in masses: a token receives as much attention as it has mass).
    """

    beta: AnyArray = eqx.field(default=1.0, converter=parameter)
    iterations: int = eqx.field(default=5, static=True)

    def __check_init__(self):
        require_finite_number(self.beta, "beta")
        require_odd_count(self.iterations, "iterations")

    def shares(self, scores: Scores, setting: Setting) -> AnyArray:
        """Before the last division of rows; `log_weight` carries the columns' potentials."""
        return jnp.exp(_shifted(self.beta * scores, setting))

    def divisor(self, row_sums: AnyArray, total_mass: AnyArray | float) -> AnyArray:
        """The row's sum."""
        del total_mass
        return _at_least_tiny(row_sums)

    def exponential(self) -> Exponential:
        """e^{beta * score}."""
        return Exponential(self.beta)

    def log_weights(self, scores: Scores, setting: Setting) -> AnyArray:
        """Logarithms of `weights`, right also where those underflow to zero."""
        shifted = _shifted(self.beta * scores, setting)
        total = logsumexp(shifted, axis=-1, keepdims=True)
        # A row that sees nobody keeps weight zero, whose logarithm must not become NaN.
        return shifted - jnp.where(jnp.isfinite(total), total, 0)

    def sweeps(self) -> int:
        """Column normalisations, each of which needs all rows."""
        return (self.iterations - 1) // 2


class Unnormalised(AbstractAttention):
    """e^{beta * (score - offset)} divided by the number (total mass) of all tokens, seen or not.

    ``offset=1`` keeps weights on the sphere in (0, 1], as arXiv:2410.06833 does; it
    only rescales time.
    """

    beta: AnyArray = eqx.field(default=1.0, converter=parameter)
    offset: AnyArray = eqx.field(default=0.0, converter=parameter)

    def __check_init__(self):
        require_finite_number(self.beta, "beta")
        require_finite_number(self.offset, "offset")

    def shares(self, scores: Scores, setting: Setting) -> AnyArray:
        """Exponentials, which may overflow where scores are large."""
        if setting.log_scale is not None:
            scores = jnp.exp(setting.log_scale) * scores
        logits = self.beta * (scores - self.offset)
        if setting.log_weight is not None:
            logits = logits + setting.log_weight
        return jnp.exp(_hide(logits, setting.visible))

    def divisor(self, row_sums: AnyArray, total_mass: AnyArray | float) -> AnyArray | float:
        """The total mass."""
        del row_sums
        return total_mass

    def exponential(self) -> Exponential:
        """e^{beta * (score - offset)}."""
        return Exponential(self.beta, self.offset, relative=False)


class Hardmax(AbstractAttention):
    """Only the best matches count, and they share.

    Matches within `tolerance` of the best, relative to the row's largest score in size,
    count as ties. On the sphere with Q = K = I a token is its own best match: use
    ``masks.others`` there.
    """

    tolerance: AnyArray = eqx.field(default=1e-9, converter=parameter)

    def __check_init__(self):
        require_positive_number(self.tolerance, "tolerance")

    def shares(self, scores: Scores, setting: Setting) -> AnyArray:
        """The masses of the best visible matches, zero elsewhere."""
        # setting.log_scale is not needed: a common factor does not change who is best
        seen = _hide(scores, setting.visible)
        best = jnp.max(seen, axis=-1, keepdims=True)
        size = jnp.max(jnp.where(jnp.isfinite(seen), jnp.abs(seen), 0), axis=-1, keepdims=True)
        ties = (seen >= best - self.tolerance * size) & jnp.isfinite(best)
        factors = 1.0 if setting.log_weight is None else jnp.exp(setting.log_weight)
        return jnp.where(ties, factors, jnp.zeros_like(scores))

    def divisor(self, row_sums: AnyArray, total_mass: AnyArray | float) -> AnyArray:
        """The row's sum."""
        del total_mass
        return _at_least_tiny(row_sums)


def scale_of(log_scale: AnyArray, dtype: Any) -> AnyArray:
    """e^log_scale as a finite number.

    Above the largest float the scale is cut, which changes no weight: a score difference
    of one rounding error is then already decisive.
    """
    return jnp.exp(jnp.minimum(log_scale, jnp.log(jnp.finfo(dtype).max) - 1))


def _shifted(logits, setting):
    """Logarithms of the weights up to a constant a row, the largest being zero."""
    if setting.log_scale is not None:
        scale = scale_of(setting.log_scale, logits.dtype)
        logits = scale * (logits - _row_maximum(_hide(logits, setting.visible)))
    if setting.log_weight is not None:
        logits = logits + setting.log_weight
    logits = _hide(logits, setting.visible)
    return logits - _row_maximum(logits)


def _hide(scores, visible):
    return scores if visible is None else jnp.where(visible, scores, -jnp.inf)


def _row_maximum(logits):
    """Largest entry of each row, or zero where nothing is visible."""
    maximum = jnp.max(logits, axis=-1, keepdims=True)
    return jax.lax.stop_gradient(jnp.where(jnp.isfinite(maximum), maximum, 0))


def _at_least_tiny(total):
    """Keeps a row without any weight at zero instead of NaN."""
    return jnp.maximum(total, jnp.finfo(total.dtype).tiny)
