"""Float64 for our own computations, without touching JAX's global switch."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

DTYPES = ("float64", "float32")


def double():
    """A context in which JAX computes in float64; the caller's setting comes back after it."""
    return jax.enable_x64(True)


def parameter(value: Any) -> Any:
    """A model's number or matrix as a float64 NumPy array; JAX's own arrays pass through.

    NumPy keeps the double precision that JAX would drop outside of `double()`.
    """
    if isinstance(value, jax.Array):
        return value
    return np.asarray(value, dtype=np.float64)


def optional_parameter(value: Any) -> Any:
    """`parameter`, but None stays None."""
    return None if value is None else parameter(value)


def cast(tree: Any, dtype: str) -> Any:
    """Every floating array of a tree as a JAX array of `dtype`; other arrays keep their type."""

    def leaf(value):
        if not isinstance(value, np.ndarray | np.generic | jax.Array):
            return value
        is_floating = jnp.issubdtype(value.dtype, jnp.floating)
        return jnp.asarray(value, dtype if is_floating else value.dtype)

    return jax.tree.map(leaf, tree)
