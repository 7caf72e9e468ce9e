"""Attention in R^d with a general V (arXiv:2305.05465): the coordinates of tokens along left eigenvectors of V."""

import numpy as np
import xarray as xr
from scipy.linalg import null_space

from attnflow.analyse import hyperplanes, polytope
from attnflow.model import values
from attnflow.model.attention import Hardmax, Sinkhorn, Softmax
from attnflow.model.dynamics import AbstractDynamics
from attnflow.theorems import hypotheses as given
from attnflow.theorems.limit_theorems import CODIMENSION_K, HYPERPLANES, POLYTOPE_TIMES_HYPERPLANE
from attnflow.theorems.moving_frame import (
    LIMIT_TOLERANCE,
    accuracy,
    box,
    frame,
    on_whole_runs,
    size_of,
    still_moving,
    with_value,
)
from attnflow.theorems.statement import Statement
from attnflow.theorems.theorem import Theorem
from attnflow.theorems.verdict import Hypothesis, Measurement, at_most

PAPER = "arXiv:2305.05465"
PUBLISHED_HYPERPLANES = np.array([[0.64709742, 0.81911926], [0.61210449, 0.63263484]])
PUBLISHED_CODIMENSION = np.array(
    [[0.92761287, 0.94333073, 0.3827744], [0.94333073, 0.59991396, 0.47825472], [0.3827744, 0.47825472, 0.46668605]]
)


def _not_separated(flow: AbstractDynamics, run: xr.Dataset, codimension: int) -> str:
    """A sentence if the run is too short for attention to separate the leading eigenvalue of V, else nothing.

    Attention selects by phi_1* only once e^{-gap t} is small, gap being the distance of the leading eigenvalue to the
    real part of the next: until then rescaled tokens may rest in more places than in the limit. Coordinates along the
    first `codimension` left eigenvectors converge like e^{-lambda t}, lambda being the least of their eigenvalues.
    """
    parts = np.sort(np.real(np.linalg.eigvals(given.value_matrix(flow))))[::-1]
    below = parts[parts < parts[0] * (1 - given.MATRIX_TOLERANCE)]
    rate = float(min(parts[codimension - 1], parts[0] - below[0] if len(below) else np.inf))
    elapsed = float(run.time.values[-1] - run.time.values[0])
    if np.exp(-rate * elapsed) <= LIMIT_TOLERANCE:
        return ""
    return f"e^(-r t) is {np.exp(-rate * elapsed):.1e} at the end, with the slowest rate r = {rate:.1e} that V gives"


