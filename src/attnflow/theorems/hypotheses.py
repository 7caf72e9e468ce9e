"""Hypotheses on a flow and on its first tokens that several theorems share.

Each function returns one `Hypothesis`, or the tuple of those that make up a setting. Flows are given in their simplest
form (`simplest_flow`): parts that change nothing are absent, and masks are full or causal under these names. V, Q^T K
and beta are read off a flow here and nowhere else; hypotheses on their spectra are in `spectral_hypotheses`.
"""

import numpy as np

from attnflow._common.plain import evenly_spaced
from attnflow.model.attention import AbstractAttention, Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import RescaledAttention, SphereAttention
from attnflow.model.heads import Head
from attnflow.model.masks import AbstractMask, Causal, Full
from attnflow.model.normalisation import AbstractNormalisation, Post
from attnflow.theorems.verdict import Hypothesis, above, at_most, is_true

MATRIX_TOLERANCE = 1e-9  # largest difference of entries of equal matrices: a million roundings of numbers of size one
REST_SHARE = 1e-9  # of the terms of a velocity: where less is left, they cancel up to rounding
MAX_CHOSEN_TOKENS = 200  # whose velocities are looked at first: n terms each
POINT_TOLERANCE = 1e-9  # distance on the unit sphere below which two points are one, up to rounding


# The matrices of a flow


def value_matrix(flow: AbstractDynamics) -> np.ndarray:
    """V, summed over heads; NaN where it changes in time."""
    heads = [head for head in flow.heads if isinstance(head, Head)]
    if len(heads) < len(flow.heads):
        return np.full((flow.dimension, flow.dimension), np.nan)
    return np.sum([np.asarray(head.value_matrix) for head in heads], axis=0)


def query_key_matrix(flow: AbstractDynamics) -> np.ndarray:
    """Q^T K of the only head; NaN where there are several or it changes in time."""
    head = flow.heads[0]
    if len(flow.heads) > 1 or not isinstance(head, Head):
        return np.full((flow.dimension, flow.dimension), np.nan)
    return np.asarray(head.query_key)


def beta_of(flow: AbstractDynamics) -> float:
    """The inverse temperature; infinity for hardmax."""
    return np.inf if flow.beta is None else flow.beta


def score_matrix(flow: AbstractDynamics) -> np.ndarray:
    """B of the scores <x_i, B x_j>: beta Q^T K, or Q^T K itself for hardmax."""
    return (1.0 if flow.beta is None else flow.beta) * query_key_matrix(flow)


def growth_rate(flow: AbstractDynamics) -> float:
    """c of V = c I: time is measured in units of 1/|c|."""
    value = value_matrix(flow)
    return float(np.trace(value)) / len(value)


# The setting


def in_euclidean_space(flow: AbstractDynamics) -> Hypothesis:
    """Tokens move in R^d, rescaled or not."""
    return is_true("tokens move in R^d", not flow.is_on_sphere, "space")


def rescaled(flow: AbstractDynamics) -> Hypothesis:
    """The run holds z = e^{-tV} x."""
    is_frame = isinstance(flow, RescaledAttention) and flow.rescaling is None
    return is_true("the run is the rescaled flow z = e^{-tV} x", is_frame)


def seen_as_x_or_z(flow: AbstractDynamics) -> Hypothesis:
    """The run holds x, or z = e^{-tV} x with the flow's own V."""
    is_other = isinstance(flow, RescaledAttention) and flow.rescaling is not None
    return is_true("the run is x or z = e^{-tV} x", not is_other)


def on_the_sphere(flow: AbstractDynamics) -> Hypothesis:
    """Tokens move on the unit sphere and have no lengths of their own."""
    return normalised_by(flow, Post)


def normalised_by(flow: AbstractDynamics, *schemes: type[AbstractNormalisation]) -> Hypothesis:
    """Tokens move on the unit sphere under one of some normalisation schemes."""
    is_met = isinstance(flow, SphereAttention) and isinstance(flow.normalisation, schemes)
    names = " or ".join(scheme.__name__ for scheme in schemes)
    # On the sphere another scheme is a difference of setting, not of space.
    kind = "setting" if flow.is_on_sphere else "space"
    return is_true(f"tokens move on the unit sphere under {names} normalisation", is_met, kind)


def plain(flow: AbstractDynamics) -> Hypothesis:
    """One head with constant weights; neither MLP, noise, frozen tokens nor unequal masses."""
    extras = (flow.mlp, flow.noise, flow.frozen, flow.masses)
    one_constant_head = len(flow.heads) == 1 and isinstance(flow.heads[0], Head)
    return is_true(
        "one head with constant weights; no noise, MLP, frozen tokens or masses",
        one_constant_head and all(extra is None for extra in extras),
    )


