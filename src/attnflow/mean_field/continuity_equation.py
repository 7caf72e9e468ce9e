"""`evolve`: the law of infinitely many tokens over time. The methods are described in the docstring of the package."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import require_positive_number, require_resolvable, require_times
from attnflow._common.memory import require_array_memory
from attnflow._common.progress import Progress, Report, reporting
from attnflow.mean_field import characteristics, spectral_run
from attnflow.mean_field.circle_field import modes_for
from attnflow.mean_field.density_dataset import (
    SHOWN_ANGLES,
    SHOWN_POLAR,
    DensityRequest,
    characteristic_dataset,
    spectral_dataset,
)
from attnflow.mean_field.first_states import box_start, finer, first_modes, is_law, is_zonal, spectral_start
from attnflow.mean_field.served_flows import Domain, domain_of
from attnflow.mean_field.spectral_equation import AbstractSpectralEquation, CircleEquation
from attnflow.mean_field.spectral_run import RunLimits
from attnflow.mean_field.sphere_equation import SphereEquation
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.solvers.status import Status


def evolve(
    flow: AbstractDynamics,
    start: Callable[[np.ndarray], Any] | Any,
    times: Any,
    *,
    rtol: float = 1e-8,
    modes: int | None = None,
    max_modes: int | None = None,
    budget: float | None = None,
    progress: Progress = None,
) -> xr.Dataset:
    """Integrate the law of infinitely many tokens: the continuity equation or, with noise, that of Fokker and Planck.

    Parameters
    ----------
    flow
        With softmax or unnormalised attention, a full mask and constant heads: `SphereAttention` with d = 2 (any Q, K
        and V) or d = 3 (Q^T K = b I, any V), where `Noise` lets the density diffuse; or `EuclideanAttention` or
        `RescaledAttention` with d = 1 or 2, any Q, K and V, without noise.
    start
        The first density, which is divided by its integral. On the circle a function of the angle
        (`mean_field.uniform`, `mean_field.von_mises`, your own), or its values at equally spaced angles from 0 on. On
        S^2 a function of unit vectors, or one of the last coordinate (`mean_field.zonal`, `von_mises_fisher`,
        `zonal_wave`), which is integrated in one dimension if V = diag(v, v, w). In R^d `mean_field.box` or
        `mean_field.normal`. Everywhere a dataset of `evolve` at one time, ``law.isel(time=-1)``.
    times
        Times at which the density is saved, increasing; the first is that of `start`.
    rtol
        Tolerance of a step: on the circle and S^2 relative to the distance of the coefficients from those of the
        uniform density, in R^d relative to the places of the nodes.
    modes
        Number of modes at the start, in R^d of nodes on each axis. None: as many as beta and `start` need.
    max_modes
        Number of modes up to which it is doubled as the density grows narrow. None: 2048 on the circle, 1024 for zonal
        densities, 128 on S^2, 256 in R^1, 64 in R^2.
    budget
        Seconds after which the run ends with what it has.
    progress
        A callback with the share of time done and a sentence; None for a bar on terminals.

    Returns
    -------
    xarray.Dataset
        `density` over time and place. On the circle and S^2 also the coefficients (`cosine` and `sine`, their real part
        and minus their imaginary part), `order`, the length of the mean token, and `free_energy` if it decreases by
        theory; in R^d the `place` and `mass` of every node, `mean` and `covariance`. Everywhere `energy` (if
        Q^T K = I; not in R^2 or rescaled; NaN where a tail that the box cuts off makes up a thousandth of it),
        `entropy`, `least_density` and `resolution`, the size of the last coefficients, which is the error of
        truncation. The attribute `outcome` says so if such a tail decides how the law moves.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=4.0), noise=af.Noise(kappa=20.0))
    >>> law = af.mean_field.evolve(flow, af.mean_field.uniform(mode=3, amplitude=0.1), [0.0, 5.0])
    >>> bool(law.order[-1] < 1e-12), round(float(np.hypot(law.cosine, law.sine)[-1, 3]), 3)
    (True, 0.144)
    """
    domain, saved = domain_of(flow, is_zonal(start)), require_times(times)
    require_resolvable(rtol, "float64")
    shown = {Domain.CIRCLE: SHOWN_ANGLES, Domain.ZONAL: SHOWN_POLAR, Domain.SPHERE: 2 * SHOWN_POLAR**2}.get(domain, 1)
    # The density, its logarithm, and their product.
    require_array_memory(3, len(saved), shown, what=f"The law at {len(saved)} times", what_to_do="Save fewer times.")
    if budget is not None:
        require_positive_number(budget, "budget")
    limits = RunLimits(saved, rtol, domain.most_modes if max_modes is None else max_modes, budget)
    with reporting(progress) as report:
        if isinstance(flow, SphereAttention):
            return _spectral(flow, domain, start, modes, limits, report)
        return _by_characteristics(flow, domain, start, modes, limits, report)


def _spectral(
    flow: SphereAttention, domain: Domain, start: Any, modes: int | None, limits: RunLimits, report: Report
) -> xr.Dataset:
    """The law on the circle or S^2."""
    begin = first_modes(modes_for(flow), modes, limits.max_modes)
    first = spectral_start(domain, start, begin, limits.max_modes, is_fixed=modes is not None)
    equation = _equation(flow, domain, first.shape[-1] - 1)
    states = spectral_run.integrated(equation, first, limits, report)
    return spectral_dataset(DensityRequest(flow, domain, limits, equation.modes), states)


def _equation(flow: SphereAttention, domain: Domain, modes: int) -> AbstractSpectralEquation:
    if domain is Domain.CIRCLE:
        return CircleEquation.of(flow, modes)
    return SphereEquation.of(flow, modes, domain is Domain.ZONAL)


def _by_characteristics(
    flow: AbstractDynamics, domain: Domain, start: Any, modes: int | None, limits: RunLimits, report: Report
) -> xr.Dataset:
    """The law in R^1 or R^2, computed again with more nodes until the flow map is resolved."""
    nodes = box_start(start, domain, modes, limits.max_modes)
    while True:
        states = characteristics.integrated(flow, nodes.grid, nodes.masses, nodes.places, limits, report)
        is_narrow = states.status is Status.UNRESOLVED and nodes.grid.nodes < limits.max_modes
        if not is_narrow or is_law(start):
            request = DensityRequest(flow, domain, limits, nodes.grid.nodes)
            return characteristic_dataset(request, nodes.grid, nodes.masses, states)
        nodes = finer(start, nodes, limits.max_modes)
