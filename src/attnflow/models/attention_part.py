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
from attnflow.models.rotary import PromptPositions, Rotation

OfHeads = Float[AnyArray, "heads n n"]


class AttentionPart(eqx.Module):
    """All heads of a layer: token i receives  b_o + sum_h W_O[h] sum_j A_ij[h] (W_V[h] x_j + b_v[h]).

    A[h] is the softmax over j of the scores  s_ij = `scale` <q_i, k_j>  with queries q_i = W_Q[h] x_i + b_q[h] and keys
    k_j = W_K[h] x_j + b_k[h]. There may be fewer keys and values than queries (grouped-query attention): then head h
    uses those of group h // (heads / groups). Some families change queries and keys, in this order: coordinates are cut
    off at `clip`, vectors are divided by their length (`query_norm`, `key_norm`), and rotated by angles proportional to
    the token's position (`rotary`). Others change the scores: to `softcap` tanh(s / `softcap`), or by adding numbers
    that depend on the distance of the two tokens (`relative`).

    Shapes: n tokens in R^d, k coordinates of a query, key or value in each head.
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
        return self.output_with_weights(tokens, self.weights(tokens, mask))

    def output_with_weights(self, tokens: Tokens, weights: OfHeads) -> Tokens:
        """The output of all heads at each token, with given attention weights A."""
        return self.output_of_mean_values(weights @ self.values(tokens))

    def outputs_of_heads(self, tokens: Tokens, mask: AbstractMask | None = None) -> AnyArray:
        """The output of each head, (heads, n, d); their sum and `b_o` are the whole output."""
        mean_values = self.weights(tokens, mask) @ self.values(tokens)
        return jnp.einsum("hnk,hdk->hnd", mean_values, self.W_O)

    def weights(self, tokens: Tokens, mask: AbstractMask | None = None) -> OfHeads:
        """The attention weights of every head, (heads, n, n); rows add up to one."""
        return self._softmax(self.scores(tokens), np.arange(len(tokens)), self.mask if mask is None else mask)

    def scores(self, tokens: Tokens) -> OfHeads:
        """The scores s_ij of every head, (heads, n, n), before any mask."""
        queries, keys = self.queries_and_keys(tokens)
        return self._scores(queries @ jnp.swapaxes(keys, 1, 2), np.arange(len(tokens)))

    def output_at(self, tokens: Tokens, position: int, token: Tokens) -> Tokens:
        """The output (1, d) at one position p, as a function of the token x (1, d) there; the others are constants.

        It is row p of the whole output for the prompt with x in row p,  sum_{j != p} A_pj v_j + A_pp v(x)  before W_O,
        where the scores are <q(x), k_j> and <q(x), k(x)>. A derivative by x costs as much as for one token.
        """
        rows = np.array([position])
        keys, values = self.queries_and_keys(tokens)[1], self.values(tokens)
        query, key = self.queries_and_keys(token, PromptPositions(rows, len(tokens)))
        with_others = jnp.asarray(query @ jnp.swapaxes(keys, 1, 2))
        products = with_others.at[..., position].set(jnp.sum(query * key, axis=-1))
        weights = jnp.asarray(self._softmax(self._scores(products, rows), rows, self.mask))
        weights_of_others = weights.at[..., position].set(0)
        own_weight = weights[..., position : position + 1]
        return self.output_of_mean_values(weights_of_others @ values + own_weight * self.values(token))

    def queries_and_keys(self, tokens: Tokens, positions: PromptPositions | None = None) -> tuple[AnyArray, AnyArray]:
        """The queries and keys of every head, (heads, n, k), whose inner products times `scale` are the scores.

        Without `positions` the tokens are a whole prompt.
        """
        positions = PromptPositions(np.arange(len(tokens)), len(tokens)) if positions is None else positions
        queries = self._positioned(tokens, self.W_Q, self.b_q, self.query_norm, positions)
        return queries, self._for_every_head(self._positioned(tokens, self.W_K, self.b_k, self.key_norm, positions))

    def values(self, tokens: Tokens) -> AnyArray:
        """The values of every head, (heads, n, k)."""
        return self._for_every_head(self._clipped(_projected(tokens, self.W_V, self.b_v)))

    def with_heads(self, heads: tuple[int, ...]) -> "AttentionPart":
        """The part with only these heads, numbered from 0; of shared keys and values each head has its own copy."""
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
        """The scores of the queries `rows` with all keys, (heads, rows, n), from their inner products."""
        scores = self.scale * products
        if self.softcap is not None:
            scores = self.softcap * jnp.tanh(scores / self.softcap)
        return scores if self.relative is None else scores + self.relative(scores.shape[-1])[:, rows]

    def _softmax(self, scores: AnyArray, rows: np.ndarray, mask: AbstractMask) -> AnyArray:
        """The weights of the queries `rows` on all tokens, (heads, rows, n), from their scores."""
        columns = np.arange(scores.shape[-1])
        factor = mask.log_weight(rows[:, None], columns[None, :])
        visible = mask.visible(rows[:, None], columns[None, :])
        return jax.nn.softmax(scores if factor is None else scores + factor, axis=-1, where=visible)

    def _positioned(
        self,
        tokens: Tokens,
        matrices: AnyArray,
        biases: AnyArray | None,
        norm: VectorNorm | None,
        positions: PromptPositions,
    ) -> AnyArray:
        """Queries or keys: projected, cut off, divided by their length and rotated by their position, in this order."""
        vectors = self._clipped(_projected(tokens, matrices, biases))
        vectors = vectors if norm is None else norm(vectors, tokens)
        return vectors if self.rotary is None else self.rotary(vectors, positions)

    def output_of_mean_values(self, mean_values: AnyArray) -> Tokens:
        """The sum over heads of W_O[h] times mean values sum_j A_ij v_j, (heads, n, k), as one product; plus `b_o`."""
        side_by_side = jnp.moveaxis(mean_values, 0, 1).reshape(mean_values.shape[1], -1)  # (n, heads k)
        joined_maps = jnp.moveaxis(jnp.asarray(self.W_O), 0, 1).reshape(self.W_O.shape[1], -1)  # (d, heads k)
        output = side_by_side @ joined_maps.T
        return output if self.b_o is None else output + self.b_o

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
