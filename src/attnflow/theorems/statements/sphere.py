"""Statements about attention on the sphere: energy, cones, equal angles, one cluster; then those of the circle."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import xarray as xr
from scipy.optimize import linprog

from attnflow.analyse import circle, energy, rates
from attnflow.integrate.evaluate import velocity
from attnflow.model import initial
from attnflow.model.attention import AbstractAttention, Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.model.masks import Full
from attnflow.theorems.hypotheses import (
    at_least_two_tokens,
    attention_is,
    beta_at_least,
    beta_of,
    dimension_is_at_least,
    in_an_open_hemisphere,
    mask_is,
    on_the_sphere,
    plain,
    self_attention,
    value_is,
)
from attnflow.theorems.measurements import (
    cosines,
    diameters,
    equiangular_path,
    farthest,
    generic,
    offset_of,
    on_a_path,
    one_cluster,
    present,
)
from attnflow.theorems.statement import Computation, Instance, Statement
from attnflow.theorems.statements import circle as circle_statements
from attnflow.theorems.verdict import Hypothesis, Measurement, above, at_most

LATE_CONE = 0.1  # 1 - alpha below which tokens are close to their limit
TAIL = (1e-6, 3e-2)  # diameters in which a local rate shows: above the solver's error, below curvature


def _flow(d: int, rule: AbstractAttention) -> SphereAttention:
    return SphereAttention(Head.identity(d), rule)


def _is_softmax(flow: AbstractDynamics) -> bool:
    return isinstance(flow.attention, Softmax)


# Energy


def _energy_hypotheses(rule: type[AbstractAttention]):
    def hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
        del tokens
        return (*self_attention(flow), attention_is(flow, rule), above("beta > 0", beta_of(flow), 0.0, "in beta"))

    return hypotheses


@on_a_path
def _energy(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times, tokens = present(run)
    beta = beta_of(flow)
    # One snapshot at a time: pairs of tokens at all times would not fit.
    both = [_energy_rates(flow, snapshot, time) for time, snapshot in zip(times, tokens, strict=True)]
    found, predicted = np.array(both).T
    heights = energy.interaction(tokens, beta).values
    # Where tokens rest both rates are rounding, some 1e-16 of the weights' mean, 2 beta E.
    scale = max(np.abs(found).max(), 1e-5 * 2 * beta * heights.max())
    drop = max(0.0, float(-np.diff(heights).min(initial=0.0))) / np.abs(heights).max()
    return Measurement(
        quantity="error of dE/dt relative to its largest, or the energy's largest relative drop",
        value=max(float(np.abs(found - predicted).max() / scale), drop),
        tolerance=1e-9,
        why="an identity in float64; the energy itself is kept to the solver's tolerance squared",
    )


def _energy_rates(flow: AbstractDynamics, tokens: np.ndarray, time: float) -> tuple[float, float]:
    """dE/dt by the chain rule, and by the identity."""
    beta, velocities = beta_of(flow), velocity(flow, tokens, time)
    if _is_softmax(flow):
        predicted = energy.softmax_dissipation(tokens, velocities, beta)
    else:
        predicted = energy.unnormalised_dissipation(velocities, beta, offset_of(flow))
    return float(energy.rate(tokens, velocities, beta)), float(predicted)


def _energy_example(rule: AbstractAttention) -> Instance:
    return Instance(_flow(3, rule), initial.sphere(8, 3, rng=0), np.linspace(0, 6, 31))


def _energy_control() -> Instance:
    head = Head(query=np.eye(3), key=np.eye(3), value=np.diag([1.0, 1.0, -1.0]))
    return dataclasses.replace(_energy_example(Softmax(1.0)), flow=SphereAttention(head, Softmax(1.0)))


# Cones


def _cone_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    return (
        on_the_sphere(flow),
        plain(flow),
        attention_is(flow, Softmax, Unnormalised),
        mask_is(flow, Full),
        value_is(flow),
        in_an_open_hemisphere(tokens),
    )


def _pole(tokens: np.ndarray) -> np.ndarray:
    """The unit w with the largest min_i <x_i, w> over |w|_inf <= 1; NaN where the search fails."""
    n, d = tokens.shape
    constraint = np.c_[-tokens, np.ones(n)]
    found = linprog(np.r_[np.zeros(d), -1.0], constraint, np.zeros(n), bounds=[(-1, 1)] * d + [(None, None)])
    return found.x[:d] / np.linalg.norm(found.x[:d]) if found.success else np.full(d, np.nan)


@on_a_path
def _cone(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    del flow
    _, tokens = present(run)
    lowest = (tokens @ _pole(run.initial_tokens.values)).min(axis=1)
    return Measurement(
        quantity="largest fall of min_i <x_i, w> between saved times",
        value=max(0.0, float(-np.diff(lowest).min(initial=0.0))) if np.isfinite(lowest).all() else np.nan,
        tolerance=1e-8,
        why="the solver's relative tolerance; exactly, it never falls",
    )


def _cone_example() -> Instance:
    generator = np.random.default_rng(0)
    head = Head(query=generator.normal(size=(3, 3)), key=generator.normal(size=(3, 3)), value=np.eye(3))
    return Instance(SphereAttention(head, Softmax(1.0)), initial.hemisphere(8, 3, rng=0), np.linspace(0, 20, 81))


def _not_in_a_cone() -> Instance:
    # Four directions and their antipodes lie in no open hemisphere, whatever is drawn.
    return dataclasses.replace(_cone_example(), tokens=initial.with_antipodes(initial.sphere(4, 3, rng=0), 4))


def _rate_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    return (*self_attention(flow), at_least_two_tokens(tokens), in_an_open_hemisphere(tokens))


@on_a_path
def _rate(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times, tokens = present(run)
    widths = diameters(tokens)
    late = (widths > TAIL[0]) & (widths < TAIL[1])
    expected = 1.0 if _is_softmax(flow) else np.exp(beta_of(flow) * (1 - offset_of(flow)))
    enough = late.sum() >= rates.FEWEST_POINTS
    found = rates.exponential(times[late], widths[late]).rate if enough else np.nan
    return Measurement(
        quantity=f"relative error of the rate of the tokens' largest distance, expected {expected:.4g}",
        value=abs(found / expected - 1),
        tolerance=2 * TAIL[1] ** 2,
        why="corrections are of the order of the distance squared",
        open="" if enough else f"only {late.sum()} saved times have a largest distance in {TAIL}",
    )


def _rate_example() -> Instance:
    return Instance(_flow(3, Softmax(1.0)), initial.hemisphere(8, 3, rng=0), np.linspace(0, 20, 81))


# Equal angles


def _equiangular_hypotheses(rule: type[AbstractAttention]):
    def hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
        found = cosines(tokens) if len(tokens) > 1 else np.array([np.nan])
        least = -1 / max(len(tokens) - 1, 1)
        return (
            *self_attention(flow),
            attention_is(flow, rule),
            at_least_two_tokens(tokens),
            at_most("all first tokens at one angle", float(np.ptp(found)), 1e-9, "in the cosines"),
            above("not the regular simplex, which rests", float(found.min()), least + 1e-6, "in the cosine"),
        )

    return hypotheses


@on_a_path
def _equiangular(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times, tokens = present(run)
    predicted = equiangular_path(flow, float(cosines(tokens[0]).mean()), tokens.shape[1], times)
    speeds = circle.equiangular_rate(predicted, tokens.shape[1], beta_of(flow), softmax=_is_softmax(flow))
    # An error made at the start grows in proportion to the speed of the cosine.
    growth = max(1.0, float(speeds.max() / speeds[0])) if speeds[0] > 0 else 1.0
    return Measurement(
        quantity="largest difference between a cosine and the scalar equation",
        value=farthest(tokens, predicted),
        tolerance=1e-6 * growth,
        why=f"a hundred steps of tolerance 1e-8 each, times {growth:.3g}, by which early errors grow",
    )


def _equiangular_example(rule: AbstractAttention) -> Instance:
    return Instance(_flow(8, rule), initial.equiangular(8, 8), np.linspace(0, 6, 31))


def _equiangular_control() -> Instance:
    return dataclasses.replace(_equiangular_example(Softmax(2.0)), tokens=initial.sphere(8, 8, rng=0))


def _curve_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    found = cosines(tokens) if len(tokens) > 1 else np.array([np.nan])
    return (
        *self_attention(flow),
        beta_at_least(flow, 0.0),
        dimension_is_at_least(flow, len(tokens)),
        at_most("d large enough for 2 sqrt(log d / d) to say something", _spread(flow.dimension), 0.3, "of cosine"),
        at_most("first tokens nearly orthogonal", float(np.abs(found).max()), _spread(flow.dimension), "in the cosine"),
    )


def _spread(d: int) -> float:
    return 2 * float(np.sqrt(np.log(d) / d)) if d > 2 else 2.0


@on_a_path
def _curve(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times, tokens = present(run)
    predicted = equiangular_path(flow, 0.0, tokens.shape[1], times)
    return Measurement(
        quantity="largest difference between a cosine and the curve of orthogonal tokens",
        value=farthest(tokens, predicted),
        tolerance=_spread(flow.dimension),
        why="2 sqrt(log d / d), the published bound without its factor that grows in time, which would allow anything",
        open="which the published bound allows: d may be too small for this n, beta and time",
    )


def _curve_example() -> Instance:
    return Instance(_flow(256, Softmax(1.0)), initial.sphere(8, 256, rng=0), np.linspace(0, 12, 25))


def _curve_control() -> Instance:
    return Instance(_flow(3, Softmax(1.0)), initial.sphere(8, 3, rng=0), np.linspace(0, 12, 25))


# One cluster


def _single_hypotheses(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    return (
        *self_attention(flow),
        dimension_is_at_least(flow, 3),
        beta_at_least(flow, 0.0),
        *generic(flow, tokens),
    )


@on_a_path
def _single(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    del flow
    return one_cluster(run)


def _single_example() -> Instance:
    return Instance(_flow(3, Softmax(1.0)), initial.sphere(8, 3, rng=0), np.linspace(0, 20, 41))


def _single_control() -> Instance:
    return dataclasses.replace(_single_example(), tokens=initial.with_antipodes(initial.sphere(4, 3, rng=0), 4))


@on_a_path
def _cone_speed(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    """alpha' over its bound, at saved times in which tokens are close to where they end."""
    times, tokens = present(run)
    centre = tokens[-1].mean(axis=0) / np.linalg.norm(tokens[-1].mean(axis=0))
    heights = tokens @ centre
    lowest = heights.argmin(axis=1)
    alpha = heights.min(axis=1)
    late = (alpha > 1 - LATE_CONE) & (alpha < 1 - 1e-9)
    n, beta = tokens.shape[1], beta_of(flow)
    speeds = [velocity(flow, tokens[at], times[at])[lowest[at]] @ centre for at in np.flatnonzero(late)]
    bounds = (1 - alpha[late]) / (2 * n * np.exp(2 * beta))
    value = float(np.min(np.array(speeds) / bounds)) if late.any() else np.nan
    why = "the bound itself, met with a wide margin; below 1 - alpha = 1e-9 the end is not known well enough"
    return Measurement(
        "least speed of the farthest token towards the limit, over its bound,", value, 1.0, why, "at least"
    )


