"""One block of a trained transformer, in JAX: attention, norms and MLP, each callable on its own.

Tokens are rows, matrices act on columns: a map W with bias b takes the rows x to ``x @ W.T + b``.
All functions are pure and can be traced, so that ``jax.jacobian(block)`` is the Jacobian of the block.
"""

import dataclasses
from collections.abc import Sequence

import equinox as eqx

from attnflow._common.arrays import AnyArray, Tokens
from attnflow._common.checks import InputError, require_known
from attnflow.model.masks import AbstractMask
from attnflow.models.attention_part import AttentionPart, OfHeads
from attnflow.models.feed_forward import FeedForward
from attnflow.models.norm import Norm

PARTS = ("biases", "norms", "mlp", "rotary")


class Block(eqx.Module):
    """Attention and MLP with their norms and residual connections.

    With `norm_place` "post" (BERT, ALBERT) a norm follows each sum, x <- N(x + f(x)); with "pre" (GPT-2, Llama) each
    part reads normalised tokens, x <- x + f(N(x)); with "output" (OLMo 2) the output of each part is normalised,
    x <- x + N(f(x)). A "pre" block may have norms of the output too (Gemma 2), x <- x + N'(f(N(x))). In a block that
    `is_parallel` (GPT-NeoX, GPT-J, Phi) the MLP reads the tokens that enter the block, not those after attention.
    A part that is None is left out; `without`, `with_heads` and `with_mask` give such variants.
    """

    attention: AttentionPart
    mlp: FeedForward | None
    attention_norm: Norm | None
    mlp_norm: Norm | None
    norm_place: str = eqx.field(static=True)
    attention_output_norm: Norm | None = None
    mlp_output_norm: Norm | None = None
    is_parallel: bool = eqx.field(default=False, static=True)

    def __call__(self, tokens: Tokens) -> Tokens:
        """The tokens after the block."""
        return self.after_mlp(self.after_attention(tokens), tokens)

    def at(self, tokens: Tokens, position: int, token: AnyArray) -> AnyArray:
        """The token at one position after the block, (d,), as a function of the token there before it.

        All others are constants: ``jax.jacobian`` of it is a block of the Jacobian of all tokens, for the cost of one.
        """
        entered = token[None]
        output = self.attention.output_at(self.attention_input(tokens), position, self.attention_input(entered))
        return self.after_mlp(self.after_output(entered, output), entered)[0]

    def attention_input(self, tokens: Tokens) -> Tokens:
        """The input of the heads: the tokens, normalised in a "pre" block."""
        return self._normed(self.attention_norm, tokens, "pre")

    def after_attention(self, tokens: Tokens, weights: OfHeads | None = None) -> Tokens:
        """The residual stream after the attention half of the block; `weights` may be given in place of its own."""
        entered = self.attention_input(tokens)
        output = self.attention(entered) if weights is None else self.attention.output_with_weights(entered, weights)
        return self.after_output(tokens, output)

    def after_output(self, tokens: Tokens, output: Tokens) -> Tokens:
        """The residual stream after the attention half, from the tokens before it and the output of the heads."""
        moved = tokens + self._normed_output(self.attention_norm, self.attention_output_norm, output)
        return self._normed(self.attention_norm, moved, "post")

    def after_mlp(self, halfway: Tokens, entered: Tokens) -> Tokens:
        """The residual stream after the MLP half, from that after the attention half.

        `entered` is the stream before the block, which the MLP of a parallel block reads.
        """
        if self.mlp is None:
            return halfway
        output = self.mlp(self._normed(self.mlp_norm, entered if self.is_parallel else halfway, "pre"))
        moved = halfway + self._normed_output(self.mlp_norm, self.mlp_output_norm, output)
        return self._normed(self.mlp_norm, moved, "post")

    def attention_weights(self, tokens: Tokens) -> OfHeads:
        """The weights of every head on the residual stream, (heads, n, n)."""
        return self.attention.weights(self.attention_input(tokens))

    def without(self, *parts: str) -> "Block":
        """The block without some of "biases", "norms", "mlp" and "rotary" (rotary and relative positions).

        Without "biases" norms keep their shift; without "mlp" its half of the block goes, norm included.
        """
        for part in parts:
            require_known(part, PARTS, "parts")
        attention, mlp = self.attention, self.mlp
        if "biases" in parts:
            attention, mlp = attention.without_biases(), mlp and mlp.without_biases()
        if "rotary" in parts:
            attention = attention.without_positions()
        norms = {
            "attention_norm": self.attention_norm,
            "mlp_norm": self.mlp_norm if "mlp" not in parts else None,
            "attention_output_norm": self.attention_output_norm,
            "mlp_output_norm": self.mlp_output_norm if "mlp" not in parts else None,
        }
        if "norms" in parts:
            norms = dict.fromkeys(norms)
        return dataclasses.replace(self, attention=attention, mlp=None if "mlp" in parts else mlp, **norms)

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

    def _normed(self, norm: Norm | None, tokens: Tokens, place: str) -> Tokens:
        """Tokens after a norm that is at this place, or as they are."""
        return norm(tokens) if norm is not None and self.norm_place == place else tokens

    def _normed_output(self, norm: Norm | None, output_norm: Norm | None, output: Tokens) -> Tokens:
        return self._normed(norm, output if output_norm is None else output_norm(output), "output")
