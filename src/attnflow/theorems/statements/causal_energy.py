"""Causal attention on the circle as a sequence of gradient flows (arXiv:2411.04990, Lemma 5.3).

Token k descends an energy E_k of its own, given the tokens before it. There is no energy of all tokens together: E_k
moves with the tokens before k, and they do not feel token k.
"""

import dataclasses

import numpy as np
import xarray as xr
from scipy.interpolate import CubicSpline

from attnflow.model import initial, masks
from attnflow.model.attention import Softmax
from attnflow.model.dynamics import AbstractDynamics
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.model.masks import Causal
from attnflow.theorems import hypotheses as given
from attnflow.theorems.measurements import present
from attnflow.theorems.statement import Instance, Statement
from attnflow.theorems.theorem import Theorem
from attnflow.theorems.verdict import Hypothesis, Measurement, is_true

LARGEST_PREFIX = 200  # tokens measured; the first tokens of a causal flow do not depend on the later ones
TURN_TOLERANCE = 1e-5  # radians: a thousand times the relative tolerance of one step of the default solver


def prefix_energy(angles: np.ndarray, own: np.ndarray, beta: float, masses: np.ndarray) -> np.ndarray:
    """E_k of every token k at the angle `own[k]`, the tokens before it being at `angles`.

    E_k = -(1/beta) sum_{j<k} m_j e^{beta (cos(phi_k - phi_j) - 1)}; frozen tokens are among the j, with their masses.
    """
    pairs = np.exp(beta * (np.cos(own[:, None] - angles) - 1))
    return -np.tril(pairs, -1) @ masses / beta


def descent_velocity(angles: np.ndarray, beta: float, masses: np.ndarray) -> np.ndarray:
    """-Z_k^{-1} dE_k/dphi_k of every token, where Z_k = sum_{j<=k} m_j e^{beta (cos(phi_k - phi_j) - 1)}.

    The derivative is that of `prefix_energy` by a step h along the imaginary axis, Im E(phi + ih)/h, which has no
    cancellation: its error is h^2 and rounding.
    """
    step = 1e-20
    slope = np.imag(prefix_energy(angles, angles + 1j * step, beta, masses)) / step
    return -slope / (masses - beta * prefix_energy(angles, angles, beta, masses))


def _setting(flow: AbstractDynamics) -> tuple[Hypothesis, ...]:
    is_single = len(flow.heads) == 1 and isinstance(flow.heads[0], Head)
    return (
        given.on_the_sphere(flow),
        is_true("one head with constant weights; no noise, no MLP", is_single and flow.mlp is None and not flow.noise),
        given.attention_is(flow, Softmax),
        given.mask_is(flow, Causal),
        given.dimension_is(flow, 2),
        given.scores_are_inner_products(flow),
        given.value_is(flow),
        given.beta_above(flow, 0.0),
    )


def _start(flow: AbstractDynamics, tokens: np.ndarray) -> tuple[Hypothesis, ...]:
    del flow
    return (given.at_least_two_tokens(tokens),)


def _measure(flow: AbstractDynamics, run: xr.Dataset) -> Measurement:
    times, tokens = present(run)
    angles = np.unwrap(np.arctan2(tokens[..., 1], tokens[..., 0]), axis=0)[:, :LARGEST_PREFIX]
    quantity = "largest difference, in radians, between a token's turn and the integral of its descent"
    why = "a thousand times the relative tolerance of one step of the default solver"
    if len(times) < 9:
        text = f"the run holds {len(times)} snapshots, and nine are needed to integrate the descent"
        return Measurement(quantity, np.nan, TURN_TOLERANCE, why, open=text)
    count = angles.shape[1]
    masses = np.ones(count) if flow.masses is None else np.asarray(flow.masses, dtype=float)[:count]
    frozen = np.zeros(count, bool) if flow.frozen is None else np.asarray(flow.frozen)[:count]
    descent = np.stack([descent_velocity(snapshot, given.beta_of(flow), masses) for snapshot in angles])
    descent[:, frozen] = 0.0
    # The integral of the saved velocities by cubic splines; leaving out every second time bounds its error.
    integral = CubicSpline(times, descent).antiderivative()(times)
    coarse = CubicSpline(times[::2], descent[::2]).antiderivative()(times[::2])
    resolution = float(np.abs(integral[::2] - coarse).max())
    is_resolved = resolution <= 10 * TURN_TOLERANCE  # leaving out every second time multiplies a cubic's error by 16
    return Measurement(
        quantity,
        float(np.abs(angles - angles[0] - integral).max()),
        TURN_TOLERANCE,
        why,
        unsettled="" if is_resolved else f"saved times are too far apart: the integral errs by up to {resolution:.1g}",
    )


def _example() -> Instance:
    """24 tokens at beta = 4, the second of which is frozen and weighs as much as three."""
    second = np.arange(24) == 1
    flow = SphereAttention(
        Head.identity(2), Softmax(4.0), masks.causal, frozen=second, masses=np.where(second, 3.0, 1.0)
    )
    return Instance(flow, initial.circle(24, rng=0), np.linspace(0.0, 20.0, 401))


def _control() -> Instance:
    flow = dataclasses.replace(_example().flow, mask=masks.full)
    return dataclasses.replace(_example(), flow=flow)


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        Theorem(
            id="sequential-gradient",
            paper="arXiv:2411.04990 Lemma 5.3, with the factor 1/beta",
            says="Each token of causal attention on the circle descends an energy of its own, given the tokens before "
            "it: phi_k' = -Z_k^{-1} dE_k/dphi_k with E_k = -(1/beta) sum_{j<k} e^{beta (cos(phi_k - phi_j) - 1)}.",
            setting=_setting,
            start=_start,
        ),
        _measure,
        _example,
        _control,
    ),
)