STATEMENTS: tuple[Statement | Computation, ...] = (
    Statement(
        id="energy-sa",
        paper="arXiv:2312.10794 Section 3",
        says="Softmax attention never lowers E_beta: it rises at the rate n^-1 sum_i (Z_i/n) |v_i|^2.",
        hypotheses=_energy_hypotheses(Softmax),
        measure=_energy,
        example=lambda: _energy_example(Softmax(1.0)),
        control=_energy_control,
    ),
    Statement(
        id="energy-usa",
        paper="arXiv:2312.10794 Section 3",
        says="Unnormalised attention climbs E_beta as a gradient flow: it rises at the rate n^-1 sum_i |v_i|^2.",
        hypotheses=_energy_hypotheses(Unnormalised),
        measure=_energy,
        example=lambda: _energy_example(Unnormalised(1.0)),
        control=_energy_control,
    ),
    Statement(
        id="hemisphere-cone",
        paper="arXiv:2312.10794 Section 6",
        says="Tokens in an open hemisphere around w stay in it: min_i <x_i, w> never falls, for V = I and any Q, K.",
        hypotheses=_cone_hypotheses,
        measure=_cone,
        example=_cone_example,
        control=_not_in_a_cone,
    ),
    Statement(
        id="hemisphere-rate",
        paper="arXiv:2312.10794 Section 6",
        says="Tokens in an open hemisphere meet exponentially fast; in the end distances fall like e^{-t} for softmax "
        "attention and e^{-t e^beta} for unnormalised attention.",
        hypotheses=_rate_hypotheses,
        measure=_rate,
        example=_rate_example,
        control=lambda: dataclasses.replace(_rate_example(), tokens=_not_in_a_cone().tokens),
    ),
    Statement(
        id="cone-speed",
        paper="arXiv:2312.10794 Section 6",
        says="Tokens close to their common limit x* come closer at least as fast as "
        "alpha' = (1 - alpha) / (2 n e^{2 beta}), alpha = min <x_i, x*>.",
        hypotheses=lambda flow, tokens: (*_rate_hypotheses(flow, tokens), attention_is(flow, Softmax)),
        measure=_cone_speed,
        example=_rate_example,
        control=lambda: dataclasses.replace(_rate_example(), tokens=_not_in_a_cone().tokens),
    ),
    Statement(
        id="equiangular-sa",
        paper="arXiv:2312.10794 Section 6",
        says="Tokens at one common angle keep one common angle, whose cosine follows a scalar equation (softmax).",
        hypotheses=_equiangular_hypotheses(Softmax),
        measure=_equiangular,
        example=lambda: _equiangular_example(Softmax(2.0)),
        control=_equiangular_control,
    ),
    Statement(
        id="equiangular-usa",
        paper="arXiv:2312.10794 Section 6",
        says="Tokens at one common angle keep one common angle, whose cosine follows a scalar equation (unnormalised).",
        hypotheses=_equiangular_hypotheses(Unnormalised),
        measure=_equiangular,
        example=lambda: _equiangular_example(Unnormalised(1.0)),
        control=_equiangular_control,
    ),
    Statement(
        id="phase-curve",
        paper="arXiv:2312.10794 Section 6",
        says="In high dimension all cosines between random tokens follow the curve of orthogonal tokens.",
        hypotheses=_curve_hypotheses,
        measure=_curve,
        example=_curve_example,
        control=_curve_control,
    ),
    Statement(
        id="single-cluster",
        paper="arXiv:2312.10794 Sections 4 and 5; arXiv:2405.18273",
        says="On a sphere of dimension two or more, for any beta >= 0, almost every start ends in one cluster.",
        hypotheses=_single_hypotheses,
        measure=_single,
        example=_single_example,
        control=_single_control,
    ),
    *circle_statements.STATEMENTS,
)
