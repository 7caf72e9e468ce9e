"""Statements on causal attention on the sphere (arXiv:2411.04990): the first token and where everyone ends.

Limits are judged at the last time of a run. Tokens that are elsewhere then leave the question open, unless
they rest at a stable equilibrium: from there they will not move on.
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
from attnflow.solvers.token_by_token import TokenByToken
from attnflow.theorems import hypotheses as given
from attnflow.theorems.statement import Instance, Statement
from attnflow.theorems.statements.causal_centres import CENTRE_STATEMENTS
from attnflow.theorems.verdict import Hypothesis, Measurement, above, at_most

ARRIVED = 1e-3  # a thousandth of the sphere's radius: clusters seen in pictures are larger
LEAVING = 1e-3  # growth rates below are those of directions in which nothing pulls
MOST_COORDINATES = 600  # n d beyond which the eigenvalues of the linear part take too long
CLOSE_TO_LIMIT = 0.02  # t * distance approaches its limit like 1/t; runs of a few hundred units get this near


def _first_token_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
    del tokens
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
    return float(getattr(solver, "step", np.nan)), "the error of a first-order method of this step"


def _jordan_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
    nilpotent, size = _nilpotent_part(flow), flow.dimension
    last = np.linalg.matrix_power(nilpotent, size - 1)
    return (
        *_first_token_hypotheses(flow, tokens),
        given.dimension_is_at_least(flow, 2),
        at_most("V has one eigenvalue", _largest(np.linalg.matrix_power(nilpotent, size)), given.SAME),
        above("V is a single Jordan block", _largest(last), given.SAME),
        above("token 1 is not in a proper invariant subspace", _largest(last @ tokens[0]), given.SAME),
    )


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
    next_one = np.linalg.matrix_power(nilpotent, d - 2) @ first
    along = top / np.linalg.norm(top)
    limit = (d - 1) * np.linalg.norm(next_one - (next_one @ along) * along) / np.linalg.norm(top)
    elapsed = float(run.final_time) - float(run.time[0])
    distance = min(np.linalg.norm(last - along), np.linalg.norm(last + along))
    miss = abs(elapsed * distance / limit - 1)
    return Measurement(
        "|t * distance of token 1 from L, over its limit, - 1|",
        float(miss),
        CLOSE_TO_LIMIT,
        "the next term of the expansion is of order 1/t",
        open=f"at t = {elapsed:g} it is still {miss:.2g} from a limit approached like 1/t",
    )


def _identity_value_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
    antipodal = float(np.linalg.norm(tokens + tokens[0], axis=1).min())
    return (
        *given.causal_attention(flow),
        given.value_is(flow),
        given.dimension_is_at_least(flow, 2),
        given.beta_at_least(flow, 0.0),
        given.at_least_two_tokens(tokens),
        above("no token antipodal to token 1, which would rest there", antipodal, given.SAME),
    )


def _measure_identity_value(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    distances = np.linalg.norm(run.final_tokens.values - run.initial_tokens.values[0], axis=1)
    return _arrival("largest distance of a token from x_1(0)", float(distances.max()), flow, run)


def _conjecture_1_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
    return (
        *given.causal_attention(flow),
        given.dimension_is_at_least(flow, 2),
        above("V's leading eigenvalue is simple", _leading(flow)[1], given.SAME, "between real parts"),
        *_splitting(flow, tokens),
        _scores_are_multiples(flow),
    )


def _splitting(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
    """V's leading eigenvalue is positive, and its eigenspace L splits off.

    Conjecture 1 is stated without the splitting; there are counterexamples then, see `conjecture1`.
    """
    value, eigenvalue = given.value_matrix(flow), _leading(flow)[0]
    eigenspace, complement = _split(flow)
    largest = _largest_eigenvalue(complement.T @ (value + value.T) @ complement / 2)
    return (
        above("V's eigenvalue of largest real part is positive", eigenvalue.real, 0.0),
        at_most("it is real", abs(eigenvalue.imag), given.SAME),
        at_most("V maps the complement of L to itself", _largest(eigenspace.T @ value @ complement), given.SAME),
        above("<Vz, z> < lambda |z|^2 on the complement of L", eigenvalue.real, largest),
        above("token 1 has a part in L", _largest(eigenspace.T @ tokens[0]), given.SAME),
    )


def _leading(flow: AbstractDynamics) -> tuple[complex, float]:
    """V's eigenvalue of largest real part, and the gap to the next real part."""
    value = given.value_matrix(flow)
    if not np.all(np.isfinite(value)):
        return complex(np.nan), np.nan
    found = np.linalg.eigvals(value).astype(complex)
    found = found[np.argsort(-np.real(found), kind="stable")]
    gap = float(found[0].real - found[1].real) if len(found) > 1 else np.inf
    return complex(found[0]), gap


