"""Groups of close tokens as single tokens of their mass, in any dimension.

A group g of keys k_j with weights w_j is replaced by its centre of mass c_g, with the weight M_g = sum_j w_j and the
mean value u_g. With e_j = f <q, k_j - c_g>, |e_j| <= a = |f| |q| r_g for a group of radius r_g, and sum_j w_j e_j = 0:

    1 <= sum_j w_j e^{e_j} / M_g <= 1 + (e^a - 1 - a),
    | sum_j w_j e^{e_j} v_j / sum_j w_j e^{e_j} - u_g | <= (e^a - 1) s_g,    s_g = max_j |v_j - u_g|,

so that the attention output is off by at most (e^a - 1 - a) max |v| + max_g (e^a - 1) s_g: of the second order in the
diameter. A group for which this exceeds the tolerance is not formed. The cost is n times the number of groups.
"""

from typing import NamedTuple

import numpy as np

from attnflow.model.fast_sums.direct_sums import all_sums
from attnflow.model.fast_sums.problem import SumProblem


class TokenGroups(NamedTuple):
    """Groups of tokens: the group of each token, and for each group its weight, its mean key and its mean value."""

    labels: np.ndarray
    weights: np.ndarray
    keys: np.ndarray
    values: np.ndarray


def outputs(problem: SumProblem, tolerance: float) -> np.ndarray:
    """The attention output of every token, under a full mask and without column potentials."""
    groups = formed(problem, tolerance)
    totals, log_scales = all_sums(problem.factor * problem.queries, groups.keys, groups.values, np.log(groups.weights))
    return problem.outputs(totals, log_scales)


def formed(problem: SumProblem, tolerance: float) -> TokenGroups:
    """Groups of tokens that keep the error within the tolerance; tokens apart from others are groups of one."""
    steepness = abs(problem.factor) * float(np.linalg.norm(problem.queries, axis=1).max())
    largest = float(np.linalg.norm(problem.values, axis=1).max()) or 1.0
    labels = cells(problem.keys, _radius(problem.keys, steepness, tolerance))
    groups = _means(problem, labels)
    key_radii = _radii(problem.keys, groups.keys, labels)
    value_radii = _radii(problem.values, groups.values, labels)
    with np.errstate(over="ignore"):
        slopes = np.expm1(steepness * key_radii)
        errors = (slopes - steepness * key_radii) + slopes * value_radii / largest
    is_single = ~(errors <= tolerance)[labels]
    if not np.any(is_single):
        return groups
    # Groups beyond the tolerance are dissolved; the others keep their members, whose labels are numbered anew.
    apart = np.where(is_single, len(groups.weights) + np.arange(len(labels)), labels)
    return _means(problem, np.unique(apart, return_inverse=True)[1])


def _radius(keys: np.ndarray, steepness: float, tolerance: float) -> float:
    """A radius r for which both error terms are about half the tolerance, if values vary as keys do.

    The terms are (steepness r)^2 / 2 and steepness r^2 / |k|.
    """
    length = float(np.linalg.norm(keys, axis=1).max()) or 1.0
    return float(np.sqrt(tolerance / (steepness**2 + 2 * steepness / length + 1e-300)))


def cells(keys: np.ndarray, radius: float) -> np.ndarray:
    """The cell of every key in a grid whose cells have the given radius, numbered from zero.

    Vectors of whole numbers are told apart by a random linear function modulo 2^64. Two cells that it confuses make a
    group with a large radius, which is dissolved.
    """
    d = keys.shape[1]
    side = 2 * radius / np.sqrt(d)
    rng = np.random.default_rng(0)
    shifted = (keys - keys.min(axis=0)) / side + rng.random(d)  # so that no face of a cell is at a round number
    limit = 2.0**62  # beyond, whole numbers overflow; such keys are far apart
    numbers = np.floor(np.minimum(shifted, limit)).astype(np.uint64)
    factors = rng.integers(1, 2**63, d, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return np.unique((numbers * factors).sum(axis=1, dtype=np.uint64), return_inverse=True)[1]


def _means(problem: SumProblem, labels: np.ndarray) -> TokenGroups:
    weights = np.bincount(labels, problem.masses)
    mean = lambda array: np.stack(
        [np.bincount(labels, problem.masses * column) / weights for column in array.T], axis=1
    )
    return TokenGroups(labels, weights, mean(problem.keys), mean(problem.values))


def _radii(points: np.ndarray, centres: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The largest distance of a member from the centre, of every group."""
    radii = np.zeros(len(centres))
    np.maximum.at(radii, labels, np.linalg.norm(points - centres[labels], axis=1))
    return radii
