"""What the theorems ask of the value matrix V and of B = Q^T K, each with a margin. Plain matrices in."""

from typing import Any, Literal, NamedTuple

import numpy as np

from attnflow._common.checks import InputError
from attnflow.analyse.spectra import (
    SAME,
    Spectrum,
    asymmetry,
    complement,
    least_of_symmetric_part,
    require_real,
    spectrum,
)


class Condition(NamedTuple):
    """One thing a theorem asks of the matrices."""

    says: str
    margin: float
    """Above zero where it is met; below, by how much it is missed."""
    unit: str = ""
    matrix: Literal["V", "Q^T K"] = "V"
    """Which matrix it is about."""


def hypotheses_met(value: Any, query_key: Any) -> dict[str, tuple[Condition, ...]]:
    """What each theorem asks of V and Q^T K, with margins; it is met where all margins are above zero.

    V = lambda I with lambda > 0 counts as V = I, since that only changes the unit of time. V may
    be given by its `spectrum`.

    Examples
    --------
    >>> met = hypotheses_met(np.diag([2.0, 1.0]), np.eye(2))
    >>> [name for name, conditions in met.items() if all(one.margin > 0 for one in conditions)]
    ['hyperplanes', 'codimension-k', 'conjecture-1']
    """
    found, scores = value if isinstance(value, Spectrum) else spectrum(value), require_real(query_key)
    if scores.shape != found.matrix.shape:
        raise InputError(f"`query_key` must be {found.matrix.shape} like V, but it is {scores.shape}.")
    multiple, positive, negative = _is_multiple(found), _sign(found, 1), _sign(found, -1)
    definite, identity = _is_definite(scores), _is_identity(scores)
    real, simple, repeated = _is_real(found), _is_simple(found), _is_repeated(found)
    mixed = (real, positive, repeated, _is_proper(found), _outgrows(found), definite)
    return {
        "zero-value": (Condition("V = 0", np.nextafter(0, 1) - found.scale, "in the largest singular value"),),
        "polytope": (multiple, positive, definite),
        "minus-identity": (multiple, negative, definite),
        "hyperplanes": (real, _dominates(found), positive, _sees_itself(found, scores)),
        "polytope-times-hyperplane": (*mixed, _respects(found, scores)),
        "polytope-times-hyperplane-general": mixed,
        "codimension-k": (simple, positive, _growing_are_simple(found)),
        "identity-value": (multiple, positive),
        "single-cluster": (multiple, positive, identity),
        "conjecture-1": (simple, positive, *_splits(found), identity),
        "conjecture-2": (real, positive, repeated, _is_proper(found), *_splits(found)),
        "table-1-cloud": (real, negative, repeated, identity),
        "table-1-two-clouds": (simple, negative, identity),
    }


def _is_multiple(found: Spectrum) -> Condition:
    mean = np.trace(found.matrix) / len(found.matrix)
    distance = np.abs(found.matrix - mean * np.eye(len(found.matrix))).max()
    return Condition("V is a multiple of I", _at_most(distance, SAME * found.scale), "in the largest entry")


def _sign(found: Spectrum, sign: int) -> Condition:
    says = "positive" if sign > 0 else "negative"
    margin = _above(sign * found.leading.value.real, found.scale)
    return Condition(f"the leading eigenvalue is {says}", margin, "in its real part")


def _is_real(found: Spectrum) -> Condition:
    turning = max(abs(one.value.imag) for one in found.leaders)
    return Condition("the leading eigenvalue is real", -turning if turning else np.inf, "in its imaginary part")


def _is_simple(found: Spectrum) -> Condition:
    """The gap to the next eigenvalue; a complex pair misses by its imaginary part, a multiple one by its copies."""
    says = "the leading eigenvalue is real and simple"
    if not found.is_leading_real:
        return Condition(says, _is_real(found).margin, "in its imaginary part")
    if not found.is_leading_simple:
        return Condition(says, 1.0 - found.leading.multiplicity, "copies")
    return Condition(says, found.gap, "to the next eigenvalue")


