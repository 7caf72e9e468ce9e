"""Order parameters of alignment: mean, Fourier modes and pairwise cosines of the tokens.

`run` is a dataset with tokens or an array of shape ([runs,] [times,] n, d).
"""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count, require_positive_lengths
from attnflow.analyse.snapshots import over_snapshots, tokens_of

__all__ = ["cosine_histogram", "fourier_modes", "mean_cosine", "mean_length"]


def mean_length(run: Any) -> xr.DataArray:
    """|n^-1 sum_i x_i| over time (and runs): on the sphere 1 for one cluster, 0 where tokens balance.

    Examples
    --------
    >>> mean_length([[[1.0, 0.0], [-1.0, 0.0]]]).values
    array([0.])
    """
    return over_snapshots(lambda tokens: np.linalg.norm(tokens.mean(axis=0)), run, "mean_length")


def mean_cosine(run: Any) -> xr.DataArray:
    """Mean cosine of the angle between distinct tokens, whatever their lengths; NaN for a single token.

    Examples
    --------
    >>> float(mean_cosine([[2.0, 0.0], [0.0, 3.0]]))
    0.0
    """

    def one(tokens):
        directions, n = _directions(tokens), len(tokens)
        return (np.sum(directions.sum(axis=0) ** 2) - n) / (n * (n - 1)) if n > 1 else np.nan

    return over_snapshots(one, run, "mean_cosine")


def fourier_modes(run: Any, most: int = 8) -> xr.DataArray:
    """mu_k = n^-1 sum_j e^{-i k theta_j} of tokens on the circle, k = 1 to `most`, along the last axis `mode`.

    k equal clusters at equal angles have |mu_k| = 1 and mu_j = 0 for j < k.

    Examples
    --------
    >>> square = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]
    >>> np.abs(fourier_modes(square, 4)).round(12).values.tolist()
    [0.0, 0.0, 0.0, 1.0]
    """
    require_count(most, "most")
    d = tokens_of(run).sizes["coordinate"]
    if d != 2:
        raise InputError(f"Fourier modes are those of angles, d = 2, but these tokens have d = {d}.")
    modes = np.arange(1, most + 1)

    def one(tokens):
        angles = np.arctan2(tokens[:, 1], tokens[:, 0])
        return np.exp(-1j * modes[:, None] * angles).mean(axis=-1)

    missing = np.full(most, complex(np.nan, np.nan))
    return over_snapshots(one, run, "fourier_modes", missing, ("mode",)).assign_coords(mode=modes)


def cosine_histogram(run: Any, bins: int = 50) -> xr.DataArray:
    """Density of the cosines between distinct tokens on [-1, 1], along the last axis `cosine` (bin centres).

    It integrates to one: its mean over the bins is 1/2. NaN for a single token.

    Examples
    --------
    >>> cosine_histogram([[1.0, 0.0], [0.0, 2.0], [0.0, 1.0]], bins=4).values.round(6).tolist()
    [0.0, 0.0, 1.333333, 0.666667]
    """
    require_count(bins, "bins")
    edges = np.linspace(-1, 1, bins + 1)

    def one(tokens):
        directions = _directions(tokens)
        cosines = (directions @ directions.T)[np.triu_indices(len(tokens), 1)]
        if len(cosines) == 0:
            return np.full(bins, np.nan)
        # Rounding makes some cosines of equal tokens larger than one.
        return np.histogram(np.clip(cosines, -1, 1), edges, density=True)[0]

    histogram = over_snapshots(one, run, "cosine_density", np.full(bins, np.nan), ("cosine",))
    return histogram.assign_coords(cosine=(edges[1:] + edges[:-1]) / 2)


def _directions(tokens: np.ndarray) -> np.ndarray:
    require_positive_lengths(tokens, "tokens")
    return tokens / np.linalg.norm(tokens, axis=-1, keepdims=True)
