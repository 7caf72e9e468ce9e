"""`predict`: the limit of a flow by the theorems that apply to it, without a simulation."""

import collections
import math
from typing import Any

import numpy as np

from attnflow._common.threads import one_blas_thread
from attnflow.analyse.spectra import SPECTRAL_TOLERANCE, Spectrum
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.validation import require_flow, require_one_configuration
from attnflow.solvers.base import AbstractSolver
from attnflow.solvers.layers import Layers
from attnflow.theorems import hypotheses as given
from attnflow.theorems.limit_theorems import ZERO_VALUE
from attnflow.theorems.prediction.limit_rules import RULES, Rule
from attnflow.theorems.prediction.prediction import Prediction, Result, missed_words
from attnflow.theorems.simplest_flow import simplest
from attnflow.theorems.theorem import weights_of
from attnflow.theorems.verdict import Hypothesis

DISCRETE = (
    "The run is of discrete layers, but the result is about continuous time: layers with small steps follow it, layers "
    "with large steps need not (`attnflow verify --steps` says which conclusions survive which steps)."
)
COUNTEREXAMPLE = (
    "Conjecture 1 of arXiv:2411.04990 is not true of every Q, K and V: with V = diag(2, 1), Q = I, K = diag(-1, 1) and "
    "beta = 4, the second token can rest away from +xi and -xi; the same happens for some positive definite Q^T K, and "
    "for some V that are not normal"
)


def predict(flow: AbstractDynamics, tokens: Any = None, solver: AbstractSolver | None = None) -> Prediction:
    """What theorems and conjectures promise of the flow's limit; nothing is simulated.

    V = c I with c > 0 counts as V = I (only the unit of time changes), and beta is part of Q^T K.

    Parameters
    ----------
    tokens
        First tokens (n, d). Without them starts are taken to be generic, and results that need
        more, such as tokens in one hemisphere, do not apply.
    solver
        What will solve it, where that matters: theorems are about continuous time, not about `Layers`.

    Examples
    --------
    >>> import attnflow as af
    >>> head = af.Head(query=np.eye(2), key=np.eye(2), value=np.diag([2.0, 1.0]))
    >>> prediction = predict(af.RescaledAttention(head))
    >>> prediction.limit, prediction.proved, prediction.rate
    ('hyperplanes', True, 'e^(-2 t)')
    """
    require_flow(flow)
    if tokens is not None:
        tokens = require_one_configuration(flow, tokens)
    flow = simplest(flow, None if tokens is None else len(tokens))
    if flow.perceptron is not None:
        return _unknown("No result is about a drift by a perceptron.", given.without_perceptron(flow))
    with one_blas_thread():
        weights = weights_of(flow)
        if weights is None:
            return _unknown("No result is about weights that change in time.", given.plain(flow))
        judged = [(rule, rule.theorem.hypotheses(flow, tokens)) for rule in RULES]
    applying = [(rule, hypotheses) for rule, hypotheses in judged if all(one.holds for one in hypotheses)]
    if not applying:
        return _without_result(flow, weights.spectrum, judged)
    results = tuple(_result(rule, weights.spectrum) for rule, _ in applying)
    first, (rule, hypotheses) = results[0], applying[0]
    caution = DISCRETE if isinstance(solver, Layers) else rule.caution(weights.spectrum)
    return Prediction(first.limit, first.says, results, first.rate, hypotheses, caution)


def _unknown(says: str, missed: Hypothesis) -> Prediction:
    return Prediction("unknown", says, (), "", (missed,), "")


def _result(rule: Rule, found: Spectrum) -> Result:
    theorem = rule.theorem
    return Result(theorem.id, theorem.paper, theorem.says, rule.limit, theorem.proved, rule.rate(found), rule.note)


