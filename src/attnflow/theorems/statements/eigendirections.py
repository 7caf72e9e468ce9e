"""Attention in R^d with a general V: what arXiv:2305.05465 says of coordinates along left eigenvectors."""

import numpy as np
from scipy.linalg import null_space

from attnflow.analyse import hyperplanes, polytope
from attnflow.model import values
from attnflow.model.attention import Hardmax, Sinkhorn, Softmax
from attnflow.theorems import hypotheses as given
from attnflow.theorems.moving_frame import (
    SETTLED,
    accuracy,
    box,
    frame,
    on_whole_runs,
    size_of,
    still_moving,
    transformer,
    with_value,
)
from attnflow.theorems.statement import Statement
from attnflow.theorems.verdict import Measurement, above, at_most, is_true

PAPER = "arXiv:2305.05465"
PUBLISHED_HYPERPLANES = np.array([[0.64709742, 0.81911926], [0.61210449, 0.63263484]])
PUBLISHED_CODIMENSION = np.array(
    [[0.92761287, 0.94333073, 0.3827744], [0.94333073, 0.59991396, 0.47825472], [0.3827744, 0.47825472, 0.46668605]]
)


def _spectrum_hypotheses(flow, tokens):
    del tokens
    value = given.value_matrix(flow)
    eigenvalues = np.linalg.eigvals(value) if np.all(np.isfinite(value)) else np.array([np.nan])
    reals = np.real(eigenvalues[np.abs(np.imag(eigenvalues)) < given.SAME])
    largest = float(reals.max()) if len(reals) else np.nan
    return (
        *transformer(flow, Softmax, Sinkhorn, Hardmax),
        at_most("V has a real eigenvalue >= 0", 0.0, largest, "in the largest one"),
    )


@on_whole_runs
def _eigen_coordinates(flow, run):
    z = frame(flow, run)
    eigenvalues, rows = hyperplanes.left_eigenvectors(given.value_matrix(flow))
    chosen = rows[(np.imag(eigenvalues) == 0) & (np.real(eigenvalues) >= 0)]
    found = z @ chosen.T
    rises, falls = np.diff(found.max(axis=1), axis=0), np.diff(found.min(axis=1), axis=0)
    size = size_of(z)  # directions of negative eigenvalues grow, and rounding with them
    tolerance, why, unknown = accuracy(run, size)
    value = float(max(rises.max(), -falls.min(), 0.0)) / size
    quantity = "how far an extreme coordinate along a left eigenvector moves outwards, relative,"
    return Measurement(quantity, value, tolerance, why, open=unknown)


def _leading(flow):
    """The eigenvalue of largest real part, its right eigenvector, and the largest modulus of the others."""
    eigenvalues, vectors = np.linalg.eig(given.value_matrix(flow))
    first = int(np.argmax(np.real(eigenvalues)))
    rest = np.abs(np.delete(eigenvalues, first))
    return float(np.real(eigenvalues[first])), np.real(vectors[:, first]), float(rest.max()) if len(rest) else 0.0


def _hyperplanes_hypotheses(flow, tokens):
    del tokens
    setting = transformer(flow)
    if not all(one.holds for one in setting):
        return setting
    largest, vector, rest = _leading(flow)
    score = float(vector @ given.score_matrix(flow) @ vector)
    return (
        *setting,
        above("lambda_1 > 0", largest, 0.0),
        above("lambda_1 real, simple and larger than |lambda_j|", largest - rest, given.SAME, "in the gap"),
        above("<Q phi_1, K phi_1> > 0", score, 0.0),
    )


@on_whole_runs
def _hyperplanes(flow, run):
    z = frame(flow, run)
    row = hyperplanes.left_eigenvectors(given.value_matrix(flow)).rows[0]
    found = z @ row
    levels = np.array([min(found[-1].min(), 0.0), 0.0, max(found[-1].max(), 0.0)])
    value = float(np.abs(found[-1][:, None] - levels).min(axis=1).max()) / size_of(found[-1])
    quantity = "the distance of phi_1*(z_i) to the nearest of its least and largest value and 0, relative,"
    text = still_moving(run.time.values, found[..., None])
    return Measurement(quantity, value, SETTLED, "e^{-lambda_1 t} at lambda_1 t = 20", unsettled=text)


def _eigenspaces(flow):
    """Bases of the leading right and left eigenspaces, as columns and rows."""
    value = given.value_matrix(flow)
    shifted = (value - _leading(flow)[0] * np.eye(len(value))) / np.abs(value).max()
    return null_space(shifted, rcond=given.SAME), null_space(shifted.T, rcond=given.SAME).T