def without_perceptron(flow: AbstractDynamics) -> Hypothesis:
    """Tokens move by attention alone."""
    return is_true("no drift W sigma(U x + b) by a perceptron", flow.perceptron is None)


def attention_is(flow: AbstractDynamics, *kinds: type[AbstractAttention]) -> Hypothesis:
    """The attention weights are of one of `kinds`."""
    names = " or ".join(kind.__name__.lower() for kind in kinds)
    return is_true(f"{names} attention", isinstance(flow.attention, kinds))


def mask_is(flow: AbstractDynamics, kind: type[AbstractMask]) -> Hypothesis:
    """The mask is `Full` or `Causal`, each token attending to itself."""
    is_strict = isinstance(flow.mask, Causal) and flow.mask.strict
    return is_true(f"{kind.__name__.lower()} mask", isinstance(flow.mask, kind) and not is_strict)


def value_is(flow: AbstractDynamics, multiple: float = 1.0) -> Hypothesis:
    """V = multiple * I."""
    value = value_matrix(flow)
    distance = float(np.abs(value - multiple * np.eye(len(value))).max())
    name = {1.0: "V = I", -1.0: "V = -I"}.get(multiple, f"V = {multiple:g} I")
    return at_most(name, distance, MATRIX_TOLERANCE, "in the largest entry", "value")


def scores_are_inner_products(flow: AbstractDynamics) -> Hypothesis:
    """Q^T K = I; beta is free."""
    matrix = query_key_matrix(flow)
    distance = float(np.abs(matrix - np.eye(len(matrix))).max())
    return at_most("Q^T K = I", distance, MATRIX_TOLERANCE, "in the largest entry", "scores")


def beta_at_least(flow: AbstractDynamics, least: float) -> Hypothesis:
    """beta >= least."""
    return at_most(f"beta >= {least:g}", least, beta_of(flow), "in beta", "scores")


def beta_above(flow: AbstractDynamics, limit: float) -> Hypothesis:
    """beta > limit."""
    return above(f"beta > {limit:g}", beta_of(flow), limit, "in beta", "scores")


def dimension_is(flow: AbstractDynamics, d: int) -> Hypothesis:
    """The tokens have d coordinates."""
    return at_most(f"d = {d}", abs(flow.dimension - d), 0, "in the dimension")


def dimension_is_at_least(flow: AbstractDynamics, least: int) -> Hypothesis:
    """d >= least."""
    return at_most(f"d >= {least}", least, flow.dimension, "in the dimension")


def transformer(flow: AbstractDynamics, *kinds: type[AbstractAttention]) -> tuple[Hypothesis, ...]:
    """The setting of arXiv:2305.05465: plain softmax (or `kinds`) attention in R^d with a full mask."""
    return (
        in_euclidean_space(flow),
        seen_as_x_or_z(flow),
        plain(flow),
        attention_is(flow, *(kinds or (Softmax,))),
        mask_is(flow, Full),
    )


def full_attention(flow: AbstractDynamics, *kinds: type[AbstractAttention]) -> tuple[Hypothesis, ...]:
    """Plain softmax or unnormalised attention (or `kinds`) on the sphere with a full mask; any Q, K, V."""
    return (
        on_the_sphere(flow),
        plain(flow),
        attention_is(flow, *(kinds or (Softmax, Unnormalised))),
        mask_is(flow, Full),
    )


def causal_attention(flow: AbstractDynamics, *kinds: type[AbstractAttention]) -> tuple[Hypothesis, ...]:
    """Plain softmax or unnormalised attention (or `kinds`) on the sphere with a causal mask; any Q, K, V."""
    return (
        on_the_sphere(flow),
        plain(flow),
        attention_is(flow, *(kinds or (Softmax, Unnormalised))),
        mask_is(flow, Causal),
    )


def self_attention(flow: AbstractDynamics, *kinds: type[AbstractAttention]) -> tuple[Hypothesis, ...]:
    """The setting of SA and USA: softmax or unnormalised attention on the sphere, full mask, Q^T K = V = I."""
    return (*full_attention(flow, *kinds), scores_are_inner_products(flow), value_is(flow))


# The first tokens


def at_least_two_tokens(tokens: np.ndarray) -> Hypothesis:
    """n >= 2."""
    return at_most("n >= 2", 2, len(tokens), "tokens")


def distinct(tokens: np.ndarray) -> Hypothesis:
    """No two tokens are equal."""
    from scipy.spatial.distance import pdist

    closest = float(pdist(tokens).min()) if len(tokens) > 1 else np.inf
    return above("distinct first tokens", closest, 0.0, "between the closest two")


def filling(tokens: np.ndarray) -> Hypothesis:
    """The first tokens have a positive variance in every direction."""
    spread = float(np.linalg.eigvalsh(np.atleast_2d(np.cov(tokens.T, bias=True))).min()) if len(tokens) > 1 else 0.0
    return above("first tokens with a positive variance in every direction", spread, 1e-9, "in the least variance")


