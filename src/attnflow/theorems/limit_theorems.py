"""Theorems about where tokens converge, with their hypotheses.

`predict` applies all of them (`prediction.limit_rules`); `verify` measures the conclusions of those that have a
statement. V = c I with c > 0 counts as V = I, since c only changes the unit of time, and beta is a factor of Q^T K.
"""

from collections.abc import Sequence

import numpy as np

from attnflow.model.attention import Hardmax, Softmax
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.masks import Full
from attnflow.model.normalisation import NGPT, Mix, Peri, Post, Pre, Sqrt
from attnflow.theorems import hypotheses as given
from attnflow.theorems import spectral_hypotheses as spectral
from attnflow.theorems.theorem import Theorem, weights_of
from attnflow.theorems.verdict import Hypothesis, above, at_most, is_true

CLUSTERS = "arXiv:2305.05465"
PERSPECTIVE = "arXiv:2312.10794"
CAUSAL = "arXiv:2411.04990"
NORMALISED = "arXiv:2510.22026"

# V = c I with c > 0, which is V = I in another unit of time.
IDENTITY_VALUE = (spectral.isotropic, spectral.leading_is_positive)
# Q^T K = k I with beta k >= 0.
ATTRACTIVE_SCORES = (spectral.scores_are_isotropic, spectral.score_multiple_at_least(0.0))
# The leading eigenspace L splits off orthogonally.
SPLITTING = (spectral.complement_is_invariant, spectral.complement_grows_slower)


# Settings


