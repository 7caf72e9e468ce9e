"""The text of a file of settings: values under headings, each with its meaning in a comment."""

from importlib.metadata import version
from typing import Any

import numpy as np

from attnflow.experiments.configs.run_config import RunConfig
from attnflow.experiments.configs.toml_text import toml, toml_key
from attnflow.experiments.options import FILE_OPTIONS

LONGEST_LINE = 100  # characters
COLUMN_OF_COMMENTS = 34  # characters; comments of longer values follow them


def config_text(config: RunConfig) -> str:
    """The values of a run as TOML, in the order of the options; tables come last, as TOML requires."""
    lines = [f"# Settings of a run of attnflow {version('attnflow')}: `attnflow run FILE` computes it.", ""]
    for heading, options in FILE_OPTIONS.items():
        given = [name for name in options if name in config.values and options[name].kind != "tables"]
        if given:
            lines += [f"# {heading}", *(_line(name, config.values[name], options[name].meaning) for name in given), ""]
    tables = {name: value for name, value in config.values.items() if _is_list_of_tables(value)}
    for name, entries in tables.items():
        for entry in entries:
            lines += _table_lines(name, entry)
    return "\n".join(lines).rstrip() + "\n"


def _line(name: str, value: Any, meaning: str) -> str:
    """A key with its value, and its meaning after it, or before it where the value takes several lines."""
    text = _pair(name, value)
    return f"# {meaning}\n{text}" if "\n" in text else f"{text.ljust(COLUMN_OF_COMMENTS)}  # {meaning}"


def _pair(name: str, value: Any) -> str:
    """A key with its value; a matrix that is too long for one line has a line for each row."""
    text = f"{toml_key(name)} = {toml(value)}"
    if len(text) <= LONGEST_LINE or not isinstance(value, np.ndarray) or value.ndim < 2:
        return text
    return "\n".join([f"{toml_key(name)} = [", *(f"    {toml(row)}," for row in value), "]"])


def _table_lines(name: str, values: dict[str, Any]) -> list[str]:
    """One table, and the tables in it."""
    plain = {key: value for key, value in values.items() if not _is_list_of_tables(value)}
    lines = [f"[[{name}]]", *(_pair(key, value) for key, value in plain.items()), ""]
    for key in values.keys() - plain.keys():
        for entry in values[key]:
            lines += _table_lines(f"{name}.{key}", entry)
    return lines


def _is_list_of_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)
