"""The dataset of `evolve`: densities, coefficients and what is measured of them, with the provenance of the run."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.special import ive

from attnflow.mean_field import fourier
from attnflow.mean_field.circle_field import beta_of, constant_heads
from attnflow.model.attention import Unnormalised
from attnflow.model.flows import SphereAttention
from attnflow.results.outcome import early_ending, status_variables
from attnflow.results.provenance import ResultKind, stamp
from attnflow.solvers.status import Status

SHOWN_ANGLES = 512  # of `density` in the dataset, or as many as there are modes, whichever is more
POSITIVE = 1e-8  # a density below minus this, times its largest value, is reported as negative


@dataclass(frozen=True)
class DensityRequest:
    """The checked arguments of one call of `evolve`."""

    flow: SphereAttention
    times: np.ndarray
    rtol: float
    modes: int
    max_modes: int

    @property
    def diffusion(self) -> float:
        """1 / kappa, 0 without noise."""
        return 0.0 if self.flow.noise is None else 1 / float(self.flow.noise.kappa)


@dataclass(frozen=True)
class SavedStates:
    """The coefficients at the saved times and at the end, and how the run ended."""

    saved: Sequence[np.ndarray]
    last: np.ndarray
    time: float
    status: Status
    accepted: int
    rejected: int


def dataset(request: DensityRequest, states: SavedStates) -> xr.Dataset:
    """The labelled result of a run."""
    modes = max(len(one) for one in states.saved) - 1
    coefficients = np.stack([fourier.with_modes(one, modes) for one in states.saved])
    points = max(SHOWN_ANGLES, 2 * modes)
    density = fourier.values(coefficients, points)
    over_time = {
        "order": np.abs(coefficients[:, 1]),
        "entropy": _entropy(density),
        "least_density": density.min(axis=1),
        "resolution": np.array([fourier.tail(one) for one in states.saved]),
    } | _energies(request, coefficients, density)
    variables = {
        "density": (("time", "angle"), density),
        "cosine": (("time", "mode"), np.real(coefficients)),
        "sine": (("time", "mode"), -np.imag(coefficients)),
        **{name: (("time",), values) for name, values in over_time.items()},
        "final_time": ((), states.time),
        "steps": ((), states.accepted),
        "rejected_steps": ((), states.rejected),
    } | status_variables(np.asarray(states.status))
    coordinates = {
        "time": request.times[: len(states.saved)],
        "angle": 2 * np.pi * np.arange(points) / points,
        "mode": np.arange(modes + 1),
    }
    settings = {"rtol": request.rtol, "modes": request.modes, "max_modes": request.max_modes}
    sentence = _sentence(states, density)
    attributes = stamp(
        ResultKind.DENSITY, sentence, flow=request.flow, requested_times=request.times, dtype="float64", **settings
    )
    return xr.Dataset(variables, coordinates, attributes)


def _entropy(density: np.ndarray) -> np.ndarray:
    """-int rho log rho over time, by the trapezoidal rule; rounding may leave a density of zero slightly negative."""
    positive = np.maximum(density, np.finfo(float).tiny)
    return -np.mean(positive * np.log(positive), axis=1) * 2 * np.pi


def _energies(request: DensityRequest, coefficients: np.ndarray, density: np.ndarray) -> dict[str, np.ndarray]:
    """The interaction energy if Q^T K = I, and the free energy if theory says that it decreases.

    E = (2 beta)^-1 int int e^{beta cos} drho drho = (2 beta)^-1 sum_k I_k(beta) |c_k|^2 over all k. Unnormalised
    attention with V = I and noise is the gradient flow of F = -(entropy)/kappa - E.
    """
    flow, beta, head = request.flow, beta_of(request.flow), constant_heads(request.flow)[0]
    if len(flow.heads) > 1 or beta == 0 or not np.array_equal(head.query_key, np.eye(2)):
        return {}
    twice = np.where(np.arange(coefficients.shape[1]) > 0, 2, 1)
    sums = (twice * ive(np.arange(coefficients.shape[1]), beta) * np.abs(coefficients) ** 2).sum(axis=1)
    with np.errstate(over="ignore"):
        energy = np.exp(abs(beta)) * sums / (2 * beta)
    is_identity = np.array_equal(head.value_matrix, np.eye(2))
    if not isinstance(flow.attention, Unnormalised) or not is_identity or flow.noise is None:
        return {"energy": energy}
    scale = np.exp(-beta * float(flow.attention.offset))
    return {"energy": energy, "free_energy": -_entropy(density) * request.diffusion - scale * energy}


def _sentence(states: SavedStates, density: np.ndarray) -> str:
    """How the run ended, and whether the density fell below zero."""
    place = f"t = {states.time:.6g} after {states.accepted} steps, with {len(states.last) - 1} modes"
    is_whole = states.status is Status.REACHED
    text = f"Reached {place}." if is_whole else early_ending(ResultKind.DENSITY, states.status, f"at {place}")
    ratio = density.min() / density.max()
    return text if ratio > -POSITIVE else f"{text} The density falls to {ratio:.2g} times its largest value."
