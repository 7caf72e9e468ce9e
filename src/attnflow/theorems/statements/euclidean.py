"""Attention in R^d: what arXiv:2305.05465 says of tokens, of their hull and of the attention matrix.

Everything is measured in the moving frame z = e^{-tV} x, whichever of the two a run holds. Statements about
a general V are in `eigendirections`.
"""

import itertools

import numpy as np
from scipy.spatial.distance import pdist
from scipy.special import lambertw

from attnflow.analyse import attention_matrices, leaders, polytope
from attnflow.model import initial, values
from attnflow.model.attention import Hardmax, Sinkhorn, Softmax
from attnflow.model.flows import EuclideanAttention
from attnflow.model.heads import Head
from attnflow.theorems import hypotheses as given
from attnflow.theorems.moving_frame import (
    SETTLED,
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
    transformer,
    with_value,
)
from attnflow.theorems.statement import Instance, Statement
from attnflow.theorems.statements import eigendirections
from attnflow.theorems.verdict import Measurement, above, at_most

PAPER = "arXiv:2305.05465"
BOOLEAN = 1e-8


# V = I: distances and hulls.


def _distances_hypotheses(flow, tokens):
    alike = (given.scores_are_inner_products(flow), given.value_is(flow), given.beta_at_least(flow, 0.0))
    return (*transformer(flow), given.at_least_two_tokens(tokens), *alike)


@on_whole_runs
def _distances(flow, run):
    times, z = run.time.values, frame(flow, run)
    apart = np.stack([pdist(one) for one in z])
    # In units of e^t, which may overflow; errors are relative to the tokens, not to their distances.
    sizes = np.abs(z).max(axis=(1, 2))[:-1, None]
    increments = np.exp(np.diff(times))[:, None] * apart[1:] - apart[:-1]
    worst = float(np.min(increments / np.maximum(np.maximum(apart[:-1], sizes), 1e-300)))
    tolerance, why, unknown = accuracy(run, size_of(z))
    return Measurement("the least increment of |x_i - x_j|, relative,", worst, -tolerance, why, "at least", unknown)


def _hull_hypotheses(flow, tokens):
    del tokens
    return (*transformer(flow, Softmax, Sinkhorn, Hardmax), given.value_is(flow))


@on_whole_runs
def _shrinking_hull(flow, run):
    z = frame(flow, run)
    # In high dimension finding the vertices costs more than it saves.
    is_low = z.shape[-1] <= polytope.LARGEST_QHULL_DIMENSION
    corners = [one[polytope.vertices(one)] for one in z] if is_low else z
    leaves = [np.max(polytope.distance_to_hull(old, new)) for old, new in itertools.pairwise(corners)]
    tolerance, why, unknown = accuracy(run, size_of(z))
    value = float(np.max(leaves)) / size_of(z)
    return Measurement("how far the hull leaves an earlier one, relative,", value, tolerance, why, open=unknown)


def _polytope_hypotheses(flow, tokens):
    del tokens
    return (*transformer(flow), given.value_is(flow), given.scores_are_symmetric_positive(flow))


@on_whole_runs
def _polytope(flow, run):
    z, scores = frame(flow, run), given.score_matrix(flow)
    corners = polytope.limit_vertices(z)
    largest = np.abs(corners @ scores @ corners.T).max() or 1.0
    value = float(polytope.residual_of_s(z[-1:], corners, (scores + scores.T) / 2).max()) / largest
    quantity = f"the largest | |Az|^2 - max_v <Az, Av> | over tokens ({len(corners)} vertices v), relative,"
    return Measurement(quantity, value, SETTLED, "e^{-t} at t = 20", unsettled=still_moving(run.time.values, z))


@on_whole_runs
def _rank(flow, run):
    times, z = run.time.values, frame(flow, run)
    index = _last_resolved(flow, times, z)
    corners = polytope.limit_vertices(z)
    found = int(attention_matrices.rank(attention_at(flow, run, index)))
    quantity = f"the rank of P at t = {times[index]:g}, {found}, minus the {len(corners)} vertices"
    why, text = "ranks and vertices are whole numbers", f"P could be resolved until t = {times[index]:g} only"
    return Measurement(quantity, found - len(corners), 0.0, why, open=text, unsettled=still_moving(times, z))


def _last_resolved(flow, times, z):
    """The last time at which rounding of the scores e^{2t} <Az_i, Az_j> is below a tenth; later rows are chance."""
    scores = np.abs(np.einsum("tni,ij,tmj->tnm", z, given.score_matrix(flow), z)).max(axis=(1, 2))
    is_resolved = 2 * times + np.log(np.maximum(scores, 1e-300)) < np.log(0.1 / np.finfo(float).eps)
    return int(np.flatnonzero(is_resolved)[-1]) if is_resolved.any() else 0


# d = 1: the attention matrix becomes Boolean.


