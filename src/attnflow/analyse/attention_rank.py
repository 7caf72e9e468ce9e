"""Numerical rank of attention matrices."""

from typing import Any

import numpy as np

from attnflow._common.checks import require_positive_number

__all__ = ["rank"]

THRESHOLD = 1e-6


def rank(matrices: Any, threshold: float = THRESHOLD) -> np.ndarray:
    """Number of singular values above `threshold` times the largest, over the last two axes.

    Examples
    --------
    >>> int(rank(np.full((3, 3), 1 / 3)))
    1
    """
    require_positive_number(threshold, "threshold")
    sizes = np.linalg.svd(np.asarray(matrices, dtype=float), compute_uv=False)
    return np.sum(sizes > threshold * sizes[..., :1], axis=-1)
