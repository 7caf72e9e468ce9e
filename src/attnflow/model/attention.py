"""Attention rules: from a block of scores <Q x_i, K x_j> to the weights of the tokens j.

A weight is a numerator, which depends on the pair (i, j), over a denominator of row i. Every rule works row by row, so
that large matrices can be formed in blocks of rows. `Sinkhorn` needs all rows to find one potential for every column,
and with these potentials it is a softmax.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from attnflow._common.arrays import AnyArray, Scores
from attnflow._common.checks import require_finite_number, require_odd_count, require_positive_number
from attnflow._common.module import Module
from attnflow._common.precision import parameter


class ScoreModifiers(NamedTuple):
    """Mask, weight factors and scale that act on a block of scores; None stands for no change."""

    visible: AnyArray | None = None
    """False where a column is hidden from a row, whose weight there is exactly zero."""
    log_weight: AnyArray | None = None
    """Logarithm of a factor on each weight: masses, ALiBi, potentials."""
    log_scale: AnyArray | None = None
    """Scores are multiplied by e^log_scale, which is kept as a logarithm because it may overflow."""


class Exponential(NamedTuple):
    """Numerators of the form e^{factor * (score - offset)} times the factors of `ScoreModifiers`."""

    factor: AnyArray
    offset: AnyArray | float = 0.0
    relative: bool = True
    """Whether each row is divided by its largest numerator."""


class AbstractAttention(Module):
    """A map from scores to weights: a numerator for every pair over a denominator for every row."""

    @abc.abstractmethod
    def numerators(self, scores: Scores, modifiers: ScoreModifiers) -> AnyArray:
        """The numerators of a block of rows i and all columns j, from the scores <Q x_i, K x_j>."""

    @abc.abstractmethod
    def denominator(self, row_sums: AnyArray, total_mass: AnyArray | float) -> AnyArray | float:
        """The denominator of every row, from the sums of its numerators and the total mass of all tokens."""

    def exponential(self) -> Exponential | None:
        """The numerators as exponentials of the scores, or None for a rule of another form."""
        return None


class Softmax(AbstractAttention):
    """e^{beta * score}, each row divided by its sum.

    At ``beta = 0`` all visible tokens have the same weight; as ``beta`` grows a row concentrates on its largest
    scores; a negative ``beta`` prefers the smallest.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(1), af.Softmax(beta=2.0))
    >>> af.attention_matrix(flow, [[0.0], [1.0]]).round(4)
    array([[0.5   , 0.5   ],
           [0.1192, 0.8808]])
    """

    beta: AnyArray = eqx.field(default=1.0, converter=parameter)

    def __check_init__(self):
        require_finite_number(self.beta, "beta")

    def numerators(self, scores: Scores, modifiers: ScoreModifiers) -> AnyArray:
        """Exponentials, the largest of a row being one; a row without visible tokens is zero."""
        return jnp.exp(self.log_numerators(scores, modifiers))

    def log_numerators(self, scores: Scores, modifiers: ScoreModifiers) -> AnyArray:
        """beta * score and the logarithms of the modifiers' factors, the largest of a row being zero."""
        return _shifted(self.beta * scores, modifiers)

    def denominator(self, row_sums: AnyArray, total_mass: AnyArray | float) -> AnyArray:
        """The sum of the row."""
        del total_mass
        return _at_least_tiny(row_sums)

    def exponential(self) -> Exponential:
        """e^{beta * score}."""
        return Exponential(self.beta)


class Sinkhorn(AbstractAttention):
    """Rows and columns of e^{beta * score} divided by their sums in turn, rows first and last.

    One iteration is `Softmax`; as `iterations` grows the weights become doubly
    stochastic (in masses: a token receives as much attention as it has mass).

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(1), af.Sinkhorn(beta=1.0, iterations=51))
    >>> af.attention_matrix(flow, [[0.0], [1.0]]).sum(axis=0).round(6)  # of a column
    array([1., 1.])
    """

    beta: AnyArray = eqx.field(default=1.0, converter=parameter)
    iterations: int = eqx.field(default=5, static=True)

    def __check_init__(self):
        require_finite_number(self.beta, "beta")
        require_odd_count(self.iterations, "iterations")

    def numerators(self, scores: Scores, modifiers: ScoreModifiers) -> AnyArray:
        """Exponentials before the last division of rows; `log_weight` holds the potentials of the columns."""
        return jnp.exp(self.log_numerators(scores, modifiers))

    def log_numerators(self, scores: Scores, modifiers: ScoreModifiers) -> AnyArray:
        """beta * score and the logarithms of the modifiers' factors, the largest of a row being zero."""
        return _shifted(self.beta * scores, modifiers)

    def denominator(self, row_sums: AnyArray, total_mass: AnyArray | float) -> AnyArray:
        """The sum of the row."""
        del total_mass
        return _at_least_tiny(row_sums)

    def exponential(self) -> Exponential:
        """e^{beta * score}."""
        return Exponential(self.beta)

    def log_weights(self, scores: Scores, modifiers: ScoreModifiers) -> AnyArray:
        """Logarithms of the weights, accurate also where the weights underflow to zero."""
        shifted = self.log_numerators(scores, modifiers)
        total = logsumexp(shifted, axis=-1, keepdims=True)
        # A row without visible tokens keeps weight zero, whose logarithm must not become NaN.
        return shifted - jnp.where(jnp.isfinite(total), total, 0)

    def sweeps(self) -> int:
        """The number of column normalisations, each of which needs all rows."""
        return (self.iterations - 1) // 2


