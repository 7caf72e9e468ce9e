"""Named tensors, wherever they come from, and weights drawn afresh."""

import abc
import zlib
from collections.abc import Sequence

import numpy as np


class Tensors(abc.ABC):
    """What families read from: a checkpoint, or weights drawn afresh."""

    dtype: str
    """The precision that tensors are given in."""

    @abc.abstractmethod
    def read(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """A whole tensor, of this shape."""

    @abc.abstractmethod
    def rows(self, name: str, rows: Sequence[int] | np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        """Some rows of a matrix of this shape."""

    @abc.abstractmethod
    def require_nothing_left(self, stem: str) -> None:
        """Raise if there is a tensor whose name begins like this and which has not been read."""


class FreshTensors(Tensors):
    """Weights as before training: matrices normal with the config's own deviation, biases 0, gains 1.

    A tensor is drawn when it is asked for, from a seed of its own: the order of asking does not matter.
    """

    def __init__(self, seed: np.random.SeedSequence, deviation: float, dtype: str, residual_factor: float = 1.0):
        self.dtype = dtype
        self._seed = seed
        self._deviation = deviation
        self._residual_factor = residual_factor  # GPT-2's narrower start of what is added to the stream

    def read(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """A whole tensor, of this shape."""
        if len(shape) == 1:
            return np.full(shape, 0.0 if name.endswith("bias") else 1.0, self.dtype)
        own = np.random.SeedSequence(self._seed.entropy, spawn_key=(*self._seed.spawn_key, zlib.crc32(name.encode())))
        factor = self._residual_factor if name.endswith("c_proj.weight") else 1.0
        return (np.random.default_rng(own).standard_normal(shape) * self._deviation * factor).astype(self.dtype)

    def rows(self, name: str, rows: Sequence[int] | np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        """Some rows of a matrix of this shape."""
        return self.read(name, shape)[np.asarray(rows, dtype=int)]

    def require_nothing_left(self, stem: str) -> None:
        """Nothing: there is no more than what is asked for."""
