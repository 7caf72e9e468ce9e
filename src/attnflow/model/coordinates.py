"""Sums over the few coordinates of tokens, written out: XLA fuses them with what surrounds them.

On a CPU, XLA takes up to ten times as long for a reduction over a last axis of three numbers.
"""

import jax.numpy as jnp

from attnflow._common.arrays import AnyArray, Matrix, Tokens

SMALL_DIMENSION = 4  # coordinates, up to which sums over them are written out


def sum_over_coordinates(array: AnyArray) -> AnyArray:
    """The sum over the last axis, which is kept with length one."""
    if not 0 < array.shape[-1] <= SMALL_DIMENSION:
        return jnp.sum(array, axis=-1, keepdims=True)
    first, *others = [array[..., c : c + 1] for c in range(array.shape[-1])]
    return sum(others, start=first)


def mapped(tokens: Tokens, matrix: Matrix) -> Tokens:
    """The matrix applied to every token: tokens @ matrix.T."""
    if not 0 < tokens.shape[-1] <= SMALL_DIMENSION or matrix.shape[0] > SMALL_DIMENSION:
        return tokens @ matrix.T
    first, *others = [tokens[:, c, None] * matrix[None, :, c] for c in range(tokens.shape[1])]
    return sum(others, start=first)
