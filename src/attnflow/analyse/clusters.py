"""Clusters of tokens: connected components within a distance."""

from typing import Any

import numpy as np
import xarray as xr
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from attnflow._checks import InputError, require_positive_number


def labels(tokens: Any, distance: float = 1e-2) -> np.ndarray:
    """Cluster of every token: 0, 1, ... in the order of their first members.

    Tokens closer than `distance` (straight, which for unit vectors is the chord) belong
    together, and so do chains of them.

    Examples
    --------
    >>> labels([[0.0, 0.0], [5.0, 0.0], [0.0, 0.001]])
    array([0, 1, 0])
    """
    require_positive_number(distance, "distance")
    tokens = np.asarray(tokens, dtype=float)
    if not np.all(np.isfinite(tokens)):
        return np.full(len(tokens), -1)
    pairs = KDTree(tokens).query_pairs(distance, output_type="ndarray")
    graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(len(tokens),) * 2)
    found = connected_components(graph, directed=False)[1]
    _, first, inverse = np.unique(found, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def count(run: xr.Dataset | xr.DataArray, distance: float = 1e-2) -> xr.DataArray:
    """Number of clusters over time (and runs); -1 where a run has no tokens any more."""
    if isinstance(run, xr.Dataset) and "tokens" not in run:
        raise InputError("`run` holds no tokens to count clusters of. Simulate with `keep_tokens=True`.")
    tokens = run.tokens if isinstance(run, xr.Dataset) else run
    one = lambda configuration: labels(configuration, distance).max() + 1 or -1
    counted = xr.apply_ufunc(
        one, tokens, input_core_dims=[["token", "coordinate"]], vectorize=True, output_dtypes=[int]
    )
    return counted.rename("clusters").assign_attrs(distance=distance)
