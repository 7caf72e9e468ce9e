"""What statements look at in a run: snapshots that are there, distances, cosines, one cluster, the scalar equation."""

import functools
from collections.abc import Callable

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp
from scipy.spatial.distance import pdist

from attnflow.analyse import circle
from attnflow.analyse.snapshots import tokens_of
from attnflow.integrate.evaluate import velocity
from attnflow.model.attention import Softmax
from attnflow.model.dynamics import AbstractDynamics
from attnflow.theorems.hypotheses import beta_of
from attnflow.theorems.verdict import Hypothesis, Measurement, above

SINGLE = 1e-3  # tokens this close to each other are one cluster


def present(run: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Times and tokens of a run where every number is there."""
    tokens = tokens_of(run).values
    there = np.isfinite(tokens).all(axis=(1, 2))
    return run.time.values[there], tokens[there]


def on_a_path(measure: Callable[[AbstractDynamics, xr.Dataset], Measurement]):
    """`measure`, which is then only asked about runs with two snapshots or more; others are left undecided."""

    @functools.wraps(measure)
    def careful(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
        count = len(present(run)[0])
        if count < 2:
            why = "nothing can be said of a path without two snapshots"
            return Measurement("what a path would show", np.nan, 0.0, why, open=f"the run holds {count} snapshots")
        return measure(flow, run)

    return careful


def diameters(tokens: np.ndarray) -> np.ndarray:
    """Largest distance between two tokens, of every snapshot (times, n, d)."""
    return np.array([pdist(snapshot).max() if len(snapshot) > 1 else 0.0 for snapshot in tokens])


def one_cluster(run: xr.Dataset) -> Measurement:
    """How far the tokens are from being in one place at the end of a path; a longer run may bring them together."""
    times, tokens = present(run)
    found = diameters(tokens)
    trend = "falling" if found[-1] < found[-2] else "not falling"
    return Measurement(
        quantity="largest distance between two tokens at the end",
        value=found[-1],
        tolerance=SINGLE,
        why="tokens this close share a cap in which the flow contracts at a fixed rate",
        open=f"at t = {times[-1]:.3g} it is {found[-1]:.2g} and {trend}",
    )


def cosines(tokens: np.ndarray) -> np.ndarray:
    """<x_i, x_j> of all pairs i < j of one snapshot (n, d)."""
    return (tokens @ tokens.T)[np.triu_indices(len(tokens), 1)]


def farthest(tokens: np.ndarray, path: np.ndarray) -> float:
    """Largest |<x_i, x_j> - path| over pairs and times, of snapshots (times, n, d)."""
    return max(float(np.abs(cosines(one) - expected).max()) for one, expected in zip(tokens, path, strict=True))


def equiangular_path(flow: AbstractDynamics, cosine: float, n: int, times: np.ndarray) -> np.ndarray:
    """rho(t) from the scalar equation, at `times`."""
    beta, softmax = beta_of(flow), isinstance(flow.attention, Softmax)
    slower = 1.0 if softmax else np.exp(-beta * offset_of(flow))
    field = lambda _, rho: slower * circle.equiangular_rate(rho, n, beta, softmax=softmax)
    span = (times[0], times[-1])
    return solve_ivp(field, span, [cosine], t_eval=times, rtol=1e-10, atol=1e-12, method="LSODA").y[0]


def offset_of(flow: AbstractDynamics) -> float:
    """The offset of unnormalised attention; 0 for other rules."""
    return float(getattr(flow.attention, "offset", 0.0))


def generic(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
    """Outside the exceptional starts that can be told: at rest, or with antipodal pairs."""
    lowest = float(cosines(tokens).min()) if len(tokens) > 1 else 1.0
    speed = float(np.abs(velocity(flow, tokens)).max()) if len(tokens) > 1 else 1.0
    return (
        above("no two first tokens antipodal", lowest, -1 + 1e-9, "in the cosine"),
        above("the first tokens are not at rest", speed, 1e-9, "in the largest speed"),
    )
