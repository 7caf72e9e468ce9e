"""`predict`: what is known of a flow's limit, from space, Q, K, V, mask and attention alone."""

import dataclasses
import math
from typing import Any

import numpy as np

from attnflow._common.plain import number_or_text
from attnflow._common.threads import one_blas_thread
from attnflow.analyse.spectra import SAME, Spectrum, spectrum
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.validation import require_flow, require_one_configuration
from attnflow.solvers.base import AbstractSolver
from attnflow.solvers.layers import Layers
from attnflow.theorems import hypotheses as given
from attnflow.theorems.prediction.limit_rules import RULES, Case, Rule
from attnflow.theorems.spectral_hypotheses import Condition, hypotheses_met
from attnflow.theorems.verdict import Hypothesis

DISCRETE = (
    "The run is of discrete layers, which the result is not about: small steps follow it, large ones need not "
    "(`attnflow verify --steps` says which conclusions survive which)."
)
COUNTEREXAMPLE = (
    "Conjecture 1 of arXiv:2411.04990 is not true of every Q, K and V: with V = diag(2, 1), Q = I, K = diag(-1, 1) and "
    "beta = 4, a second token can rest away from both +xi and -xi; so it can for some positive definite Q^T K, and for "
    "V that are not normal"
)


@dataclasses.dataclass(frozen=True)
class Result:
    """A theorem, conjecture or observation that applies."""

    id: str
    paper: str
    says: str
    limit: str
    proved: bool
    rate: str
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What is known before anything is simulated."""

    limit: str
    """One word of `limits.WORDS`; "unknown" where no result applies."""
    says: str
    results: tuple[Result, ...]
    """All that apply, the one that decides `limit` first."""
    rate: str
    hypotheses: tuple[Hypothesis, ...]
    """Those of the deciding result, or of the one that comes nearest."""
    suggestion: str
    """What the spectrum suggests where nothing is known; otherwise a caution or nothing."""

    @property
    def proved(self) -> bool:
        """Whether a theorem, not a conjecture or an observation, promises the limit."""
        return bool(self.results) and self.results[0].proved

    @property
    def broken(self) -> tuple[Hypothesis, ...]:
        """The hypotheses that are not met; none where a result applies."""
        return tuple(hypothesis for hypothesis in self.hypotheses if not hypothesis.holds)

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; infinities become words."""
        plain = dataclasses.asdict(self) | {"proved": self.proved}
        plain["results"] = [dataclasses.asdict(result) for result in self.results]
        plain["hypotheses"] = [
            dataclasses.asdict(one) | {"holds": one.holds, "margin": number_or_text(one.margin)}
            for one in self.hypotheses
        ]
        return plain

    def __str__(self) -> str:
        lines = [f"limit: {self.limit}", self.says]
        lines += [f"rate: {self.rate}"] if self.rate else []
        lines += [_line(result) for result in self.results]
        lines += [_hypothesis_line(hypothesis) for hypothesis in self.hypotheses]
        return "\n".join(lines + ([self.suggestion] if self.suggestion else []))


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
    case = _case(flow, tokens)
    if case is None:
        return Prediction(
            "unknown", "Nothing is known of weights that change in time.", (), "", (given.plain(flow),), ""
        )
    judged = [(rule, _hypotheses(rule, case)) for rule in RULES]
    applying = [(rule, hypotheses) for rule, hypotheses in judged if all(one.holds for one in hypotheses)]
    if not applying:
        return _without_result(case, judged)
    results = tuple(_result(rule, case) for rule, _ in applying)
    first, (rule, hypotheses) = results[0], applying[0]
    caution = DISCRETE if isinstance(solver, Layers) else rule.caution
    return Prediction(first.limit, first.says, results, first.rate, hypotheses, caution)


def _case(flow: AbstractDynamics, tokens: Any) -> Case | None:
    """The instance with its spectrum; None where V or Q^T K is not one constant matrix."""
    if tokens is not None:
        tokens = require_one_configuration(flow, tokens)
    value, scores = given.value_matrix(flow), given.score_matrix(flow)
    if not np.all(np.isfinite(value)):
        return None
    several = not np.all(np.isfinite(scores))
    with one_blas_thread():
        found = spectrum(value)
        return Case(flow, tokens, found, hypotheses_met(found, np.zeros_like(value) if several else scores))


