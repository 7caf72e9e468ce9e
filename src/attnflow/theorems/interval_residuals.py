"""Residuals of saved states: how far each interval between saved times is from a solution, at three velocities each.

With h the length of an interval, x_k its states and v_k their velocities, the cubic through both ends has the middle
m = (x_k + x_{k+1}) / 2 + h (v_k - v_{k+1}) / 8, and Simpson's rule gives the residual

    x_{k+1} - x_k - h (v_k + 4 v(m) + v_{k+1}) / 6,

which for a solution is of order h^5. A token that is displaced by delta at one saved time changes the residuals of both
neighbouring intervals by about delta.
"""

import numpy as np

from attnflow.integrate.evaluate import velocity
from attnflow.model.dynamics import AbstractDynamics

CLEAR_SHARE = 1e-3  # of the size of tokens, for a residual: the tolerance of most theorems about limits


def doubts(flow: AbstractDynamics, times: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two measures of doubt in each interval over the size of tokens: the largest residual, and the largest excess.

    The excess is |x_{k+1} - x_k| - h max(|v_k|, |v_{k+1}|). Of tokens with lengths only the directions are measured, so
    that their residuals are infinite: no interval is clear.
    """
    places = states / np.linalg.norm(states, axis=-1, keepdims=True) if flow.is_on_sphere else states
    velocities = _velocities(flow, times, states if flow.has_radii else places)
    h, moves, sizes = np.diff(times)[:, None, None], np.diff(places, axis=0), _sizes(states)
    with np.errstate(over="ignore", invalid="ignore"):
        speeds = np.linalg.norm(velocities, axis=-1)
        excesses = np.linalg.norm(moves, axis=-1) - h[..., 0] * np.maximum(speeds[1:], speeds[:-1])
        excesses = excesses.max(axis=1) / sizes
        if flow.has_radii:
            return np.full(len(moves), np.inf), excesses
        middles = (places[1:] + places[:-1]) / 2 + h * (velocities[:-1] - velocities[1:]) / 8
        inner = _velocities(flow, (times[1:] + times[:-1]) / 2, _on_space(flow, middles))
        residuals = moves - h * (velocities[1:] + 4 * inner + velocities[:-1]) / 6
        return np.linalg.norm(residuals, axis=-1).max(axis=1) / sizes, excesses


def _velocities(flow: AbstractDynamics, times: np.ndarray, states: np.ndarray) -> np.ndarray:
    """The velocities of all states; NaN where a state is not finite."""
    is_finite = np.isfinite(states).all(axis=(1, 2))
    found = np.full(states.shape, np.nan)
    for index in np.flatnonzero(is_finite):
        found[index] = velocity(flow, states[index], float(times[index]))
    return found


def _on_space(flow: AbstractDynamics, states: np.ndarray) -> np.ndarray:
    if not flow.is_on_sphere:
        return states
    lengths = np.linalg.norm(states, axis=-1, keepdims=True)
    return states / np.where(lengths > 0, lengths, np.nan)


def _sizes(states: np.ndarray) -> np.ndarray:
    """The largest coordinate at both ends of each interval, 1 where all are zero."""
    largest = np.abs(states).max(axis=(1, 2))
    both = np.maximum(largest[1:], largest[:-1])
    return np.where(both > 0, both, 1.0)