def _line_hypotheses(flow, tokens):
    number = lambda matrix: float(matrix[0, 0]) if matrix.shape == (1, 1) else np.nan
    return (
        *transformer(flow),
        at_most("d = 1", flow.dimension, 1, "dimensions"),
        above("V > 0", number(given.value_matrix(flow)), 0.0),
        above("Q K > 0", number(given.score_matrix(flow)), 0.0),
        given.distinct(tokens),
    )


@on_whole_runs
def _boolean_limit(flow, run):
    extremes = leaders.extremes(run.initial_tokens.values[None]).values[0]

    def missed(index):
        """Weight off the better of the two leaders, of all rows but the worst (which may be the exceptional one)."""
        matrix = attention_at(flow, run, index)
        off = [np.delete(matrix, leader, axis=1).sum(axis=1) for leader in extremes]
        rows = np.sort(np.min(off, axis=0))
        return float(rows[-2] if len(rows) > 2 else rows[-1])

    value = missed(len(run.time) - 1)
    is_boolean = attention_matrices.distance_to_boolean(attention_at(flow, run, -1)) <= BOOLEAN
    text = "" if is_boolean else still_falling(run.time.values, missed) or "P is not Boolean yet"
    quantity = f"the weight off tokens {extremes[0]} and {extremes[1]} in all rows of P but one"
    return Measurement(quantity, value, BOOLEAN, "1 - P falls below rounding by t = 12", open=text)


@on_whole_runs
def _boolean_rate(flow, run):
    growth = float(given.value_matrix(flow)[0, 0])
    times, z = run.time.values, frame(flow, run)[..., 0]
    why, quantity = "the slope is exact up to e^{-t}", "the slope of log(-log(1 - P)) in units of V, minus one, in size"
    slopes, depths, transients = [], [], []
    for row in set(leaders.extremes(run.initial_tokens.values[None]).values[0]):
        moments, log_missing = _log_missing(flow, times, z, row)
        if len(moments) < 5:
            few = f"only {len(moments)} of the saved times resolve 1 - P"
            return Measurement(quantity, np.inf, 0.01, why, open=few)
        slopes.append(attention_matrices.doubly_exponential_rate(moments, log_missing).slope)
        depths.append(-log_missing[-1])
        # A row moves towards its leader like e^{-Vt}, and so does its slope towards one.
        first = int(np.searchsorted(times, moments[0]))
        transients.append(np.exp(growth * (times[0] - times[first])) * size_of(z) / abs(z[first, row]))
    value = float(np.abs(np.array(slopes) / growth - 1).max())
    is_late = min(depths) > 1e3 and max(transients) < 0.005
    text = "" if is_late else f"at t = {times[-1]:g} (1 - P = e^-{min(depths):.3g}) transients are not over"
    return Measurement(quantity, value, 0.01, why, open=text)


def _log_missing(flow, times, z, row):
    """Late times, and log(1 - P) of a row's best column there, from scores; one minus a float would be 0.

    A time counts if the runner-up is further from the best than solver errors, and of those the second half.
    """
    value, scale = float(given.value_matrix(flow)[0, 0]), float(given.score_matrix(flow)[0, 0])
    best = int(np.argmax(z[-1, row] * z[-1]))
    gaps = np.abs(np.delete(z, best, axis=1) - z[:, [best]]).min(axis=1)
    is_resolved = (gaps > 1e-6 * np.abs(z).max(axis=1)) & (2 * value * times < 600)
    scores = scale * np.exp(2 * value * times[is_resolved])[:, None] * z[is_resolved, row, None] * z[is_resolved]
    missing = attention_matrices.log_of_missing_weight(scores)[:, best]
    late = len(missing) // 2
    return times[is_resolved][late:], missing[late:]


# On the line: who is far out goes farther.


def escape_length(n: int) -> float:
    """A > 0 with A^2 = n^2 e^{-A^2}.

    Examples
    --------
    >>> length = escape_length(10)
    >>> bool(abs(length**2 - 100 * np.exp(-(length**2))) < 1e-12)
    True
    """
    return float(np.sqrt(np.real(lambertw(float(n) ** 2))))


def _escape_hypotheses(flow, tokens):
    far = float(np.abs(tokens).max()) - escape_length(len(tokens))
    return (
        *transformer(flow),
        at_most("d = 1", flow.dimension, 1, "dimensions"),
        given.value_is(flow),
        at_most("beta Q K = 1", float(np.abs(given.score_matrix(flow) - 1).max()), given.SAME, "in the score"),
        above("some token is beyond A", far, 0.0, "in its distance"),
    )


@on_whole_runs
def _escape(flow, run):
    x = plain_tokens(flow, run)[..., 0]
    outside = np.abs(x[0]) > escape_length(x.shape[1])
    growth = np.diff(np.sign(x[0, outside]) * x[:, outside], axis=0) / np.abs(x[:-1, outside])
    tolerance, why, unknown = accuracy(run, 1.0)
    quantity = f"the least relative growth of the {outside.sum()} tokens beyond A between saved times"
    return Measurement(quantity, float(growth.min()), -tolerance, why, "at least", unknown)


