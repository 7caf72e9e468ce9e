"""The observables of attnflow computed by the native library, for blocks of saved states."""

import ctypes
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.model.native.library import library
from attnflow.solvers import observables as known

# The numbers of `Observable` in `observables.cpp`.
KINDS_OF_FUNCTIONS = {known.mean_cosine: 0, known.order_parameter: 1, known.diameter: 2, known.largest_norm: 3}
KIND_OF_ENERGY, KIND_OF_CLOSE_PAIRS = 4, 5


@dataclass(frozen=True)
class NativeObservable:
    """An observable that the native library knows by a number, and its parameter, if it has one."""

    kind: int
    parameter: float = 0.0

    @classmethod
    def of(cls, function: Any) -> "NativeObservable | None":
        """The observable that a function is, or None for any other function."""
        # Types, not `isinstance`: a subclass may compute something else.
        if type(function) is known.Energy:
            return cls(KIND_OF_ENERGY, float(function.beta))
        if type(function) is known.ClosePairs:
            return cls(KIND_OF_CLOSE_PAIRS, float(function.cosine))
        return next((cls(kind) for one, kind in KINDS_OF_FUNCTIONS.items() if one is function), None)

    def values(self, tokens: np.ndarray) -> np.ndarray:
        """The values for tokens of shape (..., n, d), contiguous, in their precision."""
        assert tokens.flags.c_contiguous  # only its address is passed on
        *states, n, d = tokens.shape
        found = np.empty(states, tokens.dtype)
        _observe_states()(
            tokens.itemsize, self.kind, self.parameter, found.size, n, d, tokens.ctypes.data, found.ctypes.data
        )
        return found


def native_observables(observables: Mapping[str, Any]) -> dict[str, NativeObservable]:
    """The observables that the native library computes, by name."""
    found = {name: NativeObservable.of(function) for name, function in observables.items()}
    return {name: one for name, one in found.items() if one is not None}


@functools.cache
def _observe_states() -> Any:
    function = library().observe_states
    function.argtypes = [
        *[ctypes.c_int64] * 2,
        ctypes.c_double,
        *[ctypes.c_int64] * 3,
        *[ctypes.c_void_p] * 2,
    ]
    function.restype = None
    return function
