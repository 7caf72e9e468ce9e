"""The entries of config.json, checked as they are read."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnflow._common.checks import InputError


class Entries:
    """The entries of config.json, checked as they are read."""

    def __init__(self, raw: Mapping[str, Any], where: str):
        self.raw = raw
        self.where = where  # as messages have it, such as "config.json of DIRECTORY"

    def with_defaults(self, **defaults: Any) -> "Entries":
        """The same entries, with these where they are absent or null."""
        return Entries(defaults | {name: value for name, value in self.raw.items() if value is not None}, self.where)

    def with_values(self, **values: Any) -> "Entries":
        """The same entries, with these in place of their own."""
        return Entries({**self.raw, **values}, self.where)

    def count(self, name: str, default: int | None = None, least: int = 1) -> int:
        """A whole number, at least `least`."""
        value = self.raw.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            found = "it is missing" if value is None else f"it is {value!r}"
            raise InputError(f"{self.where} must have a whole number `{name}`, at least {least}, but {found}.")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A number above zero."""
        value = self.raw.get(name)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
            raise InputError(f"{self.where} must have a positive `{name}`, but it is {value!r}.")
        return float(value)

    def numbers(self, name: str, count: int) -> np.ndarray:
        """A list of `count` numbers above zero."""
        found = self.raw.get(name)
        if (
            not isinstance(found, list)
            or len(found) != count
            or not all(isinstance(one, int | float) and 0 < one < float("inf") for one in found)
        ):
            raise InputError(f"{self.where} must have {count} positive numbers in `{name}`, but it is {found!r:.60}.")
        return np.array(found, dtype=float)

    def word(self, name: str, default: str) -> str:
        """A text entry."""
        return str(self.raw.get(name) or default)

    def table(self, name: str) -> "Entries":
        """The entries of a nested table; empty where it is absent."""
        value = self.raw.get(name) or {}
        if not isinstance(value, dict):
            raise InputError(f"`{name}` in {self.where} must be a table, but it is {value!r}.")
        return Entries(value, f"{self.where} (`{name}`)")

    def head_width(self, width: str, heads: str) -> int:
        """The width of a head, from the width of a token."""
        if self.count(width) % self.count(heads):
            raise InputError(
                f"`{width}` in {self.where} must be divisible by `{heads}`, but they are "
                f"{self.count(width)} and {self.count(heads)}."
            )
        return self.count(width) // self.count(heads)

    def refuse_unless(self, name: str, *known: Any) -> None:
        """Raise unless an entry is absent or one of the known values."""
        if self.raw.get(name) not in (None, *known):
            raise InputError(
                f"{self.where} says `{name}` is {self.raw[name]!r}, which is not supported; "
                f"known: {', '.join(map(repr, known))}."
            )
