"""Expected numbers of Renyi centres on S^{d-1}, and exponents of powers of beta with their sampling error.

Renyi centres of uniform tokens are random sequential adsorption of caps: token k becomes a centre if no earlier centre
lies within delta. On the circle that is random parking, which is solved; beyond it the number is interpolated.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import quad, solve_ivp
from scipy.special import betainc

from attnflow._common.checks import InputError, require_count
from attnflow.analyse.renyi import cap_mass, expected_count_on_circle

__all__ = ["Exponent", "expected_count", "growth_exponent"]

# Covered shares of flat space at saturation by balls of diameter delta, by its dimension D = d - 1; known from
# simulations of random sequential addition (Torquato, Uche, Stillinger 2006, and later ones), to three digits.
SATURATION = {2: 0.547, 3: 0.384}


def expected_count(delta: float, d: int, n: int | None = None) -> float:
    """Mean number of Renyi centres of n uniform tokens on the sphere of R^d, for d = 2, 3 and 4; n = None: saturated.

    With y = N p, p the mass of a cap of radius delta, and N the number of centres, each token adds p F(y) to y, where
    F is the share of the sphere that is still free. Known of F are 1 - y + k y^2 for small y, and that it vanishes like
    (1 - y/Y)^d at the saturation Y; between them F = (1 - x)^d (1 + c_1 x + c_2 x^2) with x = y/Y. For delta up to one
    half the result is within 4 % of simulated means; on the circle it is exact.

    Examples
    --------
    >>> expected_count(0.5, 2, 200) == expected_count_on_circle(0.5, 200)
    True
    >>> round(expected_count(0.25, 3), 1)
    140.8
    """
    if d == 2:
        return expected_count_on_circle(delta, n)
    if d - 1 not in SATURATION:
        raise InputError(
            f"`d` must be 2, 3 or 4, but it is {d}. Count centres of random tokens with `renyi.count` instead."
        )
    mass, saturation = cap_mass(delta, d), 2 ** (d - 1) * SATURATION[d - 1]
    if n is None:
        return max(saturation / mass, 1.0)
    require_count(n, "n")
    # The coefficients follow from F = 1 - y + k y^2 + ...
    first = d - saturation
    second = _second_coefficient(d - 1) * saturation**2 - d * (d - 1) / 2 + d * first
    free = lambda _, y: (1 - y / saturation) ** d * (1 + first * y / saturation + second * (y / saturation) ** 2)
    # The first token is a centre: y = p after one token.
    path = solve_ivp(free, (mass, max(n * mass, mass)), [mass], rtol=1e-9, atol=1e-12)
    return float(path.y[0, -1] / mass)


def _second_coefficient(dimension: int) -> float:
    """k of the free share 1 - y + k y^2 in flat space: half the mean overlap of two exclusion balls that may coexist.

    Balls of radius 1 at a distance r share the part I((D + 1)/2, 1/2; 1 - r^2/4) of their volume, and r lies between 1
    and 2; the volume of shells is D r^{D-1} dr, in units of the ball.
    """
    overlap = lambda r: dimension * r ** (dimension - 1) * betainc((dimension + 1) / 2, 0.5, 1 - r**2 / 4)
    return quad(overlap, 1.0, 2.0)[0] / 2


class Exponent(NamedTuple):
    """The slope of log(mean count) against log(beta), with the 95 % interval of the bootstrap over runs.

    Examples
    --------
    >>> betas = [4.0, 16.0, 64.0]
    >>> found = growth_exponent(betas, [[2, 2], [4, 4], [8, 8]])
    >>> round(found.slope, 6), round(found.low, 6)
    (0.5, 0.5)
    """

    slope: float
    low: float
    """Lower end of that interval."""
    high: float
    """Upper end of that interval."""


def growth_exponent(betas: Any, counts: Any, *, resamples: int = 1000, seed: int = 0) -> Exponent:
    """The exponent of beta by which counts over (beta, run) grow: a line of least squares through logarithms of means.

    The interval is that of 0.025 and 0.975 quantiles when the runs at every beta are drawn again with replacement.

    Parameters
    ----------
    betas
        Two values of beta or more.
    counts
        Counts above zero, shape (betas, runs).
    resamples
        Number of samples of the bootstrap.
    seed
        Seed of these samples.

    Examples
    --------
    >>> exponent = growth_exponent([1.0, 4.0, 16.0], [[2, 2], [4, 4], [8, 8]])
    >>> [round(value, 9) for value in exponent]
    [0.5, 0.5, 0.5]
    """
    betas, counts = np.asarray(betas, dtype=float), np.asarray(counts, dtype=float)
    if counts.ndim != 2 or betas.shape != counts.shape[:1] or len(betas) < 2 or np.any(counts <= 0):
        raise InputError(
            "`counts` must be above zero and over (beta, run), with two values of beta or more, but they have shape "
            f"{counts.shape} for {betas.size} values of beta."
        )
    generator = np.random.default_rng(seed)
    chosen = generator.integers(counts.shape[1], size=(resamples, *counts.shape))
    again = np.take_along_axis(counts[None], chosen, axis=2).mean(axis=2)
    slopes = _slopes(betas, again)
    low, high = np.quantile(slopes, [0.025, 0.975])
    return Exponent(float(_slopes(betas, counts.mean(axis=1)[None])[0]), float(low), float(high))


def _slopes(betas: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Slopes of log(means) (..., beta) against log(betas), by least squares."""
    logarithms = np.log(betas) - np.log(betas).mean()
    return np.log(means) @ logarithms / (logarithms @ logarithms)
