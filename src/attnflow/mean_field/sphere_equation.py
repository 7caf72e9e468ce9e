"""The mean-field equation on S^2 in the coefficients of spherical harmonics, for heads with Q^T K = b I.

With s = beta b and the modified spherical Bessel functions i_l(s) = (pi / (2 s))^{1/2} I_{l+1/2}(s),

    Z(x) = int e^{s <x, y>} dmu(y) = 4 pi sum_lm i_l(s) c_lm Y_lm(x),

and the mean M(x) = int e^{s <x, y>} y dmu(y) has the tangent part grad Z / s and the radial part dZ/ds.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ive

from attnflow.mean_field import spherical_harmonics
from attnflow.mean_field.circle_field import beta_of, constant_heads, unnormalised_factor
from attnflow.mean_field.spectral_equation import AbstractSpectralEquation, diffusion_of
from attnflow.mean_field.spherical_harmonics import SphereGrid
from attnflow.model.flows import SphereAttention


def spherical_bessel(modes: int, s: float) -> np.ndarray:
    """i_l(s) e^{-|s|} for l = 0 to `modes`; i_l(-s) = (-1)^l i_l(s)."""
    degrees = np.arange(modes + 1)
    if s == 0:
        return (degrees == 0).astype(float)
    return np.sqrt(np.pi / (2 * abs(s))) * ive(degrees + 0.5, abs(s)) * np.sign(s) ** degrees


@dataclass(frozen=True)
class SphereHead:
    """One head: factors of Z, grad Z / s and dZ/ds by degree, V, and the factor of unnormalised attention."""

    weights: np.ndarray
    slopes: np.ndarray
    growth: np.ndarray
    value: np.ndarray
    factor: float | None

    @classmethod
    def of(cls, flow: SphereAttention, product: np.ndarray, value: np.ndarray, modes: int) -> "SphereHead":
        """The head with Q^T K and V for a number of modes.

        i_l(s) / s = (i_{l-1} - i_{l+1}) / (2 l + 1) and i_l'(s) = (l i_{l-1} + (l + 1) i_{l+1}) / (2 l + 1), which also
        hold at s = 0.
        """
        s, degrees = beta_of(flow) * float(product[0, 0]), np.arange(modes + 1)
        bessel = spherical_bessel(modes + 1, s)
        below, above = np.concatenate([[0.0], bessel[:-2]]), bessel[1:]
        slopes = (below - above) / (2 * degrees + 1)
        growth = (degrees * below + (degrees + 1) * above) / (2 * degrees + 1)
        four_pi = 4 * np.pi
        return cls(four_pi * bessel[:-1], four_pi * slopes, four_pi * growth, value, unnormalised_factor(flow, abs(s)))

    def velocity(self, grid: SphereGrid, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The components along e_theta and e_phi of V M, over Z for softmax."""
        mean = np.array([grid.values(self.growth * coefficients), *grid.gradient(self.slopes * coefficients)])
        in_space = np.einsum("ij,kjpq,kpq->ipq", self.value, grid.frame, mean)
        southward, eastward = (np.einsum("jpq,jpq->pq", direction, in_space) for direction in grid.frame[1:])
        if self.factor is not None:
            return self.factor * southward, self.factor * eastward
        weights = grid.values(self.weights * coefficients)
        return southward / weights, eastward / weights


@dataclass(frozen=True)
class SphereEquation(AbstractSpectralEquation):
    """On S^2: c_lm' = -(l (l + 1) / kappa) c_lm + int rho v . grad conj(Y_lm)."""

    flow: SphereAttention
    grid: SphereGrid
    heads: tuple[SphereHead, ...]

    @classmethod
    def of(cls, flow: SphereAttention, modes: int, is_zonal: bool) -> "SphereEquation":
        """The equation of a flow with a number of modes."""
        matrices = [(np.asarray(head.query_key), np.asarray(head.value_matrix)) for head in constant_heads(flow)]
        heads = tuple(SphereHead.of(flow, product, value, modes) for product, value in matrices)
        return cls(flow, SphereGrid(modes, is_zonal), heads)

    @property
    def modes(self) -> int:  # type: ignore[override]
        """The largest degree."""
        return self.grid.modes

    @property
    def linear(self) -> np.ndarray:
        """-l (l + 1) / kappa, of shape (1, degrees)."""
        degrees = np.arange(self.modes + 1.0)
        return -(degrees * (degrees + 1) * diffusion_of(self.flow))[None, :]

    def velocity(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The velocity on the grid, summed over heads, along e_theta and e_phi."""
        parts = [head.velocity(self.grid, coefficients) for head in self.heads]
        return sum(part[0] for part in parts), sum(part[1] for part in parts)  # type: ignore[return-value]

    def transport(self, coefficients: np.ndarray) -> np.ndarray:
        """int rho v . grad conj(Y_lm), which vanishes for l = 0: mass is exact."""
        density = self.grid.values(coefficients)
        southward, eastward = self.velocity(coefficients)
        return self.grid.minus_divergence(density * southward, density * eastward)

    def largest_speed(self, coefficients: np.ndarray) -> float:
        """The largest speed on the grid."""
        return float(np.hypot(*self.velocity(coefficients)).max())

    def with_modes(self, modes: int) -> "SphereEquation":
        """The equation with another number of modes."""
        return SphereEquation.of(self.flow, modes, self.grid.is_zonal)

    def extended(self, coefficients: np.ndarray) -> np.ndarray:
        """Coefficients with zeros appended."""
        return spherical_harmonics.with_modes(coefficients, self.modes)

    def tail(self, coefficients: np.ndarray) -> float:
        """The largest |c_lm| of the last tenth of the degrees, relative to c_00."""
        return spherical_harmonics.tail(coefficients)
