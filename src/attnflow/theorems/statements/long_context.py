"""Statements about long contexts (arXiv:2510.05554): one layer on equiangular tokens when beta = gamma log n.

All are closed forms of one attention layer. Near the critical gamma the limit is approached like
n^{-|1 - gamma/gamma_c|}, for which no simulation has enough tokens.
"""

from collections.abc import Callable, Sequence

import numpy as np

from attnflow._common.checks import InputError
from attnflow.theorems.statement import Computation
from attnflow.theorems.verdict import Hypothesis, Measurement, above, at_most

PAPER = "arXiv:2510.05554"

Evaluated = tuple[Sequence[Hypothesis], Callable[[], Measurement]]


def critical_gamma(rho: float) -> float:
    """1/(1 - rho): below it every token attends to all, above it to itself."""
    return 1 / (1 - rho)


def output_cosine(rho: float, gamma: float, log_n: float) -> float:
    """The cosine between the attention outputs of two of n equiangular tokens, at beta = gamma log n.

    Parameters
    ----------
    rho
        Common cosine of the tokens, between 0 and 1.
    gamma
        beta / log n.
    log_n
        Natural logarithm of n, which need not fit a float.

    Examples
    --------
    >>> round(output_cosine(0.2, 0.0, np.log(1e9)), 6), round(output_cosine(0.2, 5.0, np.log(1e9)), 6)
    (1.0, 0.2)
    """
    if not (0 < rho < 1 and log_n >= np.log(2) and np.isfinite(gamma)):
        raise InputError(
            f"`rho` must be in (0, 1), `gamma` finite and n at least 2, but they are {rho}, {gamma} and e^{log_n:g}."
        )
    inverse = np.exp(-log_n)  # 1/n; zero when n is beyond floats
    share = inverse / (1 - inverse)  # 1/(n-1)
    # Logarithm of the weight of all other tokens over the own weight: (n-1) e^{-beta (1-rho)}.
    log_others = log_n * (1 - gamma * (1 - rho)) + np.log1p(-inverse)
    own = float(np.exp(-np.logaddexp(0.0, log_others)))
    others = 1 - own if own > 0.5 else float(np.exp(log_others - np.logaddexp(0.0, log_others)))
    same = own**2 + 2 * own * others * rho + others**2 * (share + (1 - share) * rho)
    cross = 2 * own * others * (share + (1 - share) * rho)
    # (n-2)/(n-1)^2 = share (1 - share)
    apart = own**2 * rho + cross + others**2 * (share * (1 - share) * (1 - rho) + rho)
    return float(apart / same)


def _setting(rho: float, gamma: float, log10_n: float) -> tuple[Hypothesis, ...]:
    return (
        above("rho > 0", rho, 0.0),
        above("rho < 1", 1.0, rho),
        at_most("gamma >= 0", 0.0, gamma),
        at_most("n >= 2", np.log10(2), log10_n, "powers of ten"),
    )


def _against(limit: float, rho: float, gamma: float, log10_n: float) -> Measurement:
    cosine = output_cosine(rho, gamma, log10_n * np.log(10))
    miss = abs(cosine - limit)
    exponent = abs(1 - gamma / critical_gamma(rho))
    away = f"at n = 10^{log10_n:g} the cosine is {cosine:.4g}, and the distance falls like n^-{exponent:.2g}"
    why = "a thousandth of the range of cosines; the limit itself needs infinite n"
    return Measurement(f"distance of the output's cosine from {limit:.4g}", miss, 1e-3, why, open=away)


def _below(rho: float, gamma: float, log10_n: float) -> Evaluated:
    critical = critical_gamma(rho) if rho < 1 else np.nan
    side = above("gamma < 1/(1 - rho)", critical, gamma)
    return (*_setting(rho, gamma, log10_n), side), lambda: _against(1.0, rho, gamma, log10_n)


def _at(rho: float, gamma: float, log10_n: float) -> Evaluated:
    critical = critical_gamma(rho) if rho < 1 else np.nan
    side = at_most("gamma = 1/(1 - rho)", abs(gamma - critical), 1e-9)
    limit = 4 * rho / (1 + 3 * rho)
    return (*_setting(rho, gamma, log10_n), side), lambda: _against(limit, rho, gamma, log10_n)


def _above(rho: float, gamma: float, log10_n: float) -> Evaluated:
    critical = critical_gamma(rho) if rho < 1 else np.nan
    side = above("gamma > 1/(1 - rho)", gamma, critical)
    return (*_setting(rho, gamma, log10_n), side), lambda: _against(rho, rho, gamma, log10_n)


STATEMENTS: tuple[Computation, ...] = (
    Computation(
        id="long-context-below",
        paper=PAPER,
        says="With beta = gamma log n and gamma below 1/(1 - rho) a layer makes equiangular tokens equal.",
        evaluate=_below,
        example={"rho": 0.2, "gamma": 0.6, "log10_n": 12.0},
        control={"rho": 0.2, "gamma": 2.0, "log10_n": 12.0},
    ),
    Computation(
        id="long-context-critical",
        paper=PAPER,
        says="At gamma = 1/(1 - rho) the cosine of equiangular tokens becomes 4 rho / (1 + 3 rho).",
        evaluate=_at,
        example={"rho": 0.2, "gamma": critical_gamma(0.2), "log10_n": 12.0},
        control={"rho": 0.2, "gamma": 1.2, "log10_n": 12.0},
    ),
    Computation(
        id="long-context-above",
        paper=PAPER,
        says="With gamma above 1/(1 - rho) a layer leaves the cosine of equiangular tokens as it was.",
        evaluate=_above,
        example={"rho": 0.2, "gamma": 2.0, "log10_n": 12.0},
        control={"rho": 0.2, "gamma": 0.6, "log10_n": 12.0},
    ),
)
