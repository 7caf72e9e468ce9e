"""Experiment: Conjecture 1 of arXiv:2411.04990 is not true of every Q, K and V, and this finds where it breaks.

The conjecture: when V's leading eigenvalue is positive and simple, every token of a causal flow converges to
plus or minus its eigenvector xi. Take d = 2, V with eigenvalues lambda_1 > lambda_2 and eigenvectors xi = e_1
and eta, at the angle psi from xi, and two tokens. The first goes to +-xi; seen from there the angle phi of the
second, whose part along xi is alpha, obeys

    phi' = -sin(phi) F(phi),    F = lambda_1 a + (1 - a) (lambda_1 - lambda_2) alpha(phi),

with a(phi) its attention to the first and alpha = sin(psi - phi) / sin(psi), which is cos(phi) for a symmetric V. A
zero of F is an equilibrium away from +-xi, and it is stable where F grows with phi in (0, pi). That happens

- where attention to the first token rises fast enough as the second turns away: Q^T K = diag(-1, 1) at beta = 4,
  but also positive definite ones, diag(0.05, 4) at beta = 1;
- with Q = K = I, and even at beta = 0, where alpha grows itself: for a V that is not normal.

For symmetric V and Q^T K = k I, k >= 0, F is lambda_1 e^{-k beta (1 - cos phi)} + (lambda_1 - lambda_2) cos(phi) up to
a positive factor, which falls with phi: then every zero is unstable.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import binomtest

from attnflow._common.checks import InputError, require_count, require_finite_number
from attnflow._common.seeds import Rng, seed_sequence
from attnflow.integrate.evaluate import velocity
from attnflow.integrate.simulate import simulate
from attnflow.integrate.stability import Linearisation, linearise
from attnflow.model import initial, masks
from attnflow.model.attention import Softmax
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head

EIGENVALUES = (2.0, 1.0)
QUERY_KEY = ((-1.0, 0.0), (0.0, 1.0))
BETA = 4.0
RIGHT_ANGLE = np.pi / 2
SAME_PLACE = 1e-3  # radians; endpoints are known to 1e-8, different ones lie degrees apart
GRID = 720  # angles, a quarter of a degree apart, between which a zero is looked for


@dataclasses.dataclass(frozen=True)
class TwoTokens:
    """The flow of two tokens on the circle, and its scalar equation once the first has reached xi."""

    eigenvalues: Any = EIGENVALUES
    """lambda_1 > lambda_2 of V, the first positive."""
    query_key: Any = QUERY_KEY
    """Q^T K, 2 x 2; any axes before those for the scalar equation."""
    beta: float = BETA
    eigenvector_angle: float = RIGHT_ANGLE
    """psi, between V's eigenvectors: a right angle for symmetric V."""

    def __post_init__(self):
        sizes, matrix = np.asarray(self.eigenvalues, dtype=float), np.asarray(self.query_key, dtype=float)
        require_finite_number(self.beta, "beta")
        require_finite_number(self.eigenvector_angle, "eigenvector_angle")
        if sizes.shape != (2,) or not (np.all(np.isfinite(sizes)) and sizes[0] > max(0.0, sizes[1])):
            raise InputError(
                f"`eigenvalues` must be two numbers, the first positive and the larger, but they are {sizes}."
            )
        if matrix.shape[-2:] != (2, 2) or not np.all(np.isfinite(matrix)):
            raise InputError(f"`query_key` must be finite and 2 x 2, but its shape is {matrix.shape}.")
        if not 0 < self.eigenvector_angle < np.pi:
            raise InputError(f"`eigenvector_angle` must be between 0 and pi, but it is {self.eigenvector_angle}.")
        object.__setattr__(self, "eigenvalues", (float(sizes[0]), float(sizes[1])))
        object.__setattr__(self, "query_key", matrix)

    @property
    def value(self) -> np.ndarray:
        """V."""
        eigenvectors = initial.on_circle(np.array([0.0, self.eigenvector_angle])).T
        return eigenvectors @ np.diag(self.eigenvalues) @ np.linalg.inv(eigenvectors)

    def flow(self) -> SphereAttention:
        """The model."""
        return SphereAttention(Head.bilinear(self.query_key, self.value), Softmax(self.beta), masks.causal)

    def attention(self, phi: Any) -> np.ndarray:
        """a: the second token's attention to the first, at xi."""
        token = np.stack([np.cos(phi), np.sin(phi)], axis=-1)
        scored = np.einsum("...i,...ij->...j", token, self.query_key)
        return expit(self.beta * (scored[..., 0] - np.sum(scored * token, axis=-1)))

    def factor(self, phi: Any) -> np.ndarray:
        """F(phi)."""
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
    """Of the configuration in the flow itself: zero up to rounding."""
    linearisation: Linearisation

    @property
    def is_stable(self) -> bool:
        """Whether every small change dies out, by the flow's own derivative."""
        return self.linearisation.is_stable