# V = -I: tokens go to zero, slowly.


def _minus_hypotheses(flow, tokens):
    return (
        *transformer(flow),
        given.value_is(flow, -1.0),
        given.scores_are_inner_products(flow),
        above("beta > 0", given.beta_of(flow), 0.0),
        given.filling(tokens),
    )


@on_whole_runs
def _minus_identity(flow, run):
    times = run.time.values - run.time.values[0]
    x = plain_tokens(flow, run)

    def missed(index):
        covariance = np.atleast_2d(np.cov(x[index].T, bias=True))
        matrix = attention_at(flow, run, index)
        uniform = len(matrix) * np.abs(matrix - 1 / len(matrix)).max()
        shape = np.abs(2 * given.beta_of(flow) * times[index] * covariance - np.eye(flow.dimension)).max()
        return float(max(shape, uniform))

    quantity = "the larger of |2 beta t Cov(x) - I| and n |P - 1/n|"
    text = still_falling(run.time.values, missed)
    return Measurement(quantity, missed(len(times) - 1), 0.02, "both fall like 1/t; t = 1000", open=text)


def _with_scores(scores: np.ndarray) -> Instance:
    return instance(Head.bilinear(scores, np.eye(len(scores))), box(len(scores)), 20.0)


def _line(value: float) -> Instance:
    return with_value(np.array([[value]]), initial.box(20, 1, -1.0, 1.0, rng=0), 12.0)


def _slow(value: np.ndarray) -> Instance:
    flow = EuclideanAttention(Head.bilinear(np.eye(len(value)), value))
    return Instance(flow, box(len(value)), np.r_[0.0, np.geomspace(0.1, 1000.0, 40)])


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "growing-distances",
        f"{PAPER} Lemma on distances",
        "With V = Q^T K = I the distance of any two tokens never shrinks.",
        _distances_hypotheses,
        _distances,
        lambda: with_value(values.identity(2), box(2), 20.0),
        lambda: with_value(values.minus_identity(2), box(2), 2.0),
    ),
    Statement(
        "boolean-limit",
        f"{PAPER} Theorem 2.1",
        "On the line the attention matrix becomes Boolean: every row but at most one ends on the least or the greatest "
        "first token.",
        _line_hypotheses,
        _boolean_limit,
        lambda: _line(1.0),
        lambda: _line(-1.0),
    ),
    Statement(
        "boolean-rate",
        f"{PAPER} Theorem 2.1",
        "On the line the rows of the attention matrix reach their limits doubly exponentially: 1 - P ~ exp(-c e^{Vt}).",
        lambda flow, tokens: (*_line_hypotheses(flow, tokens), given.at_least_two_tokens(tokens)),
        _boolean_rate,
        lambda: _line(1.0),
        lambda: _line(-1.0),
    ),
    Statement(
        "shrinking-hull",
        f"{PAPER} Lemma on convex hulls",
        "With V = I the convex hull of the rescaled tokens never grows, whatever Q and K are.",
        _hull_hypotheses,
        _shrinking_hull,
        lambda: with_value(values.identity(2), box(2), 20.0),
        lambda: with_value(np.diag([1.0, -0.5]), box(2), 5.0),
    ),
    Statement(
        "polytope",
        f"{PAPER} Theorem 3.1",
        "With V = I and Q^T K positive definite the rescaled tokens end in the finite set S of a polytope: its "
        "vertices, some points of its faces, and 0.",
        _polytope_hypotheses,
        _polytope,
        lambda: with_value(values.identity(2), box(2), 20.0),
        lambda: _with_scores(np.diag([1.0, -1.0])),
    ),
    Statement(
        "rank-bound",
        f"{PAPER} Theorem 3.1",
        "With V = I and Q^T K positive definite the limit of the attention matrix has at most the rank that the limit "
        "polytope has vertices.",
        _polytope_hypotheses,
        _rank,
        lambda: with_value(values.identity(2), box(2), 20.0),
        lambda: _with_scores(np.diag([1.0, -1.0])),
    ),
    Statement(
        "escaping-tokens",
        f"{PAPER}, the constant A of the case d = 1",
        "On the line a token farther from 0 than A, A^2 = n^2 e^{-A^2}, moves away from 0 for ever.",
        _escape_hypotheses,
        _escape,
        lambda: with_value(np.eye(1), initial.box(12, 1, rng=0), 5.0),
        lambda: with_value(np.eye(1), initial.box(12, 1, -1.0, 1.0, rng=0), 5.0),
    ),
    *eigendirections.STATEMENTS,
    Statement(
        "minus-identity",
        f"{PAPER} case V = -I",
        "With V = -I all tokens go to 0, but only algebraically: their covariance is I/(2 beta t) in the long run, and "
        "all attention weights become equal.",
        _minus_hypotheses,
        _minus_identity,
        lambda: _slow(values.minus_identity(2)),
        lambda: with_value(values.identity(2), box(2), 2.0),
    ),
)
