"""The first state of a run of `evolve`: coefficients on the circle and S^2, masses and places of nodes in R^d."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count
from attnflow.mean_field import fourier, spherical_harmonics
from attnflow.mean_field.densities import BoxDensity, ZonalDensity, checked_values
from attnflow.mean_field.label_grid import LabelGrid
from attnflow.mean_field.served_flows import Domain
from attnflow.mean_field.spectral_run import RESOLVED
from attnflow.mean_field.spherical_harmonics import SphereGrid
from attnflow.results.provenance import ResultKind, kind_of

LEAST_MODES = 32


def is_law(start: Any) -> bool:
    """Whether a start is a dataset of `evolve`."""
    return kind_of(start) is ResultKind.DENSITY


def is_zonal(start: Any) -> bool:
    """Whether a start is a zonal density."""
    return isinstance(start, ZonalDensity) or (is_law(start) and start.attrs.get("domain") == Domain.ZONAL)


def first_modes(needed: int, modes: int | None, max_modes: int) -> int:
    """The number of modes to begin with, at least the number that beta needs."""
    require_count(max_modes, "max_modes")
    if modes is not None:
        require_count(modes, "modes")
    largest = max_modes if modes is None else min(modes, max_modes)
    if largest < needed:
        name = "max_modes" if modes is None or max_modes < modes else "modes"
        raise InputError(f"`{name}` must be at least {needed}, which this beta needs, but it is {largest}.")
    return modes if modes is not None else min(max(LEAST_MODES, needed), max_modes)


def _require_resolved(tail: float, modes: int, max_modes: int) -> None:
    if modes == max_modes:
        raise InputError(
            f"`start` is not resolved by {max_modes} modes: its last coefficients are {tail:.2g} and must be at most "
            f"{RESOLVED:g}. Use a smooth density or a larger `max_modes`."
        )


def require_law(law: xr.Dataset, domain: Domain) -> None:
    """Raise InputError unless a dataset of `evolve` is at one time and on the domain of the flow."""
    recorded = law.attrs.get("domain", Domain.CIRCLE)
    if "time" in law.dims or recorded != domain:
        raise InputError(
            f"`start` must be a dataset of `mean_field.evolve` at one time, law.isel(time=-1), on the {domain}, but it "
            f"is {'over several times' if 'time' in law.dims else f'on the {recorded}'}."
        )


def coefficients_of_law(law: xr.Dataset) -> np.ndarray:
    """The coefficients of a dataset at one time, without the zeros at their end."""
    found = law.cosine.values - 1j * law.sine.values
    last = int(np.flatnonzero(np.abs(found).reshape(-1, found.shape[-1]).max(axis=0))[-1])
    if law.attrs.get("domain", Domain.CIRCLE) == Domain.CIRCLE:
        return found[: last + 1]
    return np.atleast_2d(found)[: last + 1, : last + 1]


def spectral_start(domain: Domain, start: Any, modes: int, max_modes: int, *, is_fixed: bool) -> np.ndarray:
    """The coefficients of the first density, with as many modes as it takes to resolve it, or a fixed number."""
    of_law = None
    if is_law(start):
        require_law(start, domain)
        of_law = coefficients_of_law(start)
        modes = modes if is_fixed else min(max(modes, of_law.shape[-1] - 1), max_modes)
    is_circle = domain is Domain.CIRCLE
    while True:
        if of_law is not None:
            found = _with_modes(of_law, modes)
        else:
            found = _on_circle(start, modes) if is_circle else _on_sphere(start, modes, domain is Domain.ZONAL)
        tail = fourier.tail(found) if is_circle else spherical_harmonics.tail(found)
        if tail <= RESOLVED or is_fixed:
            return found
        _require_resolved(tail, modes, max_modes)
        modes = min(2 * modes, max_modes)


def _with_modes(coefficients: np.ndarray, modes: int) -> np.ndarray:
    if coefficients.ndim == 2:
        return spherical_harmonics.with_modes(coefficients, modes)
    return fourier.with_modes(coefficients[: modes + 1], modes)


def _on_circle(start: Any, modes: int) -> np.ndarray:
    density = fourier.start_values(start, modes)
    found = fourier.coefficients_of(density, min(modes, (len(density) - 1) // 2))
    return fourier.with_modes(found, modes)


def _on_sphere(start: Any, modes: int, zonal: bool) -> np.ndarray:
    """The coefficients of a function of unit vectors, divided by its integral."""
    if not callable(start):
        raise InputError(
            "`start` on the sphere must be a function of unit vectors (..., 3), `mean_field.zonal(...)`, or a dataset "
            f"of `evolve` at one time, but it is of type {type(start).__name__}."
        )
    grid = SphereGrid(modes, zonal)
    points = np.moveaxis(grid.frame[0], 0, -1)
    found = grid.coefficients_of(checked_values(start(points), points.shape[:-1]))
    found = found / (found[0, 0].real * np.sqrt(4 * np.pi))
    found[0, 0] = 1 / np.sqrt(4 * np.pi)  # the mass, without rounding
    return found


@dataclass(frozen=True)
class FirstNodes:
    """The nodes of a run in R^d: grid of labels, masses, and places."""

    grid: LabelGrid
    masses: np.ndarray
    places: np.ndarray


def box_start(start: Any, domain: Domain, modes: int | None, max_modes: int) -> FirstNodes:
    """The nodes that resolve the first density on its box, or those of a dataset."""
    require_count(max_modes, "max_modes")
    if is_law(start):
        require_law(start, domain)
        return _nodes_of_law(start)
    d = 1 if domain is Domain.LINE else 2
    if not isinstance(start, BoxDensity) or len(start.low) != d:
        raise InputError(
            f"`start` in R^{d} must be `mean_field.box(low, high, density)` or `mean_field.normal(mean, covariance)` "
            f"with {d} coordinate{'s' if d > 1 else ''}, or a dataset of `evolve` at one time, but it is {start!r}."
        )
    nodes = min(LEAST_MODES, max_modes) if modes is None else modes
    require_count(nodes, "modes", least=8)
    while True:
        found = _nodes(start, nodes)
        tail = found.grid.tail((found.masses / found.grid.weights)[..., None])
        if tail <= RESOLVED or modes is not None:
            return found
        _require_resolved(tail, nodes, max_modes)
        nodes = min(2 * nodes, max_modes)


def _nodes(start: BoxDensity, nodes: int) -> FirstNodes:
    grid = LabelGrid(start.low, start.high, nodes)
    density = checked_values(start(grid.points), grid.shape)
    masses = grid.weights * density
    return FirstNodes(grid, masses / masses.sum(), grid.points)


def finer(start: BoxDensity, nodes: FirstNodes, max_modes: int) -> FirstNodes:
    """The first density with twice the number of nodes."""
    return _nodes(start, min(2 * nodes.grid.nodes, max_modes))


def _nodes_of_law(law: xr.Dataset) -> FirstNodes:
    low, high = law.box.values
    return FirstNodes(LabelGrid(low, high, law.sizes["label"]), law.mass.values, law.place.values)
