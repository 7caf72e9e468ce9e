"""Experiment: Conjecture 1 of arXiv:2411.04990 is not true of every Q and K, and this finds where it breaks.

The conjecture: when V's leading eigenvalue is positive and simple, every token of a causal flow converges to
plus or minus its eigenvector xi. Take d = 2, V = diag(lambda_1, lambda_2) and two tokens. The first goes to
+-e_1; seen from there the second, at the angle phi from it, obeys

    phi' = -sin(phi) F(phi),    F = lambda_1 a + (1 - a) (lambda_1 - lambda_2) cos(phi),

with a(phi) its attention to the first. A zero of F is an equilibrium away from +-xi, and it is stable where
F grows with phi in (0, pi): where attention to the first token rises fast enough as the second turns away.
A positive definite Q^T K does not exclude it: diag(0.05, 4) at beta = 1 has one. For Q^T K = k I, k >= 0,
F is lambda_1 e^{-k beta (1 - cos phi)} + (lambda_1 - lambda_2) cos(phi) up to a positive factor, which falls
with phi: then every zero is unstable.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import binomtest

from attnflow import initial, masks
from attnflow._checks import InputError, require_count, require_finite_number
from attnflow._random import Rng, seed_sequence
from attnflow.attention import Softmax
from attnflow.dynamics import SphereAttention
from attnflow.evaluate import velocity
from attnflow.heads import Head
from attnflow.integrate import simulate
from attnflow.stability import Linearisation, linearise

EIGENVALUES = (2.0, 1.0)
QUERY_KEY = ((-1.0, 0.0), (0.0, 1.0))
BETA = 4.0
SAME_PLACE = 1e-3  # radians; endpoints are known to 1e-8, different ones lie degrees apart
GRID = 720  # angles, half a degree apart, between which a zero is looked for


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
    """Everything the experiment found for one Q^T K."""

    eigenvalues: tuple[float, float]
    query_key: np.ndarray
    beta: float
    equilibria: tuple[Equilibrium, ...]
    interior: Share
    """Uniform random starts that end at a stable equilibrium away from +-xi."""
    elsewhere: int
    """Starts that by the last time are neither there nor at +-xi."""
    end: float

    @property
    def refutes(self) -> bool:
        """Whether some start ended at a stable equilibrium that is not +-xi."""
        return self.interior.count > 0 and any(one.is_stable for one in self.equilibria)

    def report(self) -> list[str]:
        """The findings as lines of text."""
        lines = [
            f"V = diag{self.eigenvalues}, Q^T K = {self.query_key.tolist()}, beta = {self.beta:g}, two tokens, causal.",
            f"Equilibria away from +-xi with the first token at xi: {len(self.equilibria)}.",
            *(_line(one) for one in self.equilibria),
            f"Share of uniform random starts that end at a stable one (t = {self.end:g}): {self.interior}.",
        ]
        if self.elsewhere:
            lines.append(f"{self.elsewhere} starts have not arrived anywhere yet.")
        verdict = "does not hold" if self.refutes else "is not contradicted"
        return [*lines, f"'Every token converges to +-xi' {verdict} for this Q^T K."]


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
    runs: int = 400,
    end: float = 60.0,
    rng: Rng = 0,
) -> Counterexample:
    """Find the equilibria away from +-xi, their stability, and how many random starts end there.

    Parameters
    ----------
    eigenvalues
        lambda_1 > lambda_2 of V = diag(lambda_1, lambda_2), the first positive.
    query_key
        Q^T K, 2 x 2.
    beta
        Inverse temperature.
    runs
        Number of uniform random starts of two tokens.
    end
        Last time.
    rng
        Seed of the starts.
    """
    require_count(runs, "runs")
    first, second, matrix = _checked(eigenvalues, query_key, beta)
    equilibria = interior_equilibria((first, second), matrix, beta)
    starts = initial.sphere(2, 2, rng=rng, runs=runs)
    run = simulate(_flow((first, second), matrix, beta), starts, [0.0, end], keep_tokens=False, progress=False)
    angles = angle_between(run.final_tokens.values)
    stable = np.array([one.angle for one in equilibria if one.is_stable])
    interior = np.any(_apart(angles[:, None], stable) < SAME_PLACE, axis=1)
    at_axis = np.minimum(_apart(angles, 0.0), _apart(angles, np.pi)) < SAME_PLACE
    share, elsewhere = Share(int(interior.sum()), runs), int((~interior & ~at_axis).sum())
    return Counterexample((first, second), matrix, float(beta), equilibria, share, elsewhere, float(end))


def interior_equilibria(
    eigenvalues: Sequence[float] = EIGENVALUES, query_key: Any = QUERY_KEY, beta: float = BETA
) -> tuple[Equilibrium, ...]:
    """All equilibria of the second token away from +-e_1 while the first is at e_1, by angle.

    Examples
    --------
    >>> [round(float(np.degrees(one.angle)), 1) for one in interior_equilibria() if one.is_stable]
    [-109.3, 109.3]
    """
    first, second, matrix = _checked(eigenvalues, query_key, beta)
    function = lambda phi: _factor(phi, (first, second), matrix, beta)
    zeros = [zero for side in (-1.0, 1.0) for zero in _zeros(function, side * _angles())]
    return tuple(_equilibrium(zero, (first, second), matrix, beta) for zero in sorted(zeros))


def has_stable_interior(query_keys: Any, eigenvalues: Sequence[float] = EIGENVALUES, beta: float = BETA) -> np.ndarray:
    """Whether each Q^T K, of shape (..., 2, 2), has a stable equilibrium away from +-xi, by the scalar equation.

    Zeros of F closer together than half a degree are missed in pairs.

    Examples
    --------
    >>> has_stable_interior([np.diag([-1.0, 1.0]), np.eye(2)])
    array([ True, False])
    """
    matrices = np.asarray(query_keys, dtype=float)
    if matrices.shape[-2:] != (2, 2) or not np.all(np.isfinite(matrices)):
        raise InputError(f"`query_keys` must be finite and of shape (..., 2, 2), but the shape is {matrices.shape}.")
    first, second, _ = _checked(eigenvalues, np.eye(2), beta)
    found = np.zeros(matrices.shape[:-2], bool)
    for side in (-1.0, 1.0):
        factors = _factor(side * _angles(), (first, second), matrices[..., None, :, :], beta)
        found |= np.any((factors[..., :-1] < 0) & (factors[..., 1:] > 0), axis=-1)
    return found


def scan_diagonal(
    first: Any = None, second: Any = None, eigenvalues: Sequence[float] = EIGENVALUES, beta: float = BETA
) -> xr.DataArray:
    """Whether Q^T K = diag(k1, k2) breaks the conjecture, over a grid of k1 and k2 (default -2 to 2)."""
    first = np.linspace(-2, 2, 81) if first is None else np.atleast_1d(np.asarray(first, dtype=float))
    second = np.linspace(-2, 2, 81) if second is None else np.atleast_1d(np.asarray(second, dtype=float))
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
    return -np.sin(angles) * _factor(angles, found.eigenvalues, found.query_key, found.beta)


def _angles() -> np.ndarray:
    """Strictly between 0 and pi, where sin(phi) alone makes phi' vanish."""
    return np.pi * (np.arange(GRID) + 0.5) / GRID


