"""Quantities that several statements measure on a run: distances, cosines, one cluster, the equiangular equation."""

import functools
from collections.abc import Callable

import numpy as np
import xarray as xr
from scipy.spatial.distance import pdist

from attnflow.analyse import circle
from attnflow.analyse.snapshots import tokens_of
from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.theorems.hypotheses import beta_of
from attnflow.theorems.verdict import Measurement


def present(run: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The saved times at which all tokens are finite, and the tokens at these times."""
    tokens = tokens_of(run).values
    is_finite = np.isfinite(tokens).all(axis=(1, 2))
    return run.time.values[is_finite], tokens[is_finite]


def on_a_path(measure: Callable[[AbstractDynamics, xr.Dataset], Measurement]):
    """`measure` for runs with two snapshots or more; other runs are left undecided."""

    @functools.wraps(measure)
    def checked(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
        count = len(present(run)[0])
        if count < 2:
            text = f"the run holds {count} snapshots, and two are needed"
            return Measurement("the measured quantity", np.nan, 0.0, "a path needs two snapshots", open=text)
        return measure(flow, run)

    return checked


def diameters(tokens: np.ndarray) -> np.ndarray:
    """The largest distance between two tokens in each snapshot (times, n, d)."""
    return np.array([pdist(snapshot).max() if len(snapshot) > 1 else 0.0 for snapshot in tokens])


def one_cluster(run: xr.Dataset) -> Measurement:
    """The largest distance between two tokens at the end of a run; left open where it is not small yet."""
    times, tokens = present(run)
    widths = diameters(tokens)
    trend = "falling" if widths[-1] < widths[-2] else "not falling"
    return Measurement(
        quantity="largest distance between two tokens at the end",
        value=widths[-1],
        tolerance=1e-3,
        why="tokens this close share a cap in which the flow contracts at a fixed rate",
        open=f"at t = {times[-1]:.3g} it is {widths[-1]:.2g} and {trend}",
    )


def cosines(tokens: np.ndarray) -> np.ndarray:
    """<x_i, x_j> for all pairs i < j of one snapshot (n, d)."""
    return (tokens @ tokens.T)[np.triu_indices(len(tokens), 1)]


def largest_cosine_error(tokens: np.ndarray, path: np.ndarray) -> float:
    """The largest |<x_i, x_j> - path| over pairs and times, for snapshots (times, n, d)."""
    return max(float(np.abs(cosines(x) - expected).max()) for x, expected in zip(tokens, path, strict=True))


def equiangular_path(flow: AbstractDynamics, cosine: float, n: int, times: np.ndarray) -> np.ndarray:
    """The common cosine rho of n equiangular tokens at `times`, from its scalar equation."""
    from scipy.integrate import solve_ivp

    beta, softmax = beta_of(flow), isinstance(flow.attention, Softmax)
    speed = 1.0 if softmax else np.exp(-beta * offset_of(flow))
    field = lambda _, rho: speed * circle.equiangular_rate(rho, n, beta, softmax=softmax)
    span = (times[0], times[-1])
    return solve_ivp(field, span, [cosine], t_eval=times, rtol=1e-10, atol=1e-12, method="LSODA").y[0]


def offset_of(flow: AbstractDynamics) -> float:
    """The offset of unnormalised attention; 0 for softmax attention."""
    return float(flow.attention.offset) if isinstance(flow.attention, Unnormalised) else 0.0