def _mixed_hypotheses(flow, tokens):
    del tokens
    setting = (*transformer(flow), given.scores_are_symmetric_positive(flow))
    if not all(one.holds for one in setting) or _leading(flow)[0] <= 0:
        return (*setting, is_true("lambda > 0", False))
    largest = _leading(flow)[0]
    right, left = _eigenspaces(flow)
    eigenvalues = np.linalg.eigvals(given.value_matrix(flow))
    others_of_value = eigenvalues[np.argsort(np.abs(eigenvalues - largest))][right.shape[1] :]
    rest = float(np.abs(others_of_value).max(initial=0.0))
    scores, others = given.score_matrix(flow), null_space(left)
    mixing = float(np.abs(right.T @ scores @ others).max(initial=0.0)) / np.abs(scores).max()
    return (
        *setting,
        # A block on F that is not lambda I leaves an eigenvalue of modulus lambda among the others.
        above("V = lambda I on F, and spectral radius below lambda on G", largest - rest, given.SAME, "in the gap"),
        # The published proof needs this; without it the statement is open.
        at_most("F and G orthogonal for Q^T K", mixing, given.SAME, "in the largest entry"),
    )


@on_whole_runs
def _mixed(flow, run):
    right, left = _eigenspaces(flow)
    part = frame(flow, run) @ np.linalg.solve(left @ right, left).T
    quantity = f"the distance of the F-parts (dim F = {part.shape[-1]}) to the boundary of their hull or 0, relative,"
    why = "e^{-lambda t} at lambda t = 20"
    if part.shape[-1] > polytope.LARGEST_QHULL_DIMENSION:
        return Measurement(quantity, np.nan, SETTLED, why)
    edge = polytope.distance_to_boundary(polytope.limit_vertices(part), part[-1])
    nearest = np.minimum(edge, np.linalg.norm(part[-1], axis=1))
    text = still_moving(run.time.values, part)
    return Measurement(quantity, float(nearest.max()) / size_of(part[-1]), SETTLED, why, unsettled=text)


def _codimension_hypotheses(flow, tokens):
    del tokens
    setting = transformer(flow)
    if not all(one.holds for one in setting):
        return setting
    eigenvalues = np.linalg.eigvals(given.value_matrix(flow))
    apart = np.abs(eigenvalues[:, None] - eigenvalues) + np.diag(np.full(len(eigenvalues), np.inf))
    return (
        *setting,
        above("V has an eigenvalue of positive real part", float(eigenvalues.real.max()), 0.0),
        # Without it V = I, whose tokens end at the vertices of any polytope, would be a counterexample.
        above("simple eigenvalues", float(apart.min()), 1e-6, "between the closest two"),
    )


@on_whole_runs
def _codimension(flow, run):
    value = given.value_matrix(flow)
    codimension = int(np.sum(np.real(hyperplanes.left_eigenvectors(value).eigenvalues) > 0))
    found = hyperplanes.coordinates(frame(flow, run), value, codimension).values
    groups = hyperplanes.groups(found[-1], 0.01 * size_of(found[-1]))
    quantity = f"the number of parallel subspaces of codimension {codimension}"
    text = still_moving(run.time.values, found)
    return Measurement(
        quantity, groups.count, 3.0, "tokens within 1 % of the largest coordinate are together", unsettled=text
    )


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "eigen-coordinates",
        f"{PAPER} Lemma on phi_k*",
        "Along a left eigenvector of V with a real eigenvalue that is not negative, the least coordinate of the "
        "rescaled tokens never falls and the largest never rises.",
        _spectrum_hypotheses,
        _eigen_coordinates,
        lambda: with_value(PUBLISHED_HYPERPLANES, box(2), 15.0),
        lambda: with_value(values.minus_identity(2), box(2), 2.0),
    ),
    Statement(
        "hyperplanes",
        f"{PAPER} Theorem 4.2",
        "If the leading eigenvalue of V is real, positive and simple, the rescaled tokens gather on at most three "
        "parallel hyperplanes, one of them through the origin.",
        _hyperplanes_hypotheses,
        _hyperplanes,
        lambda: with_value(PUBLISHED_HYPERPLANES, box(2), 15.0),
        lambda: with_value(values.complex_pair(1.0, 1.0), box(2), 15.0),
    ),
    Statement(
        "polytope-times-hyperplane",
        f"{PAPER} Theorem 5 (mixed case)",
        "If V is lambda times the identity on F and smaller on G, the F-parts of the rescaled tokens end on the "
        "boundary of a polytope or at 0, whatever their G-parts do.",
        _mixed_hypotheses,
        _mixed,
        lambda: with_value(np.diag([1.0, 1.0, -0.5]), box(3), 20.0),
        lambda: with_value(np.diag([1.0, 1.0, -1.5]), box(3), 2.0),
    ),
    Statement(
        "codimension-k",
        f"{PAPER} codimension conjecture",
        "If k eigenvalues of V (all simple) have a positive real part, the rescaled tokens gather on at most three "
        "parallel affine subspaces of codimension k, whatever Q and K are.",
        _codimension_hypotheses,
        _codimension,
        lambda: with_value(PUBLISHED_CODIMENSION, box(3), 75.0),
        lambda: with_value(values.identity(3), box(3), 20.0),
        proved=False,
    ),
)
