"""Statements about full attention on the sphere (arXiv:2312.10794): energy, cones, one cluster."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import xarray as xr

from attnflow.analyse import energy, rates
from attnflow.integrate.evaluate import velocities
from attnflow.model import initial
from attnflow.model.attention import AbstractAttention, Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.theorems import hypotheses as given
from attnflow.theorems.hypotheses import beta_of, hemisphere_pole
from attnflow.theorems.limit_theorems import HEMISPHERE_RATE, SINGLE_CLUSTER
from attnflow.theorems.measurements import diameters, offset_of, on_a_path, one_cluster, present
from attnflow.theorems.statement import Computation, Instance, Statement
from attnflow.theorems.theorem import Theorem
from attnflow.theorems.verdict import Hypothesis, Measurement

PAPER = "arXiv:2312.10794"
TAIL = (1e-6, 3e-2)  # diameters at which the local rate shows: above the solver's error, below curvature


def _flow(d: int, rule: AbstractAttention) -> SphereAttention:
    return SphereAttention(Head.identity(d), rule)


# Energy


def _energy_setting(rule: type[AbstractAttention]):
    def setting(flow: AbstractDynamics) -> Sequence[Hypothesis]:
        return (*given.self_attention(flow, rule), given.beta_above(flow, 0.0))

    return setting


@on_a_path
def _energy(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times, tokens = present(run)
    beta = beta_of(flow)
    speeds = velocities(flow, tokens, times)
    # One snapshot at a time: the pairs of all times together would not fit into memory.
    both = [_energy_rates(flow, snapshot, moved) for snapshot, moved in zip(tokens, speeds, strict=True)]
    measured, predicted = np.array(both).T
    heights = energy.interaction(tokens, beta).values
    # Where tokens rest both rates are rounding errors, about 1e-16 of the mean weight 2 beta E.
    scale = max(np.abs(measured).max(), 1e-5 * 2 * beta * heights.max())
    drop = max(0.0, float(-np.diff(heights).min(initial=0.0))) / np.abs(heights).max()
    return Measurement(
        quantity="error of dE/dt relative to its largest, or the energy's largest relative drop",
        value=max(float(np.abs(measured - predicted).max() / scale), drop),
        tolerance=1e-9,
        why="an identity in float64; the energy itself is kept to the solver's tolerance squared",
    )


def _energy_rates(flow: AbstractDynamics, tokens: np.ndarray, moved: np.ndarray) -> tuple[float, float]:
    """dE/dt by the chain rule, and by the identity of the theorem, for tokens with the velocities `moved`."""
    beta = beta_of(flow)
    if isinstance(flow.attention, Softmax):
        predicted = energy.softmax_dissipation(tokens, moved, beta)
    else:
        predicted = energy.unnormalised_dissipation(moved, beta, offset_of(flow))
    return float(energy.rate(tokens, moved, beta)), float(predicted)


def _energy_example(rule: AbstractAttention) -> Instance:
    return Instance(_flow(3, rule), initial.sphere(8, 3, rng=0), np.linspace(0, 6, 31))


def _energy_control() -> Instance:
    head = Head(query=np.eye(3), key=np.eye(3), value=np.diag([1.0, 1.0, -1.0]))
    return dataclasses.replace(_energy_example(Softmax(1.0)), flow=SphereAttention(head, Softmax(1.0)))


# Cones


@on_a_path
def _cone(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    del flow
    _, tokens = present(run)
    lowest = (tokens @ hemisphere_pole(run.initial_tokens.values)).min(axis=1)
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
    # Four directions and their antipodes lie in no open hemisphere.
    return dataclasses.replace(_cone_example(), tokens=initial.with_antipodes(initial.sphere(4, 3, rng=0), 4))


def _in_hemisphere(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    del flow
    return (given.in_an_open_hemisphere(tokens),)


@on_a_path
def _rate(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times, tokens = present(run)
    widths = diameters(tokens)
    late = (widths > TAIL[0]) & (widths < TAIL[1])
    expected = _contraction_rate(flow, tokens[-1])
    enough = late.sum() >= rates.MIN_POINTS
    measured = rates.exponential(times[late], widths[late]).rate if enough else np.nan
    return Measurement(
        quantity=f"relative error of the rate of the tokens' largest distance, expected {expected:.4g}",
        value=abs(measured / expected - 1),
        tolerance=2 * TAIL[1] ** 2 + TAIL[1] * _anisotropy(flow),
        why="corrections are of the order of the distance squared, and where Q^T K is no multiple of I of the distance",
        open="" if enough else f"only {late.sum()} saved times have a largest distance in {TAIL}",
    )


def _contraction_rate(flow: AbstractDynamics, tokens: np.ndarray) -> float:
    """The rate at which tokens next to a common point x* contract.

    Linearised at x*, x_i' = c sum_j A_ij (x_j - x_i) with A_ij = 1/n for softmax attention, V = c I, and
    A_ij = w/n, w = e^{<x*, B x*> - beta offset}, for unnormalised attention.
    """
    growth = given.growth_rate(flow)
    if isinstance(flow.attention, Softmax):
        return growth
    point = tokens.mean(axis=0) / np.linalg.norm(tokens.mean(axis=0))
    return growth * float(np.exp(point @ given.score_matrix(flow) @ point - beta_of(flow) * offset_of(flow)))


def _anisotropy(flow: AbstractDynamics) -> float:
    """The norm of B - b I, b the mean of the diagonal of B = beta Q^T K."""
    scores = given.score_matrix(flow)
    return float(np.linalg.norm(scores - np.trace(scores) / len(scores) * np.eye(len(scores)), 2))


def _rate_example() -> Instance:
    return Instance(_flow(3, Softmax(1.0)), initial.hemisphere(8, 3, rng=0), np.linspace(0, 20, 81))


@on_a_path
def _cone_speed(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    """The least alpha' over its bound, at saved times at which tokens are close to their limit."""
    times, tokens = present(run)
    centre = tokens[-1].mean(axis=0) / np.linalg.norm(tokens[-1].mean(axis=0))
    heights = tokens @ centre
    lowest = heights.argmin(axis=1)
    alpha = heights.min(axis=1)
    late = (alpha > 0.9) & (alpha < 1 - 1e-9)  # close to the limit, which itself is known to 1e-9 only
    n, beta = tokens.shape[1], beta_of(flow)
    bounds = (1 - alpha[late]) / (2 * n * np.exp(2 * beta))
    value = np.nan
    if late.any():
        lowest_moved = velocities(flow, tokens[late], times[late])[np.arange(late.sum()), lowest[late]]
        value = float(np.min(lowest_moved @ centre / bounds))
    why = "the bound itself; below 1 - alpha = 1e-9 the limit is not known well enough"
    return Measurement(
        "least speed of the farthest token towards the limit, over its bound,", value, 1.0, why, "at least"
    )


