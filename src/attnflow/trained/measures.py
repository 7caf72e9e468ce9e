"""Measurements on a prompt's tokens and attention in every layer: cosines, clusters, ranks, second eigenvalue."""

import numpy as np
import xarray as xr

from attnflow._common.threads import one_blas_thread
from attnflow.analyse import attention_rank, clusters, order
from attnflow.trained import layer_similarity
from attnflow.trained.attention_graph import second_eigenvalue

ANGLE = 0.5  # radians; directions closer than this, directly or by a chain, are one cluster


def directions(run: xr.Dataset) -> xr.DataArray:
    """Tokens divided by their lengths; NaN where tokens are not finite."""
    tokens = run.tokens.astype(float)
    return tokens / np.sqrt((tokens**2).sum("coordinate", skipna=False))


def of_tokens(run: xr.Dataset, angle: float = ANGLE) -> xr.Dataset:
    """`mean_cosine`, `clusters` and `effective_rank` of the tokens' directions over time."""
    units = directions(run)
    return xr.Dataset(
        {
            "mean_cosine": order.mean_cosine(units),
            "clusters": clusters.count(units, angle, geodesic=True),
            "effective_rank": layer_similarity.effective_rank(units),
        }
    )


def of_attention(attention: xr.DataArray) -> xr.Dataset:
    """`attention_rank` (above 1 % of the largest singular value) and `second_eigenvalue` over (layer, head)."""
    weights = attention.values.astype(float)
    per_head = ("layer", "head")
    is_finite = np.asarray(np.isfinite(weights).all(axis=(-1, -2)))
    safe = np.where(is_finite[..., None, None], weights, 1.0)
    with one_blas_thread():
        measured = {"attention_rank": attention_rank.rank(safe, 1e-2), "second_eigenvalue": second_eigenvalue(safe)}
    return xr.Dataset({name: (per_head, np.where(is_finite, values, np.nan)) for name, values in measured.items()})
