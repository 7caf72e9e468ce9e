"""Whether the saved tokens of a run follow its flow between all saved times.

A theorem is about solutions of an equation; tokens that do not solve it say nothing about the theorem. The run is
integrated again from its saved states, and every state is compared with the integration from the one before it, or from
one a few saved times before where the steps of the run pass several. A token that is displaced at one saved time by
more than a thousandth of the size of the tokens (their largest coordinate) is found, unless small differences grow a
thousandfold up to that time; then it is found unless the displacement is along the differences that grow. Three
intervals, with `is_thorough` all, are also integrated with the recorded solver, where a hundred errors of its steps are
found. For solvers with a tolerance above 1e-5 a hundred errors of a step are found everywhere.

The first integration has a tolerance of 1e-5 and takes about a quarter of the steps of the run and two more for each
saved time, or about all of its steps where rounding decides them. Intervals that disagree are integrated again, worst
first, in at most as many steps as the run attempted and a thousand more. Those left then, and those where differences
grow too much in all directions, are counted as undecided. Tokens of `stream` are also compared with the recorded paths.
"""

import dataclasses
import json

import numpy as np
import xarray as xr

from attnflow.analyse.snapshots import tokens_of
from attnflow.model.dynamics import AbstractDynamics
from attnflow.results.provenance import ResultKind, flow_of, kind_of
from attnflow.theorems.interval_integration import IntervalIntegrator, attempts_of, coarser, recorded
from attnflow.theorems.recorded_merges import merges_follow
from attnflow.theorems.verdict import Agreement, Hypothesis, at_most, is_true

STEPS_OF_ERROR = 100.0  # errors of one step that an interval may accumulate, before the growth of perturbations
COARSE_SHARE = 1e-3  # of the size of tokens, that an interval may differ: the tolerance of most theorems about limits
LARGEST_SHARE = 0.01  # of the size of tokens; a token that may differ by more in every direction decides nothing
MAX_DISPLACED = 4  # displaced first states of an interval: as many directions of growth are seen
GROWN_SHARE = 10.0  # times the growth of a displacement of a hundredth of the tolerance, that an interval may differ


def agreement(
    flow: AbstractDynamics, run: xr.Dataset, is_thorough: bool = False, first_pass: np.ndarray | None = None
) -> Agreement:
    """Whether the saved tokens of one run follow `flow`, and by what margin.

    `first_pass` holds the states that the first integration reaches, where they are known (`first_passes`).
    """
    if flow.dimension != run.sizes["coordinate"]:
        difference = abs(flow.dimension - run.sizes["coordinate"])
        return Agreement(at_most("the flow and the tokens have the same dimension", difference, 0, "in the dimension"))
    if kind_of(run) is ResultKind.COALESCENCE:
        return merges_follow(flow, run)
    if flow.noise is not None:  # paths are random, and no statement is about one of them
        return Agreement(is_true("noise excluded from the comparison with the flow", True))
    path = path_of(flow, run)
    if isinstance(path, Hypothesis):
        return Agreement(path)
    if kind_of(run) is ResultKind.STREAM and not (same := _on_recorded_paths(run)).holds:
        return Agreement(same)
    exact = recorded(flow, run)
    precise = _Level(exact, STEPS_OF_ERROR * exact.rtol, STEPS_OF_ERROR * exact.atol)
    coarse = None if is_thorough else coarser(flow, run)
    first = precise if coarse is None else _Level(coarse, COARSE_SHARE, 0.0)
    known = None if is_thorough else first_pass
    return _compared(_Comparison(flow, path, attempts_of(run)), first, precise, known)


@dataclasses.dataclass(frozen=True)
class Path:
    """Times and states (times, n, d) of a run; where tokens have lengths, states are lengths times directions."""

    times: np.ndarray
    states: np.ndarray

    def size(self, index: int) -> float:
        """The largest coordinate at both ends of an interval."""
        return float(np.abs(self.states[index : index + 2]).max()) or 1.0


def path_of(flow: AbstractDynamics, run: xr.Dataset) -> Path | Hypothesis:
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
    return Path(times, states)


