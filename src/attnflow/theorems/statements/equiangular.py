"""Statements about equiangular tokens on the sphere, and random tokens in high dimension (arXiv:2312.10794)."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import xarray as xr

from attnflow.analyse import circle
from attnflow.model import initial
from attnflow.model.attention import AbstractAttention, Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.theorems import hypotheses as given
from attnflow.theorems.hypotheses import beta_of
from attnflow.theorems.measurements import cosines, equiangular_path, largest_cosine_error, on_a_path, present
from attnflow.theorems.statement import Instance, Statement
from attnflow.theorems.theorem import Theorem
from attnflow.theorems.verdict import Hypothesis, Measurement, above, at_most

PAPER = "arXiv:2312.10794 Section 6"


def _flow(d: int, rule: AbstractAttention) -> SphereAttention:
    return SphereAttention(Head.identity(d), rule)


# One common angle


def _equiangular_start(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    del flow
    several = given.at_least_two_tokens(tokens)
    if not several.holds:
        return (several,)
    products, simplex = cosines(tokens), -1 / (len(tokens) - 1)
    return (
        several,
        at_most("all first tokens at one angle", float(np.ptp(products)), 1e-9, "in the cosines"),
        above("not the regular simplex, which rests", float(products.min()), simplex + 1e-6, "in the cosine"),
    )


@on_a_path
def _equiangular(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times, tokens = present(run)
    predicted = equiangular_path(flow, float(cosines(tokens[0]).mean()), tokens.shape[1], times)
    speeds = circle.equiangular_rate(
        predicted, tokens.shape[1], beta_of(flow), softmax=isinstance(flow.attention, Softmax)
    )
    # An error made at the start grows in proportion to the speed of the cosine.
    growth = max(1.0, float(speeds.max() / speeds[0])) if speeds[0] > 0 else 1.0
    return Measurement(
        quantity="largest difference between a cosine and the scalar equation",
        value=largest_cosine_error(tokens, predicted),
        tolerance=1e-6 * growth,
        why=f"a hundred steps of tolerance 1e-8 each, times {growth:.3g}, by which early errors grow",
    )


def _equiangular_example(rule: AbstractAttention) -> Instance:
    return Instance(_flow(8, rule), initial.equiangular(8, 8), np.linspace(0, 6, 31))


def _equiangular_control() -> Instance:
    return dataclasses.replace(_equiangular_example(Softmax(2.0)), tokens=initial.sphere(8, 8, rng=0))


# Random tokens in high dimension


def _curve_setting(flow: AbstractDynamics) -> Sequence[Hypothesis]:
    says = "d large enough for a bound of 2 sqrt(log d / d)"
    return (
        *given.self_attention(flow),
        given.beta_at_least(flow, 0.0),
        at_most(says, _spread(flow.dimension), 0.3, "in the cosine"),
    )


def _nearly_orthogonal(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    largest = float(np.abs(cosines(tokens)).max()) if len(tokens) > 1 else np.nan
    return (
        at_most("n <= d", len(tokens), flow.dimension, "tokens"),
        at_most("first tokens nearly orthogonal", largest, _spread(flow.dimension), "in the cosine"),
    )


def _spread(d: int) -> float:
    """2 sqrt(log d / d): the largest cosine to expect between random directions."""
    return 2 * float(np.sqrt(np.log(d) / d)) if d > 2 else 2.0


@on_a_path
def _curve(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times, tokens = present(run)
    predicted = equiangular_path(flow, 0.0, tokens.shape[1], times)
    return Measurement(
        quantity="largest difference between a cosine and the curve of orthogonal tokens",
        value=largest_cosine_error(tokens, predicted),
        tolerance=_spread(flow.dimension),
        why="2 sqrt(log d / d), the published bound without its factor that grows in time",
        open="which the published bound allows: d may be too small for this n, beta and time",
    )


def _curve_example() -> Instance:
    return Instance(_flow(256, Softmax(1.0)), initial.sphere(8, 256, rng=0), np.linspace(0, 12, 25))


def _curve_control() -> Instance:
    return Instance(_flow(3, Softmax(1.0)), initial.sphere(8, 3, rng=0), np.linspace(0, 12, 25))


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        Theorem(
            id="equiangular-sa",
            paper=PAPER,
            says="Tokens at one common angle keep one common angle, whose cosine follows a scalar equation (softmax).",
            setting=lambda flow: given.self_attention(flow, Softmax),
            start=_equiangular_start,
        ),
        _equiangular,
        lambda: _equiangular_example(Softmax(2.0)),
        _equiangular_control,
    ),
    Statement(
        Theorem(
            id="equiangular-usa",
            paper=PAPER,
            says="Tokens at one common angle keep one common angle, whose cosine follows a scalar equation "
            "(unnormalised).",
            setting=lambda flow: given.self_attention(flow, Unnormalised),
            start=_equiangular_start,
        ),
        _equiangular,
        lambda: _equiangular_example(Unnormalised(1.0)),
        _equiangular_control,
    ),
    Statement(
        Theorem(
            id="phase-curve",
            paper=PAPER,
            says="In high dimension all cosines between random tokens follow the curve of orthogonal tokens.",
            setting=_curve_setting,
            start=_nearly_orthogonal,
        ),
        _curve,
        _curve_example,
        _curve_control,
    ),
)
