"""The rules `predict` goes by: each result with its setting, what it asks of the spectrum, its limit and its rate."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from scipy.spatial import KDTree

from attnflow.analyse.spectra import Spectrum
from attnflow.integrate.evaluate import velocity
from attnflow.model.attention import Hardmax, Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import RescaledAttention
from attnflow.model.masks import Full
from attnflow.model.normalisation import NGPT, Mix, Peri, Pre, Sqrt
from attnflow.theorems import hypotheses as given
from attnflow.theorems.measurements import generic
from attnflow.theorems.spectral_hypotheses import Condition
from attnflow.theorems.statements import normalised
from attnflow.theorems.verdict import Hypothesis, above, at_most, is_true

CLUSTERS = "arXiv:2305.05465"
PERSPECTIVE = "arXiv:2312.10794"
CAUSAL = "arXiv:2411.04990"
NORMALISED = "arXiv:2510.22026"
AT_REST = 1e-9  # velocities below this are rounding
SLOW = "At large beta it can take times of order exp(c sqrt(beta)): a run shows metastable clusters."


@dataclasses.dataclass(frozen=True)
class Case:
    """A flow with what was read off it."""

    flow: AbstractDynamics
    tokens: np.ndarray | None
    spectrum: Spectrum
    conditions: dict[str, tuple[Condition, ...]]


Hypotheses = Callable[[Case], Sequence[Hypothesis]]


@dataclasses.dataclass(frozen=True)
class Rule:
    """One result: where it applies and what it promises."""

    id: str
    paper: str
    limit: str
    says: str
    setting: Hypotheses
    spectral: str
    """Its conditions on V and Q^T K, by their name in `hypotheses_met`."""
    rate: Callable[[Spectrum], str]
    start: Hypotheses = lambda case: ()
    proved: bool = True
    note: str = ""
    caution: str = ""


def _in_space(case: Case) -> tuple[Hypothesis, ...]:
    return (
        given.in_euclidean_space(case.flow),
        is_true("z is x seen through e^{-tV}", _is_rescaled_by_value(case.flow)),
        given.plain(case.flow),
        given.attention_is(case.flow, Softmax),
        given.mask_is(case.flow, Full),
    )


def _is_rescaled_by_value(flow: AbstractDynamics) -> bool:
    return not isinstance(flow, RescaledAttention) or flow.rescaling is None


def _on_the_line(case: Case) -> tuple[Hypothesis, ...]:
    return (*_in_space(case), at_most("d = 1", case.flow.dimension, 1, "dimensions"))


def _hardmax(case: Case) -> tuple[Hypothesis, ...]:
    in_space = given.in_euclidean_space(case.flow)
    return in_space, given.plain(case.flow), given.attention_is(case.flow, Hardmax), given.mask_is(case.flow, Full)


def _sphere(case: Case) -> tuple[Hypothesis, ...]:
    return (
        given.on_the_sphere(case.flow),
        given.plain(case.flow),
        given.attention_is(case.flow, Softmax, Unnormalised),
        given.mask_is(case.flow, Full),
        given.dimension_is_at_least(case.flow, 2),
    )


def _causal(case: Case) -> tuple[Hypothesis, ...]:
    sphere_and_mask = given.causal_attention(case.flow)
    return (*sphere_and_mask, given.dimension_is_at_least(case.flow, 2), given.beta_at_least(case.flow, 0.0))


def _sphere_from_three(case: Case) -> tuple[Hypothesis, ...]:
    return (*_sphere(case), given.beta_at_least(case.flow, 0.0), given.dimension_is_at_least(case.flow, 3))


def _circle(case: Case) -> tuple[Hypothesis, ...]:
    on_circle = at_most("d = 2", case.flow.dimension, 2, "dimensions")
    return (*_sphere(case), given.beta_at_least(case.flow, 0.0), on_circle)


def _without_lengths(case: Case) -> tuple[Hypothesis, ...]:
    return normalised.setting(case.flow, NGPT, Sqrt)


def _with_lengths(case: Case) -> tuple[Hypothesis, ...]:
    if case.tokens is None:
        return (*normalised.setting(case.flow, Pre, Mix, Peri), is_true("n <= e^beta (pass `tokens`)", False))
    return (*normalised.setting(case.flow, Pre, Mix, Peri), normalised.few(case.flow, case.tokens))


def _generic_directions(case: Case) -> tuple[Hypothesis, ...]:
    if case.tokens is None:
        return ()
    return tuple(generic(case.flow, normalised.directions(case.tokens)))


def _anywhere(case: Case) -> tuple[Hypothesis, ...]:
    has_scheme = case.flow.is_on_sphere and not given.on_the_sphere(case.flow).holds
    return given.plain(case.flow), is_true("no normalisation scheme beside the projection", not has_scheme)


def _distinct(case: Case) -> tuple[Hypothesis, ...]:
    return () if case.tokens is None else (given.distinct(case.tokens),)


def _filling(case: Case) -> tuple[Hypothesis, ...]:
    """Where tokens do not differ in a direction they shrink exponentially in it."""
    if case.tokens is None:
        return ()
    return (given.filling(case.tokens),)


def _hemisphere(case: Case) -> tuple[Hypothesis, ...]:
    if case.tokens is None:
        return (is_true("first tokens in an open hemisphere (pass `tokens`)", False),)
    return (given.in_an_open_hemisphere(case.tokens),)


def _generic(case: Case) -> tuple[Hypothesis, ...]:
    """Almost every start is not every start: antipodal tokens and configurations at rest are left out."""
    if case.tokens is None:
        return ()
    sums = KDTree(case.tokens).query(-case.tokens)[0]  # of each token and the one nearest to its antipode
    apart = above("no two first tokens are antipodal", float(sums.min()), AT_REST, "in |x_i + x_j|")
    speed = float(np.abs(velocity(case.flow, case.tokens)).max())
    if np.ptp(case.tokens, axis=0).max() == 0:  # one point already, which V = I keeps
        return (apart,)
    return apart, above("the start is not an equilibrium", speed, AT_REST, "in the largest velocity")


def _first_token_leans(case: Case) -> tuple[Hypothesis, ...]:
    """The first token has a part that V sends towards the leading space."""
    if case.tokens is None:
        return ()
    covectors = _left_leading_space(case.spectrum)
    part = float(np.linalg.norm(covectors.T @ case.tokens[0]))
    return (*_generic(case), above("the first token has a part along L", part, AT_REST))


def _left_leading_space(found: Spectrum) -> np.ndarray:
    return dataclasses.replace(found, matrix=found.matrix.T).leading_space


def _exponential(found: Spectrum) -> str:
    return f"e^(-{found.leading.value.real:.3g} t)"


def _first_token_rate(found: Spectrum) -> str:
    return f"e^(-{found.gap:.3g} t) for the first token"


def _said(text: str) -> Callable[[Spectrum], str]:
    return lambda found: text


RULES: tuple[Rule, ...] = (
    Rule(
        "zero-value",
        "the equation itself",
        "at-rest",
        "V = 0: no token ever moves.",
        _anywhere,
        "zero-value",
        _said("exact"),
    ),
    Rule(
        "polytope",
        f"{CLUSTERS} Theorem 3.1",
        "polytope",
        "The hull of the rescaled tokens shrinks to a polytope, and every token goes to a point of a finite set S on "
        "its boundary (or 0) that holds all vertices.",
        _in_space,
        "polytope",
        _exponential,
        caution="The theorem does not say that tokens go to vertices; nearly always they do.",
    ),
    Rule(
        "boolean-limit",
        f"{CLUSTERS} Theorem 2.1",
        "boolean",
        "All rows of the attention matrix but at most one become e_min or e_max, the labels of the extreme tokens.",
        _on_the_line,
        "hyperplanes",
        lambda found: f"doubly exponential: 1 - P ~ exp(-c e^({found.leading.value.real:.3g} t))",
        start=_distinct,
    ),
    Rule(
        "minus-identity",
        f"{CLUSTERS} section on V = -I",
        "zero",
        "All tokens x go to zero and attention becomes uniform; z = e^(-tV) x diverges meanwhile.",
        _in_space,
        "minus-identity",
        _said("t^(-1/2) for the tokens, 1/t for the attention"),
        start=_filling,
        note="Q^T K = I there; a change of coordinates gives every positive definite Q^T K.",
    ),
    Rule(
        "polytope-times-hyperplane",
        f"{CLUSTERS} section 5",
        "polytope-times-hyperplane",
        "The part of the rescaled tokens in the leading eigenspace F goes to the boundary of a polytope (or 0); the "
        "other part G is free.",
        _in_space,
        "polytope-times-hyperplane",
        _exponential,
    ),
    Rule(
        "polytope-times-hyperplane-general",
        f"{CLUSTERS} section 5",
        "polytope-times-hyperplane",
        "As polytope-times-hyperplane, where Q^T K mixes F and G.",
        _in_space,
        "polytope-times-hyperplane-general",
        _exponential,
        proved=False,
        note="A bound in the published proof fails where Q^T K mixes F and G; no counterexample is known.",
    ),
    Rule(
        "hyperplanes",
        f"{CLUSTERS} Theorem 4.2",
        "hyperplanes",
        "The leading coordinate phi_1^*(z) of every rescaled token goes to one of at most three values a, 0, b.",
        _in_space,
        "hyperplanes",
        _exponential,
    ),
    Rule(
        "hardmax-limits",
        "arXiv:2407.01602 theorem on clustering",
        "leaders",
        "Every rescaled token goes to a leader, one that is its own best match, or to a projection onto a face between "
        "leaders.",
        _hardmax,
        "polytope",
        _exponential,
        note="Proved for discrete layers.",
    ),
    Rule(
        "codimension-k",
        f"{CLUSTERS} conjecture on codimension k",
        "hyperplanes",
        "With k eigenvalues of positive real part, all simple, the rescaled tokens go to at most three parallel affine "
        "subspaces of codimension k.",
        _in_space,
        "codimension-k",
        _exponential,
        proved=False,
        note="Asked here only where a simple real eigenvalue leads: V = I and complex pairs give more than three.",
    ),
    Rule(
        "identity-value",
        f"{CAUSAL} Theorem 4.1",
        "first-token",
        "From almost every start all tokens go to x_1(0), where the first token is and stays.",
        _causal,
        "identity-value",
        _said("none proved"),
        start=_generic,
        caution="At large beta it can take longer than any run: clusters live for times exponential in beta.",
    ),
    Rule(
        "hemisphere-rate",
        f"{PERSPECTIVE} Section 6",
        "point",
        "Tokens that start in an open hemisphere meet in one point, for every Q and K.",
        _sphere,
        "identity-value",
        _said("e^(-c t) with some c > 0"),
        start=_hemisphere,
    ),
    Rule(
        "single-cluster",
        f"{PERSPECTIVE} Sections 4 and 5; arXiv:2405.18273",
        "point",
        "From almost every start all tokens meet in one point.",
        _sphere_from_three,
        "single-cluster",
        _said("none proved for every start"),
        start=_generic,
        caution=SLOW,
    ),
    Rule(
        "single-cluster-circle",
        "arXiv:2507.22857; beta in [0, 1] in arXiv:2405.18273",
        "point",
        "On the circle too all tokens meet in one point, from almost every start.",
        _circle,
        "single-cluster",
        _said("none proved for every start"),
        start=_generic,
        caution=SLOW,
    ),
    Rule(
        "synchronisation",
        NORMALISED,
        "point",
        "All tokens meet in one point, from almost every start.",
        _without_lengths,
        "single-cluster",
        _said("for 1 - cosine: e^(-2 integral of alpha) under nGPT, e^(-4 sqrt(t + 1)) under LayerNorm scaling"),
        start=_generic_directions,
    ),
    Rule(
        "synchronisation-with-lengths",
        NORMALISED,
        "point",
        "The directions of all tokens meet in one point, and their lengths grow like t.",
        _with_lengths,
        "single-cluster",
        _said("t^(-2) for 1 - cosine"),
        start=_generic_directions,
    ),
    Rule(
        "conjecture-2",
        f"{CAUSAL} Conjecture 2",
        "point-of-subspace",
        "All tokens go to the direction of the first token's part in the leading eigenspace L.",
        _causal,
        "conjecture-2",
        _first_token_rate,
        start=_first_token_leans,
        proved=False,
    ),
    Rule(
        "conjecture-1",
        f"{CAUSAL} Conjecture 1",
        "poles",
        "Every token goes to +xi or -xi, the unit eigenvectors of the leading eigenvalue.",
        _causal,
        "conjecture-1",
        _first_token_rate,
        start=_first_token_leans,
        proved=False,
        note="Asked here only for Q^T K = k I and a V that splits; otherwise there are counterexamples.",
    ),
    Rule(
        "table-1-cloud",
        f"{CAUSAL} Table 1",
        "cloud-around-subspace",
        "Tokens repel each other and form a cloud around the leading eigenspace L.",
        _causal,
        "table-1-cloud",
        _said("none known"),
        start=_first_token_leans,
        proved=False,
    ),
    Rule(
        "table-1-two-clouds",
        f"{CAUSAL} Table 1",
        "clouds-around-poles",
        "Tokens repel each other and form two clouds, around +xi and -xi.",
        _causal,
        "table-1-two-clouds",
        _said("none known"),
        start=_first_token_leans,
        proved=False,
    ),
)
