"""Tensors of a file of `torch.save`, read without torch and without running anything that the file names.

A pickle is a program: it can call any function of any module. This reader admits seven names, those with which torch
writes tensors, and replaces each by code of this module; any other name ends the reading with an error. Two formats are
read: the zip archive of torch 1.6 and later, and the sequence of pickles before it.
"""

import io
import math
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from attnflow._common.checks import InputError
from attnflow._common.memory import require_memory

# Classes of storages, with the types of their numbers.
STORAGES = {
    "DoubleStorage": np.dtype("<f8"),
    "FloatStorage": np.dtype("<f4"),
    "HalfStorage": np.dtype("<f2"),
    "BFloat16Storage": np.dtype(ml_dtypes.bfloat16),
    "LongStorage": np.dtype("<i8"),
    "IntStorage": np.dtype("<i4"),
    "ShortStorage": np.dtype("<i2"),
    "CharStorage": np.dtype("i1"),
    "ByteStorage": np.dtype("u1"),
    "BoolStorage": np.dtype("?"),
}
MAGIC = 0x1950A86A20F9469CFC6C  # the first number of a file of the older format
VERSION = 1001  # of the older format
MOST_DIMENSIONS = 32  # as in NumPy


@dataclass(frozen=True)
class _StorageType:
    dtype: np.dtype


@dataclass(frozen=True)
class _View:
    """A tensor: some numbers of a storage."""

    storage: str
    dtype: np.dtype
    count: int  # numbers of the storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Refused(Exception):
    """Something other than a tensor."""


