"""Whether the saved tokens of a run follow its flow, by integrating again over some intervals between saved times.

A theorem is about solutions of an equation; tokens that do not solve it say nothing about the theorem. Tried are the
last interval and the most doubtful ones: those in which the trapezoidal rule x_{k+1} - x_k = h (v_k + v_{k+1}) / 2 is
farthest from true, and those in which a token is faster than at both ends. They are at most six, and at most a quarter
of all unless there are fewer than eight, so that the cost stays below that of the run. Each is integrated from its
first saved state with the recorded solver.
"""

import dataclasses
import json
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from attnflow._common.precision import cast, double
from attnflow.analyse.snapshots import tokens_of
from attnflow.integrate.evaluate import velocity
from attnflow.integrate.simulate import simulate
from attnflow.model.dynamics import AbstractDynamics, State
from attnflow.results.provenance import ResultKind, kind_of, solver_of
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.layers import Layers
from attnflow.solvers.token_by_token import TokenByToken
from attnflow.theorems.recorded_merges import merges_follow
from attnflow.theorems.verdict import Agreement, Hypothesis, at_most, is_true

MAX_INTERVALS = 6  # integrated again
STEPS_OF_ERROR = 100.0  # errors of one step that an interval may accumulate, before the growth of perturbations
LARGEST_TOLERANCE = 0.01  # over the size of tokens; where perturbations grow to more, an interval decides nothing


def agreement(flow: AbstractDynamics, run: xr.Dataset) -> Agreement:
    """Whether the saved tokens of one run follow `flow`, and by what margin."""
    if flow.dimension != run.sizes["coordinate"]:
        difference = abs(flow.dimension - run.sizes["coordinate"])
        return Agreement(at_most("the flow and the tokens have the same dimension", difference, 0, "in the dimension"))
    if kind_of(run) is ResultKind.COALESCENCE:
        return merges_follow(flow, run)
    if flow.noise is not None:  # paths are random, and no statement is about one of them
        return Agreement(is_true("noise excluded from the comparison with the flow", True))
    path = _path(flow, run)
    if isinstance(path, Hypothesis):
        return Agreement(path)
    return _compared(flow, path, _integrator(flow, run), _error_of_step(run))


@dataclasses.dataclass(frozen=True)
class _Path:
    """Times and states (times, n, d) of a run; where tokens have lengths, states are lengths times directions."""

    times: np.ndarray
    states: np.ndarray

    def size(self, index: int) -> float:
        """The largest coordinate at both ends of an interval."""
        return float(np.abs(self.states[index : index + 2]).max()) or 1.0


Integrator = Callable[[np.ndarray, float, float], np.ndarray]
"""The state (n, d) at the second time, from a state at the first."""


def _path(flow: AbstractDynamics, run: xr.Dataset) -> _Path | Hypothesis:
    """The first tokens, the saved tokens that are finite, and the last tokens; or the reason why they are no path."""
    times = np.asarray(run.time.values, dtype=float)
    if not (np.all(np.isfinite(times)) and np.all(np.diff(times) > 0)):
        return is_true("increasing saved times", False)
    states = tokens_of(run).values.astype(float)
    if flow.has_radii and "radius" in run:
        states = states * run.radius.values[..., None]
    is_known = np.isfinite(states).all(axis=(1, 2))
    times, states = times[is_known], states[is_known]
    last = run.final_tokens.values.astype(float)
    if flow.has_radii and "final_radius" in run:
        last = last * run.final_radius.values[..., None]
    start = json.loads(run.attrs["requested_times"])[0] if "requested_times" in run.attrs else times[0]
    for time, state, name in (
        (float(start), run.initial_tokens.values.astype(float), "first"),
        (float(run.final_time), last, "last"),
    ):
        place = int(np.searchsorted(times, time))
        if place < len(times) and times[place] == time:
            apart = float(np.abs(_on_space(flow, states[place]) - _on_space(flow, state)).max())
            same = at_most(f"the {name} tokens are those at t = {time:g}", apart, 1e-5 * (np.abs(state).max() or 1.0))
            if not same.holds:
                return same
        elif np.all(np.isfinite(state)):
            times, states = np.insert(times, place, time), np.insert(states, place, state, axis=0)
    return _Path(times, states)


def _on_space(flow: AbstractDynamics, state: np.ndarray) -> np.ndarray:
    """The state with tokens of length one where they have no lengths of their own."""
    return state / np.linalg.norm(state, axis=-1, keepdims=True) if flow.is_on_sphere and not flow.has_radii else state


