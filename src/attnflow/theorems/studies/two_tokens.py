"""Two tokens of a causal flow on the circle: their equilibria away from the leading eigenvector, and stability.

V has the eigenvalues lambda_1 > lambda_2 and the eigenvectors xi = e_1 and eta, at the angle psi from xi. The first
token converges to +-xi. With the first token there, the angle phi of the second, whose part along xi is alpha, obeys

    phi' = -sin(phi) F(phi),    F = lambda_1 a + (1 - a) (lambda_1 - lambda_2) alpha(phi),

with a(phi) its attention to the first and alpha = sin(psi - phi) / sin(psi), which is cos(phi) for a symmetric V. A
zero of F is an equilibrium away from +-xi, and it is stable where F grows with phi in (0, pi). That happens

- where attention to the first token rises fast enough as the second turns away: for Q^T K = diag(-1, 1) at beta = 4,
  and for positive definite Q^T K = diag(0.05, 4) at beta = 1;
- where alpha itself grows: for some V that is not normal, also with Q = K = I and at beta = 0.

For symmetric V and Q^T K = k I, k >= 0, F is lambda_1 e^{-k beta (1 - cos phi)} + (lambda_1 - lambda_2) cos(phi) up to
a positive factor, which falls with phi: then every zero is unstable.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from attnflow._common.checks import InputError, require_finite_number
from attnflow.integrate.evaluate import velocity
from attnflow.integrate.stability import Linearisation, linearise
from attnflow.model import initial, masks
from attnflow.model.attention import Softmax
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head

# The counterexample to Conjecture 1 of arXiv:2411.04990 that is the default everywhere.
EIGENVALUES = (2.0, 1.0)
QUERY_KEY = ((-1.0, 0.0), (0.0, 1.0))
BETA = 4.0
RIGHT_ANGLE = np.pi / 2
SEARCH_ANGLES = 720  # a quarter of a degree apart, between which zeros of F are searched


@dataclasses.dataclass(frozen=True)
class TwoTokens:
    """The causal flow of two tokens on the circle, and the scalar equation of the second with the first at xi."""

    eigenvalues: Any = EIGENVALUES
    """lambda_1 > lambda_2 of V, the first positive."""
    query_key: Any = QUERY_KEY
    """Q^T K, 2 x 2; the scalar equation also takes further leading axes."""
    beta: float = BETA
    eigenvector_angle: float = RIGHT_ANGLE
    """psi, between V's eigenvectors: a right angle for symmetric V."""

    def __post_init__(self):
        pair, matrix = np.asarray(self.eigenvalues, dtype=float), np.asarray(self.query_key, dtype=float)
        require_finite_number(self.beta, "beta")
        require_finite_number(self.eigenvector_angle, "eigenvector_angle")
        if pair.shape != (2,) or not (np.all(np.isfinite(pair)) and pair[0] > max(0.0, pair[1])):
            raise InputError(
                f"`eigenvalues` must be two numbers, the first positive and the larger, but they are {pair}."
            )
        if matrix.shape[-2:] != (2, 2) or not np.all(np.isfinite(matrix)):
            raise InputError(f"`query_key` must be finite and 2 x 2, but its shape is {matrix.shape}.")
        if not 0 < self.eigenvector_angle < np.pi:
            raise InputError(f"`eigenvector_angle` must be between 0 and pi, but it is {self.eigenvector_angle}.")
        object.__setattr__(self, "eigenvalues", (float(pair[0]), float(pair[1])))
        object.__setattr__(self, "query_key", matrix)

    @property
    def value(self) -> np.ndarray:
        """The value matrix V."""
        eigenvectors = initial.on_circle(np.array([0.0, self.eigenvector_angle])).T
        return eigenvectors @ np.diag(self.eigenvalues) @ np.linalg.inv(eigenvectors)

    def flow(self) -> SphereAttention:
        """The flow with these weights."""
        return SphereAttention(Head.bilinear(self.query_key, self.value), Softmax(self.beta), masks.causal)

    def attention(self, phi: Any) -> np.ndarray:
        """The attention a of the second token to the first, which is at xi."""
        token = np.stack([np.cos(phi), np.sin(phi)], axis=-1)
        scored = np.einsum("...i,...ij->...j", token, self.query_key)
        return expit(self.beta * (scored[..., 0] - np.sum(scored * token, axis=-1)))

    def factor(self, phi: Any) -> np.ndarray:
        """The factor F(phi) of phi' = -sin(phi) F(phi)."""
        attention, (first, second) = self.attention(phi), self.eigenvalues
        along = np.sin(self.eigenvector_angle - phi) / np.sin(self.eigenvector_angle)
        return first * attention + (1 - attention) * (first - second) * along