class _Reader(pickle.Unpickler):  # noqa: S301, admits the names below and no others
    """An unpickler that knows dictionaries and tensors only."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Our own counterpart of a name of torch; `_Refused` for every name that is not one of them."""
        if (module_name, global_name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module_name == "torch._utils" and global_name in ("_rebuild_tensor_v2", "_rebuild_tensor"):
            return _tensor
        if module_name == "torch._utils" and global_name == "_rebuild_parameter":
            return _parameter
        if module_name == "torch" and global_name in STORAGES:
            return _StorageType(STORAGES[global_name])
        raise _Refused(f"it names {module_name}.{global_name}")

    def persistent_load(self, pid: Any) -> Any:
        """The storage that a tensor refers to: its key, type and number of entries."""
        is_storage = isinstance(pid, tuple) and len(pid) in (5, 6) and pid[0] == "storage"
        if not is_storage or not isinstance(pid[1], _StorageType) or not isinstance(pid[2], str):
            raise _Refused("it refers to something other than a storage of numbers")
        if len(pid) == 6 and pid[5] is not None:
            raise _Refused("it has views of storages, as torch wrote before version 0.4")
        return pid[2], pid[1].dtype, _whole(pid[4])


def tensors(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a state dictionary that `torch.save` wrote, by name.

    Raises InputError for a file that is damaged, or that holds anything but named tensors.
    """
    require_memory(3 * path.stat().st_size, f"Reading {path}", "Use a machine with more memory.")
    try:
        with open(path, "rb") as file:
            found = _of_archive(path) if zipfile.is_zipfile(file) else _of_sequence(path.read_bytes())
        return {str(name): array for name, array in found.items()}
    except _Refused as error:
        raise InputError(
            f"{path} holds more than named tensors ({error}), which is not read, since a pickle can run any program. "
            "Save model.state_dict() alone where you trust the file, and convert that."
        ) from error
    except InputError:
        raise
    except Exception as error:  # a hostile pickle can raise anything
        raise InputError(
            f"{path} is no whole file of torch.save ({type(error).__name__}: {str(error)[:80]}). "
            "It is damaged or of another kind: fetch it again."
        ) from error


def _of_archive(path: Path) -> Mapping[str, np.ndarray]:
    """The tensors of the zip format: data.pkl, and one entry for each storage."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        index = next((name for name in names if name.endswith("data.pkl")), None)
        if index is None:
            raise _Refused("there is no data.pkl in it")
        stem = index.removesuffix("data.pkl")
        if f"{stem}byteorder" in names and archive.read(f"{stem}byteorder") != b"little":
            raise _Refused("its numbers are big-endian")
        views = _views(_Reader(io.BytesIO(_content(archive, index))).load())
        return _arrays(views, lambda key: _content(archive, f"{stem}data/{key}"))


def _content(archive: zipfile.ZipFile, name: str) -> bytes:
    """An entry of the archive; torch stores entries as they are, so that none is larger than the file."""
    entry = archive.getinfo(name)
    if entry.compress_type != zipfile.ZIP_STORED:
        raise _Refused(f"its entry {name} is compressed")
    return archive.read(entry)


def _of_sequence(content: bytes) -> Mapping[str, np.ndarray]:
    """The tensors of the older format: five pickles, then each storage as its length and its numbers."""
    if content.startswith(b"PK"):  # the zip format, without the table at its end
        raise EOFError("its end is missing")
    file = io.BytesIO(content)
    if _Reader(file).load() != MAGIC or _Reader(file).load() != VERSION:
        raise _Refused("it does not begin as torch files do")
    system = _Reader(file).load()
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise _Refused("its numbers are big-endian")
    views, keys = _views(_Reader(file).load()), _Reader(file).load()
    dtypes = {view.storage: view.dtype for view in views.values()}
    storages = {}
    for key in keys:
        (count,) = struct.unpack("<q", file.read(8))
        if key not in dtypes or count < 0:
            raise _Refused(f"its storage {str(key)[:40]} belongs to no tensor")
        storages[key] = file.read(count * dtypes[key].itemsize)
    return _arrays(views, storages.__getitem__)


def _views(found: Any) -> dict[str, _View]:
    """The tensors of a state dictionary, or of the dictionary `state_dict` or `model` within it."""
    for name in ("state_dict", "model"):
        if isinstance(found, dict) and isinstance(found.get(name), dict):
            found = found[name]
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise _Refused(f"its content is of type {type(found).__name__}, not a dictionary of tensors")
    views = {name: one for name, one in found.items() if isinstance(one, _View)}
    if len(views) < len(found):
        other = next(name for name in found if name not in views)
        raise _Refused(f"its entry {other[:40]} is not a tensor")
    return views


def _arrays(views: dict[str, _View], content: Callable[[str], bytes]) -> dict[str, np.ndarray]:
    """The numbers of each view; a storage that several tensors share is read once."""
    storages: dict[str, np.ndarray] = {}
    for view in views.values():
        if view.storage not in storages:
            numbers = np.frombuffer(content(view.storage), view.dtype)
            if len(numbers) < view.count:
                raise _Refused(f"a storage has {len(numbers)} numbers in place of {view.count}")
            storages[view.storage] = numbers
    return {name: _strided(storages[view.storage], view) for name, view in views.items()}


def _strided(numbers: np.ndarray, view: _View) -> np.ndarray:
    """The numbers of a view, all of which lie within its storage."""
    last = view.offset + sum((size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True))
    if math.prod(view.shape) and (last >= len(numbers) or numbers.dtype != view.dtype):
        raise _Refused("a tensor is larger than its storage")
    if math.prod(view.shape) > len(numbers):  # overlapping rows: not written by any model, and could be of any size
        raise _Refused("a tensor repeats numbers of its storage")
    strides = tuple(stride * numbers.itemsize for stride in view.strides)
    return np.lib.stride_tricks.as_strided(numbers[view.offset :], view.shape, strides, writeable=False)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *rest: Any) -> _View:
    """The counterpart of `torch._utils._rebuild_tensor_v2`."""
    del rest  # whether it has a gradient, and hooks
    key, dtype, count = storage
    sizes, steps = tuple(map(_whole, shape)), tuple(map(_whole, strides))
    if len(sizes) != len(steps) or len(sizes) > MOST_DIMENSIONS:
        raise _Refused("a tensor has an impossible shape")
    return _View(key, dtype, count, _whole(offset), sizes, steps)


def _parameter(data: Any, *rest: Any) -> _View:
    """The counterpart of `torch._utils._rebuild_parameter`."""
    del rest
    if not isinstance(data, _View):
        raise _Refused("a parameter is not a tensor")
    return data


def _whole(value: Any) -> int:
    """A whole number from 0 on."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 48:
        raise _Refused("a size or an offset is not a whole number")
    return value
