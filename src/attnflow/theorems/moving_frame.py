"""The moving frame z = e^{-tV} x that statements about R^d are measured in, and what finite runs leave open.

Convergence in the frame is e^{-t} at best, so that a run which ends early decides nothing.
"""

import functools
from collections.abc import Callable

import numpy as np
import xarray as xr
from scipy.linalg import expm

from attnflow.analyse.snapshots import tokens_of
from attnflow.integrate.evaluate import attention_matrix
from attnflow.model import initial
from attnflow.model.attention import Softmax
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import EuclideanAttention, RescaledAttention
from attnflow.model.heads import Head
from attnflow.model.masks import Full
from attnflow.results.provenance import solver_of
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.token_by_token import TokenByToken
from attnflow.theorems import hypotheses as given
from attnflow.theorems.statement import Instance
from attnflow.theorems.verdict import Hypothesis, Measurement, is_true

SETTLED = 1e-6  # relative to the size; at t = 20 the distance e^{-t} is 2e-9, and the solver's error 1e-8

Measure = Callable[[AbstractDynamics, xr.Dataset], Measurement]


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
    """Measures nothing (NaN) where tokens are missing or not finite, or kept at one time only."""

    @functools.wraps(measure)
    def checked(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
        if run.sizes["time"] > 1 and np.all(np.isfinite(tokens_of(run).values)):
            return measure(flow, run)
        return Measurement("nothing, since tokens are missing at some times,", np.nan, 0.0, "there are no numbers")

    return checked


def accuracy(run: xr.Dataset, size: float) -> tuple[float, str, str]:
    """Error to expect of this run relative to `size`, the reason, and what that leaves open."""
    solver = solver_of(run)
    if isinstance(solver, Adaptive | TokenByToken):
        return 10 * (float(solver.rtol) + float(solver.atol) / size), "ten times the solver's tolerance for a step", ""
    name = type(solver).__name__
    return 1e-7, "what the default solver keeps to", f"the error of {name} is not known"


def still_moving(times: np.ndarray, places: np.ndarray) -> str:
    """A sentence if the places (times, n, k) still changed when the run ended, else nothing."""
    moved = np.abs(places[-1] - places[-2]).max() / (times[-1] - times[-2])
    if moved <= SETTLED * size_of(places[-1]):
        return ""
    return f"at t = {times[-1]:g} tokens still move, {moved:.1e} a unit of time"


def still_falling(times: np.ndarray, measured: Callable[[int], float]) -> str:
    """A sentence if `measured`(index of time) was still falling over the second half of the run, else nothing."""
    last, middle = len(times) - 1, int(np.searchsorted(times, (times[0] + times[-1]) / 2))
    now, then = measured(last), measured(middle)
    fell = f"it fell from {then:.1e} at t = {times[middle]:.3g} to {now:.1e} at t = {times[last]:.3g}"
    return fell if middle < last and now < then else ""


def size_of(places: np.ndarray) -> float:
    """The largest coordinate, to measure relative to; 1 if all are zero."""
    return float(np.abs(places).max()) or 1.0


def seen_in_the_frame(flow: AbstractDynamics) -> Hypothesis:
    """Tokens move in R^d, and the run holds x or z = e^{-tV} x."""
    is_frame = isinstance(flow, RescaledAttention) and flow.rescaling is None
    says = "tokens move in R^d, as x or as z = e^{-tV} x"
    return is_true(says, is_frame or isinstance(flow, EuclideanAttention))


def transformer(flow: AbstractDynamics, *kinds: type) -> tuple[Hypothesis, ...]:
    """The setting of arXiv:2305.05465: plain softmax (or `kinds`) attention in R^d with a full mask."""
    return (
        seen_in_the_frame(flow),
        given.plain(flow),
        given.attention_is(flow, *(kinds or (Softmax,))),
        given.mask_is(flow, Full),
    )


def instance(head: Head, tokens: np.ndarray, end: float) -> Instance:
    """Forty-one times up to `end`: one number of times for all, so that compiled code is shared."""
    return Instance(RescaledAttention(head), tokens, np.linspace(0.0, end, 41))


def box(d: int) -> np.ndarray:
    """Twenty tokens of [-5, 5]^d, the published box."""
    return initial.box(20, d, rng=0)


def attention_at(flow: AbstractDynamics, run: xr.Dataset, index: int) -> np.ndarray:
    """P at the saved time of an index."""
    return attention_matrix(flow, run.tokens.values[index], float(run.time.values[index]))


def with_value(value: np.ndarray, tokens: np.ndarray, end: float) -> Instance:
    """An instance with Q^T K = I and this V."""
    return instance(Head.bilinear(np.eye(len(value)), value), tokens, end)
