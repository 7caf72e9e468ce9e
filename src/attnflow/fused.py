"""Sums of attention through the native kernel of `fused.cpp`, on a CPU where it was built.

It takes rules that are exponentials of scores and masks that show a row an interval of columns;
everything else, every other device and every derivative goes through XLA, which gives the same
numbers. ``ATTNFLOW_NATIVE=0`` in the environment turns it off.
"""

import ctypes
import functools
import importlib.util
import os

import jax
import jax.numpy as jnp
import numpy as np

from attnflow._arrays import AnyArray, Tokens

TARGETS = {"float64": "WeightedSumsF64", "float32": "WeightedSumsF32"}
MOST_COORDINATES = 32  # beyond, XLA's matrix products win


def why_not() -> str | None:
    """Why the kernel is not used here, as words; None when it is."""
    if os.environ.get("ATTNFLOW_NATIVE") == "0":
        return "turned off by ATTNFLOW_NATIVE=0"
    if jax.default_backend() != "cpu":
        return f"XLA serves the {jax.default_backend()}"
    return _why_not_loaded()


@functools.cache
def _why_not_loaded() -> str | None:
    spec = importlib.util.find_spec("attnflow._fused")
    if spec is None or spec.origin is None:
        return "not built: install a C++ compiler and then attnflow again"
    try:
        library = ctypes.CDLL(spec.origin)
        for symbol in TARGETS.values():
            jax.ffi.register_ffi_target(symbol, jax.ffi.pycapsule(getattr(library, symbol)), platform="cpu")
    except Exception as error:  # built against another XLA: whatever it says, XLA's own path is there
        return f"could not be loaded: {error}"
    return None


def weighted_sums(
    queries: Tokens,
    keys: Tokens,
    values: Tokens,
    log_weights: AnyArray,
    scale: AnyArray | None,
    *,
    reach: tuple[int, int],
    relative: bool,
) -> AnyArray:
    """sum_j e^{<q_i, k_j> + c_j} v_j and, as a last column, the sums of the weights.

    Parameters
    ----------
    queries, keys, values
        One row a token.
    log_weights
        c_j, one a column.
    scale
        Multiplies the differences of a row's scores to its largest; None for one.
    reach
        How many places before and after its own a row sees.
    relative
        Divide each row's weights by the largest of them.
    """
    rows, channels = queries.shape[0], values.shape[1]
    call = jax.ffi.ffi_call(
        TARGETS[queries.dtype.name],
        jax.ShapeDtypeStruct((rows, channels + 1), queries.dtype),
        vmap_method="sequential",
    )
    arrays = (queries, keys, values, log_weights, jnp.ones(()) if scale is None else scale)
    before, after = reach
    return call(
        *(jnp.asarray(array, queries.dtype) for array in arrays),
        before=np.int64(before),
        after=np.int64(after),
        relative=relative,
        scaled=scale is not None,
    )