def _on_the_line(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    return (*given.transformer(flow), given.dimension_is(flow, 1))


def hardmax_attention(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    """Plain hardmax attention in R^d with a full mask, whose ties are exact up to the error of solvers."""
    setting = given.transformer(flow, Hardmax)
    if not isinstance(flow.attention, Hardmax):
        return setting
    # Tokens that tie to within a coarse tolerance share their attention: another model.
    return (*setting, above("ties are closer than 1e-6", 1e-6, float(flow.attention.tolerance), "in the tolerance"))


def _no_other_scheme(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    has_scheme = flow.is_on_sphere and not given.on_the_sphere(flow).holds
    scheme = is_true("no normalisation scheme beside the projection", not has_scheme)
    return given.plain(flow), given.seen_as_x_or_z(flow), scheme  # in another frame resting tokens move


def _causal(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    return (*given.causal_attention(flow), given.dimension_is_at_least(flow, 2))


def _normalised(*schemes: type):
    def setting(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
        return (
            given.normalised_by(flow, *schemes),
            given.plain(flow),
            given.attention_is(flow, Softmax),
            given.mask_is(flow, Full),
            given.dimension_is_at_least(flow, 2),
        )

    return setting


# First tokens


def _generic_directions(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    return given.generic(flow, given.directions(tokens))


def at_most_exponentially_many(flow: AbstractDynamics, tokens: np.ndarray) -> Hypothesis:
    """n <= e^{beta k} for Q^T K = k I, so that the length of every token grows."""
    weights = weights_of(flow)
    multiple = np.nan if weights is None else spectral.score_multiple(weights)
    return at_most("n <= e^(beta k)", float(np.log(len(tokens))), multiple, "in log n")


def _few_generic_directions(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    return (at_most_exponentially_many(flow, tokens), *_generic_directions(flow, tokens))


def _first_token_in_leading_space(flow: AbstractDynamics, tokens: np.ndarray) -> Hypothesis:
    """e^{tV} x_1 turns towards the leading space: some left eigenvector of it is not orthogonal to x_1."""
    weights = weights_of(flow)
    assert weights is not None  # the setting asks for constant weights
    covectors = spectral.spectrum(weights.spectrum.matrix.T).leading_space
    part = float(np.linalg.norm(covectors.T @ tokens[0]))
    return above("token 1 has a part in the leading space", part, given.POINT_TOLERANCE)


def _towards_poles(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    weights = weights_of(flow)
    assert weights is not None
    xi = weights.spectrum.right
    away = np.minimum(np.linalg.norm(tokens - xi, axis=1), np.linalg.norm(tokens + xi, axis=1))
    is_limit = bool(away.max() <= given.POINT_TOLERANCE)
    return _first_token_in_leading_space(flow, tokens), given.not_at_rest(flow, tokens, is_limit)


def _towards_point_of_subspace(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    return (
        _first_token_in_leading_space(flow, tokens),
        given.no_antipode_of_the_first(tokens),
        given.not_at_rest(flow, tokens),
    )


def _towards_clouds(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    return _first_token_in_leading_space(flow, tokens), *given.generic(flow, tokens)


# The theorems

ZERO_VALUE = Theorem(
    id="zero-value",
    paper="the equation itself",
    says="With V = 0 no token ever moves.",
    setting=_no_other_scheme,
    spectral=(spectral.zero,),
)
POLYTOPE = Theorem(
    id="polytope",
    paper=f"{CLUSTERS} Theorem 3.1",
    says="With V = I and Q^T K positive definite the hull of the rescaled tokens shrinks to a polytope, and every "
    "rescaled token converges to a point of a finite set S: the vertices, some points of the faces, and 0.",
    setting=given.transformer,
    spectral=(*IDENTITY_VALUE, spectral.scores_are_definite),
)
BOOLEAN_LIMIT = Theorem(
    id="boolean-limit",
    paper=f"{CLUSTERS} Theorem 2.1",
    says="On the line, with V > 0 and QK > 0, the attention matrix becomes Boolean: every row but at most one "
    "converges to e_min or e_max, the labels of the least and the greatest first token.",
    setting=_on_the_line,
    spectral=(spectral.leading_is_positive, spectral.scores_are_definite),
    start=lambda _, tokens: (given.distinct(tokens),),
)
MINUS_IDENTITY = Theorem(
    id="minus-identity",
    paper=f"{CLUSTERS} case V = -I, in coordinates in which beta Q^T K = I",
    says="With V = -I and Q^T K positive definite all tokens x converge to 0, but only algebraically: their covariance "
    "is (beta Q^T K)^-1 / (2t) to leading order, and attention becomes uniform; z = e^(-tV) x diverges.",
    setting=given.transformer,
    spectral=(spectral.isotropic, spectral.leading_is_negative, spectral.scores_are_definite),
    start=lambda _, tokens: (given.filling(tokens),),  # without variance in a direction the decay is exponential in it
)
HYPERPLANES = Theorem(
    id="hyperplanes",
    paper=f"{CLUSTERS} Theorem 4.2",
    says="If the leading eigenvalue of V is real, positive, simple and the largest in modulus, and the leading "
    "direction attends to itself, the coordinate phi_1^*(z) of every rescaled token converges to one of at most three "
    "values a, 0, b: the tokens gather on at most three parallel hyperplanes.",
    setting=given.transformer,
    spectral=(spectral.leading_dominates, spectral.leading_direction_attends_to_itself),
)
_LAMBDA_ON_F = (
    spectral.leading_is_real,
    spectral.leading_has_no_jordan_block,
    spectral.leading_outgrows,
    spectral.scores_are_definite,
)
POLYTOPE_TIMES_HYPERPLANE = Theorem(
    id="polytope-times-hyperplane",
    paper=f"{CLUSTERS} section 5 (mixed case)",
    says="If V is lambda > 0 times the identity on F, the space of its leading eigenvectors, and has a smaller "
    "spectral radius on G, that of its other generalised eigenvectors, and Q^T K is positive definite, the F-parts of "
    "the rescaled tokens converge to the boundary of a polytope or to 0, whatever their G-parts do.",
    setting=given.transformer,
    spectral=(*_LAMBDA_ON_F, spectral.spaces_are_orthogonal),
)
POLYTOPE_TIMES_HYPERPLANE_GENERAL = Theorem(
    id="polytope-times-hyperplane-general",
    paper=f"{CLUSTERS} section 5 (mixed case)",
    says="The conclusion of polytope-times-hyperplane where F, the space of the leading eigenvectors of V, and G, that "
    "of its other generalised eigenvectors, need not be orthogonal for Q^T K.",
    setting=given.transformer,
    # Where F is a line or the whole space, Theorem 4.2 or 3.1 proves it.
    spectral=(*_LAMBDA_ON_F, spectral.leading_is_multiple, spectral.others_exist),
    proved=False,
)
HARDMAX_LIMITS = Theorem(
    id="hardmax-limits",
    paper="arXiv:2407.01602 theorem on clustering, in continuous time",
    says="Under hardmax attention with V = I and Q^T K positive definite every rescaled token converges to a leader, a "
    "token that is its own best match, or to a projection onto a face between leaders.",
    setting=hardmax_attention,
    spectral=(*IDENTITY_VALUE, spectral.scores_are_definite),
)
CODIMENSION_K = Theorem(
    id="codimension-k",
    paper=f"{CLUSTERS} conjecture on codimension k",
    says="If k eigenvalues of V, all simple, have a positive real part and a real one leads, the rescaled tokens "
    "gather on at most three parallel affine subspaces of codimension k, whatever Q and K are.",
    setting=given.transformer,
    # Without the first and the last V = I and complex pairs would be counterexamples.
    spectral=(spectral.leading_is_simple, spectral.leading_is_positive, spectral.growing_are_simple),
    proved=False,
)
CAUSAL_IDENTITY_VALUE = Theorem(
    id="identity-value",
    paper=f"{CAUSAL} Theorem 4.1",
    says="With V = I and a causal mask every token converges to x_1(0), where the first token stays, for all Q, K and "
    "almost every start.",
    setting=_causal,
    spectral=IDENTITY_VALUE,
    start=lambda _, tokens: (given.no_antipode_of_the_first(tokens),),
)
HEMISPHERE_RATE = Theorem(
    id="hemisphere-rate",
    paper=f"{PERSPECTIVE} Section 6",
    says="With V = I tokens that start in an open hemisphere converge to one point x*, for all Q, K: distances decay "
    "like e^(-t) for softmax attention, and like e^(-t w) for unnormalised attention, w being the weight of x* with "
    "itself (e^beta where Q^T K = I).",
    setting=given.full_attention,
    spectral=IDENTITY_VALUE,
    start=lambda _, tokens: (given.in_an_open_hemisphere(tokens),),
    for_almost_every_start=False,
)
SINGLE_CLUSTER = Theorem(
    id="single-cluster",
    paper=f"{PERSPECTIVE} Sections 4 and 5; arXiv:2405.18273",
    says="With V = I and Q^T K = k I, on a sphere of dimension two or more and for any beta k >= 0, almost every start "
    "ends in one point.",
    setting=lambda flow: (*given.full_attention(flow), given.dimension_is_at_least(flow, 3)),
    spectral=(*IDENTITY_VALUE, *ATTRACTIVE_SCORES),
    start=given.generic,
)
SINGLE_CLUSTER_CIRCLE = Theorem(
    id="single-cluster-circle",
    paper="arXiv:2507.22857; beta in [0, 1] in arXiv:2405.18273",
    says="With V = I and Q^T K = k I, on the circle and for any beta k >= -0.16, almost every start ends in one point.",
    setting=lambda flow: (*given.full_attention(flow), given.dimension_is(flow, 2)),
    spectral=(*IDENTITY_VALUE, spectral.scores_are_isotropic, spectral.score_multiple_at_least(-0.16)),
    start=given.generic,
)
SYNCHRONISATION = Theorem(
    id="synchronisation",
    paper=NORMALISED,
    says="With V = I and Q^T K = k I, beta k >= 0, almost every start ends in one point under Post-LN, nGPT and "
    "LayerNorm scaling.",
    setting=_normalised(Post, NGPT, Sqrt),
    spectral=(*IDENTITY_VALUE, *ATTRACTIVE_SCORES),
    start=_generic_directions,
)
SYNCHRONISATION_WITH_LENGTHS = Theorem(
    id="synchronisation-with-lengths",
    paper=NORMALISED,
    says="With V = I and Q^T K = k I the directions of n <= e^(beta k) tokens end in one point from almost every start "
    "under Pre-LN, Mix-LN and Peri-LN, and their lengths grow like t.",
    setting=_normalised(Pre, Mix, Peri),
    spectral=(*IDENTITY_VALUE, *ATTRACTIVE_SCORES),
    start=_few_generic_directions,
    for_almost_every_start=False,  # the number of tokens has to be known
)
CONJECTURE_2 = Theorem(
    id="conjecture-2",
    paper=f"{CAUSAL} Conjecture 2",
    says="If the leading eigenspace L of V has dimension 2 or more and splits off orthogonally, every token of a "
    "causal flow converges to the direction of the first token's part in L, for all Q, K.",
    setting=given.causal_attention,
    spectral=(
        spectral.leading_is_real,
        spectral.leading_is_positive,
        spectral.leading_is_multiple,
        spectral.leading_has_no_jordan_block,
        *SPLITTING,
    ),
    start=_towards_point_of_subspace,
    proved=False,
)
CONJECTURE_1 = Theorem(
    id="conjecture-1",
    paper=f"{CAUSAL} Conjecture 1, for Q^T K = k I and V that splits",
    says="If the leading eigenvalue of V is positive and simple, every token of a causal flow converges to +xi or -xi, "
    "its unit eigenvectors.",
    setting=_causal,
    # For other Q^T K, even positive definite ones, and for V that does not split there are counterexamples.
    spectral=(spectral.leading_is_simple, spectral.leading_is_positive, *SPLITTING, *ATTRACTIVE_SCORES),
    start=_towards_poles,
    proved=False,
)
TABLE_1_CLOUD = Theorem(
    id="table-1-cloud",
    paper=f"{CAUSAL} Table 1",
    says="If the leading eigenvalue of V is negative and multiple, tokens of a causal flow repel each other and form a "
    "cloud around the leading eigenspace L.",
    setting=given.causal_attention,
    spectral=(
        spectral.leading_is_real,
        spectral.leading_is_negative,
        spectral.leading_is_multiple,
        spectral.leading_has_no_jordan_block,
        *ATTRACTIVE_SCORES,
    ),
    start=_towards_clouds,
    proved=False,
)
TABLE_1_TWO_CLOUDS = Theorem(
    id="table-1-two-clouds",
    paper=f"{CAUSAL} Table 1",
    says="If the leading eigenvalue of V is negative and simple, tokens of a causal flow repel each other and form two "
    "clouds, around +xi and -xi.",
    setting=_causal,
    spectral=(spectral.leading_is_simple, spectral.leading_is_negative, *ATTRACTIVE_SCORES),
    start=_towards_clouds,
    proved=False,
)