def stride_of(path: Path, attempts: int) -> int:
    """The number of intervals after which the first integration of a run begins anew at a saved state."""
    return max(1, -(-2 * (len(path.times) - 1) // max(attempts, 1)))


def _on_space(flow: AbstractDynamics, state: np.ndarray) -> np.ndarray:
    """The state with tokens of length one where they have no lengths of their own."""
    return state / np.linalg.norm(state, axis=-1, keepdims=True) if flow.is_on_sphere and not flow.has_radii else state


@dataclasses.dataclass(frozen=True)
class _Level:
    """A way to integrate again, and by how much an interval may differ: relative to the size of tokens, and more."""

    integrator: IntervalIntegrator
    relative: float
    absolute: float

    def allowed(self, size: float) -> float:
        """The allowed difference for tokens of a size, where perturbations do not grow."""
        return self.relative * size + self.absolute


@dataclasses.dataclass(frozen=True)
class _Outcome:
    """The difference of an interval over what is allowed; infinity where it is undecided; and the attempted steps."""

    share: float
    attempts: int


@dataclasses.dataclass(frozen=True)
class _Comparison:
    """The flow, the states of a run and the number of steps that it attempted."""

    flow: AbstractDynamics
    path: Path
    attempts: int

    def first_pass(self, level: _Level) -> np.ndarray:
        """The states at the ends of all intervals in one pass over the run, NaN where they were not reached.

        The pass begins anew at saved states, at most half as often as the run attempted a step.
        """
        count, stride = len(self.path.times) - 1, stride_of(self.path, self.attempts)
        parts = [slice(begun, min(begun + stride, count) + 1) for begun in range(0, count, stride)]
        states, times = self.path.states, self.path.times
        return np.concatenate([level.integrator.integrate(states[part][0], times[part]).states for part in parts])

    def differences(self, level: _Level, reached: np.ndarray) -> np.ndarray:
        """For each interval the largest difference at its end over what is allowed; infinity for a missing state."""
        found = [
            _lengths(_on_space(self.flow, state) - self._end(index)).max() / level.allowed(self.path.size(index))
            for index, state in enumerate(reached)
        ]
        return np.nan_to_num(found, nan=np.inf)

    def outcome(self, index: int, level: _Level) -> _Outcome:
        """The difference D of saved and integrated tokens at the end of an interval over what is allowed.

        Where it is more than the allowed difference a, displacements of a / 100 of all tokens are integrated as well.
        With the changes r of a token at the end of the interval that they cause, what is allowed for the token is the
        ellipsoid D^T C^{-1} D <= 1 with C = a^2 I + (10)^2 sum r r^T: differences that grow excuse their own direction.
        """
        first, size = _on_space(self.flow, self.path.states[index]), self.path.size(index)
        allowed, rng = level.allowed(size), np.random.default_rng(index)
        reached, attempts = self._integrated(level, first, index)
        difference = reached - self._end(index)
        covariances = np.broadcast_to(allowed**2 * np.eye(first.shape[1]), (len(first), *[first.shape[1]] * 2))
        shares = _lengths(difference) / allowed
        for _ in range(MAX_DISPLACED):
            if not np.all(np.isfinite(shares)) or shares.max() <= 1:
                break
            displaced = _on_space(self.flow, first + allowed / 100 * rng.normal(size=first.shape))
            moved, more = self._integrated(level, displaced, index)
            changes = GROWN_SHARE * (moved - reached)
            covariances = covariances + changes[:, :, None] * changes[:, None, :]
            shares, attempts = _ellipsoid_shares(difference, covariances), attempts + more
        if not np.all(np.isfinite(shares)):
            return _Outcome(np.inf, attempts)
        decides = np.sqrt(np.linalg.eigvalsh(covariances)[:, 0]) <= LARGEST_SHARE * size
        return _Outcome(float(shares[decides].max()) if decides.any() else np.inf, attempts)

    def _integrated(self, level: _Level, state: np.ndarray, index: int) -> tuple[np.ndarray, int]:
        reached = level.integrator.integrate(state, self.path.times[index : index + 2])
        return _on_space(self.flow, reached.states[0]), reached.attempts

    def _end(self, index: int) -> np.ndarray:
        return _on_space(self.flow, self.path.states[index + 1])


def _lengths(vectors: np.ndarray) -> np.ndarray:
    return np.linalg.norm(vectors, axis=-1)


def _ellipsoid_shares(differences: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """sqrt(D^T C^{-1} D) for each token; NaN where a number is not finite."""
    if not np.all(np.isfinite(covariances)):
        return np.full(len(differences), np.nan)
    scaled = np.linalg.solve(covariances, differences[..., None])[..., 0]
    return np.sqrt(np.einsum("id,id->i", differences, scaled))


def _compared(comparison: _Comparison, first: _Level, precise: _Level, first_pass: np.ndarray | None) -> Agreement:
    """The agreement of all intervals, from a pass over the run and a second look at intervals that differ."""
    count = len(comparison.path.times) - 1
    says = "the saved tokens follow the flow between saved times"
    if count < 1:
        return Agreement(is_true(says, True))
    differences = comparison.differences(first, comparison.first_pass(first) if first_pass is None else first_pass)
    shares, left = np.minimum(differences, 1.0), comparison.attempts + 1000
    worst_first = np.argsort(-differences, kind="stable")
    chosen = dict.fromkeys([*worst_first[:2].tolist(), count - 1])  # of which no share is known so precisely
    for index in [*chosen, *(index for index in worst_first.tolist() if index not in chosen)]:
        if differences[index] <= 1 and index not in chosen:
            break
        if left <= 0:
            shares[index] = np.inf
            continue
        tried = comparison.outcome(index, precise if index in chosen else first)
        left -= tried.attempts
        if np.isfinite(tried.share) and tried.share > 1 and index not in chosen:
            tried = comparison.outcome(index, precise)
        shares[index] = tried.share
        if np.isfinite(tried.share) and tried.share > 1:
            break
    return _agreement(says, shares)


def _agreement(says: str, shares: np.ndarray) -> Agreement:
    is_decided = np.isfinite(shares)
    if not is_decided.any():
        return Agreement(
            is_true(says, True),
            "saved times are too far apart to compare tokens with the flow: small differences grow too much between",
        )
    open_count = int(np.sum(~is_decided))
    says += f" ({open_count} of {len(shares)} intervals undecided)" if open_count else ""
    return Agreement(at_most(says, float(shares[is_decided].max()), 1.0, "times the tolerance of the comparison"))


def _on_recorded_paths(run: xr.Dataset) -> Hypothesis:
    """Whether the saved tokens of a run of `stream` lie on the paths that it records."""
    from attnflow.streaming.stream_dataset import paths_of

    saved = tokens_of(run).values
    places = paths_of(run).at(run.time.values)
    if flow_of(run).is_on_sphere:
        places = places / np.linalg.norm(places, axis=-1, keepdims=True)
    apart = float(np.abs(places - saved).max())
    return at_most("the saved tokens lie on the recorded paths", apart, 1e-9 * (float(np.abs(saved).max()) or 1.0))
