"""Statements on the centres of causal attention (arXiv:2411.04990): their pull, their number, how long they rest."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import brentq

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
from attnflow.theorems.statement import Computation, Instance, Statement
from attnflow.theorems.verdict import Hypothesis, Measurement, above, at_most, is_true

C = 4.0  # the papers' delta is 4 beta^{-1/2}
SEPARATIONS = (C, 6.0, 8.0)  # also of centres farther apart, which rest for e^18 and e^32
EPSILON = 0.1  # how far centres may move, or tokens end from them: the papers' example
STANDARD_ERRORS = 4.0  # a mean of many runs is farther off by chance once in 16,000 times

Evaluated = tuple[Sequence[Hypothesis], Callable[[], Measurement]]


def _interaction_peak(beta: float) -> Evaluated:
    def measure():
        error = abs(renyi.interaction_peak(beta) - _root_of_slope(beta))
        why = "rounding of a root found by bisection"
        return Measurement("distance of the formula from the root of h'", error, 1e-12, why)

    return (above("beta > 0", beta, 0.0),), measure


def _root_of_slope(beta: float) -> float:
    # twice the expected angle: farther out the slope underflows for large beta
    end = min(np.pi / 2, 2 / np.sqrt(beta))
    root: Any = brentq(lambda x: renyi.interaction_slope(x, beta), 0.0, end, xtol=1e-15)
    return float(root)


def _peak_bracket(beta: float) -> Evaluated:
    def measure():
        peak = _root_of_slope(beta)
        room = min(peak - (beta + 0.5) ** -0.5, beta**-0.5 - peak) / peak
        why = "strictly inside, by more than the rounding of a root found by bisection"
        return Measurement("relative distance of the peak to the nearer end", room, 1e-12, why, "at least")

    return (at_most("beta >= 1", 1.0, beta),), measure


def _interaction_bounds(beta: float, end: float = np.pi) -> Evaluated:
    def measure():
        x = np.linspace(0, end, 4001)[1:]
        h = renyi.interaction(x, beta)
        low = np.exp(-beta * x**2 / 2) * (x - x**3 / 6)
        high = np.exp(-beta * x**2 / 2 + beta * x**4 / 24) * x
        worst = float(np.max(np.maximum(low - h, h - high) / np.maximum(np.abs(h), 1e-300)))
        why = "rounding where the bounds touch, at small angles"
        return Measurement("largest excess over a bound, relative,", worst, 1e-12, why)

    return (above("beta > 0", beta, 0.0), at_most("angles up to pi", end, np.pi, "radians")), measure


def _strong_count(beta: float, n: int, d: int, runs: int, law: str = "sphere", seed: int = 0) -> Evaluated:
    delta = renyi.separation(beta, C)

    def measure():
        return _compared(law, n, d, runs, seed, delta, renyi.expected_strong_count(delta, d, n), strong=True)

    return (is_true("uniform tokens", law == "sphere"), at_most("d >= 2", 2, d), at_most("n >= 1", 1, n)), measure


def _count(beta: float, n: int, d: int, runs: int, seed: int = 0) -> Evaluated:
    delta = renyi.separation(beta, C)

    def measure():
        return _compared("sphere", n, d, runs, seed, delta, renyi.expected_count_on_circle(delta, n), strong=False)

    small = at_most("delta <= 1, six places or more", delta, 1.0, "radians")
    many = at_most("five tokens a place or more", 5 * 2 * np.pi / delta, n, "tokens")
    return (is_true("on the circle", d == 2), small, many), measure


def _exponent(d: int, betas: tuple[float, float] = (1e4, 1e6)) -> Evaluated:
    def measure():
        counts = [renyi.expected_strong_count(renyi.separation(beta, C), d) for beta in betas]
        slope = float(np.diff(np.log(counts))[0] / np.diff(np.log(betas))[0])
        why = "caps of radius 4 beta^-1/2 are flat to 1/beta"
        return Measurement("distance of the growth exponent from (d - 1) / 2", abs(slope - (d - 1) / 2), 1e-3, why)

    flat = at_most("delta <= 0.1", renyi.separation(min(betas), C), 0.1, "radians")
    return (at_most("d >= 2", 2, d), flat), measure


def _compared(
    law: str, n: int, d: int, runs: int, seed: int, delta: float, expected: float, strong: bool
) -> Measurement:
    counts = renyi.count(getattr(initial, law)(n, d, rng=seed, runs=runs), delta, strong=strong).values
    error = counts.std(ddof=1) / np.sqrt(runs)
    return Measurement(
        f"distance of the mean of {runs} runs, {counts.mean():.4g}, from {expected:.4g}, in standard errors",
        float(abs(counts.mean() - expected) / error),
        STANDARD_ERRORS,
        "chance exceeds four standard errors once in 16,000 times",
    )


def _quasi_stationary_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
    beta = given.beta_of(flow)
    applies = given.on_the_sphere(flow).holds and flow.dimension == 2 and 0 < beta < np.inf
    found = int(renyi.count(tokens, _strong_separation(beta, C), strong=True)) if applies else 0
    return (
        *given.causal_attention(flow),
        given.attention_is(flow, Softmax),
        is_true("on the circle", flow.dimension == 2),
        given.scores_are_inner_products(flow),
        given.value_is(flow),
        above("c > sqrt(beta) tau*", C, np.sqrt(beta) * renyi.interaction_peak(beta) if applies else np.nan),
        at_most("two strong centres or more", 2, found, "centres"),
    )


def _strong_separation(beta: float, c: float) -> float:
    return renyi.separation(beta, c * (1 + 2 * EPSILON))


def _measure_quasi_stationary(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    beta = given.beta_of(flow)
    moves = [move for c in SEPARATIONS for move in _moves_of_strong_centres(beta, c, run)]
    return Measurement(
        "largest move of a strong centre within its lifetime, over epsilon c beta^-1/2",
        float(max(moves, default=np.nan)),
        1.0,
        "the lemma's own bound",
    )


def _moves_of_strong_centres(beta: float, c: float, run: xr.Dataset) -> list[float]:
    """How far each one has moved by the last time seen within its lifetime, over what the lemma allows."""
    first, allowed = run.initial_tokens.values, EPSILON * c / np.sqrt(beta)
    pull = float(renyi.interaction(c / np.sqrt(beta), beta))
    elapsed, moved = run.time.values - run.time.values[0], angles_between(tokens_of(run).values, first)
    moves = []
    for token in np.flatnonzero(renyi.strong_centres(first, _strong_separation(beta, c)).values)[1:]:
        seen = (elapsed > 0) & (elapsed < allowed / ((token + 1) * pull))
        moves += [moved[seen, token].max() / allowed] if np.any(seen) else []
    return moves


def _frozen_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
    frozen, masses = _frozen_and_masses(flow, tokens)
    beta, total = given.beta_of(flow), float(masses.sum())
    root = np.sqrt(beta) if 0 < beta < np.inf else np.nan
    c = root * _separation_of(tokens[frozen])
    others_pull = total * renyi.interaction((c - 1 - 2 * EPSILON) / root, beta)
    others_slope = -total * renyi.interaction_slope((c - 2 * EPSILON) / root, beta)
    own_pull = renyi.interaction(EPSILON / root, beta)
    own_slope = renyi.interaction_slope(EPSILON / root, beta)
    count = int(frozen.sum())
    return (
        *_setting_of_frozen(flow),
        is_true("frozen tokens come first", not np.any(frozen[count:])),
        at_most("one frozen token or more", 1, count, "tokens"),
        at_most("a moving token or more", 1, len(tokens) - count, "tokens"),
        at_most("masses of frozen tokens >= 1", 1.0, float(masses[frozen].min(initial=np.inf)), "of mass"),
        at_most("moving tokens have mass 1", float(np.abs(masses[~frozen] - 1).max(initial=0.0)), given.SAME),
        above("c > 2 + 2 epsilon", c, 2 + 2 * EPSILON),
        above("N h((c - 1 - 2 epsilon) beta^-1/2) < h(epsilon beta^-1/2)", float(own_pull), float(others_pull)),
        above("-N g((c - 2 epsilon) beta^-1/2) < g(epsilon beta^-1/2)", float(own_slope), float(others_slope)),
    )


def _setting_of_frozen(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    return (
        given.on_the_sphere(flow),
        is_true("one head; no noise, no MLP", len(flow.heads) == 1 and flow.mlp is None and flow.noise is None),
        given.attention_is(flow, Softmax),
        given.mask_is(flow, Causal),
        is_true("on the circle", flow.dimension == 2),
        given.scores_are_inner_products(flow),
        given.value_is(flow),
    )


def _frozen_and_masses(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n = len(tokens)
    frozen = np.zeros(n, bool) if flow.frozen is None else np.asarray(flow.frozen)
    return frozen, np.ones(n) if flow.masses is None else np.asarray(flow.masses)


def _separation_of(centres: np.ndarray) -> float:
    """Least angle between two of the centres; a half turn for one, beyond which h is no longer positive."""
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
    """64 tokens at beta = 16; those at `angles` rest."""
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


CENTRE_STATEMENTS: tuple[Statement | Computation, ...] = (
    Computation(
        id="interaction-peak",
        paper="arXiv:2411.04990 section 5",
        says="A token attracts most strongly at the angle tau*, cos tau* = (sqrt(4 beta^2 + 1) - 1) / (2 beta).",
        evaluate=_interaction_peak,
        example={"beta": 10.0},
        control={"beta": -1.0},
    ),
    Computation(
        id="interaction-bounds",
        paper="arXiv:2411.04990 section 5",
        says="For angles up to pi the attraction h lies between e^{-b x^2/2}(x - x^3/6) and e^{-b x^2/2 + b x^4/24} x.",
        evaluate=_interaction_bounds,
        example={"beta": 10.0},
        control={"beta": 10.0, "end": 6.0},
    ),
    Computation(
        id="interaction-peak-bracket",
        paper="arXiv:2411.04990 section 5",
        says="The angle of strongest attraction lies between (beta + 1/2)^-1/2 and beta^-1/2.",
        evaluate=_peak_bracket,
        example={"beta": 64.0},
        control={"beta": 0.25},
    ),
    Computation(
        id="renyi-count",
        paper="arXiv:2411.04990 section 5",
        says="Uniform tokens on the circle have, on average, Renyi's parking constant times 2 pi/delta centres.",
        evaluate=_count,
        example={"beta": 64.0, "n": 200, "d": 2, "runs": 400},
        control={"beta": 64.0, "n": 200, "d": 3, "runs": 400},
    ),
    Computation(
        id="renyi-exponent",
        paper="arXiv:2411.04990 section 5",
        says="The expected number of strong Renyi centres of uniform tokens grows like beta^{(d - 1)/2}.",
        evaluate=_exponent,
        example={"d": 4},
        control={"d": 4, "betas": (1.0, 100.0)},
    ),
    Computation(
        id="strong-renyi-count",
        paper="arXiv:2411.04990 section 5, with 1/sin^2(delta/2) in d = 3",
        says="n uniform tokens have on average (1 - (1 - p)^n)/p strong centres, p being a cap's share of the sphere.",
        evaluate=_strong_count,
        example={"beta": 64.0, "n": 100, "d": 3, "runs": 400},
        control={"beta": 64.0, "n": 100, "d": 3, "runs": 400, "law": "hemisphere"},
    ),
    Statement(
        id="quasi-stationary",
        paper="arXiv:2411.04990 Lemma 5.1",
        says="Strong centres hardly move for a time that grows as e^{c^2/2} and falls with their index.",
        hypotheses=_quasi_stationary_hypotheses,
        measure=_measure_quasi_stationary,
        example=lambda: _circle_instance(64.0, 120.0, 241),
        control=lambda: _circle_instance(64.0, 120.0, 241, value=-1.0),
    ),
    Statement(
        id="frozen-centres",
        paper="arXiv:2411.04990 Theorem 5.2, second condition with its sign",
        says="If some tokens are frozen far enough apart, every other token ends close to one of them.",
        hypotheses=_frozen_hypotheses,
        measure=_measure_frozen,
        example=lambda: _frozen_instance([0.0, 2.1, 4.2]),
        control=lambda: _frozen_instance([0.0, 0.5, 4.2]),
    ),
)
