"""Hardmax attention in R^d with V = c I: leaders, limits of tokens, and the Frank-Wolfe formula.

In the frame of z each token moves straight towards its best match y_i (the mean of its best matches), in
continuous time z_i' = c (y_i - z_i) (arXiv:2508.09628) and in layers z_i <- (1 - gamma) z_i + gamma y_i
(arXiv:2407.01602, gamma = alpha / (1 + alpha)). Leaders are the tokens that are their own best match.
"""

import dataclasses

import numpy as np
import xarray as xr

from attnflow.analyse import leaders, polytope
from attnflow.analyse.snapshots import tokens_of
from attnflow.model import initial
from attnflow.model.attention import Hardmax
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import EuclideanAttention, RescaledAttention
from attnflow.model.heads import Head
from attnflow.results.provenance import solver_of
from attnflow.solvers.layers import Layers
from attnflow.theorems import hypotheses as given
from attnflow.theorems.limit_theorems import HARDMAX_LIMITS
from attnflow.theorems.moving_frame import (
    LIMIT_TOLERANCE,
    accuracy,
    frame,
    on_whole_runs,
    size_of,
    still_moving,
)
from attnflow.theorems.statement import Instance, Statement
from attnflow.theorems.verdict import Hypothesis, Measurement, above

LEADERS = "arXiv:2407.01602"
FRANK_WOLFE = "arXiv:2508.09628"