@dataclasses.dataclass(frozen=True)
class Share:
    """How often something happened, with Wilson's 95 % confidence interval."""

    count: int
    total: int

    @property
    def fraction(self) -> float:
        """count / total."""
        return self.count / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end.

        Examples
        --------
        >>> [round(end, 3) for end in Share(1, 3).interval]
        [0.061, 0.792]
        """
        found = binomtest(self.count, self.total).proportion_ci(0.95, method="wilson")
        return float(found.low), float(found.high)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.fraction:.3f} ({self.count} of {self.total}; 95 % interval {low:.3f} to {high:.3f})"


@dataclasses.dataclass(frozen=True)
class Counterexample:
    """Everything the experiment found for one V, Q^T K and beta."""

    model: TwoTokens
    """V, Q^T K and beta."""
    equilibria: tuple[Equilibrium, ...]
    interior: Share
    """Uniform random starts that end at a stable equilibrium away from +-xi."""
    elsewhere: int
    """Starts that by the last time are neither there nor at +-xi."""
    end: float

    @property
    def eigenvalues(self) -> tuple[float, float]:
        """lambda_1 and lambda_2."""
        return self.model.eigenvalues

    @property
    def query_key(self) -> np.ndarray:
        """Q^T K."""
        return self.model.query_key

    @property
    def beta(self) -> float:
        """Inverse temperature."""
        return self.model.beta

    @property
    def refutes(self) -> bool:
        """Whether some start ended at a stable equilibrium that is not +-xi."""
        return self.interior.count > 0 and any(one.is_stable for one in self.equilibria)

    def report(self) -> list[str]:
        """The findings as lines of text."""
        lines = [
            f"V = {self.model.value.round(4).tolist()}, Q^T K = {self.model.query_key.tolist()}, "
            f"beta = {self.model.beta:g}, two tokens, causal.",
            f"Equilibria away from +-xi with the first token at xi: {len(self.equilibria)}.",
            *(_line(one) for one in self.equilibria),
            f"Share of uniform random starts that end at a stable one (t = {self.end:g}): {self.interior}.",
        ]
        if self.elsewhere:
            lines.append(f"{self.elsewhere} starts have not arrived anywhere yet.")
        verdict = "does not hold" if self.refutes else "is not contradicted"
        return [*lines, f"'Every token converges to +-xi' {verdict} for these matrices."]


def _line(one: Equilibrium) -> str:
    kind = "stable" if one.is_stable else "unstable" if one.linearisation.is_unstable else "undecided"
    rates = ", ".join(f"{rate.real:.4f}" for rate in one.linearisation.eigenvalues)
    return (
        f"  second token at {np.degrees(one.angle):.3f} degrees: {kind}, rates {rates}, "
        f"attention to the first {one.attention_to_first:.4f}, residual speed {one.residual_speed:.1e}."
    )


def investigate(
    eigenvalues: Sequence[float] = EIGENVALUES,
    query_key: Any = QUERY_KEY,
    beta: float = BETA,
    *,
    eigenvector_angle: float = RIGHT_ANGLE,
    runs: int = 400,
    end: float = 60.0,
    rng: Rng = 0,
) -> Counterexample:
    """Find the equilibria away from +-xi, their stability, and how many random starts end there.

    Parameters
    ----------
    eigenvalues
        lambda_1 > lambda_2 of V, the first positive.
    query_key
        Q^T K, 2 x 2.
    beta
        Inverse temperature.
    eigenvector_angle
        psi, between V's eigenvectors; a right angle makes V = diag(lambda_1, lambda_2).
    runs
        Number of uniform random starts of two tokens.
    end
        Last time.
    rng
        Seed of the starts.
    """
    require_count(runs, "runs")
    model = TwoTokens(eigenvalues, query_key, beta, eigenvector_angle)
    equilibria = _equilibria(model)
    starts = initial.sphere(2, 2, rng=rng, runs=runs)
    run = simulate(model.flow(), starts, [0.0, end], keep_tokens=False, progress=False)
    angles = angle_between(run.final_tokens.values)
    stable = np.array([one.angle for one in equilibria if one.is_stable])
    interior = np.any(_apart(angles[:, None], stable) < SAME_PLACE, axis=1)
    at_axis = np.minimum(_apart(angles, 0.0), _apart(angles, np.pi)) < SAME_PLACE
    share, elsewhere = Share(int(interior.sum()), runs), int((~interior & ~at_axis).sum())
    return Counterexample(model, equilibria, share, elsewhere, float(end))


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
    return _equilibria(TwoTokens(eigenvalues, query_key, beta, eigenvector_angle))


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
    found = np.zeros(matrices.shape[:-2], bool)
    for side in (-1.0, 1.0):
        factors = model.factor(side * _angles())
        found |= np.any((factors[..., :-1] < 0) & (factors[..., 1:] > 0), axis=-1)
    return found


def scan_diagonal(
    first: Any = None, second: Any = None, eigenvalues: Sequence[float] = EIGENVALUES, beta: float = BETA
) -> xr.DataArray:
    """Whether Q^T K = diag(k1, k2) breaks the conjecture, over a grid of k1 and k2 (default -2 to 2)."""
    first = _grid(first, np.linspace(-2, 2, 81))
    second = _grid(second, np.linspace(-2, 2, 81))
    matrices = np.zeros((len(first), len(second), 2, 2))
    matrices[..., 0, 0], matrices[..., 1, 1] = first[:, None], second[None, :]
    found = has_stable_interior(matrices, eigenvalues, beta)
    return xr.DataArray(found, {"k1": first, "k2": second}, ("k1", "k2"), "stable_interior", {"beta": beta})


def scan_gaussian(
    draws: int = 1000,
    eigenvalues: Sequence[float] = EIGENVALUES,
    beta: float = BETA,
    *,
    positive: bool = False,
    rng: Rng = 0,
) -> Share:
    """Share of random Q^T K that break the conjecture: Q, K with standard Gaussian entries; K = Q if `positive`."""
    require_count(draws, "draws")
    generator = np.random.default_rng(seed_sequence(rng))
    queries = generator.normal(size=(draws, 2, 2))
    keys = queries if positive else generator.normal(size=(draws, 2, 2))
    matrices = np.einsum("rki,rkj->rij", queries, keys)
    return Share(int(has_stable_interior(matrices, eigenvalues, beta).sum()), draws)


def scan_value(angles: Any = None, ratios: Any = None, query_key: Any = None, beta: float = 0.0) -> xr.DataArray:
    """Which V break the conjecture, over psi in degrees (default 5 to 175) and lambda_2 / lambda_1 (-1 to 0.95).

    `query_key` is the identity unless given; at beta = 0 it does not matter.
    """
    angles, ratios = _grid(angles, np.arange(5.0, 180.0, 5.0)), _grid(ratios, np.linspace(-1, 0.95, 40))
    scores = np.eye(2) if query_key is None else query_key
    breaks = lambda angle, ratio: bool(has_stable_interior(scores, (1.0, ratio), beta, np.radians(angle)))
    found = [[breaks(angle, ratio) for ratio in ratios] for angle in angles]
    coordinates = {"angle": angles, "ratio": ratios}
    return xr.DataArray(found, coordinates, ("angle", "ratio"), "stable_interior", {"beta": beta})


def angle_between(tokens: np.ndarray) -> np.ndarray:
    """phi from the first of two tokens on the circle to the second, in (-pi, pi].

    It is the same whether the first ended at e_1 or at -e_1: x -> -x maps one case to the other.
    """
    first, second = tokens[..., 0, :], tokens[..., 1, :]
    across = first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]
    return np.arctan2(across, np.sum(first * second, axis=-1))


def angular_velocity(angles: Any, found: Counterexample) -> np.ndarray:
    """phi' of the second token at some angles, with the first at xi."""
    angles = np.asarray(angles, dtype=float)
    return -np.sin(angles) * found.model.factor(angles)


