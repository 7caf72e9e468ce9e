"""Configs and weights of models in memory, as libraries hold them, under the names of Hugging Face files."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow.models.tensor_files import CODES

# Names of the leaves of Flax parameters, and those of torch.
FLAX_LEAVES = {"kernel": "weight", "scale": "weight", "embedding": "weight"}

# Names that transformers 5 gives tensors in memory, and those under which it saves them, by `model_type`.
ATTENTION = (
    (r"attention\.q_proj\.", "attention.attention.query."),
    (r"attention\.k_proj\.", "attention.attention.key."),
    (r"attention\.v_proj\.", "attention.attention.value."),
    (r"attention\.o_proj\.", "attention.output.dense."),
)
LAYERS = (
    (r"(^|\.)layers\.([0-9]+)\.", r"\1encoder.layer.\2."),
    (r"mlp\.fc1\.", "intermediate.dense."),
    (r"mlp\.fc2\.", "output.dense."),
)
SAVED_NAMES = {"vit": (*ATTENTION, *LAYERS), "deit": (*ATTENTION, *LAYERS), "dinov2": ATTENTION}


def saved_names(given: Mapping[str, np.ndarray], model_type: Any) -> dict[str, np.ndarray]:
    """Arrays under the names of files, where transformers has others in memory.

    Examples
    --------
    >>> list(saved_names({"layers.0.attention.q_proj.bias": np.ones(1)}, "vit"))
    ['encoder.layer.0.attention.attention.query.bias']
    """
    found = dict(given)
    for pattern, replacement in SAVED_NAMES.get(str(model_type), ()):
        found = {re.sub(pattern, replacement, name): array for name, array in found.items()}
    return found


def entries(config: Any) -> dict[str, Any]:
    """The entries of a config: a dictionary, or an object with `to_dict`.

    A config of TransformerLens has no `model_type`; its names tell it.
    """
    found = config.to_dict() if hasattr(config, "to_dict") else config
    if not isinstance(found, Mapping):
        raise InputError(
            f"`config` must be the entries of config.json, or a config with `to_dict`, but it is of type "
            f"{type(config).__name__}."
        )
    found = dict(found)
    if "model_type" not in found and {"n_ctx", "d_head", "d_model"} <= set(found):
        found["model_type"] = "hooked_transformer"
    return found


def arrays(given: Any) -> dict[str, np.ndarray]:
    """Arrays by name, from a dictionary of arrays; nested dictionaries are those of Flax."""
    if not isinstance(given, Mapping) or not given:
        raise InputError(
            "`arrays` must be a dictionary of names and arrays, such as model.state_dict(), but it is "
            f"{'empty' if isinstance(given, Mapping) else f'of type {type(given).__name__}'}."
        )
    return dict(_flat(given, ""))


def _flat(given: Mapping[Any, Any], stem: str) -> Iterator[tuple[str, np.ndarray]]:
    for name, value in given.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{stem}{name}.")
        elif name in FLAX_LEAVES and stem:
            yield f"{stem}{FLAX_LEAVES[name]}", _as_in_torch(str(name), _array(value, f"{stem}{name}"))
        else:
            yield f"{stem}{name}", _array(value, f"{stem}{name}")


def _as_in_torch(leaf: str, values: np.ndarray) -> np.ndarray:
    """An array of Flax with its axes as in torch: those of outputs, the last ones of a kernel, become the first."""
    return np.moveaxis(values, (-1, -2), (0, 1)) if leaf == "kernel" and values.ndim > 1 else values


def _array(value: Any, name: str) -> np.ndarray:
    """A NumPy array of an array of NumPy, torch or JAX; narrow types that NumPy lacks become float32."""
    try:
        plain = value.detach().cpu() if hasattr(value, "detach") else value
        if str(getattr(plain, "dtype", "")) == "torch.bfloat16":
            plain = plain.float()
        found = np.asarray(plain)
    except Exception as error:  # other libraries raise their own
        raise InputError(
            f"`arrays` has {name}, which is no array ({type(error).__name__}: {str(error)[:80]})."
        ) from error
    is_number = found.dtype.name in CODES or found.dtype.kind in "iub"  # whole numbers are stored masks and counters
    if not is_number:
        raise InputError(f"`arrays` has {name} of type {found.dtype}, which must be an array of numbers.")
    return found
