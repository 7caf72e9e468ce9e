"""`branch`: a family of stationary laws of the noisy equation on the circle, followed in kappa through its folds."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count, require_positive_number
from attnflow._common.threads import one_blas_thread
from attnflow.mean_field import fourier
from attnflow.mean_field.gibbs import Gibbs
from attnflow.model.attention import Softmax, Unnormalised
from attnflow.results.descriptions import described

TOLERANCE = 1e-12  # of the fixed-point equation, whose moments are at most one
NEWTON_STEPS = 12
RESOLVED = 1e-10  # largest moment of the last tenth of the modes
FIRST_STEP = 0.02  # of arclength in (a, log kappa)
LARGEST_STEP = 0.05
MARGINAL = 1e-9  # growth rate over that of diffusion, 1/kappa, within which a state is neither stable nor unstable


def branch(
    attention: Softmax | Unnormalised,
    *,
    mode: int = 1,
    kappas: tuple[float, float] | None = None,
    modes: int = 96,
    states: int = 200,
) -> xr.Dataset:
    """Follow the stationary laws that leave the uniform law at its loss of stability to one Fourier mode.

    The tokens are on the circle, with Q = K = V = I and noise sqrt(2/kappa) dW. States are found by Newton's method in
    the moments int cos(k theta) and continued by arclength, so that a branch that first turns back to smaller kappa, as
    it does above `critical_beta`, is followed through its fold.

    Parameters
    ----------
    attention
        `Unnormalised` or `Softmax`, with beta > 0.
    mode
        Number of periods of the states near the bifurcation.
    kappas
        Range of kappa in which the branch is followed. None: from a quarter to four times that of the bifurcation.
    modes
        Number of Fourier modes.
    states
        Largest number of states.

    Returns
    -------
    xarray.Dataset
        Over `state`: `kappa`, `order` |c_1|, `moments`, `density` over angle, `growth_rate` (the largest of all
        perturbations but the rotation), `is_stable`, `free_energy` (unnormalised attention), and `residual`, the
        largest error of the fixed-point equation.

    Examples
    --------
    >>> import attnflow as af
    >>> states = af.mean_field.branch(af.Unnormalised(4.0))  # above critical_beta: the branch turns back
    >>> bifurcation, fold = float(states.kappa[0]), float(states.kappa.min())
    >>> round(bifurcation, 4), round(fold, 4)
    (0.4099, 0.3871)
    """
    if not isinstance(attention, Softmax | Unnormalised):
        raise InputError(f"`attention` must be Softmax or Unnormalised, but it is {attention!r}.")
    require_positive_number(attention.beta, "beta", "Without attraction the uniform law is stable.")
    for name, value in (("mode", mode), ("modes", modes), ("states", states)):
        require_count(value, name)
    gibbs = Gibbs(attention, modes)
    needed = int(np.ceil(np.sqrt(60 * gibbs.beta))) + 10 + mode
    if modes < needed:
        raise InputError(f"`modes` must be at least {needed}, which this beta needs, but it is {modes}.")
    first = gibbs.first_kappa(mode)
    low, high = (first / 4, 4 * first) if kappas is None else kappas
    if not low < first < high:
        raise InputError(
            f"`kappas` must contain the bifurcation at kappa = {first:.6g}, but it is ({low:g}, {high:g})."
        )
    with one_blas_thread():
        return _dataset(gibbs, mode, _followed(gibbs, mode, first, (low, high), states))


@dataclass(frozen=True)
class Point:
    """A stationary state: its moments, log kappa, and the direction in which the branch goes on."""

    moments: np.ndarray
    log_kappa: float
    direction: np.ndarray

    @property
    def vector(self) -> np.ndarray:
        """Moments and log kappa as one vector, in which arclength is measured."""
        return np.append(self.moments, self.log_kappa)


def _followed(gibbs: Gibbs, mode: int, first: float, kappas: tuple[float, float], most: int) -> list[Point]:
    """The states of the branch within the range of kappa, as far as they are resolved."""
    direction = np.eye(gibbs.modes + 1)[mode - 1]
    points, length = [Point(np.zeros(gibbs.modes), float(np.log(first)), direction)], FIRST_STEP
    while len(points) < most and length > 1e-6:
        found = _corrected(gibbs, points[-1], length)
        if found is None:
            length /= 2
            continue
        is_inside = kappas[0] <= np.exp(found.log_kappa) <= kappas[1]
        if not is_inside or np.abs(found.moments[-(gibbs.modes // 10) :]).max() > RESOLVED:
            break
        points.append(found)
        length = min(1.3 * length, LARGEST_STEP)
    return points


def _corrected(gibbs: Gibbs, point: Point, length: float) -> Point | None:
    """The state at an arclength from another by Newton's method, or None where it does not converge.

    The equations are residual(a, kappa) = 0 and <direction, (a, log kappa) - previous> = length.
    """
    vector = point.vector + length * point.direction
    for _ in range(NEWTON_STEPS):
        kappa = np.exp(vector[-1])
        residual, jacobian, by_kappa = gibbs.residual(vector[:-1], kappa)
        matrix = np.block([[jacobian, kappa * by_kappa[:, None]], [point.direction[None, :]]])
        right = np.append(residual, point.direction @ (vector - point.vector) - length)
        if np.abs(right).max() < TOLERANCE:
            turned = np.linalg.solve(matrix, np.eye(len(vector))[-1])
            return Point(vector[:-1], float(vector[-1]), turned / np.linalg.norm(turned))
        vector = vector - np.linalg.solve(matrix, right)
        if not np.all(np.isfinite(vector)) or np.linalg.norm(vector - point.vector) > 4 * length:
            return None
    return None


def _dataset(gibbs: Gibbs, mode: int, points: list[Point]) -> xr.Dataset:
    moments = np.array([point.moments for point in points])
    kappas = np.exp([point.log_kappa for point in points])
    rates = np.array([gibbs.largest_rate(one, kappa) for one, kappa in zip(moments, kappas, strict=True)])
    errors = [np.abs(gibbs.residual(one, kappa)[0]).max() for one, kappa in zip(moments, kappas, strict=True)]
    coefficients = np.concatenate([np.ones((len(points), 1)), moments], axis=1)
    angles = fourier.grid(gibbs.modes)
    variables = {
        "kappa": (("state",), kappas),
        "order": (("state",), np.abs(moments[:, 0])),
        "moments": (("state", "mode"), moments),
        "density": (("state", "angle"), fourier.values(coefficients, len(angles))),
        "growth_rate": (("state",), rates),
        "is_stable": (("state",), rates * kappas < -MARGINAL),
        "free_energy": (("state",), [gibbs.free_energy(one, k) for one, k in zip(moments, kappas, strict=True)]),
        "residual": (("state",), errors),
    }
    coordinates = {"mode": np.arange(1, gibbs.modes + 1), "angle": angles}
    return described(
        xr.Dataset(
            variables,
            coordinates,
            {"attention": type(gibbs.attention).__name__.lower(), "beta": gibbs.beta, "bifurcating_mode": mode},
        )
    )
