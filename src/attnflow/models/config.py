"""The entries of a model's config.json, under the same names for all families."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnflow._common.checks import InputError
from attnflow._common.memory import require_memory
from attnflow.model import masks
from attnflow.model.masks import AbstractMask
from attnflow.models.config_entries import Entries
from attnflow.models.feed_forward import FeedForward
from attnflow.models.refusals import no_config
from attnflow.models.rotary import Rotation
from attnflow.models.source import Directory, Hub, Package


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
    norm_place: str  # "post": after each sum; "pre": before each part; "output": after each part, before the sum
    norm_epsilon: float
    activation: str
    embedding_width: int
    head_width: int  # k
    key_heads: int  # fewer than heads where heads share keys and values
    shares_layers: bool = False
    first_position: int = 0  # of the position table; RoBERTa leaves room for its padding id
    initializer_range: float = 0.02
    norm_has_shift: bool = True  # of a LayerNorm
    gain_offset: float = 0.0  # added to stored gains; Gemma stores gain - 1
    has_output_norms: bool = False  # a norm after each part of a "pre" block, too
    is_parallel: bool = False  # attention and MLP read the same tokens
    rotary: Rotation | None = None
    local_rotary: Rotation | None = None  # of layers with a window, where it differs
    windows: tuple[int | None, ...] = ()  # positions seen on each side, by layer; None: all
    score_scale: float | None = None  # None: 1 / sqrt(k)
    query_norm: str = ""  # queries and keys are divided by their length: "head" (each), "layer" (all heads together)
    softcap: float | None = None  # c: scores s become c tanh(s / c)
    clip: float | None = None  # bound of the coordinates of queries, keys and values
    has_query_bias: bool = True  # queries, keys and values
    has_output_bias: bool = True
    has_mlp_bias: bool = True
    patch: int = 0  # pixels on a side of a patch; 0: tokens are words
    image: int = 0  # pixels on a side of an image
    first_tokens: tuple[str, ...] = ()  # tokens before those of the patches
    may_resize_positions: bool = False  # images of other sizes have interpolated positions
    anchor_shape: tuple[int, ...] = ()  # of the first tensor that is looked for, where it does not hold word vectors
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)  # config.json itself

    def __post_init__(self):
        if self.heads % self.key_heads:
            raise InputError(
                f"The config must have a number of heads that its key heads divide, but it has {self.heads} heads and "
                f"{self.key_heads} key heads."
            )
        if self.activation not in FeedForward.activations:
            raise InputError(
                f"The config says the activation of the MLP is {self.activation!r}, which is not supported; "
                f"known: {', '.join(FeedForward.activations)}."
            )

    @property
    def patch_shape(self) -> tuple[int, ...]:
        """The shape of the map of patches to tokens."""
        return self.width, 3, self.patch, self.patch

    def mask(self, layer: int) -> AbstractMask:
        """The mask of a layer."""
        whole = masks.causal if self.is_causal else masks.full
        width = self.windows[layer] if self.windows else None
        return whole if width is None else whole & masks.window(width)

    def rotation(self, layer: int) -> Rotation | None:
        """The rotary positions of a layer."""
        is_local = bool(self.windows) and self.windows[layer] is not None
        return self.local_rotary if is_local and self.local_rotary is not None else self.rotary

    def summary(self) -> str:
        """One line: `bert, 6 layers x 12 heads, d = 384`."""
        return f"{self.family}, {self.layers} layers x {self.heads} heads, d = {self.width}"


def read_entries(source: Directory | Hub) -> Entries:
    """The entries of a model's config.json; a package may add some that it lacks."""
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
    added = dict(source.packaged.entries) if isinstance(source, Package) else {}
    return Entries(added | raw, f"config.json of {source}")
