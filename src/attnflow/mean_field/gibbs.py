"""Stationary laws on the circle as fixed points: rho = e^{kappa Phi[rho]} / Z, for Q = K = V = I and noise.

The velocity is the derivative of a potential, v = d Phi / d theta, with

    unnormalised   Phi = beta^-1 int e^{beta (cos(theta - phi) - offset)} drho(phi),
    softmax        Phi = beta^-1 log int e^{beta cos(theta - phi)} drho(phi),

so that the flux rho v - rho' / kappa vanishes for rho = e^{kappa Phi} / Z. For densities that are even in theta the
unknowns are a_k = int cos(k theta) drho, k = 1 to K, and
int e^{beta cos(theta - phi)} drho(phi) = I_0(beta) + 2 sum_k I_k(beta) a_k cos(k theta).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ive

from attnflow.mean_field import fourier
from attnflow.mean_field.circle_field import circle_field
from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head


@dataclass(frozen=True)
class Gibbs:
    """The map a -> moments of e^{kappa Phi[a]} / Z and its derivatives, for one attention rule."""

    attention: Softmax | Unnormalised
    modes: int

    @property
    def beta(self) -> float:
        """The inverse temperature beta of attention."""
        return float(self.attention.beta)

    @property
    def cosines(self) -> np.ndarray:
        """cos(k theta) for k = 1 to K, (K, points)."""
        return np.cos(np.outer(np.arange(1, self.modes + 1), fourier.grid(self.modes)))

    def first_kappa(self, mode: int) -> float:
        """The kappa at which the uniform law becomes unstable to a mode: that with kappa dPhi_k/da_k = 1 at a = 0."""
        _, slopes = self.potential(np.zeros(self.modes))
        return float(1 / np.mean(self.cosines[mode - 1] * slopes[mode - 1]))

    def potential(self, moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Phi over the grid, and its derivatives in the moments, (K, points)."""
        bessel = ive(np.arange(self.modes + 1), self.beta)
        terms = 2 * bessel[1:, None] * self.cosines
        weight = bessel[0] + moments @ terms
        if isinstance(self.attention, Softmax):
            return np.log(np.maximum(weight, np.finfo(float).tiny)) / self.beta, terms / (self.beta * weight)
        factor = np.exp(self.beta * (1 - float(self.attention.offset))) / self.beta
        return factor * weight, factor * terms

    def residual(self, moments: np.ndarray, kappa: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """a - moments of e^{kappa Phi} / Z, its Jacobian in a, and its derivative in kappa."""
        potential, slopes = self.potential(moments)
        cosines, weights = self.cosines, np.exp(kappa * (potential - potential.max()))
        weights = weights / weights.sum()
        means = cosines @ weights
        centred = (cosines - means[:, None]) * weights  # covariances under the density, which the derivatives are
        jacobian = np.eye(self.modes) - kappa * centred @ slopes.T
        return moments - means, jacobian, -centred @ potential

    def largest_rate(self, moments: np.ndarray, kappa: float) -> float:
        """The largest growth rate of a perturbation, leaving out the rotation of the whole density.

        Even and odd perturbations do not mix. The odd ones contain the rotation, whose rate is zero, unless the density
        is uniform.
        """
        flow = SphereAttention(Head.identity(2), self.attention)
        field, numbers = circle_field(flow, self.modes), np.arange(self.modes + 1)
        state = np.concatenate([[1.0], moments]).astype(complex)
        points = fourier.POINTS_PER_MODE * self.modes
        density, velocity = fourier.values(state, points), field.velocity(state)

        def rate(change: np.ndarray) -> np.ndarray:
            flux = fourier.values(change, points) * velocity + density * field.derivative(state, change)
            return -1j * numbers * fourier.coefficients_of(flux, self.modes) - numbers**2 / kappa * change

        units = np.eye(self.modes + 1, dtype=complex)[1:]
        even = np.linalg.eigvals(np.real(rate(units))[:, 1:].T).real
        odd = np.linalg.eigvals(np.imag(rate(1j * units))[:, 1:].T).real
        if np.abs(moments).max() > 1e-9:
            odd = np.delete(odd, np.argmin(np.abs(odd)))
        return float(max(even.max(), odd.max()))

    def free_energy(self, moments: np.ndarray, kappa: float) -> float:
        """int rho log rho / kappa minus the interaction energy of the Gibbs density; NaN for softmax."""
        if isinstance(self.attention, Softmax):
            return float("nan")
        potential, _ = self.potential(moments)
        log_density = kappa * (potential - potential.max())
        log_density = log_density - np.log(np.mean(np.exp(log_density)) * 2 * np.pi)
        weights = np.exp(log_density) * 2 * np.pi / len(log_density)
        return float(weights @ (log_density / kappa - potential / 2))
