"""Influence of positions under strictly causal attention with ALiBi weights (arXiv:2605.09213): lost in the middle.

Token j on the circle is pulled by the tokens before it, theta_j' = sum_{k<j} w_jk f(theta_j - theta_k) with
f(x) = -beta sin(x) e^{beta cos x} and w_jk proportional to e^{-lambda (j-k)/N}; the first token rests. Around uniform
laws the Fourier mode n of the law of token j then obeys u_j' = a_n sum_k w_jk u_k with a_n = n^2 I_n(beta), so that
position k influences the last position by the entry of e^{a_n t W} - 1.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import i1e

from attnflow.analyse import circle
from attnflow.theorems.statement import Computation
from attnflow.theorems.verdict import Hypothesis, Measurement, above, at_most, is_true

PAPER = "arXiv:2605.09213"
STRICTLY_CAUSAL, FULL = "strictly causal", "full"

Evaluated = tuple[Sequence[Hypothesis], Callable[[], Measurement]]


def mode_strengths(beta: float, width: float) -> tuple[np.ndarray, np.ndarray]:
    """a_n = n^2 I_n(beta) and the weight e^{-pi^2 n^2/(2 width^2)} of every mode whose weight is not negligible."""
    modes = np.arange(1, int(np.ceil(3 * width)) + 1)  # beyond it weights are below e^{-44}
    return beta * circle.growth_rates(beta, len(modes)), np.exp(-((np.pi * modes / width) ** 2) / 2)


def influence(places: Any, time: float, slope: float, beta: float, width: float) -> np.ndarray:
    """S_t(s), the influence of the places s in (0, 1] on the last place, in the limit of many tokens.

    S_t(s) = sum_n omega_n lambda e^{lambda s}/(e^lambda - 1) psi_{a_n t}(Y), where lambda is the `slope`,
    Y = log((e^lambda - 1)/(e^{lambda s} - 1)) and psi_c(y) = sum_k c^{k+1} y^k/(k! (k+1)!), which is
    sqrt(c/y) I_1(2 sqrt(c y)).

    Examples
    --------
    >>> round(float(influence(1.0, 0.5, 2.0, 1.0, 4.0)), 4)
    0.6778
    """
    places = np.asarray(places, dtype=float)
    depth = np.log(np.expm1(slope) / np.expm1(slope * places))
    density = slope * np.exp(slope * places) / np.expm1(slope)
    strengths, weights = mode_strengths(beta, width)
    return density * sum(w * _psi(a * time, depth) for a, w in zip(strengths, weights, strict=True))


def _psi(c: float, y: np.ndarray) -> np.ndarray:
    root = np.sqrt(c * np.maximum(y, 0.0))
    # I_1(2r)/r tends to 1; i1e is I_1 without its exponential growth.
    ratio = np.where(root > 1e-6, i1e(2 * root) * np.exp(2 * root) / np.maximum(root, 1e-6), 1.0)
    return c * ratio


def critical_time(slope: float, beta: float, width: float) -> float:
    """2 (1 - e^{-lambda}) sum omega a / sum omega a^2, at which the influence stops rising towards the end.

    Examples
    --------
    >>> round(critical_time(2.0, 1.0, 4.0), 4)
    3.1377
    """
    strengths, weights = mode_strengths(beta, width)
    return float(-2 * np.expm1(-slope) * (weights @ strengths) / (weights @ strengths**2))


def position_weights(n: int, slope: float, mask: str = STRICTLY_CAUSAL) -> np.ndarray:
    """w_jk: e^{-slope |j - k|/n} for the tokens k before j (or for all others, with the mask "full"), rows normalised.

    The first row of the strictly causal matrix is zero.
    """
    offsets = np.subtract.outer(np.arange(n), np.arange(n))
    is_visible = offsets > 0 if mask == STRICTLY_CAUSAL else offsets != 0
    weights = np.where(is_visible, np.exp(-slope * np.abs(offsets) / n), 0.0)
    return weights / np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(float).tiny)


def iterated_influence(
    n: int, time: float, slope: float, beta: float, width: float, mask: str = STRICTLY_CAUSAL
) -> np.ndarray:
    """n times the last row of sum_n omega_n (e^{a_n t W} - 1), without its last entry: the influence by iteration of W.

    Token k stands at the place (k + 1/2)/n.
    """
    transposed = position_weights(n, slope, mask).T
    strengths, weights = mode_strengths(beta, width)
    # Powers of W applied to the last row, summed with (a t)^k/k!: all modes share them.
    row, factors, total = np.eye(n)[-1], weights, np.zeros(n)
    for power in range(1, 1000):
        row, factors = transposed @ row, factors * strengths * time / power
        total += factors.sum() * row
        if factors.sum() < 1e-14 * abs(total).max() and power > strengths.max() * time:
            break
    return n * total[:-1]


def _setting(slope: float, beta: float, width: float, n: int, mask: str) -> tuple[Hypothesis, ...]:
    return (
        above("lambda > 0", slope, 0.0),
        above("beta > 0", beta, 0.0),
        above("width > 0", width, 0.0),
        at_most("n >= 100", 100, n, "tokens"),
        is_true("strictly causal mask", mask == STRICTLY_CAUSAL),
    )


def _profile(
    slope: float, beta: float, width: float, time: float, n: int = 400, mask: str = STRICTLY_CAUSAL
) -> Evaluated:
    def error(count: int) -> float:
        places = (np.arange(count - 1) + 0.5) / count
        ratio = iterated_influence(count, time, slope, beta, width, mask) / influence(places, time, slope, beta, width)
        return float(np.abs(ratio - 1)[places > 0.1].max())  # next to s = 0 the profile diverges

    def measure() -> Measurement:
        fine, coarse = error(n), error(n // 2)
        return Measurement(
            f"largest relative difference between iteration and closed form, {fine:.2g}, over that of half the tokens,",
            fine / coarse,
            0.6,
            "a sum over n tokens differs from its integral by order 1/n, so that the ratio is one half",
        )

    return (*_setting(slope, beta, width, n, mask), above("t > 0", time, 0.0)), measure


def _critical(slope: float, beta: float, width: float, n: int = 400, mask: str = STRICTLY_CAUSAL) -> Evaluated:
    expected = critical_time(slope, beta, width) if min(slope, beta, width) > 0 else np.nan

    def error(count: int) -> float:
        """Relative distance of the time at which the last two places before the end have the same influence."""

        def rise(time: float) -> float:
            return float(np.diff(iterated_influence(count, time, slope, beta, width, mask)[-2:])[0])

        ends = expected / 4, 4 * expected
        if rise(ends[0]) * rise(ends[1]) > 0:
            return np.inf
        found: Any = brentq(rise, *ends, xtol=1e-9 * expected)
        return abs(found / expected - 1)

    def measure() -> Measurement:
        return Measurement(
            "relative distance of the measured critical time from the formula",
            error(n),
            4.0 / n,
            "a sum over n tokens differs from its integral by order 1/n",
        )

    return _setting(slope, beta, width, n, mask), measure


_EXAMPLE = {"slope": 2.0, "beta": 1.0, "width": 4.0}
STATEMENTS: tuple[Computation, ...] = (
    Computation(
        id="lost-in-the-middle",
        paper=PAPER,
        says="Under strictly causal attention with ALiBi weights the place s influences the last place by "
        "S_t(s) = sum omega_n lambda e^{lambda s}/(e^lambda - 1) psi_{a_n t}(Y): high at both ends for early times.",
        evaluate=_profile,
        example={**_EXAMPLE, "time": 1.5},
        control={**_EXAMPLE, "time": 1.5, "mask": FULL},
    ),
    Computation(
        id="recency-lost",
        paper=PAPER,
        says="The influence of the last places rises towards the end until t = 2 (1 - e^{-lambda}) sum omega a / sum "
        "omega a^2, and falls afterwards.",
        evaluate=_critical,
        example=_EXAMPLE,
        control={**_EXAMPLE, "mask": FULL},
    ),
)
