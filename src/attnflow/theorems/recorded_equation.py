"""Whether the saved tokens of a run follow its flow between all saved times.

A theorem is about solutions of an equation; tokens that do not solve it say nothing about the theorem. Every interval
between saved times is compared with the flow, in three steps of rising cost. By Simpson's rule along a cubic through
both ends (`interval_residuals`) most intervals agree to a thousandth of the size of the tokens. The others are
integrated again to a coarse tolerance. Intervals that still disagree, the last one and the most doubtful ones are
integrated again with the recorded solver, which decides. Tokens of `stream` are also compared with the recorded paths.
"""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from attnflow._common.precision import cast, double
from attnflow.analyse.snapshots import tokens_of
from attnflow.integrate.simulate import simulate
from attnflow.model.dynamics import AbstractDynamics, State
from attnflow.results.provenance import ResultKind, flow_of, kind_of, solver_of
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.layers import Layers
from attnflow.solvers.token_by_token import TokenByToken
from attnflow.theorems.interval_residuals import CLEAR_SHARE, doubts
from attnflow.theorems.recorded_merges import merges_follow
from attnflow.theorems.verdict import Agreement, Hypothesis, at_most, is_true

MAX_INTERVALS = 6  # integrated again with the recorded solver although nothing speaks against them
STEPS_OF_ERROR = 100.0  # errors of one step that an interval may accumulate, before the growth of perturbations
COARSE_TOLERANCE = 1e-5  # of a step; an integration takes a quarter of the steps that it takes at 1e-8
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
    if kind_of(run) is ResultKind.STREAM and not (same := _on_recorded_paths(run)).holds:
        return Agreement(same)
    solver = solver_of(run)
    exact, error = _integrator(flow, run, solver), _error_of_step(run)
    coarse = _integrator(flow, run, coarser) if (coarser := _coarser(solver)) is not None else exact
    return _compared(_Comparison(flow, path, exact, coarse, error))


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


@dataclasses.dataclass(frozen=True)
class _Comparison:
    """The states of a run, two ways to integrate an interval again, and the error of a step, relative and absolute."""

    flow: AbstractDynamics
    path: _Path
    exact: Integrator
    coarse: Integrator
    error: tuple[float, float]

    def share_of_tolerance(self, index: int) -> float:
        """The difference of saved and integrated tokens over its tolerance; infinity where nothing is decided, or NaN.

        The tolerance is a hundred errors of a step, times the growth of a small perturbation of each token over the
        interval where that is above one. Tokens whose perturbations grow too much decide nothing.
        """
        first, saved, size = self._ends(index)
        relative, absolute = self.error
        errors, largest = STEPS_OF_ERROR * (relative * size + absolute), LARGEST_TOLERANCE * size
        span = float(self.path.times[index]), float(self.path.times[index + 1])
        reached = self.exact(first, *span)
        differences = np.abs(reached - saved).max(axis=1)
        if differences.max() <= (tolerance := min(errors, largest)):
            return float(differences.max()) / tolerance
        # A displacement of the size of an error; its share along the direction of largest growth is about 1/sqrt(n d).
        shift = max(relative, 1e-12) * size * np.random.default_rng(0).normal(size=first.shape)
        displaced = _on_space(self.flow, first + shift)
        moves = np.abs(self.exact(displaced, *span) - reached).max(axis=1)
        growths = np.sqrt(first.size) * moves / np.abs(displaced - first).max()
        tolerances = errors * np.maximum(growths, 1.0)
        decides = tolerances <= largest  # not where it is NaN
        return float((differences / tolerances)[decides].max()) if decides.any() else np.inf

    def is_clear(self, index: int) -> bool:
        """Whether a coarse integration ends within a thousandth of the size of the tokens from the saved ones."""
        first, saved, size = self._ends(index)
        reached = self.coarse(first, float(self.path.times[index]), float(self.path.times[index + 1]))
        return bool(np.abs(reached - saved).max() <= CLEAR_SHARE * size)

    def _ends(self, index: int) -> tuple[np.ndarray, np.ndarray, float]:
        first, saved = (_on_space(self.flow, self.path.states[index + end]) for end in (0, 1))
        return first, saved, self.path.size(index)


