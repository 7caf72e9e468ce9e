"""Files of named tensors: safetensors (one or several), npz, and arrays in memory, under one interface."""

import json
import struct
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from attnflow._common.checks import InputError
from attnflow.models.refusals import no_weights
from attnflow.models.source import Directory, Hub, extra

SINGLE_FILE, INDEX_FILE, NPZ_FILE = "model.safetensors", "model.safetensors.index.json", "model.npz"
CODES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}  # as safetensors names them


class StoredTensor(Protocol):
    """A tensor of which only shape and type are known until it is indexed."""

    def get_shape(self) -> Any:
        """Its shape."""
        ...

    def get_dtype(self) -> str:
        """The type of its numbers as safetensors names it, such as "F32"."""
        ...

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Some rows."""
        ...


class TensorFiles(Protocol):
    """Named tensors of a model."""

    def names(self) -> Collection[str]:
        """The names of all tensors."""
        ...

    def stored(self, name: str) -> StoredTensor | None:
        """The tensor of a name, or None if the file that should hold it does not."""
        ...


@dataclass(frozen=True, eq=False)
class ArrayTensor:
    """A tensor in memory."""

    values: np.ndarray

    def get_shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.values.shape

    def get_dtype(self) -> str:
        """The type of its numbers."""
        return CODES.get(self.values.dtype.name, self.values.dtype.name)

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Some rows."""
        return self.values[rows] if self.values.ndim else self.values


class ArraysInMemory:
    """Arrays in memory, by name."""

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self._arrays = dict(arrays)

    def names(self) -> Collection[str]:
        """The names of all tensors."""
        return self._arrays

    def stored(self, name: str) -> StoredTensor | None:
        """The tensor of a name."""
        return ArrayTensor(self._arrays[name]) if name in self._arrays else None


class OfPrefix:
    """The tensors of some files whose names begin with a prefix."""

    def __init__(self, files: TensorFiles, prefix: str):
        self._files = files
        self._prefix = prefix

    def names(self) -> Collection[str]:
        """The names of all tensors."""
        return [name for name in self._files.names() if name.startswith(self._prefix)]

    def stored(self, name: str) -> StoredTensor | None:
        """The tensor of a name."""
        return self._files.stored(name) if name.startswith(self._prefix) else None


class SafetensorsFiles:
    """The tensors of model.safetensors, or of the files that its index names; headers only are read on opening."""

    def __init__(self, source: Directory | Hub):
        self._source = source
        self._opened: dict[str, Any] = {}
        self._file_of = self._index()

    def names(self) -> Collection[str]:
        """The names of all tensors."""
        return self._file_of

    def stored(self, name: str) -> StoredTensor | None:
        """The tensor of a name, or None if the file that should hold it does not."""
        file = self._open(self._file_of[name]) if name in self._file_of else None
        if file is None or name not in file.keys():  # noqa: SIM118, a handle is no dictionary
            return None
        return file.get_slice(name)

    def _index(self) -> dict[str, str]:
        """The file of each tensor."""
        if self._source.find(SINGLE_FILE):
            return dict.fromkeys(self._open(SINGLE_FILE).keys(), SINGLE_FILE)
        index = self._source.find(INDEX_FILE)
        if index:
            return _weight_map(index.read_text(encoding="utf-8", errors="replace"), str(self._source))
        raise no_weights(self._source)

    def _open(self, file: str) -> Any:
        if file not in self._opened:
            path = self._source.find(file)
            if path is None:
                raise InputError(f"{self._source} lacks {file}, a part of its weights. Fetch it again.")
            library = extra("safetensors")
            try:
                self._opened[file] = library.safe_open(path, framework="numpy")
            except (library.SafetensorError, OSError) as error:
                raise InputError(
                    f"{path} is not a whole safetensors file ({str(error).rstrip('.')}). "
                    "It is truncated or damaged: fetch it again."
                ) from error
        return self._opened[file]


