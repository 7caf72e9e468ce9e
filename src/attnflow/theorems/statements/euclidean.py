"""Attention in R^d with V = I or V = -I (arXiv:2305.05465): distances, hulls, the limit polytope, decay to zero.

All is measured in the moving frame z = e^{-tV} x, whichever of x and z a run holds. V = c I is V = I or V = -I in units
of time 1/|c|. The case d = 1 is in `line`, a general V in `eigendirections`.
"""

import dataclasses
import itertools

import numpy as np
import xarray as xr
from scipy.linalg import sqrtm
from scipy.spatial.distance import pdist

from attnflow.analyse import attention_matrices, polytope
from attnflow.model import values
from attnflow.model.attention import Hardmax, Sinkhorn, Softmax
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import EuclideanAttention
from attnflow.model.heads import Head
from attnflow.theorems import hypotheses as given
from attnflow.theorems.limit_theorems import MINUS_IDENTITY, POLYTOPE
from attnflow.theorems.moving_frame import (
    LIMIT_TOLERANCE,
    accuracy,
    attention_at,
    box,
    frame,
    instance,
    on_whole_runs,
    plain_tokens,
    size_of,
    still_falling,
    still_moving,
    with_value,
)
from attnflow.theorems.statement import Instance, Statement
from attnflow.theorems.theorem import Theorem
from attnflow.theorems.verdict import Hypothesis, Measurement

PAPER = "arXiv:2305.05465"


# V = I: distances and hulls


