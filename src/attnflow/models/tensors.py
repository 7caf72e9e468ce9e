"""Named tensors of a model: the interface that families read from, and random initial weights."""

import abc
import math
import zlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from attnflow._common.memory import require_memory

ROOT = "/"  # before a name that has no prefix in a checkpoint: output layers stand beside the model, not in it


class Tensors(abc.ABC):
    """Named tensors: those of a checkpoint, or random initial ones."""

    dtype: str
    """The precision of the returned tensors."""

    @abc.abstractmethod
    def read(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """A whole tensor, of this shape."""

    @abc.abstractmethod
    def rows(self, name: str, rows: Sequence[int] | np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        """Some rows of a matrix of this shape."""

    def holds(self, name: str) -> bool:
        """Whether there is a tensor of this name; random ones exist for every name."""
        del name
        return True

    def stored_bytes(self) -> Iterator[tuple[str, bytes]]:
        """Name and bytes of every stored tensor; none here."""
        return iter(())

    def require_room(self, stem: str) -> None:
        """Raise if the tensors with this prefix do not fit into memory together; random ones are checked one by one."""
        del stem

    @abc.abstractmethod
    def require_nothing_left(self, stem: str) -> None:
        """Raise if a tensor with this prefix has not been read."""


class FreshTensors(Tensors):
    """Random initial weights: normal matrices with the deviations of the family, biases 0, gains 1.

    Each tensor is drawn on first use from a seed of its own, so that the order of reading does not matter.
    """

    def __init__(self, seed: np.random.SeedSequence, deviation: Callable[[str], float], dtype: str, gain: float = 1.0):
        self.dtype = dtype
        self._seed = seed
        self._deviation = deviation  # of the matrix of a name
        self._gain = gain  # as stored: Gemma adds one
        self._tables: dict[str, np.ndarray] = {}  # word vectors and positions, of which rows are read

    def read(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """A whole tensor, of this shape."""
        # Normal numbers and their scaled copy in float64, and the result.
        require_room(name, shape, 16 + np.dtype(self.dtype).itemsize)
        if len(shape) == 1:
            return np.full(shape, 0.0 if name.endswith("bias") else self._gain, self.dtype)
        own = np.random.SeedSequence(self._seed.entropy, spawn_key=(*self._seed.spawn_key, zlib.crc32(name.encode())))
        return (np.random.default_rng(own).standard_normal(shape) * self._deviation(name)).astype(self.dtype)

    def rows(self, name: str, rows: Sequence[int] | np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        """Some rows of a matrix of this shape; the matrix is kept, since every prompt reads other rows of it."""
        if name not in self._tables:
            self._tables[name] = self.read(name, shape)
        return self._tables[name][np.asarray(rows, dtype=int)]

    def require_nothing_left(self, stem: str) -> None:
        """Do nothing: only tensors that are read exist."""


def require_room(name: str, shape: tuple[int, ...], bytes_each: int) -> None:
    """Raise if a tensor of this shape does not fit into memory with so many bytes for each of its numbers."""
    sizes = " x ".join(map(str, shape))
    where = "config.json (of a model in memory in its `config`)"
    what_to_do = f"Correct the sizes in {where} if they are wrong, or use a machine with more memory."
    require_memory(math.prod(shape) * bytes_each, f"The tensor {name} of {sizes} numbers", what_to_do)