def _without_result(
    flow: AbstractDynamics, found: Spectrum, judged: list[tuple[Rule, tuple[Hypothesis, ...]]]
) -> Prediction:
    """The prediction "unknown" with the theorem whose hypotheses come nearest, and what the spectrum suggests."""
    candidates = [pair for pair in judged if pair[0].theorem is not ZERO_VALUE]
    rule, hypotheses = min(candidates, key=lambda pair: _distance(pair[1]))
    missed = "; ".join(missed_words(one) for one in hypotheses if not one.holds)
    says = f"No result applies. The nearest is {rule.theorem.id} ({rule.theorem.paper}): {missed}."
    return Prediction("unknown", says, (), "", hypotheses, suggestion(found, flow))


def _distance(hypotheses: tuple[Hypothesis, ...]) -> tuple[float, ...]:
    """How far a theorem is from applying: by space, setting, V, the number of missed hypotheses, the largest miss.

    That V is not a multiple of I counts three times: a missing property of its leading eigenvalue tells a reader more.
    """
    broken = [one for one in hypotheses if not one.holds]
    count = collections.Counter(one.kind for one in broken)
    misses = [-one.margin for one in broken if math.isfinite(one.margin)]
    return (
        count["space"],
        count["setting"],
        count["value"] + 3 * count["isotropy"],
        len(broken),
        max(misses, default=0.0),
    )


def suggestion(found: Spectrum, flow: AbstractDynamics) -> str:
    """A sentence on what the leading eigenvalues suggest without proof."""
    lead = found.leading.value
    on_sphere = flow.is_on_sphere
    if not given.plain(flow).holds:
        return "With several heads, an MLP, noise, frozen tokens or masses the spectrum of V alone says little."
    if not found.is_leading_real:
        return _rotation(found, on_sphere)
    if lead.real < -SPECTRAL_TOLERANCE * found.scale:
        return _shrinking(lead.real, on_sphere)
    if lead.real <= SPECTRAL_TOLERANCE * found.scale:
        return "The leading eigenvalue is 0: nothing grows, and tokens keep their part along its eigenvectors."
    if on_sphere:
        return _towards_leading_space(found, flow)
    return (
        f"V stretches most along its leading eigenspace, at rate {lead.real:.3g}: rescaled tokens may gather in that "
        "part of their coordinates, the others staying free."
    )


def _rotation(found: Spectrum, on_sphere: bool) -> str:
    fastest = max(found.leaders, key=lambda one: abs(one.value.imag)).value
    pair = f"The leading pair {fastest.real:.3g} +- {abs(fastest.imag):.3g} i"
    if fastest.real < 0 and not on_sphere:
        return f"{pair} turns and shrinks: x goes to zero, while z = e^(-tV) x diverges."
    where = "of the sphere's great circle L'" if on_sphere else "spanned by its eigenvectors"
    period = 2 * np.pi / abs(fastest.imag)
    return f"{pair} turns: tokens x keep rotating in the plane {where}, one turn in a time of {period:.3g}."


def _shrinking(lead: float, on_sphere: bool) -> str:
    if on_sphere:
        return f"The leading eigenvalue {lead:.3g} is negative: tokens repel each other and form a cloud around L."
    return (
        f"The leading eigenvalue {lead:.3g} is negative: tokens x shrink, in directions in which they differ only "
        "like a power of t, and then z = e^(-tV) x diverges."
    )


def _towards_leading_space(found: Spectrum, flow: AbstractDynamics) -> str:
    dimension = found.largest_block_space.shape[1]
    if dimension == len(found.matrix):
        return "V is a multiple of I: it turns no single token, and one that attends only to itself stays where it is."
    where = "+xi and -xi" if dimension == 1 else f"the {dimension}-dimensional L"
    is_causal = given.mask_is(flow, given.Causal).holds
    text = f"V turns single tokens towards {where}"
    text += "; the first token, which attends only to itself, converges to it." if is_causal else "."
    return f"{text} {COUNTEREXAMPLE}." if is_causal and found.is_leading_simple else text
