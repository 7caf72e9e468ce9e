"""Densities on S^2 as coefficients c_lm = int conj(Y_lm) dmu of orthonormal spherical harmonics, degrees 0 to `modes`.

A real density has c_{l,-m} = (-1)^m conj(c_lm), so that orders m >= 0 suffice. Coefficients are arrays [m, l], zero for
l < m. A zonal density, which depends on the polar angle only, has the single order m = 0. Products are formed on
Gauss-Legendre nodes in cos(theta), three for every two degrees, and equally spaced azimuths, three for every order.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnflow._common.memory import require_memory


def legendre_table(modes: int, orders: int, polar: np.ndarray) -> np.ndarray:
    """P_lm(theta) with Y_lm = P_lm e^{i m phi}, as [m, angle, l] for m below `orders`, by the recurrence in l.

    P_mm = (-1)^m (prod_{k<=m} (2k + 1) / (2k))^{1/2} sin^m(theta) / (4 pi)^{1/2} and
    P_lm = a_l (cos(theta) P_{l-1,m} - P_{l-2,m} / a_{l-1}) with a_l^2 = (4 l^2 - 1) / (l^2 - m^2).
    """
    cosine, sine = np.cos(polar), np.sin(polar)
    table = np.zeros((orders, len(polar), modes + 1))
    diagonal = np.full(len(polar), 1 / np.sqrt(4 * np.pi))
    for m in range(orders):
        if m > 0:
            diagonal = -diagonal * sine * np.sqrt((2 * m + 1) / (2 * m))
        table[m, :, m] = diagonal
        before, last = 0.0, 1.0
        for degree in range(m + 1, modes + 1):
            factor = np.sqrt((4 * degree**2 - 1) / (degree**2 - m**2))
            earlier = table[m, :, degree - 2] if degree > m + 1 else before
            table[m, :, degree] = factor * (cosine * table[m, :, degree - 1] - earlier / last)
            last = factor
    return table


@dataclass(frozen=True)
class SphereGrid:
    """The grid of one number of modes, with transforms of functions and of tangent fields."""

    modes: int
    is_zonal: bool

    def __post_init__(self):
        count = self.orders * self.polar_points * (self.modes + 1)
        require_memory(3 * 8 * count, f"A density on the sphere with {self.modes} modes", "Use fewer `modes`.")

    @property
    def orders(self) -> int:
        """Number of orders m."""
        return 1 if self.is_zonal else self.modes + 1

    @property
    def polar_points(self) -> int:
        """Number of polar angles."""
        return 3 * (self.modes + 1) // 2 + 1

    @property
    def azimuths(self) -> np.ndarray:
        """The azimuths; a zonal density needs one."""
        count = 1 if self.is_zonal else 3 * (self.modes + 1)
        return 2 * np.pi * np.arange(count) / count

    @cached_property
    def nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Polar angles, and the weights of the Gauss-Legendre rule in cos(theta)."""
        cosines, weights = np.polynomial.legendre.leggauss(self.polar_points)
        return np.arccos(cosines), weights

    @cached_property
    def tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """P_lm, its derivative in theta, and m P_lm / sin(theta), each [m, angle, l].

        The derivative is (l cos(theta) P_lm - ((2l + 1) (l^2 - m^2) / (2l - 1))^{1/2} P_{l-1,m}) / sin(theta).
        """
        polar = self.nodes[0][:, None]
        values = legendre_table(self.modes, self.orders, polar[:, 0])
        degree, m = np.arange(self.modes + 1.0), np.arange(self.orders)[:, None, None]
        ratio = (2 * degree + 1) * np.maximum(degree**2 - m**2, 0) / np.maximum(2 * degree - 1, 1)
        lower = np.concatenate([np.zeros_like(values[..., :1]), values[..., :-1]], axis=-1)
        slopes = (degree * np.cos(polar) * values - np.sqrt(ratio) * lower) / np.sin(polar)
        return values, slopes, m * values / np.sin(polar)

    @cached_property
    def frame(self) -> np.ndarray:
        """The unit vectors e_r, e_theta, e_phi at every point, (3, coordinate, polar, azimuth)."""
        polar, azimuth = np.meshgrid(self.nodes[0], self.azimuths, indexing="ij")
        sine, cosine, zero = np.sin(polar), np.cos(polar), np.zeros_like(polar)
        outward = [sine * np.cos(azimuth), sine * np.sin(azimuth), cosine]
        southward = [cosine * np.cos(azimuth), cosine * np.sin(azimuth), -sine]
        return np.array([outward, southward, [-np.sin(azimuth), np.cos(azimuth), zero]])

    def values(self, coefficients: np.ndarray) -> np.ndarray:
        """The function of some coefficients, (polar, azimuth)."""
        return self._synthesis(self.tables[0], coefficients)

    def gradient(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The components of its gradient along e_theta and e_phi."""
        _, slopes, turns = self.tables
        return self._synthesis(slopes, coefficients), self._synthesis(turns, 1j * coefficients)

    def coefficients_of(self, values: np.ndarray) -> np.ndarray:
        """The coefficients of a function given on the grid."""
        return self._analysis(self.tables[0], values)

    def minus_divergence(self, southward: np.ndarray, eastward: np.ndarray) -> np.ndarray:
        """The coefficients of -div F, int F . grad conj(Y_lm), for the components of F along e_theta and e_phi."""
        _, slopes, turns = self.tables
        return self._analysis(slopes, southward) - 1j * self._analysis(turns, eastward)

    def _synthesis(self, table: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """sum_lm table_lm c_lm e^{i m phi} over all m, from those with m >= 0."""
        pairs = np.ascontiguousarray(coefficients, complex).view(float).reshape(self.orders, -1, 2)
        of_orders = (table @ pairs).view(complex)[..., 0]
        count = len(self.azimuths)
        return np.fft.irfft(of_orders.T, count, axis=-1) * count

    def _analysis(self, table: np.ndarray, values: np.ndarray) -> np.ndarray:
        """sum over the grid of weight * table_lm e^{-i m phi} * values."""
        weights = self.nodes[1][:, None] * (2 * np.pi / len(self.azimuths))
        of_orders = np.ascontiguousarray((np.fft.rfft(values, axis=-1)[:, : self.orders] * weights).T)
        pairs = of_orders.view(float).reshape(self.orders, -1, 2)
        return (np.swapaxes(table, 1, 2) @ pairs).view(complex)[..., 0]


def values_at(coefficients: np.ndarray, polar: np.ndarray, azimuths: int) -> np.ndarray:
    """The function of some coefficients [..., m, l] at given polar angles and equally spaced azimuths."""
    orders, degrees = coefficients.shape[-2:]
    table = legendre_table(degrees - 1, orders, polar)
    pairs = np.ascontiguousarray(coefficients, complex).view(float).reshape(*coefficients.shape, 2)
    of_orders = np.swapaxes((table @ pairs).view(complex)[..., 0], -1, -2)
    shown = of_orders[..., : azimuths // 2 + 1]
    return np.fft.irfft(shown, azimuths, axis=-1) * azimuths


def with_modes(coefficients: np.ndarray, modes: int) -> np.ndarray:
    """The coefficients with zeros appended, or cut, to a number of modes."""
    orders, degrees = coefficients.shape
    wanted = 1 if orders == 1 else modes + 1
    grown = np.zeros((wanted, modes + 1), complex)
    rows, columns = min(wanted, orders), min(modes + 1, degrees)
    grown[:rows, :columns] = coefficients[:rows, :columns]
    return grown


def tail(coefficients: np.ndarray) -> float:
    """The largest |c_lm| of the last tenth of the degrees, relative to c_00."""
    last = coefficients[:, -(coefficients.shape[1] // 10 + 1) :]
    return float(np.abs(last).max() * np.sqrt(4 * np.pi))
