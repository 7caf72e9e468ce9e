"""Sets of points, and the distance to their hull by brute force."""

import numpy as np
from scipy.optimize import minimize

SQUARE = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])


def cloud(n, d, seed=0):
    """Normally distributed points (n, d)."""
    return np.random.default_rng(seed).normal(size=(n, d))


def in_a_random_subspace(points, d, seed=1):
    """The points in R^d, turned and moved: the same hull, flat."""
    turn = np.linalg.qr(cloud(d, d, seed))[0][: points.shape[1]]
    return points @ turn + cloud(1, d, seed + 1)


def brute_distance(points, token):
    """By SciPy's general optimiser over the weights."""
    n = len(points)
    found = minimize(
        lambda w: np.sum((w @ points - token) ** 2),
        np.full(n, 1 / n),
        jac=lambda w: 2 * points @ (w @ points - token),
        bounds=[(0, 1)] * n,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(n)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return np.sqrt(found.fun)
