"""Functions of NumPy arrays called from compiled programs of a CPU, by the XLA call of `host_calls.cpp`.

A program holds the key of its function, a text that is the same in every process, so that compiled code on disk stays
valid: the function of a key is noted whenever a program is traced.
"""

import ctypes
import functools
import logging
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray
from attnflow.model.native.library import library, reason_unused

log = logging.getLogger(__name__)
TARGET = "HostCall"
MESSAGE_BYTES = 1024  # of an error, with its end, as in `host_calls.cpp`


class HostCall(NamedTuple):
    """A function and the shapes and types of its inputs and of its output."""

    function: Callable[..., np.ndarray]
    inputs: tuple[jax.ShapeDtypeStruct, ...]
    output: jax.ShapeDtypeStruct


_calls: dict[str, HostCall] = {}


def call(name: str, function: Callable[..., np.ndarray], output: Any, *inputs: AnyArray) -> AnyArray:
    """`function(*inputs)` in a compiled program; it takes NumPy arrays and returns one of the shape of `output`.

    `name` must tell functions apart, in all processes that share compiled code. The function is pure, and calls
    nothing of JAX.
    """
    arrays = [jnp.asarray(value) for value in inputs]
    shapes = tuple(jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays)
    result = jax.ShapeDtypeStruct(output.shape, output.dtype)
    key = f"{name} {[(shape.shape, shape.dtype.name) for shape in (*shapes, result)]}"
    _calls[key] = HostCall(function, shapes, result)
    return jax.ffi.ffi_call(TARGET, result, vmap_method="sequential")(*arrays, key=key)


def reason_unavailable() -> str | None:
    """The reason for which compiled programs cannot call functions here, or None if they can."""
    return reason_unused() or _reason_not_registered()


@functools.cache
def _reason_not_registered() -> str | None:
    try:
        handler = getattr(library(), TARGET)
        library().set_host_function(_run)
    except AttributeError:
        return "the native library is older than the package: install attnflow again"
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(handler), platform="cpu")
    return None


@ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.POINTER(ctypes.c_char)
)
def _run(key, inputs, output, message):
    """Compute one call; an error becomes a message, since no exception passes through compiled code."""
    try:
        host_call = _calls[key.decode()]
        arrays = [_view(address, shape) for address, shape in zip(inputs, host_call.inputs, strict=False)]
        _view(output, host_call.output)[...] = host_call.function(*arrays)
    except BaseException as error:
        log.debug("a function of the host failed", exc_info=True)
        text = f"{type(error).__name__}: {error}".encode()[: MESSAGE_BYTES - 1]
        ctypes.memmove(message, text, len(text))
        return 1
    return 0


def _view(address: int | None, shape: jax.ShapeDtypeStruct) -> np.ndarray:
    """The memory at an address as an array, without a copy."""
    count = math.prod(shape.shape) * shape.dtype.itemsize
    if count == 0 or address is None:
        return np.empty(shape.shape, shape.dtype)
    memory = (ctypes.c_char * count).from_address(address)
    return np.frombuffer(memory, shape.dtype).reshape(shape.shape)