def _grid(given: Any, default: np.ndarray) -> np.ndarray:
    return default if given is None else np.atleast_1d(np.asarray(given, dtype=float))


def _angles() -> np.ndarray:
    """Strictly between 0 and pi, where sin(phi) alone makes phi' vanish."""
    return np.pi * (np.arange(GRID) + 0.5) / GRID


def _equilibria(model: TwoTokens) -> tuple[Equilibrium, ...]:
    if model.query_key.ndim != 2:
        raise InputError(f"`query_key` must be one 2 x 2 matrix here, but its shape is {model.query_key.shape}.")
    zeros = [zero for side in (-1.0, 1.0) for zero in _zeros(model, side * _angles())]
    return tuple(_equilibrium(zero, model) for zero in sorted(zeros))


def _zeros(model: TwoTokens, grid: np.ndarray) -> list[float]:
    heights = model.factor(grid)
    changes = np.flatnonzero(np.sign(heights[:-1]) != np.sign(heights[1:]))
    return [_zero(model, float(grid[place]), float(grid[place + 1])) for place in changes]


def _zero(model: TwoTokens, left: float, right: float) -> float:
    found: Any = brentq(lambda phi: float(model.factor(phi)), left, right, xtol=1e-15)
    return float(found)


def _equilibrium(phi: float, model: TwoTokens) -> Equilibrium:
    tokens, flow = initial.on_circle(np.array([0.0, phi])), model.flow()
    speed = float(np.linalg.norm(velocity(flow, tokens), axis=1).max())
    return Equilibrium(phi, float(model.attention(phi)), tokens, speed, linearise(flow, tokens))


def _apart(first: Any, second: Any) -> np.ndarray:
    """Distance between angles, around the circle."""
    return np.abs((np.asarray(first) - second + np.pi) % (2 * np.pi) - np.pi)
