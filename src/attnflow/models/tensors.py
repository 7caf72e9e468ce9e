"""From named tensors to the parts of a block: slices into heads, norms, and weights drawn afresh."""

import zlib
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from attnflow.models.block import Norm
from attnflow.models.config import Config


class Tensors(Protocol):
    """What families read from: a checkpoint, or weights drawn afresh."""

    dtype: str

    def read(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """A whole tensor, of this shape."""
        ...

    def rows(self, name: str, rows: Sequence[int] | np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        """Some rows of a matrix of this shape."""
        ...


class FreshTensors:
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


def norm(tensors: Tensors, name: str, config: Config, width: int | None = None) -> Norm:
    """The norm of this name."""
    shape = (width or config.width,)
    centres = config.norm == "layer"
    shift = tensors.read(f"{name}.bias", shape) if centres else None
    return Norm(tensors.read(f"{name}.weight", shape), shift, config.norm_epsilon, centres)


def inward(matrix: np.ndarray, heads: int) -> np.ndarray:
    """(heads k, d) -> (heads, k, d): the maps that heads read with."""
    return matrix.reshape(heads, -1, matrix.shape[1])


def outward(matrix: np.ndarray, heads: int) -> np.ndarray:
    """(d, heads k) -> (heads, d, k): the maps that heads write with."""
    return np.moveaxis(matrix.reshape(len(matrix), heads, -1), 1, 0)
