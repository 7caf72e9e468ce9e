"""The entries of a model's config.json, under the same names for all families."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnflow._common.checks import InputError
from attnflow._common.memory import require_memory
from attnflow.models.feed_forward import FeedForward
from attnflow.models.refusals import no_config
from attnflow.models.source import Directory, Hub


@dataclass(frozen=True)
class Config:
    """Sizes and kinds of a trained transformer."""

    family: str
    layers: int
    heads: int
    width: int  # d, coordinates of a token
    mlp_width: int
    vocabulary: int
    positions: int  # the longest prompt
    is_causal: bool
    norm: str  # "layer" or "rms"
    norm_place: str  # "post": after each sum; "pre": before each part
    norm_epsilon: float
    activation: str
    embedding_width: int
    head_width: int  # k
    key_heads: int  # fewer than heads where heads share keys and values
    shares_layers: bool = False
    first_position: int = 0  # of the position table; RoBERTa leaves room for its padding id
    frequencies: tuple[float, ...] = ()  # of rotary positions, radians a position
    initializer_range: float = 0.02
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)  # config.json itself

    def __post_init__(self):
        if self.heads % self.key_heads:
            raise InputError(
                f"config.json must have a number of heads that its key heads divide, but it has {self.heads} heads and "
                f"{self.key_heads} key heads."
            )
        if self.activation not in FeedForward.activations:
            raise InputError(
                f"config.json says the activation of the MLP is {self.activation!r}, which is not supported; "
                f"known: {', '.join(FeedForward.activations)}."
            )

    def summary(self) -> str:
        """One line: `bert, 6 layers x 12 heads, d = 384`."""
        return f"{self.family}, {self.layers} layers x {self.heads} heads, d = {self.width}"


class Entries:
    """The entries of config.json, checked as they are read."""

    def __init__(self, raw: Mapping[str, Any], where: str):
        self.raw = raw
        self._where = where

    def count(self, name: str, default: int | None = None, least: int = 1) -> int:
        """A whole number, at least `least`."""
        value = self.raw.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            found = "it is missing" if value is None else f"it is {value!r}"
            raise InputError(
                f"config.json of {self._where} must have a whole number `{name}`, at least {least}, but {found}."
            )
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A number above zero."""
        value = self.raw.get(name)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
            raise InputError(f"config.json of {self._where} must have a positive `{name}`, but it is {value!r}.")
        return float(value)

    def word(self, name: str, default: str) -> str:
        """A text entry."""
        return str(self.raw.get(name) or default)

    def table(self, name: str) -> "Entries":
        """The entries of a nested table; empty where it is absent."""
        value = self.raw.get(name) or {}
        if not isinstance(value, dict):
            raise InputError(f"`{name}` in config.json of {self._where} must be a table, but it is {value!r}.")
        return Entries(value, f"{self._where} (`{name}`)")

    def head_width(self, width: str, heads: str) -> int:
        """The width of a head, from the width of a token."""
        if self.count(width) % self.count(heads):
            raise InputError(
                f"`{width}` of config.json of {self._where} must be divided by `{heads}`, but they are "
                f"{self.count(width)} and {self.count(heads)}."
            )
        return self.count(width) // self.count(heads)

    def refuse_unless(self, name: str, *known: Any) -> None:
        """Raise unless an entry is absent or one of the known values."""
        if self.raw.get(name) not in (None, *known):
            raise InputError(
                f"config.json of {self._where} says `{name}` is {self.raw[name]!r}, which is not supported; "
                f"known: {', '.join(map(repr, known))}."
            )


def read_entries(source: Directory | Hub) -> Entries:
    """The entries of a model's config.json."""
    path = source.find("config.json")
    if path is None:
        raise no_config(source)
    require_memory(8 * path.stat().st_size, str(path), "Is it the config.json of a model? Fetch it again.")
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"config.json of {source} is not JSON ({error}). Fetch it again.") from error
    if not isinstance(raw, dict):
        raise InputError(f"config.json of {source} must be a table of entries, but it is of type {type(raw).__name__}.")
    return Entries(raw, str(source))