def _compared(flow: AbstractDynamics, path: _Path, integrate: Integrator, error: tuple[float, float]) -> Agreement:
    """The worst agreement of the intervals tried; `error` is that of a step, relative and absolute."""
    count = len(path.times) - 1
    says = "the saved tokens follow the flow between saved times"
    if count < 1:
        return Agreement(is_true(says, True))
    wanted = int(np.clip(count // 4, min(count, 2), MAX_INTERVALS))
    doubtful = _most_doubtful_first(flow, path)
    candidates = list(dict.fromkeys([*doubtful[:2], count - 1, *doubtful]))
    worst, decided = 0.0, 0
    for index in candidates[: 2 * wanted]:
        share = _share_of_tolerance(flow, path, index, integrate, error)
        if np.isfinite(share):
            worst, decided = max(worst, share), decided + 1
        if worst > 1 or decided == wanted:
            break
    if not decided:
        return Agreement(
            is_true(says, True),
            "saved times are too far apart to compare tokens with the flow: small differences grow too much between",
        )
    return Agreement(at_most(says, worst, 1.0, "times the tolerance of the comparison"))


def _most_doubtful_first(flow: AbstractDynamics, path: _Path) -> list[int]:
    """The intervals in turn by two measures of doubt over the size of tokens, the largest first.

    They are |x_{k+1} - x_k - h (v_k + v_{k+1}) / 2| and |x_{k+1} - x_k| - h max(|v_k|, |v_{k+1}|).
    """
    lengths = np.linalg.norm(path.states, axis=-1, keepdims=True) if flow.is_on_sphere else np.ones(())
    places = path.states / lengths
    pairs = zip(path.times, path.states if flow.has_radii else places, strict=True)
    velocities = np.stack([velocity(flow, state, time) for time, state in pairs])
    durations, moves = np.diff(path.times)[:, None, None], np.diff(places, axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        residuals = np.linalg.norm(moves - durations * (velocities[1:] + velocities[:-1]) / 2, axis=-1)
        speeds = np.linalg.norm(velocities, axis=-1)
        excesses = np.linalg.norm(moves, axis=-1) - durations[..., 0] * np.maximum(speeds[1:], speeds[:-1])
    sizes = np.array([path.size(index) for index in range(len(moves))])
    orders = [_largest_first(doubts.max(axis=1) / sizes) for doubts in (residuals, excesses)]
    return [int(index) for pair in zip(*orders, strict=True) for index in pair]


def _largest_first(values: np.ndarray) -> np.ndarray:
    return np.argsort(-np.nan_to_num(values, nan=np.inf), kind="stable")


def _share_of_tolerance(
    flow: AbstractDynamics, path: _Path, index: int, integrate: Integrator, error: tuple[float, float]
) -> float:
    """The difference of saved and integrated tokens over its tolerance; infinity where nothing is decided, or NaN.

    The tolerance is a hundred errors of a step, times the growth of a small perturbation over the interval where that
    is above one.
    """
    start, end = float(path.times[index]), float(path.times[index + 1])
    first, saved, size = _on_space(flow, path.states[index]), _on_space(flow, path.states[index + 1]), path.size(index)
    tolerance = min(STEPS_OF_ERROR * (error[0] * size + error[1]), LARGEST_TOLERANCE * size)
    reached = integrate(first, start, end)
    difference = float(np.abs(reached - saved).max())
    if difference <= tolerance:
        return difference / tolerance
    # A displacement of the size of an error; its share along the direction of largest growth is about 1 / sqrt(n d).
    shift = max(error[0], 1e-12) * size * np.random.default_rng(0).normal(size=first.shape)
    displaced = _on_space(flow, first + shift)
    moved = np.abs(integrate(displaced, start, end) - reached).max()
    growth = float(np.sqrt(first.size) * moved / np.abs(displaced - first).max())
    tolerance = STEPS_OF_ERROR * (error[0] * size + error[1]) * max(growth, 1.0)
    return difference / tolerance if tolerance <= LARGEST_TOLERANCE * size else np.inf


def _error_of_step(run: xr.Dataset) -> tuple[float, float]:
    """The relative and absolute error of a step when it is repeated with the recorded solver."""
    solver = solver_of(run)
    if isinstance(solver, Adaptive | TokenByToken):
        return float(solver.rtol), float(solver.atol)
    # Steps of fixed length and layers are repeated up to rounding.
    return 100 * float(np.finfo(run.attrs["dtype"]).eps), 0.0


def _integrator(flow: AbstractDynamics, run: xr.Dataset) -> Integrator:
    """The integration of an interval with the recorded solver."""
    solver = solver_of(run)
    if isinstance(solver, TokenByToken):
        return _streamed(flow, solver)
    if isinstance(solver, Layers):
        return _layer_by_layer(flow, solver)
    dtype, count = run.attrs["dtype"], len(json.loads(run.attrs["requested_times"]))

    def integrate(state: np.ndarray, start: float, end: float) -> np.ndarray:
        # As many times as the run has, where they do not change the steps: the code compiled for the run then serves.
        is_long = (end - start) / count > 1e-9 * max(abs(start), abs(end))
        times = np.linspace(start, end, count if is_long and not solver.lands_on_times else 2)
        again = simulate(flow, state, times, solver=solver, dtype=dtype, progress=False)
        if float(again.final_time) < end:
            return np.full_like(state, np.nan)
        tokens = again.final_tokens.values.astype(float)
        return tokens * again.final_radius.values[:, None] if flow.has_radii else tokens

    return integrate


def _streamed(flow: AbstractDynamics, solver: TokenByToken) -> Integrator:
    from attnflow.streaming.stream import stream

    def integrate(state: np.ndarray, start: float, end: float) -> np.ndarray:
        return stream(flow, state, [0.0, end - start], tolerance=solver.tolerance, progress=False).final_tokens.values

    return integrate


def _layer_by_layer(flow: AbstractDynamics, solver: Layers) -> Integrator:
    def integrate(state: np.ndarray, start: float, end: float) -> np.ndarray:
        count = round((end - start) / float(solver.step))
        with double():
            moved = jax.tree.map(jnp.asarray, State.of(flow, state))
            for layer in range(count):
                time = start + layer * float(solver.step)
                moved = _one_layer(cast(flow, "float64"), cast(solver, "float64"), jnp.asarray(time), moved)
            tokens = np.asarray(moved.tokens)
            return tokens if moved.radii is None else tokens * np.asarray(moved.radii)[:, None]

    return integrate


@eqx.filter_jit
def _one_layer(flow: AbstractDynamics, solver: Layers, time: jax.Array, state: State) -> State:
    return solver.move(flow, time, state, solver.step, time, rng_key=time)  # layers draw no random numbers
