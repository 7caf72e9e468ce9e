"""Flows of every kind that the native library integrates, for attnflow and for the oracle."""

import numpy as np
from tests.helpers import oracle
from tests.helpers.oracle import Weights

import attnflow as af

SPACES = {
    "R^d": (af.EuclideanAttention, oracle.Euclidean),
    "sphere": (af.SphereAttention, oracle.Sphere),
    "rescaled": (af.RescaledAttention, oracle.Rescaled),
}
RULES = {
    "softmax": (af.Softmax(1.7), oracle.softmax(1.7)),
    "unnormalised": (af.Unnormalised(0.8, 0.3), oracle.unnormalised(0.8, 0.3)),
}
MASKS = {
    "full": (af.masks.full, lambda i, j: True),
    "causal": (af.masks.causal, lambda i, j: j <= i),
    "strictly causal": (af.masks.strictly_causal, lambda i, j: j < i),
    "window": (af.masks.window(2), lambda i, j: abs(i - j) <= 2),
    "causal window": (af.masks.causal & af.masks.window(1), lambda i, j: 0 <= i - j <= 1),
}


def heads(kind, d, seed=0):
    """One head, or three of different ranks, for attnflow and for the oracle.

    One head is the identity, has symmetric scores (Q^T K is a symmetric matrix), or is generic.
    """
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.normal(size=shape) / np.sqrt(d)
    if kind == "identity":
        return [af.Head.identity(d)], [Weights(np.eye(d), np.eye(d), np.eye(d))]
    if kind == "symmetric":
        matrix, value = draw(d, d), draw(d, d)
        matrix = matrix + matrix.T
        return [af.Head.bilinear(matrix, value)], [Weights(matrix, np.eye(d), value)]
    sizes = [(d, None)] if kind == "generic" else [(d, None), (max(1, d - 1), 1), (d + 1, d + 2)]
    ours, theirs = [], []
    for width, inner in sizes:
        query, key = draw(width, d), draw(width, d)
        value, output = (draw(d, d), None) if inner is None else (draw(inner, d), draw(d, inner))
        ours.append(af.Head(query=query, key=key, value=value, output=output))
        theirs.append(Weights(query, key, value if output is None else output @ value))
    return ours, theirs


def start(space, n, d, seed=1, runs=None):
    """Gaussian tokens of moderate length, on the sphere where they must be."""
    tokens = 0.6 * np.random.default_rng(seed).normal(size=(n, d) if runs is None else (runs, n, d))
    return tokens / np.linalg.norm(tokens, axis=-1, keepdims=True) if space == "sphere" else tokens


def options(n, has_masses, has_frozen, mask_name="full"):
    """Masses and frozen tokens; the first token is frozen under a mask that hides all tokens from it."""
    frozen = np.arange(n) % 3 == 1 if has_frozen else np.zeros(n, bool)
    frozen = frozen | ((np.arange(n) == 0) & (mask_name == "strictly causal"))
    masses = 0.5 + np.random.default_rng(4).random(n) if has_masses else None
    return {"masses": masses, "frozen": frozen if frozen.any() else None}
