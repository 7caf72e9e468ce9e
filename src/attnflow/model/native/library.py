"""The compiled library: whether it is built and used, and its functions.

`setup.py` builds it from the `.cpp` files of this folder. If it is missing, or ``ATTNFLOW_NATIVE=0`` is set
in the environment, XLA computes the same sums, and `coalesce` integrates without subcycling, within its stated error.
"""

import ctypes
import functools
import importlib.util
import os
import sys

import jax

NAME = "attnflow.model.native._kernels"
TARGETS = {"float64": "WeightedSumsF64", "float32": "WeightedSumsF32"}  # names of the XLA calls by precision
PULLBACKS = {"float64": "SumsPullbackF64", "float32": "SumsPullbackF32"}


def reason_unused() -> str | None:
    """The reason for which the library does not compute attention sums here, or None if it does."""
    if os.environ.get("ATTNFLOW_NATIVE") == "0":
        return "turned off by ATTNFLOW_NATIVE=0"
    if jax.default_backend() != "cpu":
        return f"XLA computes on the {jax.default_backend()}"
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
        is_windows = sys.platform == "win32"
        return "not available on Windows" if is_windows else "not built: install a C++ compiler and then attnflow again"
    jax.default_backend()  # JAX refuses a function at once from here on; before, it refuses to start because of it
    try:
        for symbol in (*TARGETS.values(), *PULLBACKS.values()):
            jax.ffi.register_ffi_target(symbol, jax.ffi.pycapsule(getattr(library(), symbol)), platform="cpu")
    except Exception as error:  # built against another version of XLA, which then computes the sums itself
        return f"could not be loaded: {error}"
    return None
