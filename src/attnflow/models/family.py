"""What a module for a family of checkpoints, such as `families.gpt2`, has to define."""

from typing import Protocol

import numpy as np

from attnflow._common.arrays import Tokens
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.norm import Norm
from attnflow.models.tensors import Tensors


class Family(Protocol):
    """The names and functions of a family's module."""

    MODEL_TYPES: tuple[str, ...]
    """The values of `model_type` in config.json."""
    ANCHOR: str
    """The name of the word vectors, by which the prefix of all names in a checkpoint is found."""

    def read_config(self, entries: Entries) -> Config:
        """The entries of config.json in the words of this package."""
        ...

    def embed(self, tensors: Tensors, config: Config, ids: np.ndarray, with_positions: bool) -> Tokens:
        """The tokens before the first layer, of ids, or of pixels (3, h, w) in a model of images."""
        ...

    def stem(self, config: Config, layer: int) -> str:
        """The prefix of the names of a layer's tensors."""
        ...

    def read_block(self, tensors: Tensors, config: Config, layer: int) -> Block:
        """The block of one layer."""
        ...

    def read_attention(self, tensors: Tensors, config: Config, layer: int) -> AttentionPart:
        """The attention of one layer."""
        ...

    def read_attention_norm(self, tensors: Tensors, config: Config, layer: int) -> Norm | None:
        """The norm before the attention of one layer; needed only if `config.norm_place` is "pre"."""
        ...

    def last_norm(self, tensors: Tensors, config: Config) -> Norm | None:
        """The norm after the last layer, or None."""
        ...

    def deviation(self, config: Config, name: str) -> float:
        """The standard deviation of the matrix of this name in random initial weights."""
        ...
