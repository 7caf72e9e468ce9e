"""Histogram of the cosines between tokens."""

import numpy as np

BINS = 48  # equal parts of [-1, 1]; PROTOCOL.md states the number


def cosine_histogram(tokens: np.ndarray) -> list[float]:
    """Shares of the pairs of distinct tokens in each bin, estimated from evenly chosen tokens; empty for one token.

    Examples
    --------
    >>> shares = cosine_histogram(np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]))
    >>> round(shares[-1], 3), round(shares[0], 3)
    (0.333, 0.667)
    """
    chosen = tokens[:: -(-len(tokens) // 600)]  # at most 600 tokens: 180,000 pairs
    norms = np.linalg.norm(chosen, axis=-1, keepdims=True)
    units = chosen / np.where(norms > 0, norms, 1)
    if len(units) < 2 or not np.all(np.isfinite(units)):
        return []
    bins = np.minimum(((units @ units.T + 1) * (BINS / 2)).astype(int), BINS - 1).clip(0)
    # Pairs of a token with itself, on the diagonal, are left out.
    counts = np.bincount(bins.ravel(), minlength=BINS) - np.bincount(bins.diagonal(), minlength=BINS)
    return (counts / counts.sum()).round(5).tolist()
