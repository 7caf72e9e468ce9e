"""The mean-field equation in the coefficients of a density: c' = L c + N(c), L diagonal, for one number of modes."""

import abc
from dataclasses import dataclass
from typing import Self

import numpy as np

from attnflow.mean_field import fourier
from attnflow.mean_field.circle_field import CircleField, circle_field
from attnflow.model.flows import SphereAttention


def diffusion_of(flow: SphereAttention) -> float:
    """1 / kappa, 0 without noise."""
    return 0.0 if flow.noise is None else 1 / float(flow.noise.kappa)


class AbstractSpectralEquation(abc.ABC):
    """What the steps in time need: L, N, and how well a number of modes resolves a density."""

    modes: int

    @property
    @abc.abstractmethod
    def linear(self) -> np.ndarray:
        """The diagonal of L: eigenvalues of the Laplacian over kappa."""

    @abc.abstractmethod
    def transport(self, coefficients: np.ndarray) -> np.ndarray:
        """N(c): the coefficients of -div(rho v[rho])."""

    @abc.abstractmethod
    def largest_speed(self, coefficients: np.ndarray) -> float:
        """The largest speed on the grid."""

    @abc.abstractmethod
    def with_modes(self, modes: int) -> Self:
        """The same equation with another number of modes."""

    @abc.abstractmethod
    def extended(self, coefficients: np.ndarray) -> np.ndarray:
        """Coefficients of fewer modes with zeros appended."""

    @abc.abstractmethod
    def tail(self, coefficients: np.ndarray) -> float:
        """The largest of the last tenth of the coefficients, the mass being 1."""


@dataclass(frozen=True)
class CircleEquation(AbstractSpectralEquation):
    """On the circle: c_k' = -(k^2 / kappa) c_k - i k (rho v)^_k."""

    flow: SphereAttention
    field: CircleField

    @classmethod
    def of(cls, flow: SphereAttention, modes: int) -> "CircleEquation":
        """The equation of a flow with a number of modes."""
        return cls(flow, circle_field(flow, modes))

    @property
    def modes(self) -> int:  # type: ignore[override]
        """Number of Fourier modes."""
        return self.field.modes

    @property
    def linear(self) -> np.ndarray:
        """-k^2 / kappa."""
        return -(np.arange(self.modes + 1.0) ** 2) * diffusion_of(self.flow)

    def transport(self, coefficients: np.ndarray) -> np.ndarray:
        """-i k (rho v)^_k."""
        points = fourier.POINTS_PER_MODE * self.modes
        flux = fourier.values(coefficients, points) * self.field.velocity(coefficients)
        return -1j * np.arange(self.modes + 1) * fourier.coefficients_of(flux, self.modes)

    def largest_speed(self, coefficients: np.ndarray) -> float:
        """The largest angular velocity."""
        return float(np.abs(self.field.velocity(coefficients)).max())

    def with_modes(self, modes: int) -> "CircleEquation":
        """The equation with another number of modes."""
        return CircleEquation.of(self.flow, modes)

    def extended(self, coefficients: np.ndarray) -> np.ndarray:
        """Coefficients with zeros appended."""
        return fourier.with_modes(coefficients, self.modes)

    def tail(self, coefficients: np.ndarray) -> float:
        """The largest |c_k| of the last tenth of the modes."""
        return fourier.tail(coefficients)
