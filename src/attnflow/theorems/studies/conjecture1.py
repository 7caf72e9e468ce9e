"""Experiment: Conjecture 1 of arXiv:2411.04990 does not hold for every Q, K and V.

The conjecture: when V's leading eigenvalue is positive and simple, every token of a causal flow converges to
plus or minus its eigenvector xi. In d = 2 with two tokens the second can converge to a stable equilibrium away from
+-xi; `two_tokens` finds these equilibria, and this module counts the random starts that converge to them and scans
Q^T K and V for such equilibria.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import require_count
from attnflow._common.seeds import Rng, seed_sequence
from attnflow.integrate.simulate import simulate
from attnflow.model import initial
from attnflow.solvers.stopping import Settled
from attnflow.theorems.studies.two_tokens import (
    BETA,
    EIGENVALUES,
    QUERY_KEY,
    RIGHT_ANGLE,
    Equilibrium,
    TwoTokens,
    angle_between,
    equilibria_of,
    has_stable_interior,
)


@dataclasses.dataclass(frozen=True)
class Share:
    """A relative frequency with Wilson's 95 % confidence interval."""

    count: int
    total: int

    @property
    def fraction(self) -> float:
        """The relative frequency, count / total."""
        return self.count / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """The lower and the upper end of the confidence interval.

        Examples
        --------
        >>> [round(end, 3) for end in Share(1, 3).interval]
        [0.061, 0.792]
        """
        from scipy.stats import binomtest  # slow to import

        ends = binomtest(self.count, self.total).proportion_ci(0.95, method="wilson")
        return float(ends.low), float(ends.high)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.fraction:.3f} ({self.count} of {self.total}; 95 % interval {low:.3f} to {high:.3f})"


@dataclasses.dataclass(frozen=True)
class Counterexample:
    """The equilibria and the random starts of two tokens for one V, Q^T K and beta."""

    model: TwoTokens
    """V, Q^T K and beta."""
    equilibria: tuple[Equilibrium, ...]
    interior: Share
    """Uniform random starts that end at a stable equilibrium away from +-xi."""
    elsewhere: int
    """Number of starts that at the last time are neither there nor at +-xi."""
    end: float
    """Last time."""

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
        """The equilibria, their stability and the share of starts as lines of text."""
        lines = [
            f"V = {(self.model.value.round(4) + 0.0).tolist()}, Q^T K = {self.model.query_key.tolist()}, "
            f"beta = {self.model.beta:g}, two tokens, causal.",
            f"Equilibria away from +-xi with the first token at xi: {len(self.equilibria)}.",
            *(_line(one) for one in self.equilibria),
            f"Share of uniform random starts that end at a stable one (t = {self.end:g}): {self.interior}.",
        ]
        if self.elsewhere:
            lines.append(f"{self.elsewhere} starts have not converged yet.")
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
    """Compute the equilibria away from +-xi, their stability, and the share of random starts that end there.

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
    equilibria = equilibria_of(model)
    starts = initial.sphere(2, 2, rng=rng, runs=runs)
    # At rest the explicit solver would take steps of length one until `end`, whatever that is.
    run = simulate(model.flow(), starts, [0.0, end], stop=Settled(), keep_tokens=False, progress=False)
    angles = angle_between(run.final_tokens.values)
    stable = np.array([one.angle for one in equilibria if one.is_stable])
    tolerance = 1e-3  # radians; angles are known to 1e-8, and different equilibria lie degrees apart
    interior = np.any(_apart(angles[:, None], stable) < tolerance, axis=1)
    at_axis = np.minimum(_apart(angles, 0.0), _apart(angles, np.pi)) < tolerance
    share, elsewhere = Share(int(interior.sum()), runs), int((~interior & ~at_axis).sum())
    return Counterexample(model, equilibria, share, elsewhere, float(end))


def scan_diagonal(
    first: Any = None, second: Any = None, eigenvalues: Sequence[float] = EIGENVALUES, beta: float = BETA
) -> xr.DataArray:
    """Whether Q^T K = diag(k1, k2) breaks the conjecture, over a grid of k1 and k2 (default -2 to 2)."""
    first = _grid(first, np.linspace(-2, 2, 81))
    second = _grid(second, np.linspace(-2, 2, 81))
    matrices = np.zeros((len(first), len(second), 2, 2))
    matrices[..., 0, 0], matrices[..., 1, 1] = first[:, None], second[None, :]
    breaks = has_stable_interior(matrices, eigenvalues, beta)
    return xr.DataArray(breaks, {"k1": first, "k2": second}, ("k1", "k2"), "stable_interior", {"beta": beta})


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
    table = [[breaks(angle, ratio) for ratio in ratios] for angle in angles]
    coordinates = {"angle": angles, "ratio": ratios}
    return xr.DataArray(table, coordinates, ("angle", "ratio"), "stable_interior", {"beta": beta})


def angular_velocity(angles: Any, counterexample: Counterexample) -> np.ndarray:
    """The velocity phi' of the second token at some angles, with the first at xi."""
    angles = np.asarray(angles, dtype=float)
    return -np.sin(angles) * counterexample.model.factor(angles)


def _grid(given: Any, default: np.ndarray) -> np.ndarray:
    return default if given is None else np.atleast_1d(np.asarray(given, dtype=float))


def _apart(first: Any, second: Any) -> np.ndarray:
    """The distance between angles modulo 2 pi."""
    return np.abs((np.asarray(first) - second + np.pi) % (2 * np.pi) - np.pi)
