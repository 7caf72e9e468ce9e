"""Notes on runs with noise whose steps are long for the flow.

Steps under noise are fixed, and no error controls them. A step h of a flow that pulls tokens together at the rate r has
a relative error of the order of (h r)^2 / 4 in the spread that noise keeps up, as Heun's method for x' = -r x with
noise, and of h r where straight steps leave the sphere. Measured for 200 tokens on the circle under unnormalised
attention, beta = 4, kappa = 0.5, r = 39, where the law of infinitely many tokens has the order R = 0.929: with straight
steps 1 - R is too small by 43, 25 and 15 % for h = 0.01, 0.005 and 0.0025, and right to 2 % for 0.001; with geodesic
ones it is right to 2 % for h = 0.01, h r = 0.4. On S^2 it was too large by 9 % for h r = 0.8, and right to 2 % for 0.4.
"""

import math

import numpy as np
import xarray as xr

from attnflow.integrate.evaluate import velocity
from attnflow.model.dynamics import AbstractDynamics
from attnflow.solvers.base import AbstractSolver
from attnflow.solvers.fixed_step import AbstractFixedStep, StochasticHeun

LARGE_ERROR, SMALL_ERROR = 0.1, 0.05  # the share from which a run has a note, and the one of the steps it advises
DIFFERENCE = 1e-6  # of positions, over their size: the square root of rounding, with a margin
ITERATIONS = 12  # of the power method; the rate is needed to a tenth
MAX_TOKENS = 2000  # for which velocities are computed again


def noise_notes(flow: AbstractDynamics, solver: AbstractSolver, run: xr.Dataset) -> list[str]:
    """A sentence if steps are long for the flow at the end of the (first) run; most runs have none."""
    is_small = run.sizes["token"] <= MAX_TOKENS
    if flow.noise is None or flow.has_radii or not is_small or not isinstance(solver, AbstractFixedStep):
        return []
    one = run.isel(run=0) if "run" in run.dims else run
    tokens, step = one.final_tokens.values.astype(float), float(solver.step)
    if not np.all(np.isfinite(tokens)):
        return []
    rate = fastest_rate(flow, tokens, float(one.final_time))
    is_straight = flow.is_on_sphere and not (isinstance(solver, StochasticHeun) and solver.geodesic)
    error = step * rate if is_straight else (step * rate) ** 2 / 4
    if not error > LARGE_ERROR:
        return []
    advised = (SMALL_ERROR if is_straight else math.sqrt(4 * SMALL_ERROR)) / rate
    return [
        f"Steps of {step:g} are long for this flow, whose fastest rate at the end is about {rate:.2g}: the spread of "
        f"tokens under noise may err by a share of about {error:.1g}. "
        f"Take steps of {advised:.2g} or less."
    ]


def fastest_rate(flow: AbstractDynamics, tokens: np.ndarray, time: float = 0.0) -> float:
    """The largest modulus of an eigenvalue of the Jacobian of the velocity, to about a tenth, by the power method."""
    direction, still = np.random.default_rng(0).standard_normal(tokens.shape), velocity(flow, tokens, time)
    length, rate = DIFFERENCE * (float(np.linalg.norm(tokens)) or 1.0), 0.0
    for _ in range(ITERATIONS):
        direction = _tangent(flow, tokens, direction)
        direction *= length / (float(np.linalg.norm(direction)) or 1.0)
        direction = velocity(flow, _moved(flow, tokens, direction), time) - still
        rate = float(np.linalg.norm(_tangent(flow, tokens, direction))) / length
    return rate


def _tangent(flow: AbstractDynamics, tokens: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    if not flow.is_on_sphere:
        return vectors
    return vectors - np.sum(vectors * tokens, axis=-1, keepdims=True) * tokens


def _moved(flow: AbstractDynamics, tokens: np.ndarray, direction: np.ndarray) -> np.ndarray:
    moved = tokens + direction
    return moved / np.linalg.norm(moved, axis=-1, keepdims=True) if flow.is_on_sphere else moved
