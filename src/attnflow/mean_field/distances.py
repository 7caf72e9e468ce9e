"""The Wasserstein distance of order one between tokens and a density."""

from typing import Any

import numpy as np
import xarray as xr
from numpy.polynomial import legendre
from scipy.optimize import minimize_scalar
from scipy.stats import wasserstein_distance

from attnflow._common.checks import InputError, require_all_finite, require_count, require_on_sphere
from attnflow.mean_field.label_grid import LabelGrid
from attnflow.mean_field.served_flows import Domain
from attnflow.mean_field.spherical_harmonics import legendre_table
from attnflow.results.provenance import ResultKind, kind_of, require_result

SHIFTS = 64  # rotations that are tried before the best one is refined
LEAST_POINTS = 4096  # of the grid on which the distribution function of the density is taken
FINE_LABELS = 256  # on each axis of the plane, at which the flow map is evaluated


def distance(tokens: Any, density: xr.Dataset, *, any_rotation: bool = False, directions: int = 32) -> float:
    """The Wasserstein distance of order one between the empirical measure of tokens (n, d) and a density at one time.

    On the circle, in radians, W_1 = min_a int |F - G - a| d theta for the distribution functions F and G from any angle
    on; the best a is a median of F - G. On the line W_1 = int |F - G| dx. On S^2 and in the plane it is the sliced
    distance, the mean of W_1 between the projections on lines of several directions, a lower bound of W_1.

    Parameters
    ----------
    tokens
        Tokens (n, d), or a run, whose last tokens are taken.
    density
        A dataset of `evolve` at one time, such as ``law.isel(time=-1)``.
    any_rotation
        On the circle: the least distance over all rotations of the tokens.
    directions
        On S^2 and in the plane: number of lines, evenly spread.

    Examples
    --------
    >>> import attnflow as af
    >>> law = af.mean_field.evolve(af.SphereAttention(af.Head.identity(2)), af.mean_field.uniform(), [0.0, 1.0])
    >>> square = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]
    >>> bool(np.isclose(af.mean_field.distance(square, law.isel(time=0)), np.pi / 8, atol=1e-6))
    True
    """
    if kind_of(density) is not ResultKind.DENSITY or "time" in density.dims:
        raise InputError("`density` must be a dataset of `mean_field.evolve` at one time: law.isel(time=-1).")
    require_count(directions, "directions")
    domain = Domain(density.attrs.get("domain", "circle"))
    places = _places(tokens, domain)
    if domain is not Domain.CIRCLE:
        if any_rotation:
            raise InputError(f"`any_rotation` is of the circle, but the density is on the {domain}.")
        return _DISTANCES[domain](places, density, directions)
    angles = np.arctan2(places[:, 1], places[:, 0])
    coefficients = density.cosine.values - 1j * density.sine.values
    if not any_rotation:
        return _distance(angles, coefficients)
    turned = lambda shift: _distance(angles + shift, coefficients)
    width = 2 * np.pi / SHIFTS
    best = min((width * index for index in range(SHIFTS)), key=turned)
    found: Any = minimize_scalar(turned, bounds=(best - width, best + width), method="bounded")
    return float(found.fun)


def _places(tokens: Any, domain: Domain) -> np.ndarray:
    """The tokens as an array of the shape that the domain has."""
    if isinstance(tokens, xr.Dataset):
        require_result(tokens, "`tokens`")
        tokens = tokens.final_tokens.values
    places = np.asarray(tokens, dtype=float)
    d = {Domain.LINE: 1, Domain.CIRCLE: 2, Domain.PLANE: 2}.get(domain, 3)
    if places.ndim != 2 or places.shape[1] != d:
        raise InputError(f"`tokens` must have the shape (n, {d}), but it is {places.shape}.")
    require_all_finite(places, "tokens", ("token", "coordinate"))
    if domain.is_spectral:
        require_on_sphere(places, "tokens")
    return places


def _on_line(places: np.ndarray, density: xr.Dataset, directions: int) -> float:
    """W_1 on the line: the distribution function at X_t(a) is that of the first density at a."""
    low, high = density.box.values
    grid = LabelGrid(low, high, density.sizes["label"])
    fine = np.cos(np.linspace(np.pi, 0, LEAST_POINTS))  # labels on [-1, 1], denser at the ends
    first = (density.mass.values / grid.rule[1])[:, None]
    integral = legendre.legint(grid.series(first)[:, 0], lbnd=-1)
    nodes, shares = grid.evaluated(density.place.values, fine)[:, 0], legendre.legval(fine, integral)
    rising = np.concatenate([[True], np.diff(nodes) > 0])
    return _line_distance(places[:, 0], nodes[rising], shares[rising])


