"""Attention outputs over all pairs in plain NumPy and SciPy: the oracle of the fast sums."""

import numpy as np
from scipy.special import logsumexp


def visible_factors(positions, n):
    """The matrix of log p_ij of a mask by positions, from its definition."""
    i, j = np.indices((n, n))
    allowed = (positions.earlier & (j < i)) | (positions.later & (j > i)) | (positions.itself & (j == i))
    return np.where(allowed, -positions.slope * np.abs(i - j), -np.inf)


def dense_outputs(problem):
    """The attention output of every token, and the total weight of its row."""
    n = len(problem.keys)
    logits = problem.factor * problem.queries @ problem.keys.T + visible_factors(problem.positions, n)
    log_masses, potentials = np.log(problem.masses), np.zeros(n)
    with np.errstate(divide="ignore"):
        for _ in range(problem.sweeps):
            given = logsumexp(logits + log_masses + potentials, axis=1)
            received = logsumexp(logits.T + log_masses - np.where(np.isfinite(given), given, np.inf), axis=1)
            potentials = -np.where(np.isfinite(received), received, 0)
    exponents = logits + log_masses + potentials
    if not problem.is_normalised:
        weights = np.exp(exponents - problem.log_divisor) / problem.masses.sum()
        return weights @ problem.values, weights.sum(axis=1)
    best = exponents.max(axis=1, keepdims=True)
    weights = np.exp(exponents - np.where(np.isfinite(best), best, 0))
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    return weights @ problem.values, np.ones(n)


def largest_error(found, problem):
    """The largest error of an output over max |v| and the total weight of its row: what `tolerance` bounds."""
    expected, weights = dense_outputs(problem)
    errors = np.linalg.norm(found - expected, axis=1)
    return float(np.max(errors / np.maximum(weights, 1e-300)) / np.linalg.norm(problem.values, axis=1).max())
