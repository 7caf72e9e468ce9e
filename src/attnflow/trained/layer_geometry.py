"""Geometry of the tokens of a layer: cosine about the mean, matrix entropy, intrinsic dimension, straightness of paths.

Every function takes tokens (n, d), one a row, and returns a number; NaN where it is not defined.
"""

from itertools import pairwise

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import entr

LEAST_TOKENS_OF_DIMENSION = 10  # the estimate of a dimension m from n tokens has the relative error n^{-1/2}


def centred_cosine(tokens: np.ndarray) -> float:
    """Mean cosine between distinct tokens after their common mean has been removed.

    A vector that all tokens share raises the plain mean cosine to near 1 although the tokens do not gather; about the
    mean n tokens in random directions have the cosine -1/(n-1), and so have all tokens that are about equally far from
    it. Studies pass the directions of the tokens: a token of many times the length of the others (an attention sink)
    would be the mean by itself, and all others would seem to lie on the other side of it.

    Examples
    --------
    >>> apart = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> round(centred_cosine(apart + [50.0, 0.0]), 6)
    -0.333333
    """
    moved = tokens - tokens.mean(axis=0)
    lengths = np.linalg.norm(moved, axis=1)
    # Rounding of the mean leaves this much of tokens that agree.
    is_defined = lengths > 1e-12 * np.linalg.norm(tokens, axis=1).max(initial=0.0)
    if not is_defined.all():
        return np.nan
    return mean_cosine_of(moved / lengths[:, None])


def mean_cosine_of(units: np.ndarray) -> float:
    """Mean cosine between distinct unit vectors, (|sum_i u_i|^2 - n) / (n (n - 1)); NaN for one.

    Examples
    --------
    >>> mean_cosine_of(np.eye(3))
    0.0
    """
    n, total = len(units), units.sum(axis=0)
    return float((total @ total - n) / (n * (n - 1))) if n > 1 else np.nan


def matrix_entropy(tokens: np.ndarray) -> float:
    """Entropy of the eigenvalues of the Gram matrix X X^T / tr(X X^T), in nats: from 0 (one line) to log min(n, d).

    It is the von Neumann entropy, the limit alpha -> 1 of the matrix-based entropies of Giraldo, Rao and Principe.

    Examples
    --------
    >>> round(float(matrix_entropy(np.eye(4)) / np.log(4)), 12)
    1.0
    """
    squares = np.linalg.svd(tokens, compute_uv=False) ** 2
    total = squares.sum()
    return float(entr(squares / total).sum()) if total > 0 else np.nan


def intrinsic_dimension(tokens: np.ndarray) -> float:
    """Dimension from the ratios of the distances to the two nearest tokens (TwoNN, Facco et al. 2017).

    If tokens are spread evenly over m dimensions at the scale of their neighbours, the ratio r_2 / r_1 has the
    distribution 1 - mu^{-m}; the maximum-likelihood estimate without bias is m = (n - 1) / sum log(r_2 / r_1).
    Equal tokens count once. NaN for fewer than 10 different tokens.

    Examples
    --------
    >>> flat = np.random.default_rng(0).random((2000, 2)) @ np.random.default_rng(1).normal(size=(2, 50))
    >>> bool(abs(intrinsic_dimension(flat) - 2) < 0.15)
    True
    """
    distances = cdist(tokens, tokens)
    is_repeated = np.tril(distances == 0, -1).any(axis=1)
    distances = distances[np.ix_(~is_repeated, ~is_repeated)]
    n = len(distances)
    if n < LEAST_TOKENS_OF_DIMENSION:
        return np.nan
    np.fill_diagonal(distances, np.inf)
    first, second = np.partition(distances, 1, axis=1)[:, :2].T
    return float((n - 1) / np.log(second / first).sum())


def line_shape_score(path: np.ndarray) -> float:
    """How far a path through the layers is from a straight line: 1 if it is straight, larger if it winds.

    With the steps s_l = x_l - x_{l-1} of a token and L layers it is L / |sum_l s_l / |s_l||, the mean over tokens
    (arXiv:2407.07810). Infinity where the unit steps of a token add up to zero; NaN where a token rests.

    Parameters
    ----------
    path
        The tokens after every layer, (layers + 1, n, d).

    Examples
    --------
    >>> round(line_shape_score(np.array([[[0.0, 0.0]], [[1.0, 0.0]], [[1.0, 5.0]]])), 6)
    1.414214
    """
    total = np.sum([unit_steps(before, after) for before, after in pairwise(path)], axis=0)
    return score_of_directions(total, len(path) - 1)


def unit_steps(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The step of every token divided by its length; NaN where a token rests."""
    steps = after - before
    with np.errstate(invalid="ignore"):
        return steps / np.linalg.norm(steps, axis=-1, keepdims=True)


def score_of_directions(total: np.ndarray, layers: int) -> float:
    """The line-shape score from the sums of unit steps over layers, (n, d)."""
    with np.errstate(divide="ignore"):
        return float(np.mean(layers / np.linalg.norm(total, axis=-1)))


def linearity_score(before: np.ndarray, after: np.ndarray) -> float:
    """How well a linear map takes the tokens before a layer to those after it: 1 if exactly (Razzhigaev et al. 2024).

    1 - min_A |X A - Y|^2 in Frobenius norms, of tokens about their means and divided by their norms: the share of |Y|^2
    in the span of the columns of X. Independent tokens have about rank(X) / (n - 1), and the score is 1 by construction
    where the rank of X is n - 1: NaN then, as for fewer tokens than coordinates, and where all tokens agree.

    Examples
    --------
    >>> tokens = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(linearity_score(tokens, tokens @ np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [3.0, 0.0, 1.0]]) + 7), 12)
    1.0
    >>> linearity_score(tokens[:3], tokens[:3] ** 2)
    nan
    """
    x, y = before - before.mean(axis=0), after - after.mean(axis=0)
    total = np.sum(y**2)
    directions, sizes, _ = np.linalg.svd(x, full_matrices=False)
    spanning = directions[:, sizes > 1e-10 * sizes.max(initial=0.0)]  # what rounding leaves of X is below
    if spanning.shape[1] >= len(x) - 1 or spanning.shape[1] == 0 or total <= 1e-24 * np.sum(after**2):
        return np.nan
    return float(np.sum((spanning.T @ y) ** 2) / total)
