"""Statements on causal attention on the sphere (arXiv:2411.04990): the first token and where everyone ends.

Limits are judged at the last time of a run. Tokens that are elsewhere then leave the question open, unless
they rest at a stable equilibrium: from there they will not move on.
"""

import numpy as np
import xarray as xr
from scipy.linalg import expm, null_space

from attnflow import initial, masks, values
from attnflow.attention import Softmax, Unnormalised
from attnflow.dynamics import AbstractDynamics, SphereAttention
from attnflow.heads import Head
from attnflow.masks import Causal
from attnflow.solvers import Adaptive
from attnflow.stability import linearise
from attnflow.theorems import hypotheses as given
from attnflow.theorems.causal_centres import CENTRE_STATEMENTS
from attnflow.theorems.statement import Instance, Statement
from attnflow.theorems.verdict import Hypothesis, Measurement, above, at_most, is_true
from attnflow.trajectory import solver_of

ARRIVED = 1e-3  # a thousandth of the sphere's radius: clusters seen in pictures are larger
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
    error = float(np.linalg.norm(run.tokens.values[:, 0] - closed, axis=1).max())
    tolerance, why = _solver_accuracy(run)
    return Measurement("largest distance of token 1 from e^{tV} x / |e^{tV} x|", error, tolerance, why)


def _solver_accuracy(run: xr.Dataset) -> tuple[float, str]:
    solver = solver_of(run)
    if isinstance(solver, Adaptive):
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
    return float(np.abs(entries).max())


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
    eigenvalue, gap, _, left = _leading(flow)
    return (
        *given.causal_attention(flow),
        above("V's eigenvalue of largest real part is positive", eigenvalue.real, 0.0),
        is_true("it is real", eigenvalue.imag == 0),
        above("it is simple", gap, given.SAME, "between real parts"),
        _scores_are_multiples(flow),
        above("token 1 has a part along its eigenvector", float(abs(left @ tokens[0])), given.SAME),
    )


def _leading(flow: AbstractDynamics) -> tuple[complex, float, np.ndarray, np.ndarray]:
    """V's eigenvalue of largest real part, the gap to the next one, and its unit right and left eigenvectors."""
    value = given.value_matrix(flow)
    if not np.all(np.isfinite(value)):
        return complex(np.nan), np.nan, *np.full((2, len(value)), np.nan)
    found, right = np.linalg.eig(value)
    order = np.argsort(-found.real, kind="stable")
    gap = found.real[order[0]] - found.real[order[1]] if len(order) > 1 else np.inf
    adjoint, left = np.linalg.eig(value.T)
    own = np.argmax(adjoint.real)
    return complex(found[order[0]]), float(gap), np.real(right[:, order[0]]), np.real(left[:, own])


def _scores_are_multiples(flow: AbstractDynamics) -> Hypothesis:
    """For other Q^T K, even positive definite ones, there are counterexamples: see `conjecture1`."""
    matrix = given.query_key_matrix(flow)
    multiple = max(0.0, float(np.trace(matrix)) / len(matrix))
    distance = _largest(matrix - multiple * np.eye(len(matrix)))
    return at_most("Q^T K = k I, k >= 0", distance, given.SAME, "in the largest entry")


def _measure_conjecture_1(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    last, direction = run.final_tokens.values, _leading(flow)[2]
    both = [np.linalg.norm(last - sign * direction, axis=1) for sign in (1, -1)]
    return _arrival("largest distance of a token from +-xi", float(np.minimum(*both).max()), flow, run)


def _conjecture_2_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
    value, d = given.value_matrix(flow), flow.dimension
    eigenvalue = _leading(flow)[0]
    eigenspace = _leading_eigenspace(flow)
    projection = eigenspace @ eigenspace.T
    rest = np.eye(d) - projection
    leak = _largest(projection @ value @ rest)
    numerical_range = np.linalg.eigvalsh(rest @ (value + value.T) @ rest / 2 - 1e6 * projection)
    return (
        *given.causal_attention(flow),
        above("V's eigenvalue of largest real part is positive", eigenvalue.real, 0.0),
        at_most("it is real", abs(eigenvalue.imag), given.SAME),
        at_most("its eigenspace L has dimension 2 or more", 2, eigenspace.shape[1], "dimensions"),
        at_most("V maps the complement of L to itself", leak, given.SAME, "in the largest entry"),
        above("<Vz, z> < lambda |z|^2 on the complement of L", eigenvalue.real, float(numerical_range.max())),
        above("token 1 has a part in L", float(np.linalg.norm(projection @ tokens[0])), given.SAME),
    )


def _leading_eigenspace(flow: AbstractDynamics) -> np.ndarray:
    """Orthonormal columns that span the eigenspace of V's eigenvalue of largest real part; none if unknown."""
    value, eigenvalue = given.value_matrix(flow), _leading(flow)[0]
    if not np.isfinite(eigenvalue):
        return np.zeros((len(value), 0))
    return null_space(value - eigenvalue.real * np.eye(len(value)), rcond=given.SAME)


def _measure_conjecture_2(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    eigenspace = _leading_eigenspace(flow)
    part = eigenspace @ (eigenspace.T @ run.initial_tokens.values[0])
    limit = part / np.linalg.norm(part)
    distance = float(np.linalg.norm(run.final_tokens.values - limit, axis=1).max())
    return _arrival("largest distance of a token from P_L x_1(0) / |P_L x_1(0)|", distance, flow, run)


def _arrival(quantity: str, value: float, flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    why = "a thousandth of the sphere's radius; the limit itself takes infinite time"
    still = "" if value <= ARRIVED or np.isnan(value) else _why_open(flow, run)
    return Measurement(quantity, value, ARRIVED, why, open=still)


def _why_open(flow: AbstractDynamics, run: xr.Dataset) -> str:
    """Empty at a stable equilibrium, which time will not change."""
    found = linearise(flow, run.final_tokens.values, float(run.final_time))
    if found.is_stable:
        return ""
    return (
        f"at t = {float(run.final_time):g} tokens move at up to {found.residual_speed:.2g}, and small changes "
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
        paper="arXiv:2411.04990 Conjecture 1, for Q^T K = k I",
        says="If V's leading eigenvalue is positive and simple, every token converges to plus or minus its eigenvector.",
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
