"""First densities on the circle, as functions of the angle."""

from collections.abc import Callable

import numpy as np

from attnflow._common.checks import InputError, require_count, require_finite_number, require_positive_number

Density = Callable[[np.ndarray], np.ndarray]


def uniform(mode: int = 1, amplitude: float = 0.0, angle: float = 0.0) -> Density:
    """The density (1 + amplitude cos(mode (theta - angle))) / (2 pi).

    Examples
    --------
    >>> import attnflow as af
    >>> af.mean_field.uniform(mode=3, amplitude=0.5)(np.array([0.0, np.pi / 3])) * 2 * np.pi
    array([1.5, 0.5])
    """
    require_count(mode, "mode")
    require_finite_number(amplitude, "amplitude")
    if abs(amplitude) > 1:
        raise InputError(f"`amplitude` must be in [-1, 1], where the density is positive, but it is {amplitude:g}.")
    return lambda theta: (1 + amplitude * np.cos(mode * (theta - angle))) / (2 * np.pi)


def von_mises(concentration: float, clusters: int = 1, angle: float = 0.0) -> Density:
    """The density proportional to e^{concentration cos(clusters (theta - angle))}: equal bumps at equal angles.

    Examples
    --------
    >>> import attnflow as af
    >>> density = af.mean_field.von_mises(2.0, clusters=2)
    >>> bool(np.isclose(density(np.array([0.0]))[0], density(np.array([np.pi]))[0]))
    True
    """
    require_positive_number(concentration, "concentration", "The uniform density is `mean_field.uniform()`.")
    require_count(clusters, "clusters")
    from scipy.special import ive

    scale = 1 / (2 * np.pi * ive(0, concentration))
    return lambda theta: scale * np.exp(concentration * (np.cos(clusters * (theta - angle)) - 1))
