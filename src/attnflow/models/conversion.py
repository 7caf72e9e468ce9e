"""Files of `torch.save` converted to safetensors, without running anything that they name."""

import importlib
import json
import os
from pathlib import Path

import numpy as np

from attnflow._common.checks import InputError
from attnflow._common.files import require_free, require_suffix, written_beside
from attnflow.models import torch_pickle
from attnflow.models.source import extra


def convert(file: str | os.PathLike, out: str | os.PathLike, *, overwrite: bool = False) -> int:
    """Write the tensors of a file of `torch.save` as safetensors, and return their number.

    Only tensors are read: a file that names anything else is refused, and nothing of it is run. The index of a model in
    several files (pytorch_model.bin.index.json) stands for all of them.

    Parameters
    ----------
    file
        A file of `torch.save`, or the index of several.
    out
        The file to write; its name ends in .safetensors.
    overwrite
        Replace a file that exists.

    Examples
    --------
    >>> import attnflow as af
    >>> af.models.convert("missing.bin", "model.safetensors")
    Traceback (most recent call last):
    ...
    attnflow._common.checks.InputError: There is no file missing.bin to convert.
    """
    path = Path(file)
    if not os.path.isfile(path):
        raise InputError(f"There is no file {path} to convert.")
    require_suffix(out, "A converted model", (".safetensors",))
    target = require_free(out, overwrite=overwrite)
    extra("safetensors")
    found: dict[str, np.ndarray] = {}
    for part in _parts(path):
        found |= torch_pickle.tensors(part)
    whole = {name: np.ascontiguousarray(values) for name, values in found.items()}
    with written_beside(target) as beside:
        importlib.import_module("safetensors.numpy").save_file(whole, beside, metadata={"format": "pt"})
    return len(whole)


def _parts(path: Path) -> list[Path]:
    """The files of a model: those that an index names, which lie beside it, or the file itself."""
    if path.suffix != ".json":
        return [path]
    try:
        named = sorted(set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()))
        are_names = all(isinstance(name, str) and Path(name).name == name for name in named)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        named, are_names = [], False
    if not named or not are_names:
        raise InputError(f"{path} must map tensors to files beside it in `weight_map`, but does not. Fetch it again.")
    missing = next((name for name in named if not (path.parent / name).is_file()), None)
    if missing:
        raise InputError(f"{path.parent} lacks {missing}, a part of its weights. Fetch it again.")
    return [path.parent / name for name in named]
