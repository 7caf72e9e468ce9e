"""The dataset of `evolve`: densities, coefficients or nodes, what is measured of them, and provenance."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import ive

from attnflow.mean_field import cut_tails, fourier, spherical_harmonics
from attnflow.mean_field.circle_field import beta_of, constant_heads
from attnflow.mean_field.label_grid import LabelGrid
from attnflow.mean_field.served_flows import Domain
from attnflow.mean_field.spectral_equation import diffusion_of
from attnflow.mean_field.spectral_run import RunLimits, SavedStates
from attnflow.mean_field.sphere_equation import spherical_bessel
from attnflow.model.attention import Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import EuclideanAttention, SphereAttention
from attnflow.results.outcome import early_ending, status_variables
from attnflow.results.provenance import ResultKind, stamp
from attnflow.solvers.status import Status

SHOWN_ANGLES = 512  # of `density` in the dataset, or as many as there are modes, whichever is more
SHOWN_POLAR = 90  # of `density` on S^2, and twice as many azimuths
POSITIVE = 1e-8  # a density below minus this, times its largest value, is reported as negative


@dataclass(frozen=True)
class DensityRequest:
    """The checked arguments of one call of `evolve`."""

    flow: AbstractDynamics
    domain: Domain
    limits: RunLimits
    modes: int
    """Number of modes, or of nodes on each axis, at the start."""


def spectral_dataset(request: DensityRequest, states: SavedStates) -> xr.Dataset:
    """The labelled result of a run on the circle or S^2."""
    parts = _on_circle(states) if request.domain is Domain.CIRCLE else _on_sphere(states, request.domain)
    over_time = {
        "order": parts.order,
        "entropy": parts.entropy,
        "least_density": parts.density.reshape(len(states.saved), -1).min(axis=1),
        "resolution": parts.tails,
    } | _energies(request, parts)
    variables = {
        "density": (("time", *parts.axes), parts.density),
        "cosine": (("time", *parts.modes), np.real(parts.coefficients)),
        "sine": (("time", *parts.modes), -np.imag(parts.coefficients)),
        **{name: (("time",), values) for name, values in over_time.items()},
    }
    return _labelled(request, states, variables, parts.coordinates, float(parts.density.min() / parts.density.max()))


@dataclass(frozen=True)
class SpectralParts:
    """Densities and coefficients over time, with their axes and what follows from them."""

    density: np.ndarray
    coefficients: np.ndarray
    axes: tuple[str, ...]
    modes: tuple[str, ...]
    coordinates: dict[str, np.ndarray]
    order: np.ndarray
    entropy: np.ndarray
    tails: np.ndarray
    squares: np.ndarray
    """sum_m |c_lm|^2 over all orders, or |c_k|^2 + |c_-k|^2, by degree, with the mass 1."""


def _on_circle(states: SavedStates) -> SpectralParts:
    modes = max(len(one) for one in states.saved) - 1
    coefficients = np.stack([fourier.with_modes(one, modes) for one in states.saved])
    points = max(SHOWN_ANGLES, 2 * modes)
    density = fourier.values(coefficients, points)
    coordinates = {"angle": 2 * np.pi * np.arange(points) / points, "mode": np.arange(modes + 1)}
    twice = np.where(np.arange(modes + 1) > 0, 2, 1)
    return SpectralParts(
        density,
        coefficients,
        axes=("angle",),
        modes=("mode",),
        coordinates=coordinates,
        order=np.abs(coefficients[:, 1]),
        entropy=-np.mean(_plogp(density), axis=1) * 2 * np.pi,
        tails=np.array([fourier.tail(one) for one in states.saved]),
        squares=twice * np.abs(coefficients) ** 2,
    )


def _on_sphere(states: SavedStates, domain: Domain) -> SpectralParts:
    modes = max(one.shape[1] for one in states.saved) - 1
    coefficients = np.stack([spherical_harmonics.with_modes(one, modes) for one in states.saved])
    is_zonal = domain is Domain.ZONAL
    count = max(SHOWN_ANGLES if is_zonal else SHOWN_POLAR, 2 * modes)
    azimuths = 1 if is_zonal else 2 * count
    heights, weights = np.polynomial.legendre.leggauss(count)  # integrals over polar angles are exact sums
    polar = np.arccos(heights[::-1])
    density = spherical_harmonics.values_at(coefficients, polar, azimuths)
    squares = np.abs(coefficients) ** 2 * np.where(np.arange(coefficients.shape[1]) > 0, 2, 1)[:, None]
    first = coefficients[:, :2, 1] if not is_zonal else coefficients[:, :1, 1]
    # int z = (4 pi / 3)^{1/2} c_10 and |int (x, y)| = (8 pi / 3)^{1/2} |c_11|.
    lengths = np.abs(first) ** 2 * (np.array([1.0, 2.0])[: first.shape[1]] * 4 * np.pi / 3)
    shown = density[..., 0] if is_zonal else density
    coordinates: dict[str, np.ndarray] = {"polar": polar, "mode": np.arange(modes + 1)}
    coordinates |= (
        {}
        if is_zonal
        else {
            "azimuth": 2 * np.pi * np.arange(azimuths) / azimuths,
            "azimuthal_mode": np.arange(modes + 1),
        }
    )
    return SpectralParts(
        shown,
        coefficients[:, 0] if is_zonal else coefficients,
        axes=("polar",) if is_zonal else ("polar", "azimuth"),
        modes=("mode",) if is_zonal else ("azimuthal_mode", "mode"),
        coordinates=coordinates,
        order=np.sqrt(lengths.sum(axis=1)),
        entropy=-2 * np.pi * (_plogp(density).mean(axis=2) @ weights),
        tails=np.array([spherical_harmonics.tail(one) for one in states.saved]),
        squares=4 * np.pi * squares.sum(axis=1),
    )


def _plogp(density: np.ndarray) -> np.ndarray:
    """rho log rho; rounding may leave a density of zero slightly negative."""
    positive = np.maximum(density, np.finfo(float).tiny)
    return positive * np.log(positive)


def _energies(request: DensityRequest, parts: SpectralParts) -> dict[str, np.ndarray]:
    """The interaction energy if Q^T K = I, and the free energy if theory says that it decreases.

    E = (2 beta)^-1 int int e^{beta <x, y>} drho drho is (2 beta)^-1 sum_k I_k(beta) |c_k|^2 over all k on the circle
    and (2 beta)^-1 sum_lm i_l(beta) 4 pi |c_lm|^2 on S^2. Unnormalised attention with V = I and noise is the gradient
    flow of F = -(entropy)/kappa - E.
    """
    flow, beta, head = request.flow, beta_of(request.flow), constant_heads(request.flow)[0]
    identity = np.eye(flow.dimension)
    if len(flow.heads) > 1 or beta == 0 or not np.array_equal(head.query_key, identity):
        return {}
    count = parts.squares.shape[1]
    bessel = ive(np.arange(count), beta) if flow.dimension == 2 else spherical_bessel(count - 1, beta)
    with np.errstate(over="ignore"):
        energy = np.exp(abs(beta)) * (parts.squares @ bessel) / (2 * beta)
    assert isinstance(flow, SphereAttention)
    is_identity = np.array_equal(head.value_matrix, identity)
    if not isinstance(flow.attention, Unnormalised) or not is_identity or flow.noise is None:
        return {"energy": energy}
    scale = np.exp(-beta * float(flow.attention.offset))
    return {"energy": energy, "free_energy": -parts.entropy * diffusion_of(flow) - scale * energy}


def characteristic_dataset(
    request: DensityRequest, grid: LabelGrid, masses: np.ndarray, states: SavedStates
) -> xr.Dataset:
    """The labelled result of a run in R^1 or R^2."""
    places, labels = np.stack(states.saved), ("label", "second_label")[: grid.dimension]
    density = np.stack([masses / grid.weights / grid.determinant(one) for one in states.saved])
    flat, shares = places.reshape(len(places), -1, grid.dimension), masses.ravel()
    outer, times = cut_tails.outer_nodes(grid, masses), request.limits.times
    of_tails = cut_tails.sentence(cut_tails.pair_share(request.flow, times, flat, shares, outer))
    mean = np.einsum("j,tjc->tc", shares, flat)
    away = flat - mean[:, None]
    logs = np.log(np.maximum(density, np.finfo(float).tiny)).reshape(len(places), -1)
    over_time = {
        "entropy": -logs @ shares,
        "least_density": density.reshape(len(places), -1).min(axis=1),
        "resolution": np.array([grid.tail(one) for one in states.saved]),
    } | _energy_on_line(request.flow, flat, shares, outer)
    variables = {
        "density": (("time", *labels), density),
        "place": (("time", *labels, "coordinate"), places),
        "mass": (labels, masses),
        "mean": (("time", "coordinate"), mean),
        "covariance": (("time", "row", "column"), np.einsum("j,tjr,tjc->trc", shares, away, away)),
        "box": (("side", "coordinate"), np.stack([grid.low, grid.high])),
        **{name: (("time",), values) for name, values in over_time.items()},
    }
    coordinates = {name: grid.axis(index) for index, name in enumerate(labels)}
    return _labelled(request, states, variables, coordinates, 0.0, of_tails)


def _energy_on_line(
    flow: AbstractDynamics, places: np.ndarray, shares: np.ndarray, outer: np.ndarray
) -> dict[str, np.ndarray]:
    """(2 beta)^-1 int int e^{beta x y} dmu dmu in R^1, where Q^T K = 1; the pairs of nodes in R^2 are too many.

    NaN where outer nodes make up more than `ENERGY_OF_TAILS`: that of a Gaussian law with beta s >= 1 is infinite.
    """
    beta, heads = beta_of(flow), constant_heads(flow)
    is_served = isinstance(flow, EuclideanAttention) and flow.dimension == 1 and len(heads) == 1 and beta != 0
    if not is_served or float(heads[0].query_key[0, 0]) != 1:
        return {}
    with np.errstate(over="ignore"):
        parts = [shares * (np.exp(beta * np.outer(x, x)) @ shares) for x in places[..., 0]]
    sums = [
        part.sum() if part[outer].sum() <= cut_tails.ENERGY_OF_TAILS * part.sum() < np.inf else np.nan for part in parts
    ]
    return {"energy": np.array(sums) / (2 * beta)}


def _labelled(
    request: DensityRequest,
    states: SavedStates,
    variables: dict[str, Any],
    coordinates: dict[str, Any],
    least: float,
    caution: str = "",
) -> xr.Dataset:
    """The dataset with the ending of the run and its provenance; `least` is the least density over the largest."""
    ending = {
        "final_time": ((), states.time),
        "steps": ((), states.accepted),
        "rejected_steps": ((), states.rejected),
    } | status_variables(np.asarray(states.status))
    limits = request.limits
    attributes = stamp(
        ResultKind.DENSITY,
        _sentence(request.domain, states, least) + caution,
        flow=request.flow,
        domain=request.domain.value,
        requested_times=limits.times,
        dtype="float64",
        rtol=limits.rtol,
        modes=request.modes,
        max_modes=limits.max_modes,
    )
    times = {"time": limits.times[: len(states.saved)]}
    return xr.Dataset(variables | ending, times | coordinates, attributes)


def _sentence(domain: Domain, states: SavedStates, least: float) -> str:
    """How the run ended, and whether the density fell below zero."""
    unit = "modes" if domain.is_spectral else "nodes on each axis" if domain is Domain.PLANE else "nodes"
    place = f"t = {states.time:.6g} after {states.accepted} steps, with {states.last_modes} {unit}"
    is_whole = states.status is Status.REACHED
    text = f"Reached {place}." if is_whole else early_ending(ResultKind.DENSITY, states.status, f"at {place}")
    return text if least > -POSITIVE else f"{text} The density falls to {least:.2g} times its largest value."
