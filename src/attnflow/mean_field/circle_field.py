"""The velocity v[mu] on the circle, from the Fourier coefficients of mu."""

import abc
from dataclasses import dataclass

import numpy as np
from scipy.special import ive

from attnflow._common.checks import InputError
from attnflow.mean_field import fourier
from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head

LARGEST_EXPONENT = 700.0  # e^709 overflows in float64
MOST_DENSE_MODES = 1024  # of heads with B != b I, whose kernel is a matrix of (3 * 1024)^2 entries, 75 MB

Parts = tuple[np.ndarray, np.ndarray | float]
"""The integral int e^{...} <tau, V y> dmu(y) over the grid, tau being the tangent, and its denominator."""


class AbstractKernel(abc.ABC):
    """e^{beta <x, B y>} of one head as an operator on densities, on the grid of one number of modes."""

    @abc.abstractmethod
    def integrals(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """int e^{...} (y_1 + i y_2) dmu(y) and int e^{...} dmu(y) at the grid's angles, both over e^shift.

        The last axis of `coefficients` is that of modes; earlier axes are those of several densities.
        """


@dataclass(frozen=True)
class Convolution(AbstractKernel):
    """The kernel of B = b I: e^{s cos(theta - phi)} = sum_k I_k(s) e^{i k (theta - phi)}, s = beta b, over e^|s|."""

    bessel: np.ndarray
    """I_k(s) e^{-|s|} for k = 0 to the number of modes."""

    def integrals(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """int E(theta - phi) f(phi) dphi has the coefficients I_k f_k; e^{i phi} shifts those of the density by one."""
        modes = len(self.bessel) - 1
        points = fourier.POINTS_PER_MODE * modes
        weights = np.fft.irfft(self.bessel * coefficients, points, axis=-1) * points
        shifted = np.zeros((*coefficients.shape[:-1], points), complex)  # c_{k-1} I_k in the order of the FFT
        shifted[..., 0] = coefficients[..., 1].conj() * self.bessel[0]
        shifted[..., 1 : modes + 1] = coefficients[..., :-1] * self.bessel[1:]
        shifted[..., -modes + 1 :] = (coefficients[..., 2:].conj() * self.bessel[1:-1])[..., ::-1]
        return np.fft.ifft(shifted, axis=-1) * points, weights


@dataclass(frozen=True)
class Quadrature(AbstractKernel):
    """The kernel of any B by the trapezoidal rule, which converges exponentially for periodic functions."""

    kernel: np.ndarray
    """e^{scores} over the largest entry and the number of points, (points, points)."""

    def integrals(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums over the grid."""
        points = len(self.kernel)
        angles = 2 * np.pi * np.arange(points) / points
        density = 2 * np.pi * fourier.values(coefficients, points)
        return (np.exp(1j * angles) * density) @ self.kernel.T, density @ self.kernel.T


@dataclass(frozen=True)
class HeadVelocity:
    """The velocity of one head: its kernel, its value matrix, and the factor of unnormalised attention."""

    kernel: AbstractKernel
    value: np.ndarray
    factor: float | None
    """Factor of the integral under unnormalised attention; None for softmax."""

    def parts(self, coefficients: np.ndarray, tangents: np.ndarray) -> Parts:
        """Numerator and denominator of the velocity along the tangent, linear in the density but for a constant."""
        pull, weights = self.kernel.integrals(coefficients)
        (a, b), (c, d), first, second = *self.value, np.real(pull), np.imag(pull)
        numerator = tangents[0] * (a * first + b * second) + tangents[1] * (c * first + d * second)
        return (numerator, weights) if self.factor is None else (self.factor * numerator, 1.0)


@dataclass(frozen=True)
class CircleField:
    """v[mu] at the angles of the grid, the sum over heads."""

    heads: tuple[HeadVelocity, ...]
    modes: int
    tangents: np.ndarray
    """The tangent (-sin, cos) at every angle, (2, points)."""

    def velocity(self, coefficients: np.ndarray) -> np.ndarray:
        """The angular velocity of a token at every angle of the grid."""
        every = [head.parts(coefficients, self.tangents) for head in self.heads]
        return sum((over / under for over, under in every), start=np.zeros(1))

    def derivative(self, coefficients: np.ndarray, change: np.ndarray) -> np.ndarray:
        """The derivative of the velocity in the density, applied to changes: (dN - v dD) / D for v = N / D."""
        total = np.zeros(1)
        for head in self.heads:
            over, under = head.parts(coefficients, self.tangents)
            d_over, d_under = head.parts(change, self.tangents)
            total = total + (d_over if head.factor is not None else (d_over - over / under * d_under) / under)
        return total


def circle_field(flow: SphereAttention, modes: int) -> CircleField:
    """The velocity field of a flow for densities of this number of modes."""
    angles = fourier.grid(modes)
    heads = tuple(_head_field(flow, head, modes) for head in constant_heads(flow))
    return CircleField(heads, modes, np.stack([-np.sin(angles), np.cos(angles)]))


def _head_field(flow: SphereAttention, head: Head, modes: int) -> HeadVelocity:
    product, value = np.asarray(head.query_key, float), np.asarray(head.value_matrix, float)
    beta = beta_of(flow)
    is_isotropic = np.array_equal(product, product[0, 0] * np.eye(2))
    if is_isotropic:
        scale = beta * product[0, 0]
        return HeadVelocity(Convolution(ive(np.arange(modes + 1), scale)), value, unnormalised_factor(flow, abs(scale)))
    if modes > MOST_DENSE_MODES:
        raise InputError(
            f"A head with Q^T K that is no multiple of I is integrated with {MOST_DENSE_MODES} modes at most, "
            f"but {modes} are needed. Ask for an earlier end or more noise, or set `max_modes` to {MOST_DENSE_MODES}."
        )
    angles = fourier.grid(modes)
    places = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    scores = beta * places @ product @ places.T
    kernel = np.exp(scores - scores.max()) / len(angles)
    return HeadVelocity(Quadrature(kernel), value, unnormalised_factor(flow, scores.max()))


def unnormalised_factor(flow: SphereAttention, shift: float) -> float | None:
    """e^{shift - beta offset} for unnormalised attention, whose kernel is kept over e^shift; None for softmax."""
    if not isinstance(flow.attention, Unnormalised):
        return None
    exponent = shift - beta_of(flow) * float(flow.attention.offset)
    if exponent > LARGEST_EXPONENT:
        raise InputError(
            f"Weights of unnormalised attention reach e^{exponent:.4g}, which overflows. Use `offset=1`, "
            "which only changes the unit of time."
        )
    return float(np.exp(exponent))


def modes_for(flow: SphereAttention) -> int:
    """The least number of modes that resolves the kernel: (60 s)^1/2 + 10 give 1e-13, s being the largest |beta B|."""
    norms = [np.linalg.norm(np.asarray(head.query_key, float), 2) for head in constant_heads(flow)]
    return int(np.ceil(np.sqrt(60 * abs(beta_of(flow)) * max(norms)))) + 10


def beta_of(flow: AbstractDynamics) -> float:
    """beta of softmax or unnormalised attention, the only rules that are served."""
    assert isinstance(flow.attention, Softmax | Unnormalised)
    return float(flow.attention.beta)


def constant_heads(flow: AbstractDynamics) -> list[Head]:
    """The heads of a flow whose heads are all constant."""
    return [head for head in flow.heads if isinstance(head, Head)]
