"""Values as TOML; `tomllib` of the standard library reads the text back to the same bits."""

import json
from typing import Any

import numpy as np


def toml(value: Any) -> str:
    """A value as TOML on one line; floats have as many digits as give the same bits.

    Examples
    --------
    >>> toml(True), toml(0.1), toml(np.eye(2)), toml({"a": "x"})
    ('true', '0.1', '[[1.0, 0.0], [0.0, 1.0]]', '{a = "x"}')
    """
    if isinstance(value, np.ndarray | np.generic):
        return toml(value.tolist())
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)  # as TOML writes them, also inf and nan
    if isinstance(value, str):
        # JSON escapes what TOML does, except for the character DEL.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_key(name)} = {toml(entry)}" for name, entry in value.items()) + "}"
    return "[" + ", ".join(map(toml, value)) + "]"


def toml_key(name: str) -> str:
    """The name of a key, in quotes where it needs them."""
    is_bare = bool(name) and all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in name)
    return name if is_bare else toml(name)
