"""The equations of one head in NumPy, stable at late times, for the limits of long runs.

Nothing is shared with attnflow. In R^d the state is z = e^{-tV} x, which obeys z_i' = V (sum_j A_ij z_j - z_i) with the
weights A of x; on the sphere it is the directions, followed by the lengths where the scheme has some.
"""

import dataclasses
import itertools

import numpy as np
from scipy.integrate import DOP853
from scipy.linalg import expm

MOST_EVALUATIONS = 30_000  # of a rate: a few seconds; limits of longer runs stay undecided
HARDMAX_STEP = 0.02  # over 1/c: each token then moves by 2 % of the way to its best match


@dataclasses.dataclass(frozen=True)
class Equation:
    """One head with V, B = beta Q^T K and a visible matrix, on the sphere or in R^d."""

    value: np.ndarray
    scores: np.ndarray
    visible: np.ndarray
    on_sphere: bool
    rule: str = "softmax"
    scheme: str = "post"
    scheme_number: float = 1.0
    """alpha of nGPT, or the time at which Mix-LN turns from Post-LN to Pre-LN."""

    @property
    def has_lengths(self) -> bool:
        """Whether the state holds lengths."""
        return self.scheme in ("pre", "mix", "peri")

    def weights(self, x: np.ndarray) -> np.ndarray:
        """A (n, n) of tokens x, of any size."""
        logits = np.where(self.visible, x @ self.scores @ x.T, -np.inf)
        if self.rule == "unnormalised":
            return np.exp(logits) / len(x)
        shifted = logits - logits.max(axis=1, keepdims=True)
        kept = (shifted >= -1e-9 * np.abs(logits[np.isfinite(logits)]).max()) if self.rule == "hardmax" else None
        matrix = np.exp(shifted) if kept is None else kept.astype(float)
        return matrix / matrix.sum(axis=1, keepdims=True)

    def frame(self, time: float) -> np.ndarray:
        """e^{tV}."""
        return expm(time * self.value)

    def weights_at(self, time: float, z: np.ndarray) -> np.ndarray:
        """A of the state z of a flow in R^d."""
        return self.weights(z @ self.frame(time).T)

    def rate(self, time: float, state: np.ndarray) -> np.ndarray:
        """d(state)/dt for a state (n, d), or (n, d + 1) with lengths in the last column."""
        if not self.on_sphere:
            return (self.weights_at(time, state) @ state - state) @ self.value.T
        x = state[:, : len(self.value)]
        sent = self.weights(x) @ x @ self.value.T
        radial = np.sum(sent * x, axis=1)
        tangent = sent - radial[:, None] * x
        size = np.linalg.norm(sent, axis=1)
        if self.scheme == "ngpt":
            return tangent * (self.scheme_number / size)[:, None]
        if self.scheme == "sqrt":
            return tangent / np.sqrt(time + 1)
        if not self.has_lengths:
            return tangent
        lengths = state[:, -1]
        if self.scheme == "mix" and time < self.scheme_number:
            return np.c_[tangent, np.zeros(len(x))]
        if self.scheme == "peri":
            return np.c_[tangent / (lengths * size)[:, None], radial / size]
        return np.c_[tangent / lengths[:, None], radial]


def solve(equation: Equation, state: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The states at `times`, NaN from where the solver fails or has taken too long on."""
    if equation.rule == "hardmax":
        return _towards_best_matches(equation, state, times)
    steps, done = (
        DOP853(
            lambda time, flat: equation.rate(time, flat.reshape(state.shape)).ravel(),
            times[0],
            state.ravel(),
            times[-1],
            rtol=1e-8,
            atol=1e-10,
        ),
        1,
    )
    states = np.full((len(times), *state.shape), np.nan)
    states[0] = state
    while steps.status == "running" and steps.nfev < MOST_EVALUATIONS:
        steps.step()
        reached = int(np.searchsorted(times, steps.t, side="right"))
        if reached > done:
            states[done:reached] = steps.dense_output()(times[done:reached]).T.reshape(-1, *state.shape)
            done = reached
    return states


def _towards_best_matches(equation: Equation, state: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Exact steps z <- y + e^{-ch} (z - y) for V = c I with best matches y that are kept for a step."""
    growth = equation.value[0, 0]
    step = HARDMAX_STEP / abs(growth)
    states, now = [state], state
    for first, last in itertools.pairwise(times):
        count = max(1, int(np.ceil((last - first) / step)))
        left = np.exp(-growth * (last - first) / count)
        for _ in range(count):
            best = equation.weights(now) @ now  # e^{2ct} is a common factor of all scores
            now = best + left * (now - best)
        states.append(now)
    return np.stack(states)
