"""Models, solvers and stopping conditions as JSON and back.

Only attnflow's own classes are written and constructed; no text of a file is evaluated as code.
"""

import base64
import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from attnflow._common.checks import InputError
from attnflow.model import attention, flows, heads, masks, mlp, noise, normalisation, perceptron
from attnflow.model.fast_sums import summation
from attnflow.solvers import adaptive, fixed_step, layers, observables, stopping, token_by_token

MODULES = (
    *(attention, flows, heads, masks, mlp, noise, normalisation, perceptron, summation),
    *(adaptive, fixed_step, layers, observables, stopping, token_by_token),
)
KNOWN = {
    name: value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, type) and value.__module__ == module.__name__ and dataclasses.is_dataclass(value)
    if not inspect.isabstract(value)
}

FUNCTIONS = {
    function.__name__: function
    for function in (
        observables.mean_cosine,
        observables.order_parameter,
        observables.diameter,
        observables.largest_norm,
    )
}

MAX_READABLE_ENTRIES = 64  # of an array that is written as numbers; larger arrays are written as bytes


def record(value: Any) -> Any:
    """The value as JSON types; a function is recorded by its name only."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return _record_array(np.asarray(value))
    if isinstance(value, list | tuple):
        return [record(entry) for entry in value]
    if isinstance(value, dict):
        return {name: record(entry) for name, entry in value.items()}
    if type(value).__name__ in KNOWN:
        fields = {field.name: record(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"is": type(value).__name__, **fields}
    if FUNCTIONS.get(getattr(value, "__name__", "")) is value:
        return {"is": "observable", "name": value.__name__}
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return {"is": "function", "name": f"{getattr(value, '__module__', '?')}.{name}"}


def restore(value: Any, argument: str) -> Any:
    """The value of a record; `argument` is the argument of `rerun` that replaces it if it cannot be restored."""
    if isinstance(value, list):
        return tuple(restore(entry, argument) for entry in value)
    if not isinstance(value, dict):
        return value
    kind = value.get("is")
    if kind is None:
        return {name: restore(entry, argument) for name, entry in value.items()}
    if not isinstance(kind, str):
        raise InputError(f"The record of `{argument}` names a class by {kind!r}, but a name is text. It is damaged.")
    if kind == "array":
        return _restored_with_errors(lambda: _restore_array(value), "array", argument)
    if kind == "observable" and value.get("name") in FUNCTIONS:
        return FUNCTIONS[value["name"]]
    if kind == "function":
        raise InputError(
            f"The file names the Python function {value.get('name')} but does not hold it. "
            f"Pass `{argument}` again when you rerun it."
        )
    if kind not in KNOWN:
        raise InputError(
            f"The file was made with a {kind!r} that this version of attnflow does not know. "
            "Use the version named in its attributes."
        )
    fields = {name: restore(entry, argument) for name, entry in value.items() if name != "is"}
    return _restored_with_errors(lambda: KNOWN[kind](**fields), kind, argument)


def _restored_with_errors(make: Callable[[], Any], kind: str, argument: str) -> Any:
    """What `make` returns; any error becomes one sentence, since a damaged record can raise anything."""
    try:
        return make()
    except Exception as error:
        raise InputError(
            f"The record of `{argument}` holds a {kind} that cannot be made: {type(error).__name__}, {error} "
            f"Pass `{argument}` again when you rerun it, or compute the result again."
        ) from error


def _record_array(array: np.ndarray) -> dict[str, Any]:
    entry = {"is": "array", "dtype": array.dtype.name, "shape": list(array.shape)}
    if array.size <= MAX_READABLE_ENTRIES and np.all(np.isfinite(array)):
        return {**entry, "numbers": array.tolist()}
    if _is_diagonal(array):  # such as Q = K = V = I in dimension 512, which would be megabytes
        return {**entry, "diagonal": np.diagonal(array).tolist()}
    little_endian = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {**entry, "bytes": base64.b64encode(little_endian.tobytes()).decode("ascii")}


def _is_diagonal(array: np.ndarray) -> bool:
    """Whether a matrix of finite numbers is zero off its diagonal, without zeros of negative sign."""
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not np.all(np.isfinite(array)):
        return False
    outside = array[~np.eye(len(array), dtype=bool)]
    return not np.any(outside) and not np.any(np.signbit(outside))


def _restore_array(entry: dict[str, Any]) -> np.ndarray:
    dtype = np.dtype(entry["dtype"])
    if dtype.kind not in "fiub":
        raise InputError(f"its numbers have the type {dtype}, which is none of real numbers.")
    if "numbers" in entry:
        return np.asarray(entry["numbers"], dtype).reshape(entry["shape"])
    if "diagonal" in entry:
        return np.diag(np.asarray(entry["diagonal"], dtype)).reshape(entry["shape"])
    raw = base64.b64decode(entry["bytes"])
    return np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype).reshape(entry["shape"])