def _distances_setting(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    identities = given.scores_are_inner_products(flow), given.value_is(flow), given.beta_at_least(flow, 0.0)
    return (*given.transformer(flow), *identities)


@on_whole_runs
def _distances(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times, z = run.time.values, frame(flow, run)
    apart = np.stack([pdist(one) for one in z])
    # In units of e^t, which may overflow; errors are relative to the tokens, not to their distances.
    sizes = np.abs(z).max(axis=(1, 2))[:-1, None]
    increments = np.exp(np.diff(times))[:, None] * apart[1:] - apart[:-1]
    worst = float(np.min(increments / np.maximum(np.maximum(apart[:-1], sizes), 1e-300)))
    tolerance, why, unknown = accuracy(run, size_of(z))
    return Measurement("the least increment of |x_i - x_j|, relative,", worst, -tolerance, why, "at least", unknown)


def _hull_setting(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    return (*given.transformer(flow, Softmax, Sinkhorn, Hardmax), given.value_is(flow))


@on_whole_runs
def _shrinking_hull(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    z = frame(flow, run)
    # In high dimension finding the vertices costs more than it saves.
    is_low = z.shape[-1] <= polytope.LARGEST_QHULL_DIMENSION
    corners = [one[polytope.vertices(one)] for one in z] if is_low else z
    leaves = [np.max(polytope.distance_to_hull(old, new)) for old, new in itertools.pairwise(corners)]
    tolerance, why, unknown = accuracy(run, size_of(z))
    value = float(np.max(leaves)) / size_of(z)
    return Measurement("how far the hull leaves an earlier one, relative,", value, tolerance, why, open=unknown)


@on_whole_runs
def _polytope(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    z, scores = frame(flow, run), given.score_matrix(flow)
    corners = polytope.limit_vertices(z)
    largest = np.abs(corners @ scores @ corners.T).max() or 1.0
    value = float(polytope.residual_of_s(z[-1:], corners, (scores + scores.T) / 2).max()) / largest
    quantity = f"the largest | |Az|^2 - max_v <Az, Av> | over tokens ({len(corners)} vertices v), relative,"
    moving = still_moving(run.time.values, z, given.growth_rate(flow))
    return Measurement(quantity, value, LIMIT_TOLERANCE, "e^{-ct} at ct = 20", unsettled=moving)


@on_whole_runs
def _rank(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times, z = run.time.values, frame(flow, run)
    index = _last_resolved(flow, times, z)
    corners = polytope.limit_vertices(z)
    rank = int(attention_matrices.rank(attention_at(flow, run, index)))
    quantity = f"the rank of P at t = {times[index]:g}, {rank}, minus the {len(corners)} vertices"
    why, text = "ranks and vertices are whole numbers", f"P could be resolved until t = {times[index]:g} only"
    moving = still_moving(times, z, given.growth_rate(flow))
    return Measurement(quantity, rank - len(corners), 0.0, why, open=text, unsettled=moving)


def _last_resolved(flow: AbstractDynamics, times: np.ndarray, z: np.ndarray) -> int:
    """The index of the last time at which the scores e^{2ct} <z_i, B z_j> are rounded by less than a tenth."""
    scores = np.abs(np.einsum("tni,ij,tmj->tnm", z, given.score_matrix(flow), z)).max(axis=(1, 2))
    log_scores = 2 * given.growth_rate(flow) * times + np.log(np.maximum(scores, 1e-300))
    is_resolved = log_scores < np.log(0.1 / np.finfo(float).eps)
    return int(np.flatnonzero(is_resolved)[-1]) if is_resolved.any() else 0


# V = -I: tokens decay to zero algebraically


@on_whole_runs
def _minus_identity(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times = run.time.values - run.time.values[0]
    x, decay = plain_tokens(flow, run), -given.growth_rate(flow)
    # y = B^{1/2} x obeys the equation with B = I: Cov(y) = I / (2ct) to leading order.
    root = np.real(sqrtm(given.score_matrix(flow)))

    def missed(index):
        covariance = root @ np.atleast_2d(np.cov(x[index].T, bias=True)) @ root
        matrix = attention_at(flow, run, index)
        uniform = len(matrix) * np.abs(matrix - 1 / len(matrix)).max()
        shape = np.abs(2 * decay * times[index] * covariance - np.eye(flow.dimension)).max()
        return float(max(shape, uniform))

    quantity = "the larger of |2ct B^{1/2} Cov(x) B^{1/2} - I|, B = beta Q^T K, V = -c I, and n |P - 1/n|"
    text = still_falling(run.time.values, missed)
    return Measurement(quantity, missed(len(times) - 1), 0.02, "both fall like 1/t; ct = 1000", open=text)


# Examples


def _with_scores(scores: np.ndarray) -> Instance:
    return instance(Head.bilinear(scores, np.eye(len(scores))), box(len(scores)), 20.0)


def _slow(value: np.ndarray) -> Instance:
    flow = EuclideanAttention(Head.bilinear(np.eye(len(value)), value))
    return Instance(flow, box(len(value)), np.r_[0.0, np.geomspace(0.1, 1000.0, 40)])


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        Theorem(
            id="growing-distances",
            paper=f"{PAPER} Lemma on distances",
            says="With V = Q^T K = I the distance of any two tokens never decreases.",
            setting=_distances_setting,
            start=lambda _, tokens: (given.at_least_two_tokens(tokens),),
        ),
        _distances,
        lambda: with_value(values.identity(2), box(2), 20.0),
        lambda: with_value(values.minus_identity(2), box(2), 2.0),
    ),
    Statement(
        Theorem(
            id="shrinking-hull",
            paper=f"{PAPER} Lemma on convex hulls",
            says="With V = I the convex hull of the rescaled tokens never grows, whatever Q and K are.",
            setting=_hull_setting,
        ),
        _shrinking_hull,
        lambda: with_value(values.identity(2), box(2), 20.0),
        lambda: with_value(np.diag([1.0, -0.5]), box(2), 5.0),
    ),
    Statement(
        POLYTOPE,
        _polytope,
        lambda: with_value(values.identity(2), box(2), 20.0),
        lambda: _with_scores(np.diag([1.0, -1.0])),
    ),
    Statement(
        dataclasses.replace(
            POLYTOPE,
            id="rank-bound",
            says="With V = I and Q^T K positive definite the rank of the limit of the attention matrix is at most the "
            "number of vertices of the limit polytope.",
        ),
        _rank,
        lambda: with_value(values.identity(2), box(2), 20.0),
        lambda: _with_scores(np.diag([1.0, -1.0])),
    ),
    Statement(
        MINUS_IDENTITY,
        _minus_identity,
        lambda: _slow(values.minus_identity(2)),
        lambda: with_value(values.identity(2), box(2), 2.0),
    ),
)