def _compared(comparison: _Comparison) -> Agreement:
    """The worst agreement of the intervals that are integrated again with the recorded solver."""
    path = comparison.path
    count = len(path.times) - 1
    says = "the saved tokens follow the flow between saved times"
    if count < 1:
        return Agreement(is_true(says, True))
    found = doubts(comparison.flow, path.times, path.states)
    doubtful = [int(index) for pair in zip(*map(_largest_first, found), strict=True) for index in pair]
    wanted = int(np.clip(count // 4, min(count, 2), MAX_INTERVALS))
    tried: dict[int, float] = {}
    for index in list(dict.fromkeys([*doubtful[:2], count - 1, *doubtful]))[: 2 * wanted]:
        tried[index] = comparison.share_of_tolerance(index)
        if _worst(tried) > 1 or np.isfinite(list(tried.values())).sum() == wanted:
            break
    unclear = np.flatnonzero(~(found[0] <= CLEAR_SHARE))  # NaN is unclear
    for index in map(int, unclear):
        # Where many intervals decide nothing, as near a boundary between basins, further ones would not either.
        if _worst(tried) > 1 or np.isinf(list(tried.values())).sum() > MAX_INTERVALS:
            break
        if index not in tried and not comparison.is_clear(index):
            tried[index] = comparison.share_of_tolerance(index)
    if not np.isfinite(list(tried.values())).any():
        return Agreement(
            is_true(says, True),
            "saved times are too far apart to compare tokens with the flow: small differences grow too much between",
        )
    return Agreement(at_most(says, _worst(tried), 1.0, "times the tolerance of the comparison"))


def _worst(shares: dict[int, float]) -> float:
    """The largest share that is finite: others decide nothing."""
    return max((share for share in shares.values() if np.isfinite(share)), default=0.0)


def _largest_first(values: np.ndarray) -> np.ndarray:
    return np.argsort(-np.nan_to_num(values, nan=np.inf), kind="stable")


def _on_recorded_paths(run: xr.Dataset) -> Hypothesis:
    """Whether the saved tokens of a run of `stream` lie on the paths that it records."""
    from attnflow.streaming.stream_dataset import paths_of

    saved = tokens_of(run).values
    places = paths_of(run).at(run.time.values)
    if flow_of(run).is_on_sphere:
        places = places / np.linalg.norm(places, axis=-1, keepdims=True)
    apart = float(np.abs(places - saved).max())
    return at_most("the saved tokens lie on the recorded paths", apart, 1e-9 * (float(np.abs(saved).max()) or 1.0))


def _error_of_step(run: xr.Dataset) -> tuple[float, float]:
    """The relative and absolute error of a step when it is repeated with the recorded solver."""
    solver = solver_of(run)
    if isinstance(solver, Adaptive | TokenByToken):
        return float(solver.rtol), float(solver.atol)
    # Steps of fixed length and layers are repeated up to rounding.
    return 100 * float(np.finfo(run.attrs["dtype"]).eps), 0.0


def _coarser(solver: Any) -> Any:
    """The solver with a coarse tolerance; None where it has none, or is as coarse."""
    if isinstance(solver, Adaptive) and float(solver.rtol) < COARSE_TOLERANCE:
        return dataclasses.replace(solver, rtol=COARSE_TOLERANCE, atol=max(float(solver.atol), COARSE_TOLERANCE / 100))
    if isinstance(solver, TokenByToken) and solver.tolerance < COARSE_TOLERANCE:
        return TokenByToken(COARSE_TOLERANCE)
    return None


def _integrator(flow: AbstractDynamics, run: xr.Dataset, solver: Any) -> Integrator:
    """The integration of an interval with a solver."""
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