def places(flow: AbstractDynamics, run: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Tokens z in the frame where they move towards their best matches, and the share of the first tokens left in them.

    The share is e^{-ct}, or (1 - gamma)^k after k layers. Plain layers x <- r x + h c y are (r + h c)^k z.
    """
    solver, times, growth = solver_of(run), run.time.values - run.time.values[0], given.growth_rate(flow)
    if not isinstance(solver, Layers):
        return frame(flow, run), np.exp(-growth * times)
    step, residual = float(solver.step), float(solver.residual)
    count, stretch = np.round(times / step), residual + growth * step
    frames = np.ones_like(count) if isinstance(flow, RescaledAttention) else stretch**count
    return tokens_of(run).values / frames[:, None, None], (residual / stretch) ** count


@on_whole_runs
def _leaders_stay(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    z, share = places(flow, run)
    scores = given.score_matrix(flow)
    first = leaders.is_leader(z[:1], scores, alone=True).values[0]
    moved = float(np.abs(z[:, first] - z[0, first]).max(initial=0.0)) / size_of(z[0])
    gram = np.einsum("tni,ij,tmj->tnm", z[:, first], scores, z)
    own = np.einsum("tni,ij,tnj->tn", z[:, first], scores, z[:, first])
    behind = float(((gram.max(axis=2) - own) / np.abs(gram).max(axis=2)).max(initial=0.0)) if first.any() else 0.0
    quantity = f"the largest move of the {first.sum()} leaders, or score of another token above theirs, relative,"
    value = max(moved, behind)
    # Followers that tie with their leader in float64 pull it by about the tolerance of ties.
    text = _tie_note(flow, share) if value < 1e-3 else ""
    return Measurement(
        quantity, value, LIMIT_TOLERANCE, "followers tie with their leader within 1e-9 of a score", open=text
    )


@on_whole_runs
def _limits(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    z, _ = places(flow, run)
    scores = given.score_matrix(flow)
    first = z[0, leaders.is_leader(z[:1], scores, alone=True).values[0]]
    if len(first) == 0:
        return Measurement("the measured quantity", np.nan, LIMIT_TOLERANCE, "no first token leads")
    away = polytope.distance_to_s(z[-1:], first).values[0] / size_of(z[0])
    moving = still_moving(run.time.values, z, given.growth_rate(flow))
    text = _elsewhere(z[-1], away > LIMIT_TOLERANCE, scores)
    quantity = f"the distance of the last tokens to the nearest of {len(first)} first leaders, relative,"
    return Measurement(
        quantity, float(away.max()), LIMIT_TOLERANCE, "e^{-ct} at ct = 20 is 2e-9", open=text, unsettled=moving
    )


def _elsewhere(tokens: np.ndarray, is_away: np.ndarray, scores: np.ndarray) -> str:
    """A sentence if all tokens away from first leaders are where the full theorem allows: at new leaders, or in S."""
    tolerance = LIMIT_TOLERANCE * np.abs(tokens @ scores @ tokens.T).max()
    if not is_away.any() or polytope.residual_of_s(tokens[None], None, scores).values[0, is_away].max() > tolerance:
        return ""
    emerged = np.flatnonzero(is_away & leaders.is_leader(tokens[None], scores).values[0])
    if len(emerged):
        count = f"{len(emerged)} of {len(tokens)} tokens rest at such leaders"
        return f"token {emerged[0] + 1} became a leader later ({count})"
    return f"{is_away.sum()} tokens rest on a face of the hull instead of at a vertex"


def _cells(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
    several = (given.distinct(tokens), given.at_least_two_tokens(tokens))
    if not all(one.holds for one in several):
        return several
    gram = tokens @ given.score_matrix(flow) @ tokens.T
    corners = polytope.vertices(tokens)
    sizes, tie = np.abs(gram).max(axis=1), _tie_tolerance(flow)
    others = np.where(np.eye(len(tokens), dtype=bool), -np.inf, gram).max(axis=1)
    ordered = np.sort(gram, axis=1)
    owns = ((np.diag(gram) - others) / sizes)[corners].min()
    unique = ((ordered[:, -1] - ordered[:, -2]) / sizes).min()
    return (
        *several,
        above("every vertex of the hull is its own best match", float(owns), tie, "of a score"),
        above("every token has one best match", float(unique), tie, "of a score"),
    )


def _formula_error(flow: AbstractDynamics, run: xr.Dataset) -> tuple[float, str]:
    """The largest deviation from share * z(0) + (1 - share) * (first best match) over the size of the tokens."""
    z, share = places(flow, run)
    best = z[0, np.argmax(z[0] @ given.score_matrix(flow) @ z[0].T, axis=1)]
    predicted = share[:, None, None] * z[0] + (1 - share)[:, None, None] * best
    return float(np.abs(z - predicted).max()) / size_of(z[0]), _tie_note(flow, share)


def _tie_tolerance(flow: AbstractDynamics) -> float:
    return float(flow.attention.tolerance) if isinstance(flow.attention, Hardmax) else 0.0


def _tie_note(flow: AbstractDynamics, share: np.ndarray) -> str:
    tolerance = _tie_tolerance(flow)
    if share[-1] > 1e3 * tolerance:
        return ""
    return f"the share left of the first tokens, {share[-1]:.1e}, is near the tolerance of ties, {tolerance:.1e}"


@on_whole_runs
def _frank_wolfe_flow(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    value, ties = _formula_error(flow, run)
    tolerance, why, unknown = accuracy(run, size_of(tokens_of(run).values[0]))
    quantity = "the distance to e^{-ct} z(0) + (1 - e^{-ct}) v, relative,"
    return Measurement(quantity, value, tolerance, why, open=unknown or ties)


@on_whole_runs
def _frank_wolfe_layers(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    value, ties = _formula_error(flow, run)
    quantity = "the distance to (1 - gamma)^k z(0) + (1 - (1 - gamma)^k) v, relative,"
    return Measurement(quantity, value, 1e-14, "rounding of z shrinks with every layer", open=ties)


def _flow(d: int = 2) -> RescaledAttention:
    return RescaledAttention(Head.identity(d), Hardmax())


def _square() -> np.ndarray:
    """The corners of a square, which all own their cells, and sixteen tokens inside."""
    corners = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    return np.concatenate([corners, initial.box(16, 2, -0.9, 0.9, rng=0)])


def _run(flow: AbstractDynamics, tokens: np.ndarray, end: float) -> Instance:
    return Instance(flow, tokens, np.linspace(0.0, end, 41))


def _layers(flow: AbstractDynamics, tokens: np.ndarray, step: float, residual: float) -> Instance:
    return Instance(flow, tokens, step * np.arange(41), Layers(step, residual))


def _plain() -> EuclideanAttention:
    return EuclideanAttention(Head.identity(2), Hardmax())


def _softmax() -> RescaledAttention:
    return RescaledAttention(Head.identity(2))


_LEADERS = Statement(
    dataclasses.replace(
        HARDMAX_LIMITS,
        id="hardmax-leaders",
        paper=f"{LEADERS} lemma on leaders, in continuous time",
        says="Under hardmax attention with V = I and Q^T K positive definite leaders never move nor stop leading.",
    ),
    _leaders_stay,
    lambda: _run(_flow(), initial.box(20, 2, rng=0), 20.0),
    lambda: _run(_softmax(), initial.box(20, 2, rng=0), 20.0),
)
_LIMITS = Statement(
    HARDMAX_LIMITS,
    _limits,
    lambda: _run(_flow(), initial.box(20, 2, rng=0), 20.0),
    lambda: _run(_softmax(), initial.box(20, 2, rng=0), 20.0),
)


def _in_layers(statement: Statement, paper: str) -> Statement:
    """A statement on hardmax attention, for forty layers with the published alpha = 1/2 instead of the flow."""
    theorem = dataclasses.replace(statement.theorem, id=f"{statement.id}-layers", paper=f"{LEADERS} {paper}")
    return Statement(
        theorem,
        statement.measure,
        example=lambda: _layers(_flow(), initial.box(20, 2, rng=0), 0.5, 1.0),
        control=lambda: _layers(_softmax(), initial.box(20, 2, rng=0), 0.5, 1.0),
        continuous=False,
    )


_FRANK_WOLFE = dataclasses.replace(
    HARDMAX_LIMITS,
    id="frank-wolfe-flow",
    paper=f"{FRANK_WOLFE} cells",
    says="If every vertex of the hull is its own best match, every token moves straight to its first best match v: "
    "z = e^{-t} z(0) + (1 - e^{-t}) v, for V = I.",
    start=_cells,
    for_almost_every_start=False,
)

STATEMENTS: tuple[Statement, ...] = (
    _LEADERS,
    _in_layers(_LEADERS, "lemma on leaders"),
    _LIMITS,
    _in_layers(_LIMITS, "theorem on clustering"),
    Statement(
        _FRANK_WOLFE,
        _frank_wolfe_flow,
        lambda: _run(_flow(), _square(), 10.0),
        lambda: _run(_flow(), initial.box(20, 2, rng=2), 10.0),
    ),
    Statement(
        dataclasses.replace(
            _FRANK_WOLFE,
            id="frank-wolfe-layers",
            says="If every vertex of the hull is its own best match, k layers take every token to "
            "(1 - gamma)^k z(0) + (1 - (1 - gamma)^k) v with its first best match v.",
        ),
        _frank_wolfe_layers,
        lambda: _layers(_plain(), _square(), 0.25, 0.75),
        lambda: _layers(_plain(), initial.box(20, 2, rng=2), 0.25, 0.75),
        continuous=False,
    ),
)
