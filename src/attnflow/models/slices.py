"""Norms and the matrices of heads, cut out of stored tensors."""

import numpy as np

from attnflow.models.config import Config
from attnflow.models.norm import Norm
from attnflow.models.tensors import Tensors


def norm(tensors: Tensors, name: str, config: Config, width: int | None = None) -> Norm:
    """The norm of this name."""
    shape = (width or config.width,)
    centres = config.norm == "layer"
    shift = tensors.read(f"{name}.bias", shape) if centres else None
    return Norm(tensors.read(f"{name}.weight", shape), shift, config.norm_epsilon, centres)


def inward(matrix: np.ndarray, heads: int) -> np.ndarray:
    """(heads k, d) -> (heads, k, d): the maps that heads read with."""
    return matrix.reshape(heads, -1, matrix.shape[1])


def outward(matrix: np.ndarray, heads: int) -> np.ndarray:
    """(d, heads k) -> (heads, d, k): the maps that heads write with."""
    return np.moveaxis(matrix.reshape(len(matrix), heads, -1), 1, 0)
