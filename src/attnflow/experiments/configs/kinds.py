"""Kinds of values in a file of settings: the check of each, and lists of numbers as arrays."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attnflow._common.checks import InputError, require_known
from attnflow.experiments.options import TABLE_OPTIONS, Option
from attnflow.experiments.vocabulary import is_file


def checked(values: Mapping[str, Any], options: Mapping[str, Option], prefix: str = "") -> dict[str, Any]:
    """The values of a table, each of the kind of its option; lists of numbers become arrays."""
    for name in values:
        require_known(name, options, "key" if not prefix else f"key of {prefix}")
    return {
        name: _checked_value(f"{prefix}.{name}" if prefix else name, values[name], options[name]) for name in values
    }


def _checked_value(name: str, value: Any, option: Option) -> Any:
    if option.kind == "tables":
        return _tables(name, value)
    words, converted = KINDS[option.kind]
    try:
        found = converted(value)
    except (ValueError, TypeError, OverflowError):
        found = None
    if found is None:
        raise InputError(f"`{name}` must be {words}, but it is {_shown(value)}.")
    return found


def _tables(name: str, value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not value or not all(isinstance(entry, dict) for entry in value):
        raise InputError(f"`{name}` must be one or more tables [[{name}]], but it is {_shown(value)}.")
    return [checked(entry, TABLE_OPTIONS[name], name) for entry in value]


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | int | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _switch(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _numbers(value: Any, dimensions: tuple[int, ...]) -> np.ndarray | None:
    """Nested lists of numbers as an array; None for anything else, also for lists of different lengths."""
    if isinstance(value, np.ndarray):
        return value if value.ndim in dimensions else None
    array = np.array(value) if isinstance(value, list) else np.empty(())
    is_right = array.ndim in dimensions and (array.size > 0 or array.ndim == 1) and array.dtype.kind in "fiu"
    return array.astype(np.float64) if is_right else None


def _file_or(word: Any, otherwise: Callable[[Any], Any]) -> Any:
    return (word if is_file(word) else None) if isinstance(word, str) else otherwise(word)


def _flags(value: Any) -> np.ndarray | None:
    if isinstance(value, np.ndarray):
        return value
    is_right = isinstance(value, list) and bool(value) and all(isinstance(entry, bool) for entry in value)
    return np.array(value) if is_right else None


def _mask(value: Any) -> Any:
    """A word, an array of zeros and ones, or a list of masks, which are joined."""
    if isinstance(value, str | np.ndarray):
        return value
    if _is_list_of_masks(value):
        parts = [_mask(entry) for entry in value]
        return None if any(part is None for part in parts) else parts
    rows = _numbers([[float(entry) for entry in row] for row in value], (2,))
    return None if rows is None or not np.isin(rows, (0, 1)).all() else rows != 0


def _is_list_of_masks(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return _depth(value) > 2 or any(isinstance(leaf, str | np.ndarray) for leaf in _leaves(value))


def _leaves(value: Any) -> list[Any]:
    return [leaf for entry in value for leaf in _leaves(entry)] if isinstance(value, list) else [value]


def _depth(value: Any) -> int:
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _seed(value: Any) -> dict[str, Any] | None:
    """The entropy, as a whole number or as text, and the spawn key."""
    table: dict[str, Any] = value if isinstance(value, dict) else {"entropy": value}
    entropy, spawn_key = table.get("entropy"), table.get("spawn_key", [])
    given: list[Any] = entropy if isinstance(entropy, list) else [entropy]
    words = [int(word) for word in given if isinstance(word, int | str) and not isinstance(word, bool)]
    is_right = table.keys() <= {"entropy", "spawn_key"} and len(words) == len(given) > 0
    is_right = is_right and all(isinstance(word, int) and word >= 0 for word in (*words, *spawn_key))
    return {"entropy": words if isinstance(entropy, list) else words[0], "spawn_key": spawn_key} if is_right else None


def _words(value: Any) -> dict[str, str] | None:
    is_right = isinstance(value, dict) and all(isinstance(word, str) for word in value.values())
    return dict(value) if is_right else None


KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "whole": ("a whole number", _whole),
    "number": ("a number", _number),
    "word": ("text in quotes", _word),
    "switch": ("true or false", _switch),
    "matrix": (
        "a word, the name of a file, or rows of numbers such as [[1, 0], [0, 1]]",
        lambda value: value if isinstance(value, str) else _numbers(value, (2,)),
    ),
    "vector": (
        "a list of numbers or the name of a .npy, .npz, .csv or .txt file",
        lambda value: _file_or(value, lambda numbers: _numbers(numbers, (1,))),
    ),
    "flags": ("a list of true and false, or the name of a file", lambda value: _file_or(value, _flags)),
    "tokens": (
        "a word, the name of a file, or rows of numbers such as [[1, 0], [0, 1]]",
        lambda value: value if isinstance(value, str) else _numbers(value, (2, 3)),
    ),
    "mask": ("a word, the name of a file, rows of 0 and 1, or a list of these", _mask),
    "seed": ("a whole number, or {entropy = 0, spawn_key = [2]}", _seed),
    "words": ('a table of words, such as {order = "order-parameter"}', _words),
}
"""Kinds of values by name: the kind in words, and the value as it is used, None where it is of another kind."""


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:60]}..."
