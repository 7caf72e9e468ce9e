"""Hypotheses on the value matrix V and on the matrix B = beta Q^T K of the scores, each with a margin.

A theorem lists the functions of this module that it needs. V = c I with c > 0 is V = I in another unit of time, and
beta is a factor of Q^T K, so neither is asked for separately.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow.analyse.spectra import (
    SPECTRAL_TOLERANCE,
    Spectrum,
    asymmetry,
    complement,
    least_of_symmetric_part,
    require_real,
    spectrum,
)
from attnflow.theorems.verdict import Hypothesis, above, at_most

LEADING = "the leading eigenvalue of V"


@dataclasses.dataclass(frozen=True, eq=False)
class Weights:
    """V by its spectrum, and B = beta Q^T K, so that the scores are <x_i, B x_j>."""

    spectrum: Spectrum
    scores: np.ndarray

    @property
    def tolerance(self) -> float:
        """The size below which eigenvalues and entries of V count as zero."""
        return SPECTRAL_TOLERANCE * self.spectrum.scale

    @classmethod
    def of_matrices(cls, value: Any, scores: Any) -> "Weights":
        """The weights of a matrix V and a matrix B of the same size.

        Examples
        --------
        >>> weights = Weights.of_matrices(np.diag([2.0, 1.0]), np.eye(2))
        >>> isotropic(weights).holds, leading_is_simple(weights).holds
        (False, True)
        """
        matrix = require_real(value)
        if np.shape(scores) != matrix.shape:
            raise InputError(f"`scores` must be {matrix.shape} like V, but it is {np.shape(scores)}.")
        return cls(spectrum(matrix), require_real(scores))


SpectralHypothesis = Callable[[Weights], Hypothesis]


def zero(weights: Weights) -> Hypothesis:
    """V = 0."""
    return at_most("V = 0", weights.spectrum.scale, 0.0, "in the largest singular value", "value")


def isotropic(weights: Weights) -> Hypothesis:
    """V = c I for some c."""
    value = weights.spectrum.matrix
    mean = np.trace(value) / len(value)
    distance = float(np.abs(value - mean * np.eye(len(value))).max())
    return at_most("V is a multiple of I", distance, weights.tolerance, "in the largest entry", "isotropy")


def leading_is_positive(weights: Weights) -> Hypothesis:
    """The largest real part of an eigenvalue of V is positive, by more than rounding."""
    real_part = weights.spectrum.leading.value.real
    return above(f"{LEADING} is positive", real_part, weights.tolerance, "in its real part", "value")


def leading_is_negative(weights: Weights) -> Hypothesis:
    """All eigenvalues of V have a negative real part, by more than rounding."""
    real_part = weights.spectrum.leading.value.real
    return above(f"{LEADING} is negative", -real_part, weights.tolerance, "in its real part", "value")


def leading_is_real(weights: Weights) -> Hypothesis:
    """No eigenvalue of largest real part is complex."""
    turning = max(abs(one.value.imag) for one in weights.spectrum.leaders)
    return Hypothesis(f"{LEADING} is real", -turning if turning else np.inf, "in its imaginary part", "value")


def leading_is_simple(weights: Weights) -> Hypothesis:
    """One real eigenvalue of multiplicity one leads.

    The margin is the gap to the next real part; a complex pair misses by its imaginary part, a multiple eigenvalue by
    the number of its copies.
    """
    says, found = f"{LEADING} is real and simple", weights.spectrum
    if not found.is_leading_real:
        return Hypothesis(says, leading_is_real(weights).margin, "in its imaginary part", "value")
    if not found.is_leading_simple:
        return Hypothesis(says, 1.0 - found.leading.multiplicity, "copies", "value")
    return Hypothesis(says, found.gap, "to the next eigenvalue", "value")


def leading_has_no_jordan_block(weights: Weights) -> Hypothesis:
    """V is diagonal on the generalised eigenvectors of its leading eigenvalue."""
    leading = weights.spectrum.leading
    defect = leading.multiplicity - leading.geometric
    return at_most(f"{LEADING} has no Jordan block", defect, 0, "eigenvectors", "value")


def leading_is_multiple(weights: Weights) -> Hypothesis:
    """The leading eigenspace L has dimension two or more."""
    geometric = weights.spectrum.leading.geometric
    return at_most("the leading eigenspace L of V has dimension 2 or more", 2, geometric, "dimensions", "value")


def others_exist(weights: Weights) -> Hypothesis:
    """V has an eigenvalue other than the leading one."""
    others = len(weights.spectrum.matrix) - weights.spectrum.leading.multiplicity
    return above("V has other eigenvalues than the leading one", others, 0, "eigenvalues", "value")


def growing_are_simple(weights: Weights) -> Hypothesis:
    """Every eigenvalue with a positive real part has multiplicity one."""
    found = weights.spectrum
    growing = [one.multiplicity for one in found.eigenvalues if one.value.real > weights.tolerance]
    says = "all eigenvalues of V with a positive real part are simple"
    return at_most(says, max(growing, default=1), 1, "copies", "value")


def leading_dominates(weights: Weights) -> Hypothesis:
    """lambda_1 > |lambda_j| for every other eigenvalue, copies included, which makes lambda_1 real and positive."""
    found = weights.spectrum
    says = f"{LEADING} is real, positive, simple and larger than all others in modulus"
    return above(says, found.dominance, weights.tolerance, "in modulus", "value")


def leading_outgrows(weights: Weights) -> Hypothesis:
    """lambda > |lambda_j| for every eigenvalue with another real part: the spectral radius on G is below lambda."""
    found = weights.spectrum
    says = f"the real part of {LEADING} is positive and larger than the others in modulus"
    gap = found.leading.value.real - found.rest_radius
    return above(says, gap, weights.tolerance, "in modulus", "value")


def complement_is_invariant(weights: Weights) -> Hypothesis:
    """V maps the orthogonal complement of the leading space L into itself."""
    found, inside = weights.spectrum, weights.spectrum.leading_space
    outside = complement(inside)
    leak = float(np.linalg.norm(inside.T @ found.matrix @ outside, 2)) if outside.size else 0.0
    says = "V maps the orthogonal complement of its leading eigenspace into itself"
    return at_most(says, leak, weights.tolerance, "in the norm", "value")


def complement_grows_slower(weights: Weights) -> Hypothesis:
    """<Vz, z> < lambda |z|^2 for every z orthogonal to L; there is no such z where L is the whole space."""
    found, outside = weights.spectrum, complement(weights.spectrum.leading_space)
    largest = -least_of_symmetric_part(-outside.T @ found.matrix @ outside) if outside.size else -np.inf
    gap = found.leading.value.real - largest
    says = "<Vz, z> < lambda |z|^2 for z orthogonal to the leading eigenspace of V"
    return above(says, gap, weights.tolerance, kind="value")


def scores_are_definite(weights: Weights) -> Hypothesis:
    """B is symmetric, and its least eigenvalue is positive by more than rounding."""
    says, scores = "Q^T K is symmetric positive definite", weights.scores
    largest = float(np.abs(scores).max())
    if asymmetry(scores) > SPECTRAL_TOLERANCE * largest:
        return Hypothesis(says, -asymmetry(scores), "of asymmetry", "scores")
    rounding = len(scores) * np.finfo(float).eps * largest
    return above(says, least_of_symmetric_part(scores), rounding, "in the least eigenvalue", "scores")


def leading_direction_attends_to_itself(weights: Weights) -> Hypothesis:
    """<Q phi_1, K phi_1> > 0 for the eigenvector phi_1 of a simple leading eigenvalue."""
    says, found = "<Q phi_1, K phi_1> > 0 for the leading eigenvector phi_1", weights.spectrum
    score = float(found.right @ weights.scores @ found.right) if found.is_leading_simple else np.nan
    return above(says, score, 0.0, kind="scores")


def spaces_are_orthogonal(weights: Weights) -> Hypothesis:
    """<Qf, Kg> = 0 for f in the leading space F and g in the span G of the other generalised eigenvectors."""
    found, scores = weights.spectrum, weights.scores
    others = complement(spectrum(found.matrix.T).leading_space)
    leak = float(np.abs(found.leading_space.T @ scores @ others).max(initial=0.0))
    says = "the spaces F and G of leading and of other generalised eigenvectors of V are orthogonal for Q^T K"
    return at_most(says, leak, SPECTRAL_TOLERANCE * np.abs(scores).max(), "in the largest entry", "scores")


def scores_are_isotropic(weights: Weights) -> Hypothesis:
    """B = b I for some b."""
    multiple = score_multiple(weights)
    distance = float(np.abs(weights.scores - multiple * np.eye(len(weights.scores))).max())
    return at_most(
        "Q^T K is a multiple of I", distance, SPECTRAL_TOLERANCE * abs(multiple), "in the largest entry", "scores"
    )


def score_multiple_at_least(least: float) -> SpectralHypothesis:
    """The hypothesis b >= `least` on B = b I, that is, on beta k for Q^T K = k I."""

    def hypothesis(weights: Weights) -> Hypothesis:
        return at_most(f"Q^T K = k I with beta k >= {least:g}", least, score_multiple(weights), "in beta k", "scores")

    return hypothesis


def score_multiple(weights: Weights) -> float:
    """b of B = b I."""
    return float(np.trace(weights.scores)) / len(weights.scores)
