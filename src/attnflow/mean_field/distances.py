"""The Wasserstein distance of order one between tokens on the circle and a density."""

from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import minimize_scalar

from attnflow._common.checks import InputError, require_on_sphere
from attnflow.results.provenance import require_result

SHIFTS = 64  # rotations that are tried before the best one is refined
LEAST_POINTS = 4096  # of the grid on which the distribution function of the density is taken


def distance(tokens: Any, density: xr.Dataset, *, any_rotation: bool = False) -> float:
    """W_1 between the empirical measure of tokens (n, 2) and a density at one time, in radians.

    On the circle W_1 = min_a int |F - G - a| d theta for the distribution functions F and G from any angle on; the
    best a is a median of F - G.

    Parameters
    ----------
    tokens
        Tokens on the circle, (n, 2), or a run, whose last tokens are taken.
    density
        A dataset of `evolve` at one time, such as ``law.isel(time=-1)``.
    any_rotation
        Take the least distance over all rotations of the tokens.

    Examples
    --------
    >>> import attnflow as af
    >>> law = af.mean_field.evolve(af.SphereAttention(af.Head.identity(2)), af.mean_field.uniform(), [0.0, 1.0])
    >>> square = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]
    >>> bool(np.isclose(af.mean_field.distance(square, law.isel(time=0)), np.pi / 8, atol=1e-6))
    True
    """
    if isinstance(tokens, xr.Dataset):
        require_result(tokens, "`tokens`")
        tokens = tokens.final_tokens.values
    places = np.asarray(tokens, dtype=float)
    if places.ndim != 2 or places.shape[1] != 2:
        raise InputError(f"`tokens` must have the shape (n, 2), but it is {places.shape}.")
    require_on_sphere(places, "tokens")
    if not {"cosine", "sine"} <= set(density.variables) or "time" in density.dims:
        raise InputError("`density` must be a dataset of `mean_field.evolve` at one time: law.isel(time=-1).")
    angles = np.arctan2(places[:, 1], places[:, 0])
    coefficients = density.cosine.values - 1j * density.sine.values
    if not any_rotation:
        return _distance(angles, coefficients)
    turned = lambda shift: _distance(angles + shift, coefficients)
    width = 2 * np.pi / SHIFTS
    best = min((width * index for index in range(SHIFTS)), key=turned)
    found: Any = minimize_scalar(turned, bounds=(best - width, best + width), method="bounded")
    return float(found.fun)


def _distance(angles: np.ndarray, coefficients: np.ndarray) -> float:
    """W_1 from the difference of the distribution functions between neighbouring tokens and grid points."""
    sorted_angles = np.sort(angles % (2 * np.pi))
    points = max(LEAST_POINTS, 8 * len(coefficients))
    nodes = np.sort(np.concatenate([2 * np.pi * np.arange(points + 1) / points, sorted_angles]))
    of_density = _distribution(coefficients, nodes, points)
    lengths = np.diff(nodes)
    # Between two nodes the distribution function of the tokens is constant.
    of_tokens = np.searchsorted(sorted_angles, nodes[:-1] + lengths / 2, side="right") / len(angles)
    left, right = of_tokens - of_density[:-1], of_tokens - of_density[1:]
    offset = _median((left + right) / 2, lengths)
    left, right = left - offset, right - offset
    same_sign = left * right >= 0
    sums = np.where(same_sign, np.abs(left + right), (left**2 + right**2) / np.maximum(np.abs(left - right), 1e-300))
    return float(np.sum(sums * lengths) / 2)


def _distribution(coefficients: np.ndarray, nodes: np.ndarray, points: int) -> np.ndarray:
    """int_0^theta of the density at the nodes, by cubic interpolation of the integrated Fourier series."""
    from scipy.interpolate import CubicSpline

    numbers = np.arange(1, len(coefficients))
    integrated = np.concatenate([[0.0], coefficients[1:] / (1j * numbers)])
    periodic = np.fft.irfft(integrated, points) * points / (2 * np.pi)
    grid = 2 * np.pi * np.arange(points + 1) / points
    values = np.append(periodic, periodic[0]) - periodic[0]
    values[-1] = 0.0
    return nodes / (2 * np.pi) + CubicSpline(grid, values, bc_type="periodic")(nodes)


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    """The weighted median."""
    order = np.argsort(values)
    share = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(share, share[-1] / 2)]])