class Unnormalised(AbstractAttention):
    """e^{beta * (score - offset)} divided by the number (total mass) of all tokens, visible or not.

    ``offset=1`` keeps weights on the sphere in (0, 1], as in arXiv:2410.06833; it only rescales time.

    Examples
    --------
    >>> import numpy as np
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Unnormalised(beta=3.0, offset=1.0))
    >>> af.attention_matrix(flow, np.eye(2)).round(4)
    array([[0.5   , 0.0249],
           [0.0249, 0.5   ]])
    """

    beta: AnyArray = eqx.field(default=1.0, converter=parameter)
    offset: AnyArray = eqx.field(default=0.0, converter=parameter)

    def __check_init__(self):
        require_finite_number(self.beta, "beta")
        require_finite_number(self.offset, "offset")

    def numerators(self, scores: Scores, modifiers: ScoreModifiers) -> AnyArray:
        """Exponentials, which overflow for large scores."""
        if modifiers.log_scale is not None:
            scores = jnp.exp(modifiers.log_scale) * scores
        logits = self.beta * (scores - self.offset)
        if modifiers.log_weight is not None:
            logits = logits + modifiers.log_weight
        return jnp.exp(_hide(logits, modifiers.visible))

    def denominator(self, row_sums: AnyArray, total_mass: AnyArray | float) -> AnyArray | float:
        """The total mass."""
        del row_sums
        return total_mass

    def exponential(self) -> Exponential:
        """e^{beta * (score - offset)}."""
        return Exponential(self.beta, self.offset, relative=False)


class Hardmax(AbstractAttention):
    """Equal weights (or weights proportional to masses) on the largest scores of a row, zero on all others.

    Scores within `tolerance` of the largest, relative to the largest absolute score of the row, are ties. On the
    sphere with Q = K = I a token has its largest score with itself: use ``masks.others`` there.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(1), af.Hardmax())
    >>> af.attention_matrix(flow, [[1.0], [2.0], [-1.0]])
    array([[0., 1., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """

    tolerance: AnyArray = eqx.field(default=1e-9, converter=parameter)

    def __check_init__(self):
        require_positive_number(self.tolerance, "tolerance")

    def numerators(self, scores: Scores, modifiers: ScoreModifiers) -> AnyArray:
        """The masses of the tokens with the largest visible scores, zero elsewhere."""
        # modifiers.log_scale is not needed: a common factor changes no order of scores.
        visible = _hide(scores, modifiers.visible)
        largest = jnp.max(visible, axis=-1, keepdims=True)
        size = jnp.max(jnp.where(jnp.isfinite(visible), jnp.abs(visible), 0), axis=-1, keepdims=True)
        ties = (visible >= largest - self.tolerance * size) & jnp.isfinite(largest)
        factors = 1.0 if modifiers.log_weight is None else jnp.exp(modifiers.log_weight)
        return jnp.where(ties, factors, jnp.zeros_like(scores))

    def denominator(self, row_sums: AnyArray, total_mass: AnyArray | float) -> AnyArray:
        """The sum of the row."""
        del total_mass
        return _at_least_tiny(row_sums)


def scale_of(log_scale: AnyArray, dtype: Any) -> AnyArray:
    """e^log_scale as a finite number.

    The scale is limited to the largest float, which changes no weight: at that scale a difference of one rounding error
    between two scores already gives all weight to one token.
    """
    return jnp.exp(jnp.minimum(log_scale, jnp.log(jnp.finfo(dtype).max) - 1))


def _shifted(logits, modifiers):
    """Logarithms of the weights up to a constant in every row; the largest of a row is zero."""
    if modifiers.log_scale is not None:
        scale = scale_of(modifiers.log_scale, logits.dtype)
        logits = scale * (logits - _row_maximum(_hide(logits, modifiers.visible)))
    if modifiers.log_weight is not None:
        logits = logits + modifiers.log_weight
    logits = _hide(logits, modifiers.visible)
    return logits - _row_maximum(logits)


def _hide(scores, visible):
    return scores if visible is None else jnp.where(visible, scores, -jnp.inf)


def _row_maximum(logits):
    """The largest entry of each row, or the lowest finite number if nothing is visible: -inf minus it is -inf again.

    The bound is the initial value of the reduction, and not a comparison after it, since XLA fuses a reduction alone
    with the matrix products before and after it.
    """
    logits = jax.lax.stop_gradient(logits)
    lowest = jnp.asarray(jnp.finfo(logits.dtype).min, logits.dtype)
    if logits.shape[-1] == 1:  # XLA removes a reduction of one entry together with its initial value.
        return jnp.maximum(logits, lowest)
    return jax.lax.reduce(logits, lowest, jax.lax.max, (logits.ndim - 1,))[..., None]


def _at_least_tiny(total):
    """The sums, zeros replaced by the smallest float, so that a row without weights stays zero instead of NaN."""
    return jnp.maximum(total, jnp.finfo(total.dtype).tiny)
