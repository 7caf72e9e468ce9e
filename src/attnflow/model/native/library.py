"""The compiled library: whether it is built and used, and its functions.

`setup.py` builds it from `attention_sums.cpp` and `subcycling.cpp`. Where it is missing, and where
``ATTNFLOW_NATIVE=0`` is set in the environment, the same sums go through XLA and NumPy and give the same numbers.
"""

import ctypes
import functools
import importlib.util
import os

import jax

NAME = "attnflow.model.native._kernels"
TARGETS = {"float64": "WeightedSumsF64", "float32": "WeightedSumsF32"}  # XLA's names of the attention sums by precision


def reason_unused() -> str | None:
    """Why attention sums do not go through the library here, as words; None when they do."""
    if os.environ.get("ATTNFLOW_NATIVE") == "0":
        return "turned off by ATTNFLOW_NATIVE=0"
    if jax.default_backend() != "cpu":
        return f"XLA serves the {jax.default_backend()}"
    return _reason_not_loaded()


def is_built() -> bool:
    """Whether the functions that take NumPy arrays can be called, whichever device JAX uses."""
    return os.environ.get("ATTNFLOW_NATIVE") != "0" and _reason_not_loaded() is None


@functools.cache
def library() -> ctypes.CDLL:
    """The compiled functions."""
    spec = importlib.util.find_spec(NAME)
    return ctypes.CDLL(None if spec is None else spec.origin)


@functools.cache
def _reason_not_loaded() -> str | None:
    if importlib.util.find_spec(NAME) is None:
        return "not built: install a C++ compiler and then attnflow again"
    try:
        for symbol in TARGETS.values():
            jax.ffi.register_ffi_target(symbol, jax.ffi.pycapsule(getattr(library(), symbol)), platform="cpu")
    except Exception as error:  # built against another XLA: XLA's own path remains
        return f"could not be loaded: {error}"
    return None