def _scores_are_multiples(flow: AbstractDynamics) -> Hypothesis:
    """For other Q^T K, even positive definite ones, there are counterexamples: see `conjecture1`."""
    matrix = given.query_key_matrix(flow)
    multiple = max(0.0, float(np.trace(matrix)) / len(matrix))
    distance = _largest(matrix - multiple * np.eye(len(matrix)))
    return at_most("Q^T K = k I, k >= 0", distance, given.SAME, "in the largest entry")


def _measure_conjecture_1(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    last, direction = run.final_tokens.values, _split(flow)[0][:, 0]
    both = [np.linalg.norm(last - sign * direction, axis=1) for sign in (1, -1)]
    return _arrival("largest distance of a token from +-xi", float(np.minimum(*both).max()), flow, run)


def _conjecture_2_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
    dimension = _split(flow)[0].shape[1]
    return (
        *given.causal_attention(flow),
        at_most("V's leading eigenspace L has dimension 2 or more", 2, dimension, "dimensions"),
        *_splitting(flow, tokens),
    )


def _split(flow: AbstractDynamics) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal columns that span L, the eigenspace of V's leading eigenvalue, and its complement."""
    value, eigenvalue = given.value_matrix(flow), _leading(flow)[0]
    d = len(value)
    if not np.isfinite(eigenvalue):
        return np.zeros((d, 0)), np.eye(d)
    _, sizes, rows = np.linalg.svd(value - eigenvalue.real * np.eye(d))
    is_null = sizes <= 10 * given.SAME * max(1.0, _largest(value))
    return rows[is_null].T, rows[~is_null].T


def _largest_eigenvalue(symmetric: np.ndarray) -> float:
    if not np.all(np.isfinite(symmetric)):
        return np.nan
    return float(np.linalg.eigvalsh(symmetric).max(initial=-np.inf))


def _measure_conjecture_2(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    eigenspace, _ = _split(flow)
    part = eigenspace @ (eigenspace.T @ run.initial_tokens.values[0])
    limit = part / np.linalg.norm(part)
    distance = float(np.linalg.norm(run.final_tokens.values - limit, axis=1).max())
    return _arrival("largest distance of a token from P_L x_1(0) / |P_L x_1(0)|", distance, flow, run)


def _arrival(quantity: str, value: float, flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    why = "a thousandth of the sphere's radius; the limit itself takes infinite time"
    if np.isnan(value):
        return Measurement(quantity, value, ARRIVED, why)
    if value <= ARRIVED:
        return Measurement(quantity, value, ARRIVED, why, unsettled=_why_leaving(flow, run))
    return Measurement(quantity, value, ARRIVED, why, open=_why_open(flow, run))


def _why_leaving(flow: AbstractDynamics, run: xr.Dataset) -> str:
    """Empty unless tokens are near an equilibrium that they will leave."""
    last, time = run.final_tokens.values, float(run.final_time)
    if last.size > MOST_COORDINATES:
        return ""
    growth = linearise(flow, last, time).growth_rate
    if growth <= LEAVING:
        return ""
    return f"at t = {time:g} small changes of where tokens are grow at the rate {growth:.2g}: they may leave again"


def _why_open(flow: AbstractDynamics, run: xr.Dataset) -> str:
    """Empty at a stable equilibrium, which time will not change."""
    last, time = run.final_tokens.values, float(run.final_time)
    if last.size > MOST_COORDINATES:
        speed = np.linalg.norm(velocity(flow, last, time), axis=1).max()
        return f"at t = {time:g} tokens move at up to {speed:.2g}"
    found = linearise(flow, last, time)
    # The first token may be free to turn within L, a rate of zero that concerns nobody else.
    others = linearise(dataclasses.replace(flow, frozen=np.arange(len(last)) == 0), last, time)
    if found.is_equilibrium and not found.is_unstable and others.is_stable:
        return ""
    return (
        f"at t = {time:g} tokens move at up to {found.residual_speed:.2g}, and small changes "
        f"of where they are grow at the rate {found.growth_rate:.2g}"
    )


def _instance(value: np.ndarray, end: float, query_key: np.ndarray | None = None, times: int = 11) -> Instance:
    """Twelve tokens on the sphere of R^3 at beta = 1."""
    head = Head.bilinear(np.eye(3) if query_key is None else query_key, value)
    flow = SphereAttention(head, Softmax(1.0), masks.causal)
    return Instance(flow, initial.sphere(12, 3, rng=2), np.linspace(0.0, end, times))


def _gaussian_scores() -> np.ndarray:
    return np.sqrt(3) * values.gaussian(3, rng=1)


NON_NORMAL = values.from_spectrum([1.0, 0.5, -0.5], "random", rng=0)

STATEMENTS = (
    Statement(
        id="first-token",
        paper="arXiv:2411.04990 Lemma 3.1",
        says="The first token follows e^{tV} x divided by its length, whatever the other tokens, Q and K are.",
        hypotheses=_first_token_hypotheses,
        measure=_measure_first_token,
        example=lambda: _instance(NON_NORMAL, 10.0),
        control=lambda: Instance(
            SphereAttention(Head.bilinear(np.eye(3), NON_NORMAL), Unnormalised(1.0), masks.causal),
            initial.sphere(12, 3, rng=2),
            np.linspace(0.0, 10.0, 11),
        ),
    ),
    Statement(
        id="first-token-jordan",
        paper="arXiv:2411.04990 Lemma 3.1",
        says="When V is one Jordan block the first token approaches its eigenvector only like 1/t.",
        hypotheses=_jordan_hypotheses,
        measure=_measure_jordan,
        example=lambda: _instance(values.jordan_block(0.5, 3), 1000.0),
        control=lambda: _instance(np.diag([1.0, 0.5, 0.5]), 1000.0),
    ),
    Statement(
        id="identity-value",
        paper="arXiv:2411.04990 Theorem 4.1",
        says="With V = I every token converges to where the first one started, for all Q, K and almost every start.",
        hypotheses=_identity_value_hypotheses,
        measure=_measure_identity_value,
        example=lambda: _instance(np.eye(3), 300.0, _gaussian_scores()),
        control=lambda: _instance(-np.eye(3), 300.0, _gaussian_scores()),
    ),
    Statement(
        id="conjecture-1",
        paper="arXiv:2411.04990 Conjecture 1, for Q^T K = k I and V that splits",
        says="If V's leading eigenvalue is positive and simple, tokens converge to plus or minus its eigenvector.",
        hypotheses=_conjecture_1_hypotheses,
        measure=_measure_conjecture_1,
        example=lambda: _instance(np.diag([2.0, 1.0, 0.5]), 60.0),
        control=lambda: _instance(np.diag([2.0, 1.0, 0.5]), 60.0, np.diag([-1.0, 1.0, 1.0])),
        proved=False,
    ),
    Statement(
        id="conjecture-2",
        paper="arXiv:2411.04990 Conjecture 2",
        says="If V's leading eigenspace L has dimension 2 or more, every token converges to one point: "
        "the direction of the first token's part in L.",
        hypotheses=_conjecture_2_hypotheses,
        measure=_measure_conjecture_2,
        example=lambda: _instance(np.diag([1.0, 1.0, -0.5]), 300.0, _gaussian_scores()),
        control=lambda: _instance(np.diag([1.0, 0.5, -0.5]), 300.0, _gaussian_scores()),
        proved=False,
    ),
    *CENTRE_STATEMENTS,
)
