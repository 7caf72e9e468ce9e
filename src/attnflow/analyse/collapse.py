"""Neural collapse: the size of clusters relative to their distances, and the regularity of their centres.

Four measures, each zero where collapse is complete: variability within classes against that
between them, unequal norms of the centred class means, unequal angles between them, and how far
those angles are from the regular simplex's, cosine -1/(K-1).
"""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.rounding import ROUNDING
from attnflow.analyse import clusters
from attnflow.analyse.snapshots import over_snapshots, tokens_of

__all__ = ["measures", "variability"]

MEASURES = ("classes", "within", "between", "variability", "unequal_norms", "unequal_angles", "simplex_distance")


def measures(run: Any, labels: Any = None, distance: float = 1e-2) -> xr.Dataset:
    """Neural-collapse measures of every snapshot, with the axes of the run.

    Parameters
    ----------
    run
        A dataset, or tokens of shape ([runs,] [times,] n, d).
    labels
        Class of every token, n whole numbers. None: the clusters of each snapshot.
    distance
        Distance within which tokens belong to one cluster; used only if `labels` is None.

    Returns
    -------
    A dataset of

    - ``classes``: their number K;
    - ``within``, ``between``: mean squared distance of tokens to their class mean, and of class means
      to the mean of class means;
    - ``variability``: trace(S_W S_B^+) / K with S_W and S_B the covariances within and between (NC1);
    - ``unequal_norms``: deviation over mean of the centred means' lengths (NC2);
    - ``unequal_angles``: deviation of the cosines between centred means (NC2);
    - ``simplex_distance``: mean distance of those cosines from -1/(K-1).

    Measures that need two classes are NaN with one, and where class means differ by rounding only; all are NaN where
    tokens are not finite. Two centred means are opposite and of one length, whatever the tokens: the last three
    measures are informative for three or more classes.

    Examples
    --------
    Three classes of one token each, at the corners of a regular triangle.

    >>> angles = 2 * np.pi * np.arange(3) / 3
    >>> found = measures(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    >>> int(found.classes), float(found.within), bool(found.simplex_distance < 1e-12)
    (3, 0.0, True)
    """
    tokens = tokens_of(run)
    given = None if labels is None else _as_labels(labels, tokens.sizes["token"])
    of_one = lambda one: _measures(one, clusters.labels(one, distance) if given is None else given)
    table = over_snapshots(of_one, tokens, "collapse", np.full(len(MEASURES), np.nan), dims=("measure",))
    return xr.Dataset({name: table.isel(measure=place) for place, name in enumerate(MEASURES)})


def variability(tokens: Any, labels: Any) -> float:
    """The variability of one configuration (n, d) alone, trace(S_W S_B^+) / K as in `measures`; NaN with one class.

    Parameters
    ----------
    tokens
        One configuration, shape (n, d).
    labels
        The class of every token, n whole numbers.

    Examples
    --------
    >>> variability(np.array([[1.0], [3.0], [5.0], [7.0]]), np.array([0, 0, 1, 1]))
    0.125
    """
    tokens = np.asarray(tokens, dtype=float)
    return float(_variability(*_deviations(tokens, _as_labels(labels, len(tokens))), _rounding(tokens)))


def permuted_variability(tokens: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The variability under every row of `labels` (permutations, n), which are permutations of each other."""
    return _variability(*_deviations(tokens, labels), _rounding(tokens))


def _rounding(tokens: np.ndarray) -> float:
    """The error of class means by rounding, as a length."""
    return ROUNDING * float(np.linalg.norm(tokens, axis=-1).max())


def _deviations(tokens: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tokens less the mean of their class, class after class, and class means less the mean of them.

    Rows of labels (..., n) must be permutations of each other.
    """
    in_classes, one = tokens[np.argsort(labels, axis=-1, kind="stable")], labels.reshape(-1, len(tokens))[0]
    _, first, sizes = np.unique(np.sort(one), return_index=True, return_counts=True)
    means = np.add.reduceat(in_classes, first, axis=-2) / sizes[:, None]
    return in_classes - np.repeat(means, sizes, axis=-2), means - means.mean(axis=-2, keepdims=True)


def _measures(tokens: np.ndarray, labels: np.ndarray) -> np.ndarray:
    deviations, centred = _deviations(tokens, labels)
    count = len(centred)
    within, between = np.mean(np.sum(deviations**2, axis=1)), np.mean(np.sum(centred**2, axis=1))
    rounding = _rounding(tokens)
    return np.array(
        [count, within, between, _variability(deviations, centred, rounding), *_regularity(centred, rounding)]
    )


def _variability(deviations: np.ndarray, centred: np.ndarray, rounding: float) -> np.ndarray:
    """trace(S_W S_B^+) / K; directions in which the means do not differ are left out by the pseudo-inverse.

    NaN with one class, and where the means differ by no more than `rounding`.
    """
    count = centred.shape[-2]
    within = np.swapaxes(deviations, -1, -2) @ deviations / deviations.shape[-2]
    between = np.swapaxes(centred, -1, -2) @ centred / count
    inverse = np.linalg.pinv(between, rcond=1e-12, hermitian=True)
    ratio = np.einsum("...ij,...ji->...", within, inverse) / count
    return np.where((count > 1) & (np.linalg.norm(centred, axis=-1).max(axis=-1) > rounding), ratio, np.nan)


def _regularity(centred: np.ndarray, rounding: float) -> tuple[float, float, float]:
    count, norms = len(centred), np.linalg.norm(centred, axis=1)
    if count < 2 or norms.max() <= rounding:
        return np.nan, np.nan, np.nan
    unequal_norms = float(norms.std() / norms.mean())
    if norms.min() <= rounding:  # a mean at the centre has no direction
        return unequal_norms, np.nan, np.nan
    directions = centred / norms[:, None]
    cosines = (directions @ directions.T)[np.triu_indices(count, 1)]
    return unequal_norms, float(cosines.std()), float(np.abs(cosines + 1 / (count - 1)).mean())


def _as_labels(labels: Any, n: int) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.shape != (n,) or labels.dtype.kind not in "iub":
        raise InputError(
            f"`labels` must be {n} whole numbers, one a token, but their shape is {labels.shape} and "
            f"their type {labels.dtype}. Pass None to use clusters."
        )
    return labels
