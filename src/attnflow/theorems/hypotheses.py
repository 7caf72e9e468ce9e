"""Hypotheses that many statements share, measured on a flow and its first tokens.

Each function returns one `Hypothesis`. What a flow means mathematically (V, the matrix B of
the scores, beta included) is read off here and nowhere else.
"""

import numpy as np
from scipy.optimize import linprog
from scipy.spatial.distance import pdist

from attnflow.model.attention import AbstractAttention, Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import RescaledAttention, SphereAttention
from attnflow.model.heads import Head
from attnflow.model.masks import AbstractMask, Boolean, Causal, Full
from attnflow.model.normalisation import Post
from attnflow.theorems.verdict import Hypothesis, above, at_most, is_true

SAME = 1e-9  # matrices that differ by less are taken for the same


def value_matrix(flow: AbstractDynamics) -> np.ndarray:
    """V, summed over heads; NaN where it changes in time."""
    heads = [head for head in flow.heads if isinstance(head, Head)]
    if len(heads) < len(flow.heads):
        return np.full((flow.dimension, flow.dimension), np.nan)
    return np.sum([np.asarray(head.value_matrix) for head in heads], axis=0)


def query_key_matrix(flow: AbstractDynamics) -> np.ndarray:
    """Q^T K of the one head; NaN where there are several or it changes in time."""
    head = flow.heads[0]
    if len(flow.heads) > 1 or not isinstance(head, Head):
        return np.full((flow.dimension, flow.dimension), np.nan)
    return np.asarray(head.query_key)


def beta_of(flow: AbstractDynamics) -> float:
    """The rule's beta; infinity for hardmax."""
    return np.inf if flow.beta is None else flow.beta


def score_matrix(flow: AbstractDynamics) -> np.ndarray:
    """B of the scores x_i^T B x_j: beta Q^T K, or Q^T K itself for hardmax."""
    beta = beta_of(flow)
    return (1.0 if np.isinf(beta) else beta) * query_key_matrix(flow)


def in_euclidean_space(flow: AbstractDynamics) -> Hypothesis:
    """Tokens move in R^d, rescaled or not."""
    return is_true("tokens move in R^d", not flow.is_on_sphere)


def rescaled(flow: AbstractDynamics) -> Hypothesis:
    """The run holds z = e^{-tV} x."""
    return is_true(
        "the run is the rescaled flow z = e^{-tV} x", isinstance(flow, RescaledAttention) and flow.rescaling is None
    )


def on_the_sphere(flow: AbstractDynamics) -> Hypothesis:
    """Tokens move on the unit sphere without lengths of their own."""
    return is_true(
        "tokens move on the unit sphere (post-normalisation)",
        isinstance(flow, SphereAttention) and isinstance(flow.normalisation, Post),
    )


def plain(flow: AbstractDynamics) -> Hypothesis:
    """One head with constant weights, and nothing besides attention."""
    weights = None if flow.masses is None or np.all(np.asarray(flow.masses) == 1) else flow.masses
    extras = (flow.mlp, flow.noise, flow.frozen, weights)
    one_constant_head = len(flow.heads) == 1 and isinstance(flow.heads[0], Head)
    return is_true(
        "one head with constant weights; no noise, MLP, frozen tokens or masses",
        one_constant_head and all(extra is None for extra in extras),
    )


def attention_is(flow: AbstractDynamics, *kinds: type[AbstractAttention]) -> Hypothesis:
    """The rule is one of `kinds`."""
    names = " or ".join(kind.__name__.lower() for kind in kinds)
    return is_true(f"{names} attention", isinstance(flow.attention, kinds))


def mask_is(flow: AbstractDynamics, kind: type[AbstractMask]) -> Hypothesis:
    """`Full` or (not strictly) `Causal`."""
    mask: AbstractMask = flow.mask
    if isinstance(mask, Boolean):
        mask = _named(mask)
    matches = isinstance(mask, kind) and not getattr(mask, "strict", False)
    return is_true(f"{kind.__name__.lower()} mask", matches)