def _growing_are_simple(found: Spectrum) -> Condition:
    copies = max((one.multiplicity for one in found.eigenvalues if one.value.real > SAME * found.scale), default=1)
    return Condition("all eigenvalues with a positive real part are simple", _at_most(copies, 1), "copies")


def _is_repeated(found: Spectrum) -> Condition:
    says = "the leading eigenvalue has two or more independent eigenvectors and no Jordan block"
    defect = found.leading.multiplicity - found.leading.geometric
    return Condition(says, _at_most(2, found.leading.geometric) if defect == 0 else -defect, "eigenvectors")


def _is_proper(found: Spectrum) -> Condition:
    return Condition("V is not a multiple of I", len(found.matrix) - found.leading.multiplicity, "other eigenvalues")


def _dominates(found: Spectrum) -> Condition:
    return Condition(
        "it is simple and larger than all others in modulus", _above(found.dominance, found.scale), "in modulus"
    )


def _outgrows(found: Spectrum) -> Condition:
    margin = _above(found.leading.value.real - found.rest_radius, found.scale)
    return Condition("it is larger than the others in modulus", margin, "in modulus")


def _sees_itself(found: Spectrum, scores: np.ndarray) -> Condition:
    says = "<Q phi_1, K phi_1> > 0 for the leading eigenvector phi_1"
    margin = float(found.right @ scores @ found.right) if found.is_leading_simple else np.nan
    return Condition(says, margin, "", "Q^T K")


def _is_definite(scores: np.ndarray) -> Condition:
    says = "Q^T K is symmetric positive definite"
    if asymmetry(scores) > SAME * np.abs(scores).max():
        return Condition(says, -asymmetry(scores), "of asymmetry", "Q^T K")
    return Condition(says, least_of_symmetric_part(scores), "in the least eigenvalue", "Q^T K")


def _respects(found: Spectrum, scores: np.ndarray) -> Condition:
    """<Qf, Kg> = 0 between the leading space F and the span G of the other generalised eigenvectors."""
    others = complement(spectrum(found.matrix.T).leading_space)
    leak = float(np.abs(found.leading_space.T @ scores @ others).max(initial=0.0))
    margin = _at_most(leak, SAME * np.abs(scores).max())
    return Condition("Q^T K does not mix F and G", margin, "in the largest entry", "Q^T K")


def _is_identity(scores: np.ndarray) -> Condition:
    mean = np.trace(scores) / len(scores)
    distance = np.abs(scores - mean * np.eye(len(scores))).max()
    says = "Q^T K is a multiple of I, not a negative one"
    margin = min(_at_most(distance, SAME * abs(mean)), _at_most(0.0, mean))
    return Condition(says, margin, "in the largest entry", "Q^T K")


def _splits(found: Spectrum) -> tuple[Condition, Condition]:
    """V respects the complement of the leading space L, and pulls less there than lambda."""
    inside = found.leading_space
    outside = complement(inside)
    leak = float(np.linalg.norm(inside.T @ found.matrix @ outside, 2)) if outside.size else 0.0
    pull = -least_of_symmetric_part(-outside.T @ found.matrix @ outside) if outside.size else np.nan
    margin = _above(found.leading.value.real - pull, found.scale)
    return (
        Condition("V maps the complement of L into itself", _at_most(leak, SAME * found.scale), "in the norm"),
        Condition("<Vz, z> < lambda |z|^2 on the complement of L", margin),
    )


def _above(value: float, scale: float) -> float:
    """Margin of value > 0, what rounding makes of zero not being met."""
    return float(value - SAME * scale)


def _at_most(value: float, limit: float) -> float:
    """Margin of value <= limit, equality being met."""
    return float(np.nextafter(limit - value, np.inf))
