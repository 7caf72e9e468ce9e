"""The limit and the rate that each theorem about limits gives, in the order in which `predict` prefers them."""

import dataclasses
import math
from collections.abc import Callable

from attnflow.analyse.spectra import Spectrum
from attnflow.theorems import limit_theorems as known
from attnflow.theorems.theorem import Theorem

CLOSE_EIGENVALUES = 0.1  # gap over the leading eigenvalue, below which tokens rest before eigenvalues are told apart
SLOW = "At large beta it can take times of order exp(c sqrt(beta)): a run shows metastable clusters."


@dataclasses.dataclass(frozen=True)
class Rule:
    """A theorem with the limit that it gives, and how fast tokens converge to it."""

    theorem: Theorem
    limit: str
    """One word of `limits.WORDS`."""
    rate: Callable[[Spectrum], str]
    """The rate in words, from the spectrum of V."""
    note: str = ""
    """What a reader of the result should know."""
    caution: Callable[[Spectrum], str] = lambda _: ""
    """What a reader of a prediction by this rule should know, from the spectrum of V."""
    in_layers: str = ""
    """The id of the statement of `verify` about the same limit in discrete layers; empty where there is none."""


def exponential(rate: float, of: str = "t") -> str:
    """The decay e^(-rate t) in words.

    Examples
    --------
    >>> exponential(1.0), exponential(0.25, "sqrt(t + 1)")
    ('e^(-t)', 'e^(-0.25 sqrt(t + 1))')
    """
    number = f"{rate:.3g}"
    return f"e^(-{'' if number == '1' else f'{number} '}{of})"


def _exponential(found: Spectrum) -> str:
    return exponential(found.leading.value.real)


def _slowest_of_growing(found: Spectrum) -> str:
    """Coordinates along an eigenvalue lambda > 0 of V converge like e^{-lambda t}."""
    return f"e^(-{min(float(value.real) for value in found.values if value.real > 0):.3g} t)"


def _separation(found: Spectrum) -> str:
    """A caution where the leading eigenvalue is close to the next: until attention separates them they act as one."""
    lead = found.leading.value.real
    if not found.gap < CLOSE_EIGENVALUES * lead:
        return ""
    return (
        f"Attention separates the leading eigenvalue {lead:.3g} of V from the next like e^(-{found.gap:.2g} t): until "
        "then tokens rest as if both were equal."
    )


def _doubly_exponential(found: Spectrum) -> str:
    rate = found.leading.value.real
    alone = f"exp(-c e^({2 * rate:.3g} t)) where no other token meets the best match"
    return f"doubly exponential: 1 - P ~ exp(-c e^({rate:.3g} t)); {alone}"


def _first_token_rate(found: Spectrum) -> str:
    if math.isinf(found.gap):
        return "none proved; the first token is at its limit from the start"
    return f"{exponential(found.gap)} for the first token"


def _synchronisation_rate(found: Spectrum) -> str:
    c = found.leading.value.real
    return (
        f"for 1 - cosine: {exponential(2 * c)} under Post-LN, e^(-2 integral of alpha) under nGPT, "
        f"{exponential(4 * c, 'sqrt(t + 1)')} under LayerNorm scaling"
    )


def _fixed(text: str) -> Callable[[Spectrum], str]:
    return lambda _: text


RULES: tuple[Rule, ...] = (
    Rule(known.ZERO_VALUE, "at-rest", _fixed("exact")),
    Rule(
        known.POLYTOPE,
        "polytope",
        _exponential,
        caution=_fixed("The theorem does not say that tokens go to vertices; nearly always they do."),
    ),
    Rule(known.BOOLEAN_LIMIT, "boolean", _doubly_exponential),
    Rule(known.MINUS_IDENTITY, "zero", _fixed("t^(-1/2) for the tokens, 1/t for the attention")),
    Rule(known.HYPERPLANES, "hyperplanes", _exponential, caution=_separation),
    Rule(known.POLYTOPE_TIMES_HYPERPLANE, "polytope-times-hyperplane", _exponential, caution=_separation),
    Rule(
        known.POLYTOPE_TIMES_HYPERPLANE_GENERAL,
        "polytope-times-hyperplane",
        _exponential,
        note="A bound in the published proof fails where Q^T K mixes leading eigenvectors of V with the others; no "
        "counterexample is known.",
    ),
    Rule(
        known.HARDMAX_LIMITS,
        "leaders",
        _exponential,
        note="Proved for discrete layers.",
        in_layers="hardmax-limits-layers",
    ),
    Rule(
        known.CODIMENSION_K,
        "hyperplanes",
        _slowest_of_growing,
        caution=_separation,
        note="Asked here only where a simple real eigenvalue leads: V = I and complex pairs give more than three.",
    ),
    Rule(
        known.CAUSAL_IDENTITY_VALUE,
        "first-token",
        _fixed("none proved"),
        caution=_fixed("At large beta it can take longer than any run: clusters live for times exponential in beta."),
    ),
    Rule(known.HEMISPHERE_RATE, "point", _fixed("e^(-c t) with some c > 0")),
    Rule(known.SINGLE_CLUSTER, "point", _fixed("none proved for every start"), caution=_fixed(SLOW)),
    Rule(known.SINGLE_CLUSTER_CIRCLE, "point", _fixed("none proved for every start"), caution=_fixed(SLOW)),
    Rule(known.SYNCHRONISATION, "point", _synchronisation_rate),
    Rule(known.SYNCHRONISATION_WITH_LENGTHS, "point", _fixed("t^(-2) for 1 - cosine")),
    Rule(known.CONJECTURE_2, "point-of-subspace", _first_token_rate),
    Rule(
        known.CONJECTURE_1,
        "poles",
        _first_token_rate,
        note="Asked here only for Q^T K = k I and a V that splits; otherwise there are counterexamples.",
    ),
    Rule(known.TABLE_1_CLOUD, "cloud-around-subspace", _fixed("none known")),
    Rule(known.TABLE_1_TWO_CLOUDS, "clouds-around-poles", _fixed("none known")),
)


def statements_of(theorem: str) -> tuple[str, ...]:
    """The ids that statements of `verify` about the limit of a theorem have, in continuous time and in layers."""
    return tuple(name for rule in RULES if rule.theorem.id == theorem for name in (theorem, rule.in_layers) if name)
