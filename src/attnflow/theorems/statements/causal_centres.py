"""Statements about Renyi centres of causal attention (arXiv:2411.04990): lifetimes of strong ones, and frozen ones."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from attnflow.analyse import renyi
from attnflow.analyse.clusters import angles_between
from attnflow.analyse.snapshots import tokens_of
from attnflow.integrate.stability import linearise
from attnflow.model import initial, masks
from attnflow.model.attention import Softmax
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.model.masks import Causal
from attnflow.theorems import hypotheses as given
from attnflow.theorems.statement import Instance, Statement
from attnflow.theorems.statements.centre_formulas import SEPARATION
from attnflow.theorems.theorem import Theorem
from attnflow.theorems.verdict import Hypothesis, Measurement, above, at_most, is_true

EPSILON = 0.1  # allowed move of centres, and distance of tokens from them, as in the paper's example


def _quasi_stationary_setting(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    beta = given.beta_of(flow)
    peak = np.sqrt(beta) * renyi.interaction_peak(beta) if 0 < beta < np.inf else np.nan
    return (
        *given.causal_attention(flow, Softmax),
        given.dimension_is(flow, 2),
        given.scores_are_inner_products(flow),
        given.value_is(flow),
        above("c > sqrt(beta) tau*", SEPARATION, peak, kind="scores"),
    )


def _two_strong_centres(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
    count = int(renyi.count(tokens, _strong_separation(given.beta_of(flow), SEPARATION), strong=True))
    return (at_most("two strong centres or more", 2, count, "centres"),)


def _strong_separation(beta: float, c: float) -> float:
    return renyi.separation(beta, c * (1 + 2 * EPSILON))


def _measure_quasi_stationary(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    beta = given.beta_of(flow)
    # Centres at twice the separation have a lifetime of order e^{8^2/2} = e^32.
    moves = [move for c in (SEPARATION, 6.0, 8.0) for move in _moves_of_strong_centres(beta, c, run)]
    return Measurement(
        "largest move of a strong centre within its lifetime, over epsilon c beta^-1/2",
        float(max(moves, default=np.nan)),
        1.0,
        "the lemma's own bound",
    )


def _moves_of_strong_centres(beta: float, c: float, run: xr.Dataset) -> list[float]:
    """The largest move of each strong centre within its lifetime, over the move that the lemma allows."""
    first, allowed = run.initial_tokens.values, EPSILON * c / np.sqrt(beta)
    pull = float(renyi.interaction(c / np.sqrt(beta), beta))
    elapsed, moved = run.time.values - run.time.values[0], angles_between(tokens_of(run).values, first)
    moves = []
    for token in np.flatnonzero(renyi.strong_centres(first, _strong_separation(beta, c)).values)[1:]:
        lives = (elapsed > 0) & (elapsed < allowed / ((token + 1) * pull))
        moves += [moved[lives, token].max() / allowed] if np.any(lives) else []
    return moves


def _frozen_setting(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    return (
        given.on_the_sphere(flow),
        is_true("one head; no noise, no MLP", len(flow.heads) == 1 and flow.mlp is None and flow.noise is None),
        given.attention_is(flow, Softmax),
        given.mask_is(flow, Causal),
        given.dimension_is(flow, 2),
        given.scores_are_inner_products(flow),
        given.value_is(flow),
        given.beta_above(flow, 0.0),
    )


def _frozen_apart(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
    frozen, masses = _frozen_and_masses(flow, tokens)
    beta, total, count = given.beta_of(flow), float(masses.sum()), int(frozen.sum())
    root = np.sqrt(beta)
    c = root * _separation_of(tokens[frozen])
    others_pull = total * renyi.interaction((c - 1 - 2 * EPSILON) / root, beta)
    others_slope = -total * renyi.interaction_slope((c - 2 * EPSILON) / root, beta)
    own_pull = renyi.interaction(EPSILON / root, beta)
    own_slope = renyi.interaction_slope(EPSILON / root, beta)
    return (
        is_true("frozen tokens come first", not np.any(frozen[count:])),
        at_most("one frozen token or more", 1, count, "tokens"),
        at_most("a moving token or more", 1, len(tokens) - count, "tokens"),
        at_most("masses of frozen tokens >= 1", 1.0, float(masses[frozen].min(initial=np.inf)), "of mass"),
        at_most("moving tokens have mass 1", float(np.abs(masses[~frozen] - 1).max(initial=0.0)), 1e-9, "of mass"),
        above("c > 2 + 2 epsilon", c, 2 + 2 * EPSILON),
        above("N h((c - 1 - 2 epsilon) beta^-1/2) < h(epsilon beta^-1/2)", float(own_pull), float(others_pull)),
        above("-N g((c - 2 epsilon) beta^-1/2) < g(epsilon beta^-1/2)", float(own_slope), float(others_slope)),
    )


def _frozen_and_masses(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n = len(tokens)
    frozen = np.zeros(n, bool) if flow.frozen is None else np.asarray(flow.frozen)
    return frozen, np.ones(n) if flow.masses is None else np.asarray(flow.masses)


def _separation_of(centres: np.ndarray) -> float:
    """The least angle between two centres; pi for a single centre, beyond which h is no longer positive."""
    first, second = np.triu_indices(len(centres), 1)
    return float(angles_between(centres[first], centres[second]).min(initial=np.pi))


def _measure_frozen(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    last = run.final_tokens.values
    frozen, _ = _frozen_and_masses(flow, last)
    distances = angles_between(last[~frozen][:, None], last[frozen][None]).min(axis=1)
    value = float(distances.max() * np.sqrt(given.beta_of(flow)) / EPSILON)
    return Measurement(
        "largest angle of a moving token to its centre, over epsilon beta^-1/2",
        value,
        1.0,
        "the theorem's own radius, epsilon = 0.1",
        open="" if value <= 1 or linearise(flow, last).is_stable else f"at t = {float(run.final_time):g} tokens move",
    )


def _circle_instance(beta: float, end: float, times: int, value: float = 1.0) -> Instance:
    head = Head.bilinear(np.eye(2), value * np.eye(2))
    flow = SphereAttention(head, Softmax(beta), masks.causal)
    return Instance(flow, initial.circle(64, rng=0), np.linspace(0.0, end, times))


def _frozen_instance(angles: Sequence[float], mass: float = 1.0) -> Instance:
    """64 tokens at beta = 16, of which the tokens at `angles` are frozen."""
    count = len(angles)
    tokens = np.concatenate([initial.on_circle(np.array(angles)), initial.circle(64 - count, rng=0)])
    flow = SphereAttention(
        Head.identity(2),
        Softmax(16.0),
        masks.causal,
        frozen=np.arange(64) < count,
        masses=np.where(np.arange(64) < count, mass, 1.0),
    )
    return Instance(flow, tokens, np.linspace(0.0, 200.0, 11))


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        Theorem(
            id="quasi-stationary",
            paper="arXiv:2411.04990 Lemma 5.1",
            says="Strong centres hardly move for a time that grows as e^{c^2/2} and falls with their index.",
            setting=_quasi_stationary_setting,
            start=_two_strong_centres,
        ),
        _measure_quasi_stationary,
        lambda: _circle_instance(64.0, 120.0, 241),
        lambda: _circle_instance(64.0, 120.0, 241, value=-1.0),
    ),
    Statement(
        Theorem(
            id="frozen-centres",
            paper="arXiv:2411.04990 Theorem 5.2, second condition with its sign",
            says="If some tokens are frozen far enough apart, every other token ends close to one of them.",
            setting=_frozen_setting,
            start=_frozen_apart,
        ),
        _measure_frozen,
        lambda: _frozen_instance([0.0, 2.1, 4.2]),
        lambda: _frozen_instance([0.0, 0.5, 4.2]),
    ),
)
