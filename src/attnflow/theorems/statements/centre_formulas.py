"""Closed forms for causal attention (arXiv:2411.04990, section 5): the interaction, and numbers of Renyi centres."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attnflow.analyse import renyi
from attnflow.analyse.renyi_counts import growth_exponent
from attnflow.model import initial
from attnflow.theorems.statement import Computation
from attnflow.theorems.verdict import Hypothesis, Measurement, above, at_most, is_true

SEPARATION = 4.0  # c of delta = c beta^{-1/2}, as in the paper's figures

Evaluated = tuple[Sequence[Hypothesis], Callable[[], Measurement]]


def _interaction_peak(beta: float) -> Evaluated:
    def measure():
        error = abs(renyi.interaction_peak(beta) - _root_of_slope(beta))
        why = "rounding of a root found by bisection"
        return Measurement("distance of the formula from the root of h'", error, 1e-12, why)

    return (above("beta > 0", beta, 0.0),), measure


def _root_of_slope(beta: float) -> float:
    """The angle at which the slope of the interaction vanishes, by bisection."""
    from scipy.optimize import brentq

    end = min(np.pi / 2, 2 / np.sqrt(beta))  # twice the expected angle; beyond it the slope underflows for large beta
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
    delta = renyi.separation(beta, SEPARATION)

    def measure():
        return _compared(law, n, d, runs, seed, delta, renyi.expected_strong_count(delta, d, n), strong=True)

    return (is_true("uniform tokens", law == "sphere"), at_most("d >= 2", 2, d), at_most("n >= 1", 1, n)), measure


def _count(beta: float, n: int, d: int, runs: int, seed: int = 0) -> Evaluated:
    delta = renyi.separation(beta, SEPARATION)

    def measure():
        return _compared("sphere", n, d, runs, seed, delta, renyi.expected_count_on_circle(delta, n), strong=False)

    small = at_most("delta <= 1, so that six centres or more fit", delta, 1.0, "radians")
    many = at_most("n >= 5 (2 pi / delta)", 5 * 2 * np.pi / delta, n, "tokens")
    return (is_true("on the circle", d == 2), small, many), measure


def _exponent(d: int, betas: tuple[float, float] = (1e4, 1e6)) -> Evaluated:
    def measure():
        counts = [renyi.expected_strong_count(renyi.separation(beta, SEPARATION), d) for beta in betas]
        slope = float(np.diff(np.log(counts))[0] / np.diff(np.log(betas))[0])
        why = "caps of radius 4 beta^-1/2 are flat to 1/beta"
        return Measurement("distance of the growth exponent from (d - 1) / 2", abs(slope - (d - 1) / 2), 1e-3, why)

    flat = at_most("delta <= 0.1", renyi.separation(min(betas), SEPARATION), 0.1, "radians")
    return (at_most("d >= 2", 2, d), flat), measure


def _scaling(
    d: int, deltas: tuple[float, float] = (0.4, 0.2), attempts: float = 5.0, runs: int = 100, law: str = "sphere"
) -> Evaluated:
    """Hypotheses and measurement of the exponent by which Renyi centres grow when tokens per cap are `attempts`."""
    betas = (SEPARATION / np.array(deltas)) ** 2  # delta = c beta^{-1/2}

    def measure():
        masses = np.array([renyi.cap_mass(delta, d) for delta in deltas])
        starts = [getattr(initial, law)(round(attempts / mass), d, rng=0, runs=runs) for mass in masses]
        counts = [renyi.count(tokens, delta).values for tokens, delta in zip(starts, deltas, strict=True)]
        exponent = growth_exponent(betas, counts)
        # Caps are not flat: their mass is not exactly a power of beta.
        curvature = abs(growth_exponent(betas, 1 / masses[:, None]).slope - (d - 1) / 2)
        return Measurement(
            f"distance of the growth exponent, {exponent.slope:.4g}, from (d - 1) / 2",
            abs(exponent.slope - (d - 1) / 2),
            exponent.high - exponent.low + curvature,
            f"four standard errors of {runs} runs, the width of a 95 % interval, and {curvature:.2g} for curved caps",
        )

    return (
        is_true("uniform tokens", law == "sphere"),
        at_most("d >= 2", 2, d),
        at_most("delta <= 0.5, so that caps are nearly flat", max(deltas), 0.5, "radians"),
        at_most("delta is halved at least", 2 * min(deltas), max(deltas), "radians"),
        at_most("a token per cap or more", 1.0, attempts, "tokens"),
        at_most("at least 20 runs", 20, runs, "runs"),
    ), measure


def _compared(
    law: str, n: int, d: int, runs: int, seed: int, delta: float, expected: float, strong: bool
) -> Measurement:
    counts = renyi.count(getattr(initial, law)(n, d, rng=seed, runs=runs), delta, strong=strong).values
    error = counts.std(ddof=1) / np.sqrt(runs)
    return Measurement(
        f"distance of the mean of {runs} runs, {counts.mean():.4g}, from {expected:.4g}, in standard errors",
        float(abs(counts.mean() - expected) / error),
        4.0,
        "chance exceeds four standard errors once in 16,000 times",
    )


STATEMENTS: tuple[Computation, ...] = (
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
        id="renyi-scaling",
        paper="arXiv:2411.04990 section 5",
        says="The number of Renyi centres of uniform tokens on the sphere of R^d grows like beta^{(d - 1)/2}, if the "
        "number of tokens grows with it.",
        evaluate=_scaling,
        example={"d": 3},
        control={"d": 3, "law": "circle"},
    ),
    Computation(
        id="strong-renyi-count",
        paper="arXiv:2411.04990 section 5, with 1/sin^2(delta/2) in d = 3",
        says="n uniform tokens have on average (1 - (1 - p)^n)/p strong centres, p being a cap's share of the sphere.",
        evaluate=_strong_count,
        example={"beta": 64.0, "n": 100, "d": 3, "runs": 400},
        control={"beta": 64.0, "n": 100, "d": 3, "runs": 400, "law": "hemisphere"},
    ),
)