def in_an_open_hemisphere(tokens: np.ndarray) -> Hypothesis:
    """Some w has <x_i, w> > 0 for all i; the margin is the largest min_i <x_i, w> over |w|_inf <= 1."""
    pole = hemisphere_pole(tokens)
    margin = float((tokens @ pole).min() / np.abs(pole).max())
    return above("first tokens in an open hemisphere", margin, 1e-9, "in the least inner product")


def hemisphere_pole(tokens: np.ndarray) -> np.ndarray:
    """The unit vector along the w that maximises min_i <x_i, w> over |w|_inf <= 1; NaN where none is found."""
    from scipy.optimize import linprog

    # Linear programme in (w, s): maximise s subject to s - <x_i, w> <= 0 for all i.
    n, d = tokens.shape
    constraint = np.c_[-tokens, np.ones(n)]
    solution = linprog(np.r_[np.zeros(d), -1.0], constraint, np.zeros(n), bounds=[(-1, 1)] * d + [(None, None)])
    if not solution.success or not np.any(solution.x[:d]):
        return np.full(d, np.nan)
    return solution.x[:d] / np.linalg.norm(solution.x[:d])


def no_antipodes(tokens: np.ndarray) -> Hypothesis:
    """No two tokens on the sphere are antipodal."""
    from scipy.spatial import KDTree

    sums = KDTree(tokens).query(-tokens)[0]  # |x_i + x_j| for the x_j nearest to -x_i
    return above("no two first tokens antipodal", float(sums.min()), POINT_TOLERANCE, "in |x_i + x_j|")


def no_antipode_of_the_first(tokens: np.ndarray) -> Hypothesis:
    """No token is antipodal to token 1. The second token would rest there if V = I."""
    sums = np.linalg.norm(tokens + tokens[0], axis=1)
    return above("no first token antipodal to token 1", float(sums.min()), POINT_TOLERANCE, "in |x_1 + x_k|")


def not_at_rest(flow: AbstractDynamics, tokens: np.ndarray, is_limit: bool | None = None) -> Hypothesis:
    """The first tokens move, unless they are at their limit: `is_limit`, or by default all in one point.

    A token is at rest where the terms of its velocity cancel, however small their weights e^{-beta} are. The margin is
    that of the token that is farthest from rest, of many tokens among evenly chosen ones.
    """
    says = "the first tokens are not at rest away from their limit"
    if np.ptp(tokens, axis=0).max() == 0 if is_limit is None else is_limit:
        return is_true(says, True)
    images, keys = tokens @ value_matrix(flow).T, tokens @ score_matrix(flow).T
    share_of = lambda index: _uncancelled_share(flow, tokens, images, keys, index)
    # One moving token is enough: of many tokens all are looked at only if the chosen ones are at rest.
    share = max(map(share_of, evenly_spaced(len(tokens), MAX_CHOSEN_TOKENS)))
    if share <= REST_SHARE and len(tokens) > MAX_CHOSEN_TOKENS:
        share = max(map(share_of, range(len(tokens))))
    return above(says, share, REST_SHARE, "in the share of the velocity's terms that does not cancel")


def _uncancelled_share(
    flow: AbstractDynamics, tokens: np.ndarray, images: np.ndarray, keys: np.ndarray, index: int
) -> float:
    """|sum_j w_j u_j| / sum_j w_j |u_j| of a token x on the sphere, with u_j = P_x V x_j and w_j = e^{<x, B x_j>}.

    `images` are V x_j and `keys` B x_j. The weights are divided by the largest of those whose u_j is not zero. Without
    such a term the token is at rest.
    """
    x = tokens[index]
    moves = images - np.outer(images @ x, x)
    sizes = np.linalg.norm(moves, axis=1)
    is_term = sizes > MATRIX_TOLERANCE * np.abs(images).max(initial=1e-300)
    if isinstance(flow.mask, Causal):
        is_term &= np.arange(len(tokens)) <= index
    if not is_term.any():
        return 0.0
    scores = keys[is_term] @ x
    weights = np.exp(scores - scores.max())
    return float(np.linalg.norm(weights @ moves[is_term]) / (weights @ sizes[is_term]))


def generic(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, Hypothesis]:
    """Outside the exceptional starts that can be recognised: with antipodal pairs, or at rest."""
    return no_antipodes(tokens), not_at_rest(flow, tokens)


def directions(tokens: np.ndarray) -> np.ndarray:
    """Tokens divided by their lengths; zero stays zero."""
    lengths = np.linalg.norm(tokens, axis=-1, keepdims=True)
    return tokens / np.where(lengths > 0, lengths, 1.0)
