"""One block of a trained transformer, in JAX: attention, norms and MLP, each callable on its own.

Tokens are rows, matrices act on columns: a map W with bias b takes the rows x to ``x @ W.T + b``.
All functions are pure and can be traced, so that ``jax.jacobian(block)`` is the Jacobian of the block.
"""

from collections.abc import Sequence

import equinox as eqx

from attnflow._common.arrays import Tokens
from attnflow._common.checks import InputError, require_known
from attnflow.model.masks import AbstractMask
from attnflow.models.attention_part import AttentionPart, OfHeads
from attnflow.models.feed_forward import FeedForward
from attnflow.models.norm import Norm

PARTS = ("biases", "norms", "mlp", "rotary")


class Block(eqx.Module):
    """Attention and MLP with their norms and residual connections.

    With `norm_place` "post" (BERT, ALBERT) a norm follows each sum, x <- N(x + f(x)); with "pre"
    (GPT-2, Llama) each part reads normalised tokens, x <- x + f(N(x)).
    A part that is None is left out; `without`, `with_heads` and `with_mask` give such variants.
    """

    attention: AttentionPart
    mlp: FeedForward | None
    attention_norm: Norm | None
    mlp_norm: Norm | None
    norm_place: str = eqx.field(static=True)

    def __call__(self, tokens: Tokens) -> Tokens:
        """The tokens after the block."""
        return self.after_mlp(self.after_attention(tokens))

    def attention_input(self, tokens: Tokens) -> Tokens:
        """The input of the heads: the tokens, normalised in a "pre" block."""
        return self._normed_before(self.attention_norm, tokens)

    def after_attention(self, tokens: Tokens) -> Tokens:
        """The residual stream after the attention half of the block."""
        moved = tokens + self.attention(self.attention_input(tokens))
        return self._normed_after(self.attention_norm, moved)

    def after_mlp(self, tokens: Tokens) -> Tokens:
        """The residual stream after the MLP half, from the stream after the attention half."""
        output = self.mlp(self._normed_before(self.mlp_norm, tokens)) if self.mlp is not None else 0.0
        return self._normed_after(self.mlp_norm, tokens + output)

    def attention_weights(self, tokens: Tokens) -> OfHeads:
        """The weights of every head on the residual stream, (heads, n, n)."""
        return self.attention.weights(self.attention_input(tokens))

    def without(self, *parts: str) -> "Block":
        """The block without some of "biases", "norms", "mlp" and "rotary" (rotary positions).

        Without "biases" norms keep their shift; without "mlp" its half of the block goes, norm included.
        """
        for part in parts:
            require_known(part, PARTS, "parts")
        attention, mlp = self.attention, self.mlp
        if "biases" in parts:
            attention, mlp = attention.without_biases(), mlp and mlp.without_biases()
        if "rotary" in parts:
            attention = attention.without_rotary()
        has_mlp, has_norms = "mlp" not in parts, "norms" not in parts
        return Block(
            attention,
            mlp if has_mlp else None,
            self.attention_norm if has_norms else None,
            self.mlp_norm if has_norms and has_mlp else None,
            self.norm_place,
        )

    def with_folded_norm(self) -> "Block":
        """The same function of tokens, with gain, centring and shift of the norm before attention in the heads.

        The norm that is left only centres and divides by the root mean square. A "post" block is returned as it is.
        """
        if self.norm_place != "pre" or self.attention_norm is None:
            return self
        parts = self.attention.folded(self.attention_norm), self.attention_norm.without_gain()
        return eqx.tree_at(lambda block: (block.attention, block.attention_norm), self, parts)

    def with_heads(self, heads: Sequence[int]) -> "Block":
        """The block with only these heads, numbered from 0."""
        last = self.attention.heads - 1
        if len(heads) == 0 or not all(0 <= head <= last for head in heads):
            raise InputError(f"`heads` must be one or more numbers from 0 to {last}, but they are {list(heads)}.")
        return eqx.tree_at(lambda block: block.attention, self, self.attention.with_heads(tuple(heads)))

    def with_mask(self, mask: AbstractMask) -> "Block":
        """The block with another mask, say `attnflow.masks.full` for a causal model."""
        return eqx.tree_at(lambda block: block.attention, self, self.attention.with_mask(mask))

    def _normed_before(self, norm: Norm | None, tokens: Tokens) -> Tokens:
        return norm(tokens) if norm is not None and self.norm_place == "pre" else tokens

    def _normed_after(self, norm: Norm | None, tokens: Tokens) -> Tokens:
        return norm(tokens) if norm is not None and self.norm_place == "post" else tokens
