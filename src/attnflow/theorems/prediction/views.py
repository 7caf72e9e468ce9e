"""The two views of tokens in R^d: x up to a factor that depends on time, and the rescaled tokens z.

In continuous time x = e^{tV} z, and after k layers x = (residual I + step V)^k z.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import expm

from attnflow.analyse.spectra import Spectrum
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import EuclideanAttention
from attnflow.solvers.layers import Layers

LARGEST_CONDITION = 1e12  # of residual I + step V, above which it has no inverse in float64


class Views(NamedTuple):
    """Tokens (times, n, d) in both views, and the logarithm of the size of x at each time."""

    seen: np.ndarray
    """x up to a factor that depends on time."""
    rescaled: np.ndarray
    """z."""
    log_size: np.ndarray


def both_views(
    flow: AbstractDynamics, found: Spectrum, elapsed: np.ndarray, tokens: np.ndarray, layers: Layers | None = None
) -> Views:
    """The views of the tokens of a run; `layers` is its solver where that has discrete layers."""
    if isinstance(flow, EuclideanAttention):
        with np.errstate(over="ignore", invalid="ignore"):  # z may overflow; the limit is then undecided
            rescaled = tokens @ _backward(found, elapsed, layers).transpose(0, 2, 1)
        return Views(tokens, rescaled, np.log([max(size_of_tokens(x), 1e-300) for x in tokens]))
    growth, log_factor = _forward(found, elapsed, layers)
    seen = tokens @ growth.transpose(0, 2, 1)
    return Views(seen, tokens, np.log([max(size_of_tokens(x), 1e-300) for x in seen]) + log_factor)


def size_of_tokens(tokens: np.ndarray) -> float:
    """The root of the mean squared length."""
    largest = float(np.abs(tokens).max()) or 1.0
    return largest * float(np.sqrt(np.mean(np.sum((tokens / largest) ** 2, axis=-1))))


def _forward(found: Spectrum, elapsed: np.ndarray, layers: Layers | None) -> tuple[np.ndarray, np.ndarray]:
    """The matrices x = e^s F z at each time, and s: the growth along the leading eigenvalue."""
    lead = found.leading.value.real
    if layers is None:
        matrix = found.matrix - lead * np.eye(len(found.matrix))
        return _products(np.round(np.diff(elapsed), 12), lambda step: expm(step * matrix)), lead * elapsed
    factor = max(abs(float(layers.residual) + float(layers.step) * lead), 1e-300)
    frame, counts = _frame(found, layers) / factor, _counts(elapsed, layers)
    powers = _products(np.diff(counts), lambda count: np.linalg.matrix_power(frame, int(count)))
    return powers, counts * np.log(factor)


def _backward(found: Spectrum, elapsed: np.ndarray, layers: Layers | None) -> np.ndarray:
    """The matrices z = G x at each time; NaN where x does not determine z."""
    if layers is None:
        return _products(np.round(np.diff(elapsed), 12), lambda step: expm(-step * found.matrix))
    frame = _frame(found, layers)
    is_regular = np.linalg.cond(frame) <= LARGEST_CONDITION
    inverse = np.linalg.inv(frame) if is_regular else np.full_like(frame, np.nan)
    return _products(np.diff(_counts(elapsed, layers)), lambda count: np.linalg.matrix_power(inverse, int(count)))


def _frame(found: Spectrum, layers: Layers) -> np.ndarray:
    return float(layers.residual) * np.eye(len(found.matrix)) + float(layers.step) * found.matrix


def _counts(elapsed: np.ndarray, layers: Layers) -> np.ndarray:
    return np.round(elapsed / float(layers.step))


def _products(steps: np.ndarray, factor: Callable[[float], np.ndarray]) -> np.ndarray:
    """The products of the factors of all steps up to each time; equal steps share one factor."""
    of_step = {step: factor(step) for step in np.unique(steps)}
    products = [np.eye(len(next(iter(of_step.values()))))]
    for step in steps:
        products.append(of_step[step] @ products[-1])
    return np.stack(products)
