"""The attention of a trained block, head by head: biases, masks, grouped keys, positions, norms of queries and keys."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from attnflow._common.arrays import AnyArray, Tokens
from attnflow.model.masks import AbstractMask
from attnflow.models.norm import Norm, VectorNorm
from attnflow.models.relative_positions import RelativePositions
from attnflow.models.rotary import Rotation

OfHeads = Float[AnyArray, "heads n n"]
Places = tuple[np.ndarray, int]  # numbers of tokens, and how many there are in the prompt


class AttentionPart(eqx.Module):
    """All heads of a layer: head h sends  W_O[h] sum_j A_ij (W_V[h] x_j + b_v[h])  to token i.

    A is the softmax over j of `scale` <W_Q[h] x_i + b_q[h], W_K[h] x_j + b_k[h]>. There may be fewer
    keys and values than queries (grouped-query attention): then head h uses those of group
    h // (heads / groups). Some families change queries and keys first: their coordinates are cut off at `clip`, they
    are divided by their length (`query_norm`, `key_norm`), or rotated by angles proportional to the token's position
    (`rotary`). Others change the scores s: to `softcap` tanh(s / `softcap`), or by numbers that depend on the distance
    of the two tokens (`relative`).
    """

    W_Q: AnyArray  # (heads, k, d)
    W_K: AnyArray  # (groups, k, d)
    W_V: AnyArray  # (groups, k, d)
    W_O: AnyArray  # (heads, d, k)
    b_q: AnyArray | None
    b_k: AnyArray | None
    b_v: AnyArray | None
    b_o: AnyArray | None  # (d,), added once for all heads
    mask: AbstractMask
    scale: float = eqx.field(static=True)
    rotary: Rotation | None = eqx.field(default=None, static=True)
    relative: RelativePositions | None = None
    query_norm: VectorNorm | None = None
    key_norm: VectorNorm | None = None
    softcap: float | None = eqx.field(default=None, static=True)
    clip: float | None = eqx.field(default=None, static=True)

    @property
    def heads(self) -> int:
        """The number of heads."""
        return self.W_Q.shape[0]

    def __call__(self, tokens: Tokens, mask: AbstractMask | None = None) -> Tokens:
        """The output of all heads at each token, bias included, without norm and residual."""
        return self.sent(tokens, self.weights(tokens, mask))

    def sent(self, tokens: Tokens, weights: OfHeads) -> Tokens:
        """The output of all heads at each token with these weights in place of those of the tokens."""
        return self.joined(weights @ self.values(tokens))

    def joined(self, mixed: AnyArray) -> Tokens:
        """The output of all heads from the mean values of each, (heads, n, k)."""
        side_by_side = jnp.moveaxis(mixed, 0, 1).reshape(mixed.shape[1], -1)
        outward = jnp.moveaxis(jnp.asarray(self.W_O), 0, 1).reshape(self.W_O.shape[1], -1)
        sent = side_by_side @ outward.T
        return sent if self.b_o is None else sent + self.b_o

    def pulls(self, tokens: Tokens, mask: AbstractMask | None = None) -> AnyArray:
        """The output of each head, (heads, n, d); their sum and `b_o` are the whole output."""
        mixed = self.weights(tokens, mask) @ self.values(tokens)
        return jnp.einsum("hnk,hdk->hnd", mixed, self.W_O)

    def weights(self, tokens: Tokens, mask: AbstractMask | None = None) -> OfHeads:
        """The attention weights of every head, (heads, n, n); rows add up to one."""
        return self._softmax(self.scores(tokens), np.arange(len(tokens)), self.mask if mask is None else mask)

    def scores(self, tokens: Tokens) -> OfHeads:
        """The arguments of the softmax, (heads, n, n), before any mask."""
        queries, keys = self.queries_and_keys(tokens)
        return self._scores(queries @ jnp.swapaxes(keys, 1, 2), np.arange(len(tokens)))

    def at(self, tokens: Tokens, place: int, own: Tokens) -> Tokens:
        """The output (1, d) at one token, with `own` (1, d) in its place among the tokens; the others are constants.

        The same as a row of the whole output, for the cost of one token wherever `own` enters.
        """
        n, rows = len(tokens), np.array([place])
        keys, values = self.queries_and_keys(tokens)[1], self.values(tokens)
        query, key = self.queries_and_keys(own, (rows, n))
        products = jnp.asarray(query @ jnp.swapaxes(keys, 1, 2)).at[..., place].set(jnp.sum(query * key, axis=-1))
        weights = jnp.asarray(self._softmax(self._scores(products, rows), rows, self.mask))
        others = weights.at[..., place].set(0)
        return self.joined(others @ values + weights[..., place : place + 1] * self.values(own))

    def queries_and_keys(self, tokens: Tokens, places: Places | None = None) -> tuple[AnyArray, AnyArray]:
        """The queries and keys of every head, (heads, n, k), as their inner products are taken, without `scale`.

        `places` are those of some tokens and the number of all; without it the tokens are a whole prompt.
        """
        places = (np.arange(len(tokens)), len(tokens)) if places is None else places
        queries = self._compared(tokens, self.W_Q, self.b_q, self.query_norm, places)
        return queries, self._for_every_head(self._compared(tokens, self.W_K, self.b_k, self.key_norm, places))

    def values(self, tokens: Tokens) -> AnyArray:
        """The values of every head, (heads, n, k)."""
        return self._for_every_head(self._clipped(_projected(tokens, self.W_V, self.b_v)))

    def with_heads(self, heads: tuple[int, ...]) -> "AttentionPart":
        """Only these heads, each with its own copy of keys and values."""
        numbers = np.array(heads)
        groups = numbers // (self.heads // len(self.W_K))
        chosen = {
            "W_Q": numbers,
            "W_O": numbers,
            "b_q": numbers,
            "W_K": groups,
            "W_V": groups,
            "b_k": groups,
            "b_v": groups,
        }
        arrays = {name: getattr(self, name) for name in chosen}
        kept: dict = {name: None if array is None else array[chosen[name]] for name, array in arrays.items()}
        if self.query_norm is not None and self.key_norm is not None:
            kept |= {"query_norm": self.query_norm.with_heads(numbers), "key_norm": self.key_norm.with_heads(groups)}
        if self.relative is not None:
            kept["relative"] = RelativePositions(self.relative.table[numbers], self.relative.farthest)
        return dataclasses.replace(self, **kept)

    def with_mask(self, mask: AbstractMask) -> "AttentionPart":
        """The same heads under another mask."""
        return dataclasses.replace(self, mask=mask)

    def folded(self, norm: Norm) -> "AttentionPart":
        """The heads that act on tokens after `norm.without_gain()` as this one does after `norm`.

        W becomes W diag(gain) C for queries, keys and values (see `Norm.folded`), and W shift is added to their biases.
        """

        def bias(matrices, own):
            if norm.shift is None:
                return own
            shifted = matrices @ norm.shift
            return shifted if own is None else own + shifted

        biases = {
            f"b_{name.lower()}": bias(getattr(self, f"W_{name}"), getattr(self, f"b_{name.lower()}")) for name in "QKV"
        }
        matrices = {f"W_{name}": norm.folded(getattr(self, f"W_{name}")) for name in "QKV"}
        return dataclasses.replace(self, **matrices, **biases)

    def without_biases(self) -> "AttentionPart":
        """The same matrices without biases."""
        return dataclasses.replace(self, b_q=None, b_k=None, b_v=None, b_o=None)

    def without_positions(self) -> "AttentionPart":
        """The same heads without rotary and relative positions."""
        return dataclasses.replace(self, rotary=None, relative=None)

    def with_linear_queries(self) -> "AttentionPart":
        """The same heads with linear maps in place of norms of queries and keys (see `VectorNorm.of_mean_length`).

        The score of tokens i and j is multiplied by the ratio of the mean length to the own length of query i, and of
        key j. Heads without such norms are returned as they are.
        """
        if self.query_norm is None or self.key_norm is None:
            return self
        W_Q, W_K = self.query_norm.of_mean_length(self.W_Q), self.key_norm.of_mean_length(self.W_K)
        return dataclasses.replace(self, W_Q=W_Q, W_K=W_K, query_norm=None, key_norm=None)

    def _scores(self, products: AnyArray, rows: np.ndarray) -> AnyArray:
        """The arguments of the softmax in these rows, from inner products of queries and keys."""
        scores = self.scale * products
        if self.softcap is not None:
            scores = self.softcap * jnp.tanh(scores / self.softcap)
        return scores if self.relative is None else scores + self.relative(scores.shape[-1])[:, rows]

    def _softmax(self, scores: AnyArray, rows: np.ndarray, mask: AbstractMask) -> AnyArray:
        """The weights in these rows."""
        columns = np.arange(scores.shape[-1])
        factor = mask.log_weight(rows[:, None], columns[None, :])
        visible = mask.visible(rows[:, None], columns[None, :])
        return jax.nn.softmax(scores if factor is None else scores + factor, axis=-1, where=visible)

    def _compared(
        self,
        tokens: Tokens,
        matrices: AnyArray,
        biases: AnyArray | None,
        norm: VectorNorm | None,
        places: Places,
    ) -> AnyArray:
        """Queries or keys, as their inner products are taken."""
        vectors = self._clipped(_projected(tokens, matrices, biases))
        vectors = vectors if norm is None else norm(vectors, tokens)
        return vectors if self.rotary is None else self.rotary(vectors, places)

    def _clipped(self, vectors: AnyArray) -> AnyArray:
        return vectors if self.clip is None else jnp.clip(vectors, -self.clip, self.clip)

    def _for_every_head(self, of_groups: AnyArray) -> AnyArray:
        return jnp.repeat(of_groups, self.heads // len(of_groups), axis=0)


def _projected(tokens: Tokens, matrices: AnyArray, biases: AnyArray | None) -> AnyArray:
    """W[h] x + b[h] for every head, (heads, n, k); computed as one matrix product for all heads."""
    heads, k, d = matrices.shape
    images = (tokens @ matrices.reshape(heads * k, d).T).reshape(len(tokens), heads, k)
    images = jnp.moveaxis(images, 1, 0)
    return images if biases is None else images + biases[:, None, :]