@dataclasses.dataclass(frozen=True)
class Equilibrium:
    """Two tokens at rest, the first at xi and the second away from it."""

    angle: float
    """phi, from the first token to the second, in (-pi, pi)."""
    attention_to_first: float
    tokens: np.ndarray
    residual_speed: float
    """The largest speed of a token in the flow itself: zero up to rounding."""
    linearisation: Linearisation

    @property
    def is_stable(self) -> bool:
        """Whether every small perturbation decays, by the linearised flow."""
        return self.linearisation.is_stable


def interior_equilibria(
    eigenvalues: Sequence[float] = EIGENVALUES,
    query_key: Any = QUERY_KEY,
    beta: float = BETA,
    eigenvector_angle: float = RIGHT_ANGLE,
) -> tuple[Equilibrium, ...]:
    """All equilibria of the second token away from +-xi while the first is at xi, by angle.

    Examples
    --------
    >>> [round(float(np.degrees(one.angle)), 1) for one in interior_equilibria() if one.is_stable]
    [-109.3, 109.3]
    """
    return equilibria_of(TwoTokens(eigenvalues, query_key, beta, eigenvector_angle))


def has_stable_interior(
    query_keys: Any,
    eigenvalues: Sequence[float] = EIGENVALUES,
    beta: float = BETA,
    eigenvector_angle: float = RIGHT_ANGLE,
) -> np.ndarray:
    """Whether each Q^T K, of shape (..., 2, 2), has a stable equilibrium away from +-xi, by the scalar equation.

    Zeros of F closer together than a quarter of a degree are missed in pairs.

    Examples
    --------
    >>> has_stable_interior([np.diag([-1.0, 1.0]), np.eye(2)])
    array([ True, False])
    """
    matrices = np.asarray(query_keys, dtype=float)
    model = TwoTokens(eigenvalues, matrices[..., None, :, :], beta, eigenvector_angle)
    is_stable = np.zeros(matrices.shape[:-2], bool)
    for side in (-1.0, 1.0):
        factors = model.factor(side * _angles())
        # F that grows through zero as |phi| grows: phi' = -sin(phi) F then points back from both sides.
        is_stable |= np.any((factors[..., :-1] < 0) & (factors[..., 1:] > 0), axis=-1)
    return is_stable


def angle_between(tokens: np.ndarray) -> np.ndarray:
    """The angle phi from the first of two tokens on the circle to the second, in (-pi, pi].

    It does not depend on whether the first token is at e_1 or at -e_1: x -> -x maps one case to the other.
    """
    first, second = tokens[..., 0, :], tokens[..., 1, :]
    across = first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]
    return np.arctan2(across, np.sum(first * second, axis=-1))


def _angles() -> np.ndarray:
    """Angles strictly between 0 and pi, at which phi' vanishes for every F."""
    return np.pi * (np.arange(SEARCH_ANGLES) + 0.5) / SEARCH_ANGLES


def equilibria_of(model: TwoTokens) -> tuple[Equilibrium, ...]:
    """All equilibria of the second token away from +-xi while the first is at xi, by angle."""
    if model.query_key.ndim != 2:
        raise InputError(f"`query_key` must be one 2 x 2 matrix here, but its shape is {model.query_key.shape}.")
    zeros = [zero for side in (-1.0, 1.0) for zero in _zeros(model, side * _angles())]
    return tuple(_equilibrium(zero, model) for zero in sorted(zeros))


def _zeros(model: TwoTokens, grid: np.ndarray) -> list[float]:
    heights = model.factor(grid)
    changes = np.flatnonzero(np.sign(heights[:-1]) != np.sign(heights[1:]))
    return [_zero(model, float(grid[at]), float(grid[at + 1])) for at in changes]


def _zero(model: TwoTokens, left: float, right: float) -> float:
    from scipy.optimize import brentq

    zero: Any = brentq(lambda phi: float(model.factor(phi)), left, right, xtol=1e-15)
    return float(zero)


def _equilibrium(phi: float, model: TwoTokens) -> Equilibrium:
    tokens, flow = initial.on_circle(np.array([0.0, phi])), model.flow()
    speed = float(np.linalg.norm(velocity(flow, tokens), axis=1).max())
    return Equilibrium(phi, float(model.attention(phi)), tokens, speed, linearise(flow, tokens))
