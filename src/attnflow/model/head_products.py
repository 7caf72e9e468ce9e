"""Joint matrix products of many heads: one for queries, keys and values of all heads, and one for their outputs.

Weights are joined along the axis in which they are stored, so that none is transposed.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from attnflow._common.arrays import AnyArray, Tokens
from attnflow.model.heads import Head


def can_be_joined(heads: Sequence[Head]) -> bool:
    """Whether all heads have matrices of the same shapes, with queries, keys and values of one size and an output."""
    first = heads[0]
    shapes = {tuple(map(jnp.shape, jax.tree.leaves(head))) for head in heads}
    return len(shapes) == 1 and first.output is not None and first.query.shape == first.value.shape


def joined_output(
    heads: Sequence[Head], tokens: Tokens, weighted_sums: Callable[[Tokens, Tokens, Tokens], Tokens]
) -> Tokens:
    """The sum over heads of O_h `weighted_sums`(Q_h x, K_h x, V_h x), of heads that can be joined."""
    count, size = len(heads), heads[0].query.shape[0]
    matrices = [getattr(head, name) for name in ("query", "key", "value") for head in heads]
    projected = tokens @ jnp.concatenate(matrices).T
    by_head: AnyArray = projected.reshape(len(tokens), 3, count, size).transpose(1, 2, 0, 3)
    sums = jax.vmap(weighted_sums)(*by_head)
    outputs = jnp.concatenate([head.output for head in heads if head.output is not None], axis=1)
    return sums.transpose(1, 0, 2).reshape(len(tokens), count * size) @ outputs.T