@dataclass(frozen=True, eq=False)
class _NpzTensor:
    """An array of an npz file, of which only the header has been read."""

    path: Path
    entry: str
    shape: tuple[int, ...]
    dtype: np.dtype
    start: int | None
    """Byte of the file at which the numbers begin, row after row; None where they are compressed or by columns."""

    def get_shape(self) -> tuple[int, ...]:
        return self.shape

    def get_dtype(self) -> str:
        return CODES.get(self.dtype.name, self.dtype.name)

    def __getitem__(self, rows: slice) -> np.ndarray:
        try:
            if self.start is not None and rows != slice(None):
                return np.memmap(self.path, self.dtype, "r", self.start, self.shape)[rows].copy()
            with zipfile.ZipFile(self.path) as archive, archive.open(self.entry) as file:
                values = np.lib.format.read_array(file, allow_pickle=False)
        except Exception as error:  # zlib, zipfile and NumPy each raise their own
            raise _damaged_npz(self.path, error) from error
        # NumPy does not know bfloat16: it stores it as bytes without a type.
        values = values.view(ml_dtypes.bfloat16) if values.dtype == np.dtype("V2") else values
        return values[rows] if values.ndim else values


class NpzFile:
    """The arrays of an npz file; the numbers are read on first use."""

    def __init__(self, path: Path):
        self._path = path
        try:
            with zipfile.ZipFile(path) as archive:
                entries = [name for name in archive.namelist() if name.endswith(".npy")]
                self._tensors = {name.removesuffix(".npy"): self._header(archive, name) for name in entries}
        except Exception as error:
            raise _damaged_npz(path, error) from error

    def names(self) -> Collection[str]:
        """The names of all tensors."""
        return self._tensors

    def stored(self, name: str) -> StoredTensor | None:
        """The tensor of a name."""
        return self._tensors.get(name)

    def _header(self, archive: zipfile.ZipFile, name: str) -> _NpzTensor:
        """Shape and type of an array, which must be those of the bytes that the entry says it has."""
        with archive.open(name) as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, is_by_columns, dtype = read(file)
            entry, header = archive.getinfo(name), file.tell()
            held = entry.file_size - header
        if dtype.hasobject or held != dtype.itemsize * int(np.prod([float(size) for size in shape])):
            raise ValueError(f"{name} holds {held} bytes, which are not {shape} numbers of type {dtype}")
        is_plain = entry.compress_type == zipfile.ZIP_STORED and shape and not is_by_columns
        start = _start_of(self._path, entry) + header if is_plain else None
        dtype = np.dtype(ml_dtypes.bfloat16) if dtype == np.dtype("V2") else dtype
        return _NpzTensor(self._path, name, shape, dtype, start)


def open_tensors(source: Directory | Hub) -> TensorFiles:
    """The weights of a model's folder: safetensors, or model.npz where there are none."""
    npz = source.find(NPZ_FILE) if isinstance(source, Directory) else None
    if npz and not source.find(SINGLE_FILE) and not source.find(INDEX_FILE):
        return NpzFile(npz)
    return SafetensorsFiles(source)


def _start_of(path: Path, entry: zipfile.ZipInfo) -> int:
    """Byte of a zip file at which an entry begins: after 30 bytes, its name, and a field whose lengths stand there."""
    with open(path, "rb") as file:
        file.seek(entry.header_offset + 26)
        return entry.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))


def _damaged_npz(path: Path, error: Exception) -> InputError:
    return InputError(
        f"{path} is not a whole npz file of arrays ({str(error).rstrip('.')[:160]}). "
        "It is truncated or damaged: write it again with numpy.savez."
    )


def _weight_map(text: str, where: str) -> dict[str, str]:
    """The table of a sharded checkpoint; a file name may not lead out of the model's directory."""
    try:
        table = json.loads(text)["weight_map"]
        is_table = all(isinstance(file, str) and "/" not in file and "\\" not in file for file in table.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        is_table = False
        table = {}
    if not is_table:
        raise InputError(
            f"{INDEX_FILE} of {where} must map tensors to files in `weight_map`, but does not. Fetch it again."
        )
    return table
