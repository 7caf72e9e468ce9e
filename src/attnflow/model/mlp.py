"""A feed-forward layer W sigma( . + b) on the attention output."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from attnflow._common.arrays import AnyArray, Matrix, Tokens
from attnflow._common.checks import InputError, require_all_finite, require_known, require_matrix
from attnflow._common.module import Module
from attnflow._common.precision import optional_parameter, parameter


class MLP(Module):
    """One hidden layer on the attention output: y -> W sigma(y + b), with sigma componentwise.

    "gelu" is the tanh approximation that most trained models use.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(1), mlp=af.MLP(weight=[[2.0]], activation="relu"))
    >>> af.velocity(flow, [[1.0]])
    array([[2.]])
    """

    weight: Matrix = eqx.field(converter=parameter)
    """W, d x d."""
    activation: str = eqx.field(default="relu", static=True)
    """sigma: "relu", "tanh", "gelu" or "identity"."""
    bias: AnyArray | None = eqx.field(default=None, converter=optional_parameter)
    """b, one entry for each column of `weight`; None: zero."""

    activations: ClassVar[dict] = {
        "relu": jax.nn.relu,
        "tanh": jnp.tanh,
        "gelu": jax.nn.gelu,
        "identity": lambda values: values,
    }

    def __check_init__(self):
        require_matrix(self.weight, "weight")
        require_known(self.activation, self.activations, "activation")
        if self.bias is None:
            return
        require_all_finite(self.bias, "bias", ("entry",) * self.bias.ndim)
        if self.bias.shape != (self.weight.shape[1],):
            raise InputError(
                f"`bias` must have one entry for each column of `weight`, {self.weight.shape[1]}, "
                f"but its shape is {self.bias.shape}."
            )

    def __call__(self, output: Tokens) -> Tokens:
        """The attention output after the layer."""
        shifted = output if self.bias is None else output + self.bias[None]
        return self.activations[self.activation](shifted) @ self.weight.T
