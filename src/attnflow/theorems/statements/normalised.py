"""Statements about schemes of layer normalisation (arXiv:2510.22026): synchronisation, speeds, rates, lengths.

Tokens are x = r theta with softmax attention; V and Q^T K are multiples of the identity.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import xarray as xr

from attnflow.analyse import rates
from attnflow.integrate.evaluate import velocity
from attnflow.model import initial
from attnflow.model.attention import Softmax
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.model.masks import Full
from attnflow.model.normalisation import NGPT, AbstractNormalisation, Mix, Peri, Post, Pre, Sqrt
from attnflow.theorems import hypotheses as given
from attnflow.theorems.hypotheses import beta_of, directions
from attnflow.theorems.limit_theorems import (
    SYNCHRONISATION,
    SYNCHRONISATION_WITH_LENGTHS,
    at_most_exponentially_many,
)
from attnflow.theorems.measurements import cosines, diameters, on_a_path, one_cluster, present
from attnflow.theorems.statement import Instance, Statement
from attnflow.theorems.theorem import Theorem
from attnflow.theorems.verdict import Hypothesis, Measurement, at_most

PAPER = "arXiv:2510.22026"
LATE_RANGE = (1e-12, 1e-3)  # values of 1 - cosine at which the last rate shows


def _scheme(flow: AbstractDynamics) -> AbstractNormalisation | None:
    return flow.normalisation if isinstance(flow, SphereAttention) else None


def _setting(*schemes: type[AbstractNormalisation]):
    """Softmax attention with a full mask, Q^T K = V = I, d >= 2, under one of some normalisation schemes."""

    def setting(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
        return (
            given.normalised_by(flow, *schemes),
            given.plain(flow),
            given.attention_is(flow, Softmax),
            given.mask_is(flow, Full),
            given.scores_are_inner_products(flow),
            given.value_is(flow),
            given.beta_at_least(flow, 0.0),
            given.dimension_is_at_least(flow, 2),
        )

    return setting


def _instance(scheme: AbstractNormalisation, seed: int, end: float, beta: float) -> Instance:
    """Eight tokens in R^3: uniform on the sphere, or Gaussian and at geometric times for schemes with lengths."""
    flow = SphereAttention(Head.identity(3), Softmax(beta), normalisation=scheme)
    if scheme.has_radii:
        return Instance(flow, initial.gaussian(8, 3, rng=seed), np.r_[0.0, np.geomspace(1e-2, end, 120)])
    return Instance(flow, initial.sphere(8, 3, rng=seed), np.linspace(0, end, 121))


# Synchronisation


@on_a_path
def _sync(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    del flow
    return one_cluster(run)


# First speeds


def _orthogonal(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    del flow
    largest = np.abs(cosines(directions(tokens))).max(initial=0.0)
    lengths = np.linalg.norm(tokens, axis=-1)
    return (
        given.at_least_two_tokens(tokens),
        at_most("first tokens orthogonal", float(largest), 1e-9, "in the cosine"),
        at_most("first tokens of one length", float(np.ptp(lengths)), 1e-9, "in length"),
    )


def first_speed(scheme: AbstractNormalisation, n: int, beta: float, length: float = 1.0, time: float = 0.0) -> float:
    """d(rho)/dt of n orthogonal tokens of one length: 2 / (s (e^beta + n - 1)), s the speed factor of the scheme.

    Examples
    --------
    >>> first_speed(Post(), n=3, beta=0.0) == 2 / 3
    True
    """
    received = np.sqrt(np.exp(2 * beta) + n - 1) / (np.exp(beta) + n - 1)
    plain_speed = 2 / (np.exp(beta) + n - 1)
    if isinstance(scheme, NGPT):
        return float(plain_speed * float(scheme.alpha) / received)
    if isinstance(scheme, Peri):
        return float(plain_speed / (length * received))
    if isinstance(scheme, Sqrt):
        return float(plain_speed / np.sqrt(time + 1))
    has_turned_pre = isinstance(scheme, Mix) and time >= float(scheme.switch)
    return float(plain_speed / length) if isinstance(scheme, Pre) or has_turned_pre else float(plain_speed)


def _first(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    tokens, start = run.initial_tokens.values, float(run.time[0])
    turning = velocity(flow, tokens, start) @ directions(tokens).T
    pairs = np.triu_indices(len(tokens), 1)
    measured = (turning + turning.T)[pairs]
    scheme = _scheme(flow) or Post()
    expected = first_speed(scheme, len(tokens), beta_of(flow), float(np.linalg.norm(tokens[0])), start)
    return Measurement(
        quantity=f"relative error of the first speed of the cosines, expected {expected:.4g}",
        value=float(np.abs(measured / expected - 1).max()),
        tolerance=1e-9,
        why="a closed form in float64, for tokens orthogonal to 1e-9",
    )


def _first_example(scheme: AbstractNormalisation | None = None) -> Instance:
    flow = SphereAttention(Head.identity(3), Softmax(1.0), normalisation=scheme or Peri())
    return Instance(flow, (2.0 if flow.has_radii else 1.0) * np.eye(3), np.array([0.0, 0.1]))


# Last rates


def _synchronising(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    """Two tokens or more from a start that synchronises; schemes with lengths need n <= e^beta."""
    few = (at_most_exponentially_many(flow, tokens),) if flow.has_radii else ()
    return (given.at_least_two_tokens(tokens), *few, *given.generic(flow, directions(tokens)))


def expected_rate(flow: AbstractDynamics) -> float:
    """The rate of 1 - cosine: of e^{-rate t}, of e^{-rate sqrt(t + 1)}, or of t^{-rate} where lengths grow."""
    scheme = _scheme(flow)
    if isinstance(scheme, Sqrt):
        return 4.0
    return 2.0 * float(scheme.alpha) if isinstance(scheme, NGPT) else 2.0


def _fit(flow: AbstractDynamics, times: np.ndarray, heights: np.ndarray) -> float:
    """The fitted rate, in the law of `expected_rate`."""
    if flow.has_radii:
        return rates.algebraic(times, heights).rate
    return rates.exponential(np.sqrt(times + 1) if isinstance(_scheme(flow), Sqrt) else times, heights).rate


@on_a_path
def _last_rate(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times, tokens = present(run)
    heights = diameters(tokens) ** 2 / 2
    late = (heights > LATE_RANGE[0]) & (heights < LATE_RANGE[1]) & (times > 0)
    if flow.has_radii:  # powers of t show in the last decade, where r = t + constant is nearly t
        late &= times > times[-1] / 10
    enough = late.sum() >= rates.MIN_POINTS
    measured, expected = _fit(flow, times[late], heights[late]) if enough else np.nan, expected_rate(flow)
    return Measurement(
        quantity=f"relative error of the rate at which 1 - cosine vanishes, expected {expected:.4g}",
        value=abs(measured / expected - 1),
        tolerance=0.01,
        why="the fitted stretch starts where 1 - cosine is 1e-3, or where t is a tenth of the end",
        open=f"at t = {times[-1]:.3g} the rate has not settled" if flow.has_radii or not enough else "",
    )


@on_a_path
def _growth(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    del flow
    times, radii = run.time.values, run.radius.values
    end = int(np.flatnonzero(np.isfinite(radii).all(axis=1))[-1])
    shares = radii[end] / (times[end] - times[0])
    return Measurement(
        quantity="largest difference between a token's length over time and 1",
        value=float(np.abs(shares - 1).max()),
        tolerance=0.01,
        why="r = t + c, and c is far below a hundredth of the run's length",
        open=f"at t = {times[end]:.3g} lengths over time are {shares.min():.4g} to {shares.max():.4g}",
    )


LAST_RATE = Theorem(
    id="last-rate",
    paper=PAPER,
    says="In the end 1 - cosine falls like e^{-2t} (Post), e^{-2 alpha t} (nGPT), e^{-4 sqrt(t+1)} (LayerNorm "
    "scaling), and like t^{-2} where lengths grow (Pre, Mix, Peri).",
    setting=_setting(Post, NGPT, Sqrt, Pre, Mix, Peri),
    start=_synchronising,
)
"""The rates at which tokens meet under each scheme."""

STATEMENTS: tuple[Statement, ...] = (
    Statement(
        SYNCHRONISATION,
        _sync,
        lambda: _instance(NGPT(), seed=0, end=100.0, beta=1.0),
        lambda: dataclasses.replace(
            _instance(NGPT(), seed=0, end=100.0, beta=1.0),
            tokens=initial.with_antipodes(initial.sphere(4, 3, rng=0), 4),
        ),
    ),
    Statement(
        SYNCHRONISATION_WITH_LENGTHS,
        _sync,
        lambda: _instance(Pre(), seed=1, end=1e5, beta=2.1),
        lambda: _instance(Pre(), seed=1, end=1e5, beta=1.0),
    ),
    Statement(
        Theorem(
            id="first-speed",
            paper=PAPER,
            says="Orthogonal tokens start to turn at 2 / (s (e^beta + n - 1)), s being the scheme's speed factor.",
            setting=_setting(Post, Pre, Mix, Peri, NGPT, Sqrt),
            start=_orthogonal,
        ),
        _first,
        _first_example,
        lambda: dataclasses.replace(_first_example(), tokens=initial.gaussian(3, 3, rng=0)),
    ),
    Statement(
        LAST_RATE,
        _last_rate,
        lambda: _instance(NGPT(), seed=0, end=100.0, beta=1.0),
        lambda: _instance(Pre(), seed=1, end=1e5, beta=1.0),
    ),
    Statement(
        Theorem(
            id="length-growth",
            paper=PAPER,
            says="Where lengths grow (Pre, Mix, Peri) they grow like t in the end.",
            setting=_setting(Pre, Mix, Peri),
            start=SYNCHRONISATION_WITH_LENGTHS.start,
        ),
        _growth,
        lambda: _instance(Peri(), seed=1, end=1e5, beta=2.1),
        lambda: _instance(Peri(), seed=1, end=1e5, beta=1.0),
    ),
)
