"""The feed-forward variant: what attention sends passes through W sigma( . + b)."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from attnflow._common.arrays import AnyArray, Matrix, Tokens
from attnflow._common.checks import InputError, require_all_finite, require_known, require_matrix
from attnflow._common.precision import optional_parameter, parameter


class MLP(eqx.Module):
    """One hidden layer on the pull of attention: y -> W sigma(y + b), sigma componentwise.

    "gelu" is the tanh approximation that most trained models use.
    """

    weight: Matrix = eqx.field(converter=parameter)
    activation: str = eqx.field(default="relu", static=True)
    bias: AnyArray | None = eqx.field(default=None, converter=optional_parameter)

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
                f"`bias` must have one entry a column of `weight`, {self.weight.shape[1]}, "
                f"but its shape is {self.bias.shape}."
            )

    def __call__(self, pull: Tokens) -> Tokens:
        """The pull after the layer."""
        shifted = pull if self.bias is None else pull + self.bias
        return self.activations[self.activation](shifted) @ self.weight.T
