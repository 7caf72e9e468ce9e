"""Densities on the circle as Fourier coefficients c_k = int e^{-i k theta} dmu, k = 0 to the number of modes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from attnflow._common.checks import InputError, require_all_finite

POINTS_PER_MODE = 3  # of the grid: products of two series of K modes have no aliasing in the first K modes


def grid(modes: int) -> np.ndarray:
    """The angles at which products are formed for this number of modes."""
    points = POINTS_PER_MODE * modes
    return 2 * np.pi * np.arange(points) / points


def values(coefficients: np.ndarray, points: int) -> np.ndarray:
    """The density (2 pi)^-1 sum_k c_k e^{i k theta} at `points` equally spaced angles, along the last axis."""
    shown = coefficients[..., : points // 2 + 1]
    return np.fft.irfft(shown, points, axis=-1) * points / (2 * np.pi)


def coefficients_of(density: np.ndarray, modes: int) -> np.ndarray:
    """c_0 to c_modes of the values of a function at equally spaced angles, by the trapezoidal rule."""
    points = density.shape[-1]
    return np.fft.rfft(density, axis=-1)[..., : modes + 1] * (2 * np.pi / points)


def with_modes(coefficients: np.ndarray, modes: int) -> np.ndarray:
    """The coefficients with zeros appended, up to a larger number of modes."""
    return np.pad(coefficients, (0, modes + 1 - len(coefficients)))


def tail(coefficients: np.ndarray) -> float:
    """The largest |c_k| of the last tenth of the modes."""
    return float(np.abs(coefficients[-(len(coefficients) // 10 + 1) :]).max())


def start_values(start: Callable[[np.ndarray], Any] | Any, modes: int) -> np.ndarray:
    """The values of a first density at equally spaced angles, checked and divided by their integral.

    `start` is a function of the angle, which is taken at the angles of `grid(modes)`, or an array of values at equally
    spaced angles from 0 on.
    """
    given = start(grid(modes)) if callable(start) else start
    density = np.asarray(given, dtype=float)
    if density.ndim != 1 or len(density) < 8:
        raise InputError(
            "`start` must be a function of the angle, or its values at 8 or more equally spaced angles in [0, 2 pi), "
            f"but it has the shape {density.shape}."
        )
    require_all_finite(density, "start", ("angle",))
    if density.min() < 0 or density.sum() <= 0:
        raise InputError(
            f"`start` must be a density, at least 0 and not 0 everywhere, but it falls to {density.min():.4g}."
        )
    return density / (density.mean() * 2 * np.pi)
