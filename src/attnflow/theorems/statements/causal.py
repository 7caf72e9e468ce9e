"""Statements about causal attention on the sphere (arXiv:2411.04990): the first token, and the limits of all tokens.

Limits are judged at the last time of a run. Tokens that are elsewhere at that time leave the question open, unless
they rest at a stable equilibrium, which they will not leave.
"""

import dataclasses

import numpy as np
import xarray as xr
from scipy.linalg import expm

from attnflow.analyse.snapshots import tokens_of
from attnflow.integrate.evaluate import velocity
from attnflow.integrate.stability import linearise
from attnflow.model import initial, masks, values
from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.model.masks import Causal
from attnflow.results.provenance import solver_of
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.fixed_step import AbstractFixedStep
from attnflow.solvers.token_by_token import TokenByToken
from attnflow.theorems import hypotheses as given
from attnflow.theorems.limit_theorems import CAUSAL_IDENTITY_VALUE, CONJECTURE_1, CONJECTURE_2
from attnflow.theorems.statement import Instance, Statement
from attnflow.theorems.theorem import Theorem, weights_of
from attnflow.theorems.verdict import Hypothesis, Measurement, above, at_most

LIMIT_DISTANCE = 1e-3  # a thousandth of the sphere's radius: clusters seen in pictures are larger
LEAST_GROWTH_RATE = 1e-3  # of an instability; smaller rates are those of neutral directions
MOST_COORDINATES = 600  # n d beyond which the eigenvalues of the linearised flow take too long


