"""Effective rank of the tokens of a layer, and linear CKA between layers."""

from typing import Any

import numpy as np
import xarray as xr
from scipy.special import entr

from attnflow._common.checks import InputError
from attnflow.analyse.snapshots import over_snapshots, tokens_of


def effective_rank(run: Any) -> xr.DataArray:
    """Exponential of the entropy of normalised singular values: 1 for tokens on a line through 0, at most min(n, d).

    Examples
    --------
    >>> float(effective_rank(np.eye(3)).round(12))
    3.0
    """
    return over_snapshots(effective_rank_of, run, "effective_rank")


def linear_cka(first: Any, second: Any) -> float:
    """Similarity of two configurations of the same n tokens: 1 if they agree up to rotation, translation and scale.

    |Y^T X|_F^2 / (|X^T X|_F |Y^T Y|_F) of the tokens around their means; NaN where all tokens agree.

    Examples
    --------
    >>> tokens = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]])
    >>> round(linear_cka(tokens, 5 * tokens @ [[0.0, 1.0], [-1.0, 0.0]]), 12)
    1.0
    """
    x, y = (_centred(np.asarray(one, dtype=float)) for one in (first, second))
    if len(x) != len(y):
        raise InputError(f"Two configurations must have the same tokens, but they have {len(x)} and {len(y)}.")
    # The same from the n x n Gram matrices, since d may be large.
    across, along_x, along_y = (np.sum((a @ a.T) * (b @ b.T)) for a, b in ((x, y), (x, x), (y, y)))
    return float(across / np.sqrt(along_x * along_y)) if along_x > 0 and along_y > 0 else np.nan


def consecutive_cka(run: Any) -> xr.DataArray:
    """Linear CKA between the tokens of consecutive layers, over `layer`."""
    tokens = tokens_of(run)
    if tokens.dims[:-2] != ("time",):
        raise InputError(f"`run` must be one run with a time axis, but its axes are {tokens.dims}.")
    pairs = zip(tokens.values[:-1], tokens.values[1:], strict=True)
    return xr.DataArray([linear_cka(one, following) for one, following in pairs], dims="layer", name="cka")


def effective_rank_of(tokens: np.ndarray) -> float:
    """The effective rank of one configuration (n, d)."""
    sizes = np.linalg.svd(tokens.astype(float), compute_uv=False)
    total = sizes.sum()
    return float(np.exp(entr(sizes / total).sum())) if total > 0 else 0.0


def _centred(tokens: np.ndarray) -> np.ndarray:
    if tokens.ndim != 2:
        raise InputError(f"Tokens must have shape (n, d) here, but the shape is {tokens.shape}.")
    return tokens - tokens.mean(axis=0)
