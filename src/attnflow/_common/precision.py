"""Float64 for our own computations, without touching JAX's global switch."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.checks import InputError

DTYPES = ("float64", "float32")


def double():
    """A context in which JAX computes in float64; the caller's setting comes back after it."""
    return jax.enable_x64(True)


def parameter(value: Any) -> Any:
    """A model's number or matrix as a float64 NumPy array that cannot be written to; JAX's own arrays pass through.

    NumPy keeps the double precision that JAX would drop outside of `double()`.
    """
    if isinstance(value, jax.Array):
        return value
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(value, dtype=object)
    if array.dtype.kind not in "fiub":
        raise InputError(f"A model's numbers must be real, but {value!r} is not. Pass a number or an array of numbers.")
    return read_only(array.astype(np.float64, copy=False))


def read_only(value: Any) -> Any:
    """A copy of an array that cannot be written to, so that a model keeps its numbers and its hash.

    JAX's own arrays, which cannot be written to either, pass through.
    """
    if isinstance(value, jax.Array):
        return value
    array = np.array(value)
    array.setflags(write=False)
    return array


def optional_parameter(value: Any) -> Any:
    """`parameter`, but None stays None."""
    return None if value is None else parameter(value)


def cast(tree: Any, dtype: str) -> Any:
    """Every floating array of a tree as a JAX array of `dtype`; other arrays keep their type."""

    def leaf(value):
        if not isinstance(value, np.ndarray | np.generic | jax.Array):
            return value
        kind = dtype if jnp.issubdtype(value.dtype, jnp.floating) else value.dtype
        # NumPy converts its own arrays: `jnp.asarray` compiles a program for every shape.
        return jnp.asarray(value, kind) if isinstance(value, jax.Array) else jax.device_put(np.asarray(value, kind))

    return jax.tree.map(leaf, tree)