def _first_token_setting(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    setting = (given.on_the_sphere(flow), given.plain(flow), given.attention_is(flow, Softmax))
    return (*setting, given.mask_is(flow, Causal))


def _measure_first_token(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    value = given.value_matrix(flow)
    # A common factor e^{-ts} drops out and keeps the exponential from overflowing.
    shifted = value - np.linalg.eigvals(value).real.max() * np.eye(len(value))
    first, elapsed = run.initial_tokens.values[0], run.time.values - run.time.values[0]
    grown = np.stack([expm(t * shifted) @ first for t in elapsed])
    closed = grown / np.linalg.norm(grown, axis=1, keepdims=True)
    error = float(np.linalg.norm(tokens_of(run).values[:, 0] - closed, axis=1).max())
    tolerance, why = _solver_accuracy(run)
    return Measurement("largest distance of token 1 from e^{tV} x / |e^{tV} x|", error, tolerance, why)


def _solver_accuracy(run: xr.Dataset) -> tuple[float, str]:
    solver = solver_of(run)
    if isinstance(solver, Adaptive | TokenByToken):
        return 100 * float(solver.rtol + solver.atol), "a hundred times the tolerance of one step"
    step = solver.step if isinstance(solver, AbstractFixedStep) else np.nan
    return float(step), "the error of a first-order method of this step"


def _jordan_setting(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    nilpotent, size = _nilpotent_part(flow), flow.dimension
    cycle, last = np.linalg.matrix_power(nilpotent, size), np.linalg.matrix_power(nilpotent, size - 1)
    return (
        *_first_token_setting(flow),
        given.dimension_is_at_least(flow, 2),
        at_most("V has one eigenvalue", _largest(cycle), given.MATRIX_TOLERANCE, kind="value"),
        above("V is a single Jordan block", _largest(last), given.MATRIX_TOLERANCE, kind="value"),
    )


def _first_token_outside_subspaces(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
    last = np.linalg.matrix_power(_nilpotent_part(flow), flow.dimension - 1)
    part = _largest(last @ tokens[0])
    return (above("token 1 is not in a proper invariant subspace", part, given.MATRIX_TOLERANCE),)


def _nilpotent_part(flow: AbstractDynamics) -> np.ndarray:
    value = given.value_matrix(flow)
    return value - np.trace(value) / len(value) * np.eye(len(value))


def _largest(entries: np.ndarray) -> float:
    return float(np.abs(entries).max(initial=0.0))


def _measure_jordan(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    nilpotent, d = _nilpotent_part(flow), flow.dimension
    first, last = run.initial_tokens.values[0], run.final_tokens.values[0]
    # e^{tN} x = t^{d-1}/(d-1)! N^{d-1} x + t^{d-2}/(d-2)! N^{d-2} x + ..., the first along L.
    top = np.linalg.matrix_power(nilpotent, d - 1) @ first
    second = np.linalg.matrix_power(nilpotent, d - 2) @ first
    along = top / np.linalg.norm(top)
    limit = (d - 1) * np.linalg.norm(second - (second @ along) * along) / np.linalg.norm(top)
    elapsed = float(run.final_time) - float(run.time[0])
    distance = min(np.linalg.norm(last - along), np.linalg.norm(last + along))
    miss = abs(elapsed * distance / limit - 1)
    return Measurement(
        "|t * distance of token 1 from L, over its limit, - 1|",
        float(miss),
        0.02,
        "the next term of the expansion is of order 1/t, and t a few hundred",
        open=f"at t = {elapsed:g} it is still {miss:.2g} from a limit approached like 1/t",
    )


def _measure_identity_value(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    distances = np.linalg.norm(run.final_tokens.values - run.initial_tokens.values[0], axis=1)
    return _arrival("largest distance of a token from x_1(0)", float(distances.max()), flow, run)


def _measure_conjecture_1(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    last, direction = run.final_tokens.values, _leading_space(flow)[:, 0]
    both = [np.linalg.norm(last - sign * direction, axis=1) for sign in (1, -1)]
    return _arrival("largest distance of a token from +-xi", float(np.minimum(*both).max()), flow, run)


def _measure_conjecture_2(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    eigenspace = _leading_space(flow)
    part = eigenspace @ (eigenspace.T @ run.initial_tokens.values[0])
    limit = part / np.linalg.norm(part)
    distance = float(np.linalg.norm(run.final_tokens.values - limit, axis=1).max())
    return _arrival("largest distance of a token from P_L x_1(0) / |P_L x_1(0)|", distance, flow, run)


def _leading_space(flow: AbstractDynamics) -> np.ndarray:
    """Orthonormal columns that span the leading eigenspace L of V."""
    weights = weights_of(flow)
    assert weights is not None  # the setting asks for constant weights
    return weights.spectrum.leading_space


def _arrival(quantity: str, value: float, flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    why = "a thousandth of the sphere's radius; the limit itself takes infinite time"
    if np.isnan(value):
        return Measurement(quantity, value, LIMIT_DISTANCE, why)
    if value <= LIMIT_DISTANCE:
        return Measurement(quantity, value, LIMIT_DISTANCE, why, unsettled=_why_leaving(flow, run))
    return Measurement(quantity, value, LIMIT_DISTANCE, why, open=_why_open(flow, run))


def _why_leaving(flow: AbstractDynamics, run: xr.Dataset) -> str:
    """A sentence if tokens are near an unstable equilibrium, else nothing."""
    last, time = run.final_tokens.values, float(run.final_time)
    if last.size > MOST_COORDINATES:
        return ""
    growth = linearise(flow, last, time).growth_rate
    if growth <= LEAST_GROWTH_RATE:
        return ""
    return f"at t = {time:g} small perturbations of the tokens grow at the rate {growth:.2g}: they may leave again"


def _why_open(flow: AbstractDynamics, run: xr.Dataset) -> str:
    """Nothing at a stable equilibrium, which tokens will not leave; else a sentence."""
    last, time = run.final_tokens.values, float(run.final_time)
    if last.size > MOST_COORDINATES:
        speed = np.linalg.norm(velocity(flow, last, time), axis=1).max()
        return f"at t = {time:g} tokens move at up to {speed:.2g}"
    linear = linearise(flow, last, time)
    # The first token may turn freely within L: a rate of zero, which does not concern the other tokens.
    others = linearise(dataclasses.replace(flow, frozen=np.arange(len(last)) == 0), last, time)
    if linear.is_equilibrium and not linear.is_unstable and others.is_stable:
        return ""
    return (
        f"at t = {time:g} tokens move at up to {linear.residual_speed:.2g}, and small perturbations "
        f"grow at the rate {linear.growth_rate:.2g}"
    )


def _instance(value: np.ndarray, end: float, query_key: np.ndarray | None = None, times: int = 11) -> Instance:
    """Twelve tokens on the sphere of R^3 at beta = 1."""
    head = Head.bilinear(np.eye(3) if query_key is None else query_key, value)
    flow = SphereAttention(head, Softmax(1.0), masks.causal)
    return Instance(flow, initial.sphere(12, 3, rng=2), np.linspace(0.0, end, times))


def _gaussian_scores() -> np.ndarray:
    return np.sqrt(3) * values.gaussian(3, rng=1)


NON_NORMAL = values.from_spectrum([1.0, 0.5, -0.5], "random", rng=0)

STATEMENTS: tuple[Statement, ...] = (
    Statement(
        Theorem(
            id="first-token",
            paper="arXiv:2411.04990 Lemma 3.1",
            says="The first token follows e^{tV} x divided by its length, whatever the other tokens, Q and K are.",
            setting=_first_token_setting,
        ),
        _measure_first_token,
        lambda: _instance(NON_NORMAL, 10.0),
        lambda: Instance(
            SphereAttention(Head.bilinear(np.eye(3), NON_NORMAL), Unnormalised(1.0), masks.causal),
            initial.sphere(12, 3, rng=2),
            np.linspace(0.0, 10.0, 11),
        ),
    ),
    Statement(
        Theorem(
            id="first-token-jordan",
            paper="arXiv:2411.04990 Lemma 3.1",
            says="When V is one Jordan block the first token approaches its eigenvector only like 1/t.",
            setting=_jordan_setting,
            start=_first_token_outside_subspaces,
        ),
        _measure_jordan,
        lambda: _instance(values.jordan_block(0.5, 3), 1000.0),
        lambda: _instance(np.diag([1.0, 0.5, 0.5]), 1000.0),
    ),
    Statement(
        CAUSAL_IDENTITY_VALUE,
        _measure_identity_value,
        lambda: _instance(np.eye(3), 300.0, _gaussian_scores()),
        lambda: _instance(-np.eye(3), 300.0, _gaussian_scores()),
    ),
    Statement(
        CONJECTURE_1,
        _measure_conjecture_1,
        lambda: _instance(np.diag([2.0, 1.0, 0.5]), 60.0),
        lambda: _instance(np.diag([2.0, 1.0, 0.5]), 60.0, np.diag([-1.0, 1.0, 1.0])),
    ),
    Statement(
        CONJECTURE_2,
        _measure_conjecture_2,
        lambda: _instance(np.diag([1.0, 1.0, -0.5]), 300.0, _gaussian_scores()),
        lambda: _instance(np.diag([1.0, 0.5, -0.5]), 300.0, _gaussian_scores()),
    ),
)
