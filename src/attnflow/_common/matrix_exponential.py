"""e^{tV} without overflow: a matrix of size about one, and the logarithm of its scale."""

import jax
import jax.numpy as jnp

from attnflow._common.arrays import AnyArray, Matrix, Scalar

TAYLOR_TERMS = 14  # the remainder 0.25^15 / 15! is below 1e-21


def scaled_exponential(matrix: Matrix, time: Scalar) -> tuple[AnyArray, AnyArray]:
    """A matrix M and a number s with e^{time * matrix} = e^s M, at any time.

    Scaling and squaring of the Taylor series, renormalised after every squaring. The
    trace is taken out first, so that multiples of the identity are exact.
    """
    d = matrix.shape[0]
    shift = jnp.trace(matrix) / d
    exponent = time * (matrix - shift * jnp.eye(d, dtype=matrix.dtype))
    size = jnp.max(jnp.sum(jnp.abs(exponent), axis=-1))
    squarings = jnp.maximum(0, jnp.ceil(jnp.log2(jnp.maximum(size, 1e-30))) + 2)
    series = _taylor(exponent / 2**squarings)

    def square(_, scaled):
        result, log_scale = scaled
        return _normalised(result @ result, 2 * log_scale)

    start = _normalised(series, jnp.zeros((), matrix.dtype))
    result, log_scale = jax.lax.fori_loop(0, squarings.astype(jnp.int32), square, start)
    return result, log_scale + time * shift


def scaled_power(matrix: Matrix, exponent: AnyArray) -> tuple[AnyArray, AnyArray]:
    """A matrix M and a number s with matrix^exponent = e^s M, for a whole number exponent >= 0."""
    identity = jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    zero = jnp.zeros((), matrix.dtype)

    def fold(carry):
        left, (base, base_scale), (result, result_scale) = carry
        times_base = _normalised(result @ base, result_scale + base_scale)
        is_odd = left % 2 == 1
        result = jax.tree.map(lambda a, b: jnp.where(is_odd, a, b), times_base, (result, result_scale))
        return left // 2, _normalised(base @ base, 2 * base_scale), result

    start = (exponent.astype(jnp.int32), _normalised(matrix, zero), (identity, zero))
    return jax.lax.while_loop(lambda carry: carry[0] > 0, fold, start)[2]


def _taylor(exponent):
    identity = jnp.eye(exponent.shape[0], dtype=exponent.dtype)
    # Horner's scheme: I + A (I + A/2 (I + A/3 (...)))
    horner = lambda step, total: identity + exponent @ total / (TAYLOR_TERMS - step)
    return jax.lax.fori_loop(0, TAYLOR_TERMS, horner, identity)


def _normalised(matrix, log_scale):
    """The matrix divided by a power of two near its largest entry, which is exact, and the logarithm of it."""
    size = jnp.exp2(jnp.round(jnp.log2(jnp.max(jnp.abs(matrix)))))
    size = jnp.where(jnp.isfinite(size) & (size > 0), size, 1)
    return matrix / size, log_scale + jnp.log(size)
