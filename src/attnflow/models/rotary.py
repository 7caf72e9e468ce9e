"""Rotary positions: the frequencies that config.json defines, and the rotation of queries and keys by them."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray
from attnflow._common.checks import InputError
from attnflow.models.config_entries import Entries

MAX_HEAD_WIDTH = 2**16  # a damaged config.json must not allocate more
KINDS = ("default", "linear", "dynamic", "yarn", "longrope", "llama3")


class PromptPositions(NamedTuple):
    """The positions of some tokens of a prompt, counted from 0, and the number of all its tokens."""

    of_tokens: np.ndarray
    length: int


@dataclass(frozen=True)
class Rotation:
    """The plane of coordinates (i, i + r/2), among the first r, turns by position times frequency i.

    Coordinates from r on are not rotated. Prompts of more than `beyond` tokens have other frequencies:
    `long_frequencies` if there are any, otherwise those of a larger base ("dynamic", with the factor `growth`). With
    `beyond` 0 all prompts have the same.
    """

    frequencies: tuple[float, ...]  # r/2 of them, radians a position
    factor: float = 1.0  # of the length of rotated vectors
    beyond: int = 0  # tokens
    long_frequencies: tuple[float, ...] = ()
    growth: float = 1.0

    def of_length(self, n: int) -> np.ndarray:
        """The frequencies for a prompt of n tokens."""
        plain = np.array(self.frequencies)
        if not self.beyond or n <= self.beyond:
            return plain
        if self.long_frequencies:
            return np.array(self.long_frequencies)
        # The base theta becomes theta s^(r/(r-2)): theta^(-2i/r) is multiplied by s^(-2i/(r-2)).
        r = 2 * len(plain)
        stretch = self.growth * n / self.beyond - (self.growth - 1)
        return plain * stretch ** (-np.arange(0, r, 2) / (r - 2))

    def __call__(self, vectors: AnyArray, positions: PromptPositions) -> AnyArray:
        """Vectors (..., m, k) of the tokens at m positions, rotated."""
        half, frequencies = len(self.frequencies), self.of_length(positions.length)
        angles = jnp.asarray(positions.of_tokens, vectors.dtype)[:, None] * jnp.asarray(frequencies, vectors.dtype)
        cosine, sine = self.factor * jnp.cos(angles), self.factor * jnp.sin(angles)
        first, second = vectors[..., :half], vectors[..., half : 2 * half]
        turned = [first * cosine - second * sine, second * cosine + first * sine]
        return jnp.concatenate([*turned, vectors[..., 2 * half :]], axis=-1)


def rotation(entries: Entries, width: int, *, theta: float = 10000.0, part: float = 1.0, table: str = "") -> Rotation:
    """The rotary positions that config.json defines for heads of this width.

    Parameters
    ----------
    entries, width
        The entries of config.json, and k.
    theta, part
        The base and the rotated share of k where config.json names none.
    table
        The name of the entry within `rope_parameters` that holds the numbers, for families with several.
    """
    if width > MAX_HEAD_WIDTH:
        raise InputError(
            f"Heads with rotary positions must have a width of at most {MAX_HEAD_WIDTH}, but {entries.where} "
            f"says {width}."
        )
    own = entries.table("rope_parameters" if entries.raw.get("rope_parameters") else "rope_scaling")
    own = own.table(table) if table and table in own.raw else own
    share = own.number("partial_rotary_factor", entries.number("partial_rotary_factor", part))
    rotated = int(width * share)
    if share > 1 or rotated % 2 or rotated == 0:
        raise InputError(
            f"Rotary positions must turn an even number of coordinates, at most {width}, the width of a head, but "
            f"{entries.where} says {rotated}."
        )
    base = own.number("rope_theta", entries.number("rope_theta", theta))
    plain = base ** (-np.arange(0, rotated, 2) / rotated)
    kind = own.word("rope_type", own.word("type", "default"))
    if kind not in KINDS:
        raise InputError(
            f"{entries.where} has rotary positions of type {kind!r}, which is not supported; known: {', '.join(KINDS)}."
        )
    if kind == "default":
        return Rotation(tuple(plain.tolist()))
    scaled = {"linear": _linear, "dynamic": _dynamic, "yarn": _yarn, "longrope": _longrope, "llama3": _llama3}
    return scaled[kind](plain, base, own, entries)


def _linear(plain: np.ndarray, base: float, own: Entries, entries: Entries) -> Rotation:
    """The rotation of positions that are divided by `factor`."""
    del base, entries
    return Rotation(tuple((plain / own.number("factor")).tolist()))


def _dynamic(plain: np.ndarray, base: float, own: Entries, entries: Entries) -> Rotation:
    """A larger base for prompts longer than those of training."""
    del base
    if len(plain) < 2:
        raise InputError(
            f"Rotary positions of type 'dynamic' must turn four coordinates or more, but {entries.where} says 2."
        )
    return Rotation(tuple(plain.tolist()), beyond=entries.count("max_position_embeddings"), growth=own.number("factor"))


def _llama3(plain: np.ndarray, base: float, own: Entries, entries: Entries) -> Rotation:
    """Planes with few turns within the original context rotate `factor` times slower, with a linear ramp."""
    del base
    slow, fast = own.number("low_freq_factor"), own.number("high_freq_factor")
    if fast <= slow:
        raise InputError(f"`high_freq_factor` in {own.where} must be above `low_freq_factor`, {slow}, but is {fast}.")
    turns = _original_context(own, entries) * plain / (2 * np.pi)
    kept = np.clip((turns - slow) / (fast - slow), 0, 1)
    return Rotation(tuple((plain * (kept + (1 - kept) / own.number("factor"))).tolist()))


def _yarn(plain: np.ndarray, base: float, own: Entries, entries: Entries) -> Rotation:
    """YaRN (arXiv:2309.00071): slow planes are interpolated, with a ramp in the number of the plane."""
    r, factor = 2 * len(plain), own.number("factor")
    context = _original_context(own, entries)

    def plane_with(turns: float) -> float:  # the number i with turns = context theta^(-2i/r) / (2 pi)
        return r * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = plane_with(own.number("beta_fast", 32.0)), plane_with(own.number("beta_slow", 1.0))
    if own.raw.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, r - 1)
    ramp = np.clip((np.arange(len(plain)) - low) / (max(high - low, 0) or 0.001), 0, 1)
    return Rotation(tuple((plain * (1 - ramp + ramp / factor)).tolist()), _yarn_length(own, factor))


def _yarn_length(own: Entries, factor: float) -> float:
    """The factor of queries and of keys: 1 + 0.1 log(factor), unless config.json says otherwise."""

    def length(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1 if factor > 1 else 1.0

    if own.raw.get("attention_factor") is not None:
        return own.number("attention_factor")
    if own.raw.get("mscale") and own.raw.get("mscale_all_dim"):
        return length(own.number("mscale")) / length(own.number("mscale_all_dim"))
    return length(1.0)


def _longrope(plain: np.ndarray, base: float, own: Entries, entries: Entries) -> Rotation:
    """LongRoPE (arXiv:2402.13753): each plane has a divisor for short prompts and one for long prompts."""
    del base
    original = int(_original_context(own, entries))
    factor = own.number("factor", entries.count("max_position_embeddings") / original)
    length = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    short, long = (plain / own.numbers(name, len(plain)) for name in ("short_factor", "long_factor"))
    return Rotation(tuple(short.tolist()), own.number("attention_factor", length), original, tuple(long.tolist()))


def _original_context(own: Entries, entries: Entries) -> float:
    """The number of positions before the rescaling."""
    name = "original_max_position_embeddings"
    top = entries.raw.get(name) or entries.raw.get("max_position_embeddings")
    return own.number(name, top)