def _hypotheses(rule: Rule, case: Case) -> tuple[Hypothesis, ...]:
    setting = tuple(rule.setting(case))
    spectral = tuple(_as_hypothesis(one) for one in case.conditions[rule.spectral])
    applies = all(one.holds for one in (*setting, *spectral))
    return (*setting, *spectral, *(rule.start(case) if applies else ()))  # starts are looked at last: they cost most


def _as_hypothesis(condition: Condition) -> Hypothesis:
    return Hypothesis(condition.says, float(condition.margin), condition.unit)


def _result(rule: Rule, case: Case) -> Result:
    return Result(rule.id, rule.paper, rule.says, rule.limit, rule.proved, rule.rate(case.spectrum), rule.note)


def _without_result(case: Case, judged: list[tuple[Rule, tuple[Hypothesis, ...]]]) -> Prediction:
    """The result that comes nearest, and what the spectrum suggests."""
    candidates = [pair for pair in judged if pair[0].id != "zero-value"]
    rule, hypotheses = min(candidates, key=lambda pair: _distance(pair[0], case, pair[1]))
    missed = "; ".join(_missed(one) for one in hypotheses if not one.holds)
    says = f"No result applies. The nearest is {rule.id} ({rule.paper}): {missed}."
    return Prediction("unknown", says, (), "", hypotheses, suggestion(case.spectrum, case.flow))


def _distance(rule: Rule, case: Case, hypotheses: tuple[Hypothesis, ...]) -> tuple[float, ...]:
    """How far a result is from applying: by its setting, then by V, then by Q^T K and the start, then by how much."""
    asked = rule.setting(case)
    elsewhere = asked[0].says.startswith("tokens move in R^d") == case.flow.is_on_sphere
    setting = sum(not one.holds for one in asked) + (100 if elsewhere else 0)  # another space's result is no help
    # That V is no multiple of I says less than what its leading eigenvalue lacks.
    weights = {"V is a multiple of I": 3}
    conditions = [one for one in case.conditions[rule.spectral] if one.matrix == "V"]
    of_value = sum(weights.get(one.says, 1) for one in conditions if not one.margin > 0)
    broken = [one.margin for one in hypotheses if not one.holds]
    missed = max((-margin for margin in broken if math.isfinite(margin)), default=0.0)
    return setting, of_value, len(broken), missed


def suggestion(found: Spectrum, flow: AbstractDynamics) -> str:
    """What the leading eigenvalues alone suggest, which nobody has proved."""
    lead = found.leading.value
    on_sphere = flow.is_on_sphere
    if not given.plain(flow).holds:
        return "Of several heads, an MLP, noise, frozen tokens or masses the spectrum of V alone says little."
    if not found.is_leading_real:
        return _rotation(found, on_sphere)
    if lead.real < -SAME * found.scale:
        return _shrinking(lead.real, on_sphere)
    if lead.real <= SAME * found.scale:
        return "The leading eigenvalue is 0: nothing grows, and tokens keep their part along it."
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
    return (
        f"{pair} turns: tokens x keep rotating in the plane {where}, one turn in {2 * np.pi / abs(fastest.imag):.3g}."
    )


def _shrinking(lead: float, on_sphere: bool) -> str:
    if on_sphere:
        return f"The leading eigenvalue {lead:.3g} is negative: tokens repel each other and form a cloud around L."
    return (
        f"The leading eigenvalue {lead:.3g} is negative: tokens x shrink, where they differ only like a power of t, "
        "and then z = e^(-tV) x diverges."
    )


def _towards_leading_space(found: Spectrum, flow: AbstractDynamics) -> str:
    dimension = found.largest_block_space.shape[1]
    where = "+xi and -xi" if dimension == 1 else f"the {dimension}-dimensional L"
    is_causal = given.mask_is(flow, given.Causal).holds
    text = f"V turns single tokens towards {where}"
    text += "; the first token, which sees only itself, goes there." if is_causal else "."
    return f"{text} {COUNTEREXAMPLE}." if is_causal and found.is_leading_simple else text


def _line(result: Result) -> str:
    kind = "proved" if result.proved else "conjectured or observed"
    return f"- {result.id} ({result.paper}, {kind}): {result.says}" + (f" {result.note}" if result.note else "")


def _hypothesis_line(one: Hypothesis) -> str:
    return f"  [{'x' if one.holds else ' '}] {one.says if one.holds else _missed(one)}"


def _missed(one: Hypothesis) -> str:
    if not math.isfinite(one.margin):
        return f"{one.says} (not so)"
    return f"{one.says} (missed by {-one.margin:.3g}{' ' + one.unit if one.unit else ''})"