def _named(mask: Boolean) -> AbstractMask:
    """A matrix that is one of the masks with names as that one."""
    matrix = np.asarray(mask.matrix)
    if np.all(matrix):
        return Full()
    return Causal() if np.array_equal(matrix, np.tril(np.ones_like(matrix))) else mask


def value_is(flow: AbstractDynamics, multiple: float = 1.0) -> Hypothesis:
    """V = multiple * I."""
    value = value_matrix(flow)
    distance = float(np.abs(value - multiple * np.eye(len(value))).max())
    name = {1.0: "V = I", -1.0: "V = -I"}.get(multiple, f"V = {multiple:g} I")
    return at_most(name, distance, SAME, "in the largest entry")


def scores_are_symmetric_positive(flow: AbstractDynamics) -> Hypothesis:
    """Q^T K symmetric and positive definite."""
    says, matrix = "Q^T K symmetric positive definite", score_matrix(flow)
    if not np.all(np.isfinite(matrix)):
        return is_true(says, False)
    asymmetry = float(np.abs(matrix - matrix.T).max())
    if asymmetry > SAME * max(1.0, np.abs(matrix).max()):
        return Hypothesis(says, -asymmetry, "of asymmetry")
    return above(says, float(np.linalg.eigvalsh(matrix).min()), 0.0, "in the least eigenvalue")


def scores_are_inner_products(flow: AbstractDynamics) -> Hypothesis:
    """Q^T K = I, beta aside."""
    matrix = query_key_matrix(flow)
    return at_most("Q^T K = I", float(np.abs(matrix - np.eye(len(matrix))).max()), SAME, "in the largest entry")


def beta_at_least(flow: AbstractDynamics, least: float) -> Hypothesis:
    """beta >= least."""
    return at_most(f"beta >= {least:g}", least, beta_of(flow), "in beta")


def dimension_is_at_least(flow: AbstractDynamics, least: int) -> Hypothesis:
    """d >= least."""
    return at_most(f"d >= {least}", least, flow.dimension, "dimensions")


def at_least_two_tokens(tokens: np.ndarray) -> Hypothesis:
    """n >= 2."""
    return at_most("n >= 2", 2, len(tokens), "tokens")


def distinct(tokens: np.ndarray) -> Hypothesis:
    """No two tokens in one place."""
    closest = float(pdist(tokens).min()) if len(tokens) > 1 else np.inf
    return above("distinct first tokens", closest, 0.0, "between the closest two")


def filling(tokens: np.ndarray) -> Hypothesis:
    """The first tokens differ in every direction."""
    spread = float(np.linalg.eigvalsh(np.atleast_2d(np.cov(tokens.T, bias=True))).min()) if len(tokens) > 1 else 0.0
    return above("first tokens fill R^d", spread, SAME, "in the least variance")


def in_an_open_hemisphere(tokens: np.ndarray) -> Hypothesis:
    """Some w has <x_i, w> > 0 for all i; the margin is the largest min_i <x_i, w> over |w|_inf <= 1."""
    n, d = tokens.shape
    programme = linprog(
        np.r_[np.zeros(d), -1.0],
        A_ub=np.c_[-tokens, np.ones(n)],
        b_ub=np.zeros(n),
        bounds=[(-1, 1)] * d + [(None, 1)],
    )
    margin = float(programme.x[-1]) if programme.success else np.nan
    return above("first tokens in an open hemisphere", margin, SAME, "in the least inner product")


def self_attention(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    """The setting of SA and USA: plain softmax or unnormalised attention on the sphere, full mask, Q^T K = V = I."""
    return (
        on_the_sphere(flow),
        plain(flow),
        attention_is(flow, Softmax, Unnormalised),
        mask_is(flow, Full),
        scores_are_inner_products(flow),
        value_is(flow),
    )


def causal_attention(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    """Plain softmax or unnormalised attention on the sphere with a causal mask; any Q, K, V."""
    return (on_the_sphere(flow), plain(flow), attention_is(flow, Softmax, Unnormalised), mask_is(flow, Causal))
