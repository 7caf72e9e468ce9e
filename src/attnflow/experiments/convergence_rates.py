"""`Meeting`: how fast the tokens of a run on the sphere meet in one point, with the fitted and the predicted rate.

The measure is 1 - cosine of the two tokens farthest apart, which is half their squared distance.
"""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import pdist

from attnflow._common.checks import InputError
from attnflow._common.plain import evenly_spaced
from attnflow.analyse import rates
from attnflow.model.attention import Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.model.normalisation import Post, Sqrt
from attnflow.solvers.layers import Layers
from attnflow.theorems.hypotheses import growth_rate, score_matrix
from attnflow.theorems.limit_theorems import HEMISPHERE_RATE

# Heights of 1 - cosine to which a rate is fitted. With heights down to 1e-12 errors of the default solver kept 15 % of
# the intervals of rate 2 from it, by up to 1e-5, and with these none of 79.
FITTED_HEIGHTS = (1e-10, 1e-3)
SMALLEST_HEIGHT = 1e-15  # of 1 - cosine: smaller values are rounding errors
MOST_TIMES, MOST_TOKENS = 200, 500  # of a picture; all pairs of tokens are compared


@dataclass(frozen=True)
class Meeting:
    """1 - cosine of the two tokens farthest apart over time, and the law that it follows in the end."""

    times: np.ndarray
    heights: np.ndarray
    fit: rates.Fit | None
    """The law fitted to the late heights; None where there are too few of them."""
    has_root_of_time: bool
    """Whether the exponential law is one of sqrt(t + 1) and not of t."""
    expected: float | None
    """The rate that a theorem gives, or for layers the linear part of a layer; None where none is known."""
    is_layered: bool = False
    """Whether the times are those of discrete layers."""

    @property
    def is_algebraic(self) -> bool:
        """Whether the fitted law is a power of time."""
        return self.fit is not None and self.fit.law == "algebraic"

    def law(self, rate: float) -> str:
        """The law with a rate, for a legend."""
        if self.is_algebraic:
            return f"$t^{{-{rate:.3g}}}$"
        return f"$e^{{-{rate:.3g}{chr(92) + 'sqrt{t+1}' if self.has_root_of_time else ' t'}}}$"

    def values(self, rate: float) -> np.ndarray:
        """The law with a rate at `times`, through the middle of the fitted heights; NaN outside of them."""
        middle = self._fitted[len(self._fitted) // 2]
        position = self._abscissae
        with np.errstate(invalid="ignore", over="ignore"):
            values = self.heights[middle] * np.exp(-rate * (position - position[middle]))
        shown = (values < 3 * self.heights.max()) & (values > max(SMALLEST_HEIGHT, self.heights.min() / 2))
        return np.where(shown, values, np.nan)

    @property
    def _abscissae(self) -> np.ndarray:
        """The function of time in which the logarithm of the law is a straight line."""
        if self.is_algebraic:
            return np.log(np.where(self.times > 0, self.times, np.nan))
        return np.sqrt(self.times + 1) if self.has_root_of_time else self.times

    @property
    def _fitted(self) -> np.ndarray:
        return np.flatnonzero(_is_late(self.times, self.heights, self.is_algebraic))


def meeting(
    flow: AbstractDynamics, first: np.ndarray, times: np.ndarray, tokens: np.ndarray, *, layers: Layers | None = None
) -> Meeting:
    """The meeting of tokens (time, token, coordinate) on the sphere; `first` are the first tokens with their lengths.

    `layers` is the solver of a run in discrete layers.
    """
    shown = evenly_spaced(len(times), MOST_TIMES)
    some = evenly_spaced(tokens.shape[1], MOST_TOKENS)
    heights = np.array([float(np.max(pdist(tokens[index][some]), initial=0.0)) ** 2 / 2 for index in shown])
    scheme = flow.normalisation if isinstance(flow, SphereAttention) else Post()
    has_root = isinstance(scheme, Sqrt)
    expected = _expected(flow, first, tokens[-1]) if layers is None else _expected_of_layers(flow, tokens[-1], layers)
    fit = _fit(flow, times[shown], heights, has_root)
    return Meeting(times[shown], heights, fit, has_root, expected, layers is not None)


def _is_late(times: np.ndarray, heights: np.ndarray, is_algebraic: bool) -> np.ndarray:
    """Whether a height shows the law of the limit; powers of time show in the last decade."""
    is_late = (heights > FITTED_HEIGHTS[0]) & (heights < FITTED_HEIGHTS[1])
    return is_late & (times > times[-1] / 10) if is_algebraic else is_late


def _fit(flow: AbstractDynamics, times: np.ndarray, heights: np.ndarray, has_root: bool) -> rates.Fit | None:
    is_late = _is_late(times, heights, flow.has_radii)
    try:
        if flow.has_radii:
            return rates.algebraic(times[is_late], heights[is_late])
        return rates.exponential(np.sqrt(times + 1)[is_late] if has_root else times[is_late], heights[is_late])
    except InputError:  # too few heights in the range
        return None


def _expected(flow: AbstractDynamics, first: np.ndarray, last: np.ndarray) -> float | None:
    """The rate of 1 - cosine that a theorem gives. In the end tokens are in a hemisphere, as one theorem asks."""
    from attnflow.theorems.statements import normalised  # 0.2 s to import, and few runs meet

    if all(one.holds for one in normalised.LAST_RATE.hypotheses(flow, first)):
        return normalised.expected_rate(flow)
    if not _has_hemisphere_rate(flow, last):
        return None
    if not isinstance(flow.attention, Unnormalised):
        return 2.0 * growth_rate(flow)
    # With V = c I 1 - cosine falls like e^(-2 c w t), w = e^(x.Bx - beta offset) the weight of the limit x with itself.
    limit = last.mean(axis=0) / np.linalg.norm(last.mean(axis=0))
    offset = float(flow.attention.beta) * float(flow.attention.offset)
    return 2.0 * growth_rate(flow) * float(np.exp(limit @ score_matrix(flow) @ limit - offset))


def _expected_of_layers(flow: AbstractDynamics, last: np.ndarray, layers: Layers) -> float | None:
    """The rate of 1 - cosine in layers x <- (r x + h A) / |r x + h A| of softmax attention with V = c I, c > 0.

    Close to the limit all tokens have the same A, of length c, so that a layer multiplies differences of tokens by
    r / (r + h c): 1 - cosine falls like e^(-rate t) with rate = (2 / h) log((r + h c) / r).
    """
    step, residual = float(layers.step), float(layers.residual)
    if not _has_hemisphere_rate(flow, last) or isinstance(flow.attention, Unnormalised) or residual <= 0:
        return None
    return 2.0 / step * float(np.log1p(step * growth_rate(flow) / residual))


def _has_hemisphere_rate(flow: AbstractDynamics, last: np.ndarray) -> bool:
    is_plain = isinstance(flow, SphereAttention) and isinstance(flow.normalisation, Post)
    return is_plain and all(one.holds for one in HEMISPHERE_RATE.hypotheses(flow, last))
