"""Statements about attention on the circle: one cluster, growth of Fourier modes, the number of first clusters."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import xarray as xr

from attnflow.analyse import circle, cluster_tracks, clusters, order
from attnflow.model import initial
from attnflow.model.attention import AbstractAttention, Softmax, Unnormalised
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.results.provenance import solver_of
from attnflow.solvers.adaptive import Adaptive
from attnflow.theorems import hypotheses as given
from attnflow.theorems.hypotheses import beta_of
from attnflow.theorems.limit_theorems import SINGLE_CLUSTER_CIRCLE
from attnflow.theorems.measurements import offset_of, on_a_path, one_cluster, present
from attnflow.theorems.statement import Computation, Instance, Statement
from attnflow.theorems.theorem import Theorem
from attnflow.theorems.verdict import Hypothesis, Measurement, above, at_most

LARGEST_LINEAR_DISPLACEMENT = 1e-3  # radians; its square is negligible


def _flow(rule: AbstractAttention) -> SphereAttention:
    return SphereAttention(Head.identity(2), rule)


@on_a_path
def _single(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    del flow
    return one_cluster(run)


def _circle_example() -> Instance:
    return Instance(_flow(Softmax(1.0)), initial.circle(32, rng=0), np.linspace(0, 60, 61))


def _circle_control() -> Instance:
    # Below beta = -2/3 three equal clusters at equal angles are stable.
    angles = 2 * np.pi * np.arange(3) / 3 + np.array([0.0, 0.1, -0.1])
    return Instance(_flow(Softmax(-1.0)), initial.on_circle(angles), np.linspace(0, 60, 61))


# The circle's modes


def _displacement(tokens: np.ndarray) -> float:
    """The largest displacement, in radians, from the nearest rotation of n equally spaced points."""
    angles = np.sort(np.arctan2(tokens[:, 1], tokens[:, 0]))
    gaps = angles - 2 * np.pi * np.arange(len(angles)) / len(angles)
    return float(np.ptp(gaps) / 2)


def _modes_setting(flow: AbstractDynamics) -> Sequence[Hypothesis]:
    return (*given.self_attention(flow), given.dimension_is(flow, 2), given.beta_above(flow, 0.0))


def _almost_equally_spaced(flow: AbstractDynamics, tokens: np.ndarray) -> Sequence[Hypothesis]:
    needed, displacement = 8 * circle.predicted_clusters(beta_of(flow)), _displacement(tokens)
    return (
        at_most("first tokens almost equally spaced", displacement, LARGEST_LINEAR_DISPLACEMENT, "radians"),
        at_most("enough tokens to resolve the modes", needed, len(tokens), "tokens"),
    )


@on_a_path
def _growth(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times, tokens = present(run)
    most = tokens.shape[1] // 4
    sizes = np.abs(order.fourier_modes(tokens, most).values)
    mode = int(np.argmax(sizes[0]))
    early = np.array([_displacement(snapshot) < LARGEST_LINEAR_DISPLACEMENT for snapshot in tokens])
    last = len(early) - 1 if early.all() else int(np.argmin(early)) - 1
    speed = np.exp(-beta_of(flow) * offset_of(flow))
    expected = speed * circle.growth_rates(beta_of(flow), most, softmax=isinstance(flow.attention, Softmax))[mode]
    measured = np.log(sizes[last, mode] / sizes[0, mode]) / (times[last] - times[0]) if last > 0 else np.nan
    return Measurement(
        quantity=f"relative error of the growth rate of mode {mode + 1}, expected {expected:.4g}",
        value=abs(measured / expected - 1),
        tolerance=10 * _displacement(tokens[max(last, 0)]) + _solver_error(run) / max(_displacement(tokens[0]), 1e-12),
        why="modes interact in proportion to the largest displacement, and the solver errs in the first one",
        open="the tokens left the linear regime before the second saved time" if last <= 0 else "",
    )


def _solver_error(run: xr.Dataset) -> float:
    """A hundred times the absolute tolerance of the solver."""
    solver = solver_of(run)
    return 100 * float(solver.atol if isinstance(solver, Adaptive) else 1e-10)


def _growth_example() -> Instance:
    beta, mode = 4.0, 3
    angles = 2 * np.pi * np.arange(32) / 32
    angles = angles + 1e-6 * np.sin(mode * angles)
    end = np.log(10) / circle.growth_rates(beta, mode)[mode - 1]
    # Displacements of 1e-6 need finer tolerances than the usual ones.
    solver = Adaptive(rtol=1e-11, atol=1e-13)
    return Instance(_flow(Unnormalised(beta)), initial.on_circle(angles), np.linspace(0, end, 21), solver)


def _growth_control() -> Instance:
    return dataclasses.replace(_growth_example(), tokens=initial.circle(32, rng=0))


@on_a_path
def _number(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times, tokens = present(run)
    n, expected = tokens.shape[1], circle.predicted_clusters(beta_of(flow))
    softmax = isinstance(flow.attention, Softmax)
    speeds = circle.growth_rates(beta_of(flow), expected + 1, softmax=softmax)
    speeds = np.exp(-beta_of(flow) * offset_of(flow)) * speeds
    folds = (times - times[0]) * speeds[expected - 1]
    counts = clusters.count(tokens, np.pi / n).values
    long = cluster_tracks.plateaus(folds, counts, 5 / folds[-1])
    first = next((plateau.count for plateau in long if plateau.count < n / 2), np.nan)
    return Measurement(
        quantity=f"difference between the number of clusters that form first and {expected}",
        value=abs(first - expected),
        tolerance=0,
        why="a number of clusters, constant for five times the time in which the fastest mode grows e-fold",
        open=_competing_mode(speeds, expected, _displacement(tokens[0])),
    )


def _competing_mode(speeds: np.ndarray, fastest: int, displacement: float) -> str:
    """A sentence if a neighbouring mode is still visible when the fastest mode has grown to order one, else nothing."""
    other = max((mode for mode in (fastest - 1, fastest + 1) if mode > 0), key=lambda mode: speeds[mode - 1])
    ratio = speeds[other - 1] / speeds[fastest - 1]
    is_visible = displacement ** (1 - ratio) > 0.1
    return f"mode {other} grows {ratio:.3g} times as fast, so that the start decides" if is_visible else ""


def _number_example() -> Instance:
    beta = 9.0
    angles = 2 * np.pi * np.arange(32) / 32 + 1e-6 * np.random.default_rng(0).normal(size=32)
    return Instance(_flow(Softmax(beta)), initial.on_circle(angles), np.linspace(0, 60, 121))


def _number_control() -> Instance:
    return dataclasses.replace(_number_example(), tokens=initial.circle(32, rng=0))


# Wendel


def _wendel(n: int, d: int, samples: int = 500, seed: int = 0, shift: float = 0.0):
    def measure() -> Measurement:
        points = np.random.default_rng(seed).normal(size=(samples, n, d)) + shift
        share = float(np.mean([given.in_an_open_hemisphere(draw).holds for draw in points]))
        expected = circle.hemisphere_probability(n, d)
        return Measurement(
            quantity=f"difference between the share of draws in one hemisphere and {expected:.4g}",
            value=abs(share - expected),
            tolerance=4 * float(np.sqrt(max(expected * (1 - expected), 1 / samples) / samples)),
            why=f"four standard errors of {samples} draws, exceeded once in 16000 times",
        )

    hypotheses = (
        at_most("the law is symmetric about 0", abs(shift), 0.0, "of shift"),
        at_most("at least 100 draws", 100, samples, "draws"),
    )
    return hypotheses, measure


def _noisy_threshold(beta: float, mode: int = 1, noise: float | None = None):
    """Hypotheses and measurement: at the critical kappa a ripple on the uniform density neither grows nor decays."""
    kappa = circle.critical_kappa(beta, mode) if noise is None else noise

    def measure() -> Measurement:
        growth = _growth_of_ripple(beta, mode, kappa)
        scale = mode**2 / kappa
        return Measurement(
            quantity=f"growth rate of mode {mode} at kappa = {kappa:.5g}, over that of diffusion alone,",
            value=abs(growth) / scale,
            tolerance=1e-6,
            why="a ripple of 1e-6 has squares of that size; the quadrature of a periodic function is exact to rounding",
        )

    formula = circle.critical_kappa(beta, mode) if beta > 0 else np.nan
    return (
        above("beta > 0", beta, 0.0),
        at_most("kappa is the critical one", abs(kappa - formula), 1e-9, "in kappa"),
    ), measure


def _growth_of_ripple(beta: float, mode: int, kappa: float, points: int = 512, ripple: float = 1e-6) -> float:
    """d/dt of the mode's amplitude over itself, for d mu/dt = -(mu v)' + mu''/kappa and v the pull of mu."""
    angles = 2 * np.pi * np.arange(points) / points
    density = 1 + ripple * np.cos(mode * angles)
    apart = angles[:, None] - angles
    velocity = -np.mean(np.exp(beta * np.cos(apart)) * np.sin(apart) * density, axis=1)
    # By parts: the flux against the derivative of the mode, and the mode's own second derivative.
    amplitude = 2 * np.mean(density * np.cos(mode * angles))
    drift = -2 * mode * np.mean(density * velocity * np.sin(mode * angles))
    return float(drift / amplitude - mode**2 / kappa)


STATEMENTS: tuple[Statement | Computation, ...] = (
    Statement(SINGLE_CLUSTER_CIRCLE, _single, _circle_example, _circle_control),
    Statement(
        Theorem(
            id="fourier-growth",
            paper="arXiv:2312.10794 and arXiv:2410.23228",
            says="Around equally spaced tokens on the circle mode k grows at the rate k^2 I_k(beta)/beta "
            "(over I_0(beta) for softmax).",
            setting=_modes_setting,
            start=_almost_equally_spaced,
        ),
        _growth,
        _growth_example,
        _growth_control,
    ),
    Statement(
        Theorem(
            id="cluster-number",
            paper="arXiv:2410.23228",
            says="From almost equally spaced tokens on the circle, the number of the first clusters is the k with the "
            "largest k^2 I_k(beta); proved in the limit of many tokens.",
            setting=_modes_setting,
            start=_almost_equally_spaced,
            proved=False,
        ),
        _number,
        _number_example,
        _number_control,
    ),
    Computation(
        id="noisy-threshold",
        paper="arXiv:2312.10794 with noise; arXiv:2512.01868",
        says="With noise sqrt(2/kappa) dW the uniform density on the circle loses stability to mode k at kappa = "
        "beta / I_k(beta).",
        evaluate=_noisy_threshold,
        example={"beta": 2.0},
        control={"beta": 2.0, "noise": 1.5},
    ),
    Computation(
        id="wendel",
        paper="Wendel 1962; arXiv:2312.10794 Section 6",
        says="n random points of the sphere of R^d lie in one open hemisphere with probability "
        "2^{1-n} sum_{k<d} C(n-1, k).",
        evaluate=_wendel,
        example={"n": 6, "d": 3},
        control={"n": 6, "d": 3, "shift": 0.5},
    ),
)
