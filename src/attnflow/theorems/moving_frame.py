"""The moving frame z = e^{-tV} x, in which statements about R^d are measured, and what finite runs leave open.

Convergence in the frame is at best e^{-ct}, c the leading eigenvalue of V: a run that ends early decides nothing.
"""

import functools
from collections.abc import Callable

import numpy as np
import xarray as xr
from scipy.linalg import expm

from attnflow.analyse.snapshots import tokens_of
from attnflow.integrate.evaluate import attention_matrix
from attnflow.model import initial
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import RescaledAttention
from attnflow.model.heads import Head
from attnflow.results.provenance import solver_of
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.token_by_token import TokenByToken
from attnflow.theorems import hypotheses as given
from attnflow.theorems.statement import Instance, Measure
from attnflow.theorems.verdict import Measurement

# Distance from a limit over the size of the tokens. At ct = 20 it is e^{-20} = 2e-9; the error of the solver is 1e-8.
LIMIT_TOLERANCE = 1e-6


def frame(flow: AbstractDynamics, run: xr.Dataset) -> np.ndarray:
    """z = e^{-tV} x at every saved time, shape (times, n, d)."""
    tokens = tokens_of(run).values.astype(float)
    if isinstance(flow, RescaledAttention):
        return tokens
    value = given.value_matrix(flow)
    return np.stack([x @ expm(-t * value).T for t, x in zip(run.time.values, tokens, strict=True)])


def plain_tokens(flow: AbstractDynamics, run: xr.Dataset) -> np.ndarray:
    """x = e^{tV} z at every saved time, shape (times, n, d)."""
    tokens = tokens_of(run).values.astype(float)
    if not isinstance(flow, RescaledAttention):
        return tokens
    value = given.value_matrix(flow)
    return np.stack([z @ expm(t * value).T for t, z in zip(run.time.values, tokens, strict=True)])


def on_whole_runs(measure: Measure) -> Measure:
    """`measure` for runs that hold finite tokens at two times or more; NaN for others."""

    @functools.wraps(measure)
    def checked(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
        if run.sizes["time"] > 1 and np.all(np.isfinite(tokens_of(run).values)):
            return measure(flow, run)
        return Measurement("the measured quantity", np.nan, 0.0, "tokens are missing at some times")

    return checked


def accuracy(run: xr.Dataset, size: float) -> tuple[float, str, str]:
    """The error to expect of a run relative to `size`, the reason for it, and what it leaves open."""
    solver = solver_of(run)
    if isinstance(solver, Adaptive | TokenByToken):
        return 10 * (float(solver.rtol) + float(solver.atol) / size), "ten times the solver's tolerance for a step", ""
    name = type(solver).__name__
    return 1e-7, "the error of the default solver", f"the error of {name} is not known"


def still_moving(times: np.ndarray, places: np.ndarray, growth: float = 1.0) -> str:
    """A sentence if the places (times, n, k) still changed when the run ended, in units of 1/growth; else nothing."""
    moved = np.abs(places[-1] - places[-2]).max() / (growth * (times[-1] - times[-2]))
    if moved <= LIMIT_TOLERANCE * size_of(places[-1]):
        return ""
    return f"at t = {times[-1]:g} tokens still move, by {moved:.1e} in a unit of time"


def still_falling(times: np.ndarray, measured: Callable[[int], float]) -> str:
    """A sentence if `measured`(index of time) was still falling over the second half of the run, else nothing."""
    last, middle = len(times) - 1, int(np.searchsorted(times, (times[0] + times[-1]) / 2))
    at_end, before = measured(last), measured(middle)
    fell = f"it fell from {before:.1e} at t = {times[middle]:.3g} to {at_end:.1e} at t = {times[last]:.3g}"
    return fell if middle < last and at_end < before else ""


def size_of(places: np.ndarray) -> float:
    """The largest coordinate, to measure relative to; 1 if all are zero."""
    return float(np.abs(places).max()) or 1.0


def instance(head: Head, tokens: np.ndarray, end: float) -> Instance:
    """An instance with 41 times up to `end`; the same number for all, so that compiled code is shared."""
    return Instance(RescaledAttention(head), tokens, np.linspace(0.0, end, 41))


def box(d: int) -> np.ndarray:
    """Twenty uniform tokens in [-5, 5]^d, the published box."""
    return initial.box(20, d, rng=0)


def attention_at(flow: AbstractDynamics, run: xr.Dataset, index: int) -> np.ndarray:
    """P at the saved time of an index."""
    return attention_matrix(flow, run.tokens.values[index], float(run.time.values[index]))


def with_value(value: np.ndarray, tokens: np.ndarray, end: float) -> Instance:
    """An instance with Q^T K = I and this V."""
    return instance(Head.bilinear(np.eye(len(value)), value), tokens, end)