# One cluster


@on_a_path
def _single(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    del flow
    return one_cluster(run)


def _single_example() -> Instance:
    return Instance(_flow(3, Softmax(1.0)), initial.sphere(8, 3, rng=0), np.linspace(0, 20, 41))


def _single_control() -> Instance:
    return dataclasses.replace(_single_example(), tokens=initial.with_antipodes(initial.sphere(4, 3, rng=0), 4))


STATEMENTS: tuple[Statement | Computation, ...] = (
    Statement(
        Theorem(
            id="energy-sa",
            paper=f"{PAPER} Section 3",
            says="Softmax attention never lowers E_beta: it rises at the rate n^-1 sum_i (Z_i/n) |v_i|^2.",
            setting=_energy_setting(Softmax),
        ),
        _energy,
        lambda: _energy_example(Softmax(1.0)),
        _energy_control,
    ),
    Statement(
        Theorem(
            id="energy-usa",
            paper=f"{PAPER} Section 3",
            says="Unnormalised attention is a gradient ascent of E_beta: it rises at the rate n^-1 sum_i |v_i|^2.",
            setting=_energy_setting(Unnormalised),
        ),
        _energy,
        lambda: _energy_example(Unnormalised(1.0)),
        _energy_control,
    ),
    Statement(
        Theorem(
            id="hemisphere-cone",
            paper=f"{PAPER} Section 6",
            says="With V = I tokens in an open hemisphere around w stay in it, for all Q, K: min_i <x_i, w> never "
            "falls.",
            setting=lambda flow: (*given.full_attention(flow), given.value_is(flow)),
            start=_in_hemisphere,
        ),
        _cone,
        _cone_example,
        _not_in_a_cone,
    ),
    Statement(
        HEMISPHERE_RATE,
        _rate,
        _rate_example,
        lambda: dataclasses.replace(_rate_example(), tokens=_not_in_a_cone().tokens),
    ),
    Statement(
        Theorem(
            id="cone-speed",
            paper=f"{PAPER} Section 6",
            says="Tokens close to their common limit x* come closer at least as fast as "
            "alpha' = (1 - alpha) / (2 n e^{2 beta}), alpha = min <x_i, x*>.",
            setting=lambda flow: given.self_attention(flow, Softmax),
            start=lambda _, tokens: (given.at_least_two_tokens(tokens), given.in_an_open_hemisphere(tokens)),
        ),
        _cone_speed,
        _rate_example,
        lambda: dataclasses.replace(_rate_example(), tokens=_not_in_a_cone().tokens),
    ),
    Statement(SINGLE_CLUSTER, _single, _single_example, _single_control),
)