def _on_sphere(places: np.ndarray, density: xr.Dataset, directions: int) -> float:
    """The mean over directions w of W_1 between the laws of <x, w>.

    The law of <x, w> has the Legendre moments a_l = int P_l(<x, w>) dmu = 4 pi / (2 l + 1) sum_m c_lm Y_lm(w), and the
    distribution function (1 + u) / 2 + sum_{l >= 1} (a_l / 2) (P_{l+1}(u) - P_{l-1}(u)).
    """
    coefficients = np.atleast_2d(density.cosine.values - 1j * density.sine.values)
    polar, azimuths = _spread_directions(directions)
    orders, degrees = coefficients.shape
    twice = np.where(np.arange(orders) > 0, 2, 1)[:, None]
    phases = np.exp(1j * np.outer(np.arange(orders), azimuths))
    table = legendre_table(degrees - 1, orders, polar)
    moments = np.einsum("mil,ml,mi->il", table, twice * coefficients, phases).real
    moments = moments * 4 * np.pi / (2 * np.arange(degrees) + 1)
    lines = np.stack([np.sin(polar) * np.cos(azimuths), np.sin(polar) * np.sin(azimuths), np.cos(polar)], axis=1)
    heights = np.linspace(-1, 1, LEAST_POINTS)
    found = []
    for line, of_line in zip(lines, moments, strict=True):
        series = np.zeros(degrees + 1)
        series[:2] = 0.5
        series[2:] += of_line[1:] / 2
        series[: degrees - 1] -= of_line[1:] / 2
        found.append(_line_distance(places @ line, heights, legendre.legval(heights, series)))
    return float(np.mean(found))


def _in_plane(places: np.ndarray, density: xr.Dataset, directions: int) -> float:
    """The mean over directions of W_1 between the projections, of the density by the flow map at many labels."""
    low, high = density.box.values
    grid = LabelGrid(low, high, density.sizes["label"])
    fine, weights = legendre.leggauss(FINE_LABELS)
    first = grid.evaluated((density.mass.values / np.outer(grid.rule[1], grid.rule[1]))[..., None], fine)[..., 0]
    masses = np.maximum(first, 0).ravel() * np.outer(weights, weights).ravel()
    nodes = grid.evaluated(density.place.values, fine).reshape(-1, 2)
    angles = np.pi * (np.arange(directions) + 0.5) / directions
    lines = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return float(np.mean([wasserstein_distance(places @ one, nodes @ one, None, masses) for one in lines]))


_DISTANCES = {Domain.LINE: _on_line, Domain.PLANE: _in_plane, Domain.SPHERE: _on_sphere, Domain.ZONAL: _on_sphere}


def _spread_directions(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Polar angles and azimuths of the Fibonacci lattice on the upper hemisphere, one direction for each line."""
    index = np.arange(count) + 0.5
    return np.arccos(index / count), index * np.pi * (3 - np.sqrt(5))


def _line_distance(points: np.ndarray, nodes: np.ndarray, shares: np.ndarray) -> float:
    """int |F - G| for the distribution function F of points, and G with the values `shares` at rising nodes."""
    from scipy.interpolate import PchipInterpolator

    ordered = np.sort(points)
    every = np.sort(np.concatenate([nodes, ordered]))
    inside = PchipInterpolator(nodes, shares)(np.clip(every, nodes[0], nodes[-1]))
    return float(np.sum(_absolute_areas(ordered, every, inside)))


def _absolute_areas(ordered: np.ndarray, nodes: np.ndarray, shares: np.ndarray, offset: float = 0.0) -> np.ndarray:
    """int |F - G - offset| between neighbouring nodes: F is constant there, and G is taken as linear."""
    lengths = np.diff(nodes)
    of_points = np.searchsorted(ordered, nodes[:-1] + lengths / 2, side="right") / len(ordered)
    left, right = of_points - shares[:-1] - offset, of_points - shares[1:] - offset
    same_sign = left * right >= 0
    sums = np.where(same_sign, np.abs(left + right), (left**2 + right**2) / np.maximum(np.abs(left - right), 1e-300))
    return sums * lengths / 2


def _distance(angles: np.ndarray, coefficients: np.ndarray) -> float:
    """W_1 from the difference of the distribution functions between neighbouring tokens and grid points."""
    sorted_angles = np.sort(angles % (2 * np.pi))
    points = max(LEAST_POINTS, 8 * len(coefficients))
    nodes = np.sort(np.concatenate([2 * np.pi * np.arange(points + 1) / points, sorted_angles]))
    of_density = _distribution(coefficients, nodes, points)
    middles = (nodes[1:] + nodes[:-1]) / 2
    of_tokens = np.searchsorted(sorted_angles, middles, side="right") / len(angles)
    offset = _median(of_tokens - (of_density[1:] + of_density[:-1]) / 2, np.diff(nodes))
    return float(np.sum(_absolute_areas(sorted_angles, nodes, of_density, offset)))


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
