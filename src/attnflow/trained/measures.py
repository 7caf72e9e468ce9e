"""What is measured on a prompt's tokens layer by layer: cosines, clusters, ranks, attention graphs."""

import numpy as np
import xarray as xr

from attnflow._common.threads import one_blas_thread
from attnflow.analyse import attention_rank, clusters, order
from attnflow.trained import layer_similarity
from attnflow.trained.attention_graph import second_eigenvalue

ANGLE = 0.5  # radians; tokens in directions closer than this, and chains of them, are one cluster
RANK = 1e-2  # singular values of an attention matrix below this share of the largest do not count


def directions(run: xr.Dataset) -> xr.DataArray:
    """Tokens divided by their lengths; NaN where numbers are missing."""
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
    healthy = np.asarray(np.isfinite(weights).all(axis=(-1, -2)))
    safe = np.where(healthy[..., None, None], weights, 1.0)
    with one_blas_thread():
        found = {"attention_rank": attention_rank.rank(safe, RANK), "second_eigenvalue": second_eigenvalue(safe)}
    return xr.Dataset({name: (per_head, np.where(healthy, values, np.nan)) for name, values in found.items()})