def _factor(phi: Any, eigenvalues: tuple[float, float], query_key: np.ndarray, beta: float) -> np.ndarray:
    """F(phi); broadcasts over `query_key`'s leading axes."""
    attention = _attention(phi, query_key, beta)
    return eigenvalues[0] * attention + (1 - attention) * (eigenvalues[0] - eigenvalues[1]) * np.cos(phi)


def _attention(phi: Any, query_key: np.ndarray, beta: float) -> np.ndarray:
    """a: the second token's attention to the first, at e_1."""
    token = np.stack([np.cos(phi), np.sin(phi)], axis=-1)
    scored = np.einsum("...i,...ij->...j", token, query_key)
    return expit(beta * (scored[..., 0] - np.sum(scored * token, axis=-1)))


def _zeros(function: Any, grid: np.ndarray) -> list[float]:
    heights = function(grid)
    changes = np.flatnonzero(np.sign(heights[:-1]) != np.sign(heights[1:]))
    return [_zero(function, float(grid[place]), float(grid[place + 1])) for place in changes]


def _zero(function: Any, left: float, right: float) -> float:
    found: Any = brentq(lambda phi: float(function(np.array(phi))), left, right, xtol=1e-15)
    return float(found)


def _equilibrium(phi: float, eigenvalues: tuple[float, float], query_key: np.ndarray, beta: float) -> Equilibrium:
    tokens = initial.on_circle(np.array([0.0, phi]))
    flow = _flow(eigenvalues, query_key, beta)
    speed = float(np.linalg.norm(velocity(flow, tokens), axis=1).max())
    attention = float(_attention(np.array(phi), query_key, beta))
    return Equilibrium(phi, attention, tokens, speed, linearise(flow, tokens))


def _flow(eigenvalues: tuple[float, float], query_key: np.ndarray, beta: float) -> SphereAttention:
    return SphereAttention(Head.bilinear(query_key, np.diag(eigenvalues)), Softmax(beta), masks.causal)


def _apart(first: Any, second: Any) -> np.ndarray:
    """Distance between angles, around the circle."""
    return np.abs((np.asarray(first) - second + np.pi) % (2 * np.pi) - np.pi)


def _checked(eigenvalues: Sequence[float], query_key: Any, beta: float) -> tuple[float, float, np.ndarray]:
    require_finite_number(beta, "beta")
    sizes, matrix = np.asarray(eigenvalues, dtype=float), np.asarray(query_key, dtype=float)
    if sizes.shape != (2,) or not (np.all(np.isfinite(sizes)) and sizes[0] > max(0.0, sizes[1])):
        raise InputError(f"`eigenvalues` must be two numbers, the first positive and the larger, but they are {sizes}.")
    if matrix.shape != (2, 2) or not np.all(np.isfinite(matrix)):
        raise InputError(f"`query_key` must be a finite 2 x 2 matrix, but it is {matrix.tolist()}.")
    return float(sizes[0]), float(sizes[1]), matrix
