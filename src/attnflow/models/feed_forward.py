"""The MLP of a trained block: two matrices with an activation between, gated or not."""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from attnflow._common.arrays import AnyArray, Tokens


class FeedForward(eqx.Module):
    """x -> W_out sigma(W_in x + b_in) + b_out, and with a gate W_out (sigma(W_gate x) * (W_in x))."""

    inward: AnyArray  # (m, d)
    outward: AnyArray  # (d, m)
    activation: str = eqx.field(static=True)
    inward_bias: AnyArray | None = None
    outward_bias: AnyArray | None = None
    gate: AnyArray | None = None
    gate_bias: AnyArray | None = None

    # By their names in Hugging Face configs. "gelu" and "gelu_python" are exact; the other GELUs are approximations.
    activations: ClassVar[dict] = {
        "gelu": lambda values: jax.nn.gelu(values, approximate=False),
        "gelu_python": lambda values: jax.nn.gelu(values, approximate=False),
        "gelu_new": jax.nn.gelu,
        "gelu_fast": jax.nn.gelu,
        "gelu_pytorch_tanh": jax.nn.gelu,
        "quick_gelu": lambda values: values * jax.nn.sigmoid(1.702 * values),
        "relu": jax.nn.relu,
        "silu": jax.nn.silu,
        "swish": jax.nn.silu,
        "tanh": jnp.tanh,
    }

    def __call__(self, tokens: Tokens) -> Tokens:
        """The output that is added to each token."""
        hidden = affine(tokens, self.inward, self.inward_bias)
        if self.gate is None:
            hidden = self.activations[self.activation](hidden)
        else:
            hidden = hidden * self.activations[self.activation](affine(tokens, self.gate, self.gate_bias))
        return affine(hidden, self.outward, self.outward_bias)

    def without_biases(self) -> "FeedForward":
        """The same matrices without biases."""
        return dataclasses.replace(self, inward_bias=None, outward_bias=None, gate_bias=None)


def affine(tokens: AnyArray, matrix: AnyArray, bias: AnyArray | None) -> AnyArray:
    """W x + b for each row x."""
    image = tokens @ matrix.T
    return image if bias is None else image + bias