def _coordinates_setting(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    value = given.value_matrix(flow)
    eigenvalues = np.linalg.eigvals(value) if np.all(np.isfinite(value)) else np.array([np.nan])
    reals = np.real(eigenvalues[np.abs(np.imag(eigenvalues)) < given.MATRIX_TOLERANCE])
    largest = float(reals.max()) if len(reals) else np.nan
    return (
        *given.transformer(flow, Softmax, Sinkhorn, Hardmax),
        at_most("V has a real eigenvalue >= 0", 0.0, largest, "in the largest real eigenvalue", "value"),
    )


@on_whole_runs
def _eigen_coordinates(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    z = frame(flow, run)
    eigenvalues, rows = hyperplanes.left_eigenvectors(given.value_matrix(flow))
    coordinates = z @ rows[(np.imag(eigenvalues) == 0) & (np.real(eigenvalues) >= 0)].T
    rises, falls = np.diff(coordinates.max(axis=1), axis=0), np.diff(coordinates.min(axis=1), axis=0)
    size = size_of(z)  # along eigenvalues below zero z grows, and rounding with it
    tolerance, why, unknown = accuracy(run, size)
    value = float(max(rises.max(), -falls.min(), 0.0)) / size
    quantity = "how far an extreme coordinate along a left eigenvector moves outwards, relative,"
    return Measurement(quantity, value, tolerance, why, open=unknown)


@on_whole_runs
def _hyperplanes(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    z = frame(flow, run)
    row = hyperplanes.left_eigenvectors(given.value_matrix(flow)).rows[0]
    coordinate = z @ row
    last = coordinate[-1]
    levels = np.array([min(last.min(), 0.0), 0.0, max(last.max(), 0.0)])
    value = float(np.abs(last[:, None] - levels).min(axis=1).max()) / size_of(last)
    quantity = "the distance of phi_1*(z_i) to the nearest of its least and largest value and 0, relative,"
    text = still_moving(run.time.values, coordinate[..., None])
    early, why = _not_separated(flow, run, 1), "e^{-lambda_1 t} at lambda_1 t = 20"
    return Measurement(quantity, value, LIMIT_TOLERANCE, why, open=early, unsettled=text)


def _eigenspaces(flow: AbstractDynamics) -> tuple[np.ndarray, np.ndarray]:
    """Bases of the leading right and left eigenspaces, as columns and rows."""
    value = given.value_matrix(flow)
    leading = float(np.real(np.linalg.eigvals(value)).max())
    shifted, tolerance = (value - leading * np.eye(len(value))) / np.abs(value).max(), given.MATRIX_TOLERANCE
    return null_space(shifted, rcond=tolerance), null_space(shifted.T, rcond=tolerance).T


@on_whole_runs
def _mixed(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    right, left = _eigenspaces(flow)
    part = frame(flow, run) @ np.linalg.solve(left @ right, left).T
    quantity = f"the distance of the F-parts (dim F = {part.shape[-1]}) to the boundary of their hull or 0, relative,"
    why = "e^{-lambda t} at lambda t = 20"
    if part.shape[-1] > polytope.LARGEST_QHULL_DIMENSION:
        return Measurement(quantity, np.nan, LIMIT_TOLERANCE, why)
    edge = polytope.distance_to_boundary(polytope.limit_vertices(part), part[-1])
    nearest = np.minimum(edge, np.linalg.norm(part[-1], axis=1))
    text, early = still_moving(run.time.values, part), _not_separated(flow, run, part.shape[-1])
    value = float(nearest.max()) / size_of(part[-1])
    return Measurement(quantity, value, LIMIT_TOLERANCE, why, open=early, unsettled=text)


@on_whole_runs
def _codimension(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    value = given.value_matrix(flow)
    codimension = int(np.sum(np.real(hyperplanes.left_eigenvectors(value).eigenvalues) > 0))
    coordinates = hyperplanes.coordinates(frame(flow, run), value, codimension).values
    groups = hyperplanes.groups(coordinates[-1], 0.01 * size_of(coordinates[-1]))
    quantity = f"the number of parallel subspaces of codimension {codimension}"
    text = still_moving(run.time.values, coordinates)
    early, why = _not_separated(flow, run, codimension), "tokens within 1 % of the largest coordinate are together"
    return Measurement(quantity, groups.count, 3.0, why, open=early, unsettled=text)


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        Theorem(
            id="eigen-coordinates",
            paper=f"{PAPER} Lemma on phi_k*",
            says="Along a left eigenvector of V with a real eigenvalue that is not negative, the least coordinate of "
            "the rescaled tokens never falls and the largest never rises.",
            setting=_coordinates_setting,
        ),
        _eigen_coordinates,
        lambda: with_value(PUBLISHED_HYPERPLANES, box(2), 15.0),
        lambda: with_value(values.minus_identity(2), box(2), 2.0),
    ),
    Statement(
        HYPERPLANES,
        _hyperplanes,
        lambda: with_value(PUBLISHED_HYPERPLANES, box(2), 15.0),
        lambda: with_value(values.complex_pair(1.0, 1.0), box(2), 15.0),
    ),
    Statement(
        POLYTOPE_TIMES_HYPERPLANE,
        _mixed,
        lambda: with_value(np.diag([1.0, 1.0, -0.5]), box(3), 20.0),
        lambda: with_value(np.diag([1.0, 1.0, -1.5]), box(3), 2.0),
    ),
    Statement(
        CODIMENSION_K,
        _codimension,
        lambda: with_value(PUBLISHED_CODIMENSION, box(3), 75.0),
        lambda: with_value(values.identity(3), box(3), 20.0),
    ),
)
