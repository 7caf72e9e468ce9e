"""The tensors of a checkpoint, read one at a time, with shapes, types and numbers checked."""

import math
import re
from collections.abc import Iterator, Sequence

import ml_dtypes  # noqa: F401, makes bfloat16 a type of NumPy
import numpy as np

from attnflow._common.checks import InputError, require_all_finite
from attnflow._common.memory import require_memory
from attnflow.models.advice import OF_FILES, Advice
from attnflow.models.refusals import missing_tensor
from attnflow.models.tensor_files import StoredTensor, TensorFiles
from attnflow.models.tensors import ROOT, Tensors, require_room

# Tensors of a block that are not evaluated: stored masks and angles, and attention to the tokens of an encoder.
UNUSED_TENSORS = re.compile(
    r"(attn\.(masked_)?bias|attention\.(masked_)?bias|inv_freq|attn\.(mask|IGNORE|rotary_sin|rotary_cos))$"
    r"|crossattention|ln_cross_attn"
)
PRECISIONS = {"F64": "float64", "F32": "float32", "F16": "float32", "BF16": "float32"}  # stored -> computed in


class Checkpoint(Tensors):
    """Named tensors of a model called `where`. Each is read on first use.

    `dtype` None means the checkpoint's own precision, float32 for anything narrower. `advice` has words of messages.
    """

    def __init__(
        self, files: TensorFiles, where: str, anchor: str, dtype: str | None = None, advice: Advice = OF_FILES
    ):
        self._files = files
        self._where = where
        self._advice = advice
        self._prefix = self._prefix_of(anchor)
        self.dtype = dtype or PRECISIONS[self._stored(anchor).get_dtype()]
        self.touched: list[str] = []  # tensors read so far, wholly or in part

    def read(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """A whole tensor, of this shape."""
        stored = self._stored(name, shape)
        require_room(name, shape, np.dtype(PRECISIONS[stored.get_dtype()]).itemsize + np.dtype(self.dtype).itemsize)
        return self._checked(stored[:], name)

    def rows(self, name: str, rows: Sequence[int] | np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        """Some rows of a matrix of this shape; the others are not kept."""
        stored = self._stored(name, shape)
        wanted, place = np.unique(np.asarray(rows, dtype=int), return_inverse=True)
        return self._checked(np.concatenate([stored[row : row + 1] for row in wanted.tolist()])[place], name)

    def holds(self, name: str) -> bool:
        """Whether a tensor of this name is stored."""
        return self._full_name(name) in self._files.names()

    def stored_bytes(self) -> Iterator[tuple[str, bytes]]:
        """Name and bytes of every tensor of the files, read one at a time."""
        for name in sorted(self._files.names()):
            stored = self._files.stored(name)
            if stored is not None:
                yield name, np.ascontiguousarray(stored[:]).tobytes()

    def require_room(self, stem: str) -> None:
        """Raise if the tensors under a prefix, with the stored form of the largest, do not fit into memory together."""
        stored = [self._files.stored(name) for name in self._files.names() if name.startswith(self._prefix + stem)]
        numbers = [math.prod(one.get_shape()) for one in stored if one is not None]
        needed = np.dtype(self.dtype).itemsize * sum(numbers) + 8 * max(numbers, default=0)
        what = f"One layer of {self._where} ({sum(numbers):,} numbers in {self.dtype})"
        require_memory(needed, what, "Layers are read one at a time; use a machine with more memory.")

    def require_sizes(self, embedding: str, shape: tuple[int, ...], last_stem: str, next_stem: str) -> None:
        """Raise if the embedding has another shape, or fewer or more layers are stored than config.json says.

        `last_stem` is the prefix of the last layer's names, and `next_stem` that of a further one. Sizes that
        config.json names are thus checked against the headers before anything is allocated.
        """
        self._stored(embedding, shape)
        if not any(name.startswith(self._prefix + last_stem) for name in self._files.names()):
            raise InputError(
                f"{self._where} holds no tensor {self._prefix}{last_stem}*, the last layer by {self._advice.config}. "
                f"{self._advice.layers}"
            )

        further = [name for name in self._files.names() if name.startswith(self._prefix + next_stem)]
        if further and next_stem != last_stem:
            raise InputError(
                f"{self._where} holds {further[0]}, of a layer after the last one by {self._advice.config}. "
                "Correct the number of layers there; the first layers alone are had with `layers` (on the command line "
                "--depth)."
            )

    def require_nothing_left(self, stem: str) -> None:
        """Raise if a tensor with this prefix has not been read, that is, a part of the block is left out."""
        stem, read = self._prefix + stem, {self._full_name(name) for name in self.touched}
        left = sorted(
            name
            for name in self._files.names()
            if name.startswith(stem) and name not in read and not UNUSED_TENSORS.search(name)
        )
        if left:
            raise InputError(
                f"{self._where} holds {left[0]}, a part of the block that is not evaluated: "
                f"{self._advice.config} does not name it. Correct the entry that should (such as "
                "`attention_bias`), or use a checkpoint of the plain architecture."
            )

    def _checked(self, values: np.ndarray, name: str) -> np.ndarray:
        self.touched.append(name)
        values = values.astype(self.dtype)
        require_all_finite(values, f"{name} in {self._where}", ("row", "column")[: values.ndim])
        return values

    def _stored(self, name: str, shape: tuple[int, ...] | None = None) -> StoredTensor:
        """The handle of a tensor, of which only the header has been read."""
        name = self._full_name(name)
        stored = self._files.stored(name)
        if stored is None:
            raise missing_tensor(self._where, name, list(self._files.names()), self._advice)
        found = tuple(stored.get_shape())
        if shape is not None and found != shape:
            raise InputError(
                f"{name} in {self._where} must have shape {shape} by {self._advice.config}, but it has {found}. "
                f"{self._advice.mismatch}"
            )
        if stored.get_dtype() not in PRECISIONS:
            raise InputError(
                f"{name} in {self._where} must hold floating-point numbers ({', '.join(PRECISIONS)}), but it holds "
                f"{stored.get_dtype()}. {self._advice.quantised}"
            )
        return stored

    def _full_name(self, name: str) -> str:
        names = self._files.names()
        full = name.removeprefix(ROOT) if name.startswith(ROOT) else self._prefix + name
        old = full.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        return old if full not in names and old in names else full  # the names in early BERT files

    def _prefix_of(self, anchor: str) -> str:
        """The prefix of all names ("bert." where the file holds a model with the output layer of a task)."""
        found = sorted(name for name in self._files.names() if name.endswith(anchor))
        if len(found) > 1:
            raise InputError(
                f"{self._where} must hold one model, but it holds {len(found)}: {' and '.join(found)}. "
                "Save the one you want by itself."
            )
        return found[0].removesuffix(anchor) if found else ""
