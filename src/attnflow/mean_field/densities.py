"""First densities: functions of the angle on the circle, of unit vectors on S^2, and of places in a box of R^d."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import eval_legendre, ive

from attnflow._common.checks import (
    InputError,
    require_all_finite,
    require_count,
    require_finite_number,
    require_positive_number,
)

Density = Callable[[np.ndarray], np.ndarray]


def uniform(mode: int = 1, amplitude: float = 0.0, angle: float = 0.0) -> Density:
    """The density (1 + amplitude cos(mode (theta - angle))) / (2 pi) on the circle.

    Examples
    --------
    >>> import attnflow as af
    >>> af.mean_field.uniform(mode=3, amplitude=0.5)(np.array([0.0, np.pi / 3])) * 2 * np.pi
    array([1.5, 0.5])
    """
    require_count(mode, "mode")
    _require_amplitude(amplitude)
    return lambda theta: (1 + amplitude * np.cos(mode * (theta - angle))) / (2 * np.pi)


def von_mises(concentration: float, clusters: int = 1, angle: float = 0.0) -> Density:
    """The density on the circle proportional to e^{concentration cos(clusters (theta - angle))}: equal bumps.

    Examples
    --------
    >>> import attnflow as af
    >>> density = af.mean_field.von_mises(2.0, clusters=2)
    >>> bool(np.isclose(density(np.array([0.0]))[0], density(np.array([np.pi]))[0]))
    True
    """
    require_positive_number(concentration, "concentration", "The uniform density is `mean_field.uniform()`.")
    require_count(clusters, "clusters")
    scale = 1 / (2 * np.pi * ive(0, concentration))
    return lambda theta: scale * np.exp(concentration * (np.cos(clusters * (theta - angle)) - 1))


@dataclass(frozen=True)
class ZonalDensity:
    """A density on S^2 that depends on the last coordinate z = cos(theta) only."""

    profile: Callable[[np.ndarray], Any]
    """The density as a function of z."""

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """The density at unit vectors, the last axis being that of coordinates."""
        return np.asarray(self.profile(points[..., 2]), dtype=float)


def zonal(profile: Callable[[np.ndarray], Any]) -> ZonalDensity:
    """A density on S^2 given as a function of the last coordinate; `evolve` integrates it in one dimension.

    Parameters
    ----------
    profile
        A function of z = cos(theta) in [-1, 1], above zero; it is divided by its integral.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(3), af.Softmax(2.0))
    >>> law = af.mean_field.evolve(flow, af.mean_field.zonal(lambda z: 1 + 0.5 * z), [0.0, 1.0])
    >>> law.attrs["domain"], law.density.dims
    ('zonal', ('time', 'polar'))
    """
    if not callable(profile):
        raise InputError(f"`profile` must be a function of z = cos(theta), but it is {profile!r}.")
    return ZonalDensity(profile)


def zonal_wave(degree: int = 1, amplitude: float = 0.0) -> ZonalDensity:
    """The density (1 + amplitude P_l(z)) / (4 pi) on S^2, P_l being the Legendre polynomial of that degree.

    Examples
    --------
    >>> import attnflow as af
    >>> af.mean_field.zonal_wave(2, 0.5)(np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])) * 4 * np.pi
    array([1.5 , 0.75])
    """
    require_count(degree, "degree")
    _require_amplitude(amplitude)
    return ZonalDensity(lambda z: (1 + amplitude * eval_legendre(degree, z)) / (4 * np.pi))


def von_mises_fisher(concentration: float) -> ZonalDensity:
    """The density on S^2 proportional to e^{concentration z}.

    Examples
    --------
    >>> import attnflow as af
    >>> ends = af.mean_field.von_mises_fisher(1.0)(np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]))
    >>> round(float(np.log(ends[0] / ends[1])), 6)
    2.0
    """
    require_positive_number(concentration, "concentration", "The uniform density is `mean_field.zonal_wave()`.")
    scale = concentration / (2 * np.pi * -np.expm1(-2 * concentration))
    return ZonalDensity(lambda z: scale * np.exp(concentration * (z - 1)))


@dataclass(frozen=True)
class BoxDensity:
    """A density on a box of R^d: a function of places (..., d), zero outside."""

    low: np.ndarray
    high: np.ndarray
    function: Density

    def __call__(self, places: np.ndarray) -> np.ndarray:
        """The density at places inside the box, the last axis being that of coordinates."""
        return np.broadcast_to(np.asarray(self.function(places), dtype=float), places.shape[:-1])


def box(low: Any, high: Any, density: Density | None = None) -> BoxDensity:
    """A density on the box from `low` to `high`, one number for each coordinate; uniform if none is given.

    `density` is a function of places, an array whose last axis is that of coordinates.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.RescaledAttention(af.Head.identity(1))
    >>> law = af.mean_field.evolve(flow, af.mean_field.box([-1.0], [1.0]), [0.0, 0.5])
    >>> law.place[-1, [0, -1], 0].values.round(4)  # the hull shrinks
    array([-0.7264,  0.7264])
    """
    lows, highs = (np.atleast_1d(np.asarray(side, dtype=float)) for side in (low, high))
    if lows.ndim != 1 or lows.shape != highs.shape or not np.all(lows < highs):
        raise InputError(
            f"`low` and `high` must be one number for each coordinate, low below high, but they are {low} and {high}."
        )
    require_all_finite(lows, "low", ("coordinate",))
    require_all_finite(highs, "high", ("coordinate",))
    return BoxDensity(lows, highs, (lambda places: np.ones(places.shape[:-1])) if density is None else density)


def normal(mean: Any, covariance: Any, widths: float = 6.0) -> BoxDensity:
    """The Gaussian density on the box of so many standard deviations around the mean; 1e-8 of it is left out at six.

    Parameters
    ----------
    mean
        d numbers.
    covariance
        A positive definite matrix, d x d.
    widths
        Half the size of the box, in standard deviations along each axis.

    Examples
    --------
    >>> import attnflow as af
    >>> af.mean_field.normal([0.0], [[4.0]]).high
    array([12.])
    """
    centre, spread = np.atleast_1d(np.asarray(mean, float)), np.atleast_2d(np.asarray(covariance, float))
    require_positive_number(widths, "widths")
    if spread.shape != (len(centre), len(centre)) or np.linalg.eigvalsh((spread + spread.T) / 2).min() <= 0:
        raise InputError("`covariance` must be a positive definite matrix of the size of `mean`.")
    reach = widths * np.sqrt(np.diag(spread))
    precision = np.linalg.inv(spread)

    def density(places: np.ndarray) -> np.ndarray:
        away = places - centre
        return np.exp(-0.5 * np.einsum("...i,ij,...j->...", away, precision, away))

    return box(centre - reach, centre + reach, density)


def _require_amplitude(amplitude: float) -> None:
    require_finite_number(amplitude, "amplitude")
    if abs(amplitude) > 1:
        raise InputError(f"`amplitude` must be in [-1, 1], where the density is positive, but it is {amplitude:g}.")


def checked_values(given: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The values of a first density on a grid, finite and at least zero; others raise InputError."""
    values = np.asarray(given, dtype=float)
    if values.shape != shape:
        raise InputError(f"`start` must give one number for each place, {shape} here, but it gives {values.shape}.")
    require_all_finite(values, "start", tuple("axis" for _ in shape))
    if values.min() < 0 or values.max() <= 0:
        raise InputError(
            f"`start` must be a density, at least 0 and not 0 everywhere, but it falls to {values.min():.4g}."
        )
    return values
