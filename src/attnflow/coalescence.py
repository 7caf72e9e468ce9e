"""`coalesce`: through every metastable state, to times of order e^beta.

Tokens that have met become one with their mass, which is exact for a full mask up to the merging
distance, and the clock follows the fastest relative change: a step is measured in units of
1 / sigma, where sigma is the largest |v_i - v_j| / |x_i - x_j| of nearest neighbours. A closing gap then
shrinks by a factor in a few steps whether it takes a second or e^200 of them. Time itself is carried as
its logarithm. While two clusters close in, their speed grows exponentially; within a step the clock slows down
as it will grow, to second order, so that the motion is nearly uniform and the time a step takes is an integral
known beforehand.

A causal mask is not served: a later token cannot be put together with an earlier one, since tokens between
them see the one and not the other.
"""

import dataclasses
import json
import time
from typing import Any

import numpy as np
import xarray as xr

from attnflow import door, records
from attnflow._checks import InputError, require_count, require_positive_number
from attnflow._random import Rng, seed_sequence
from attnflow.attention import Softmax, Unnormalised
from attnflow.clock import Clock
from attnflow.dynamics import AbstractDynamics, SphereAttention
from attnflow.heads import Head
from attnflow.heavy import HeavyTokens, Pull, Velocity
from attnflow.masks import Full
from attnflow.normalisation import Post
from attnflow.progress import Bar, Progress, shown
from attnflow.trajectory import COALESCENCE

LEAST_MERGE = 1e-10  # below, differences of coordinates have no digits left
USUAL_MERGE = 1e-6
NARROW = 0.01  # gaps below need no finer error than this one: tokens meet there
ROUNDING = 1e-12  # of log t
PROBE = 1e-3  # of the step of length one, for derivatives of the speed
LONGEST = 2.0  # of a step, in units of the fastest relative change
EVERY_LOG_TIME = 0.05  # states are kept at least this densely in log t

# Dormand and Prince's method of order 5, with the difference to its companion of order 4.
STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
NODES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


def coalesce(
    flow: AbstractDynamics,
    tokens: Any,
    *,
    until: float = np.inf,
    merge: float | None = None,
    rtol: float = 1e-6,
    perturb: float | None = None,
    rng: Rng = None,
    max_steps: int = 1_000_000,
    budget: float | None = None,
    progress: Progress = None,
) -> xr.Dataset:
    """Follow tokens on the sphere through every metastable state, to one cluster or to a time however long.

    Parameters
    ----------
    flow
        `SphereAttention` with one constant head, softmax or unnormalised attention and a full mask; masses are kept.
    tokens
        First tokens (n, d).
    until
        Natural logarithm of the last time; infinity for one cluster.
    merge
        Distance within which tokens become one. None: 1e-6, or a tenth of the smallest gap if that is less.
    rtol
        Error of a step over the gap to the nearest other token.
    perturb
        Move the first tokens at random by this much, for starts that rest in an unstable equilibrium.
    rng
        Seed of `perturb`.
    max_steps, budget
        End after so many steps or seconds with what exists.
    progress
        A callback with the share of merges done and a sentence; None for a bar on terminals.

    Returns
    -------
    A dataset over `state` (`log_time`, `tokens`, `clusters`, `energy` in (0, 1], and `level`, the sum of squared shares
    of clusters) and over `merge` (`merge_log_time`, `first` and `second` as the smallest tokens of who met, their
    masses, energy and level before and after, how long the plateau took, and how long an isolated pair would take).

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=60.0))
    >>> long = coalesce(flow, af.initial.on_circle(np.array([0.0, 1.0, 2.5])))
    >>> long.clusters.values[-1], bool(long.log_time[-1] > 25)
    (np.int64(1), True)
    """
    tokens = _require_served(flow, tokens)
    require_count(max_steps, "max_steps")
    require_positive_number(rtol, "rtol", "Use 1e-6.")
    if np.isnan(until):
        raise InputError("`until` must be the logarithm of a time, or infinity, but it is NaN.")
    if perturb is not None:
        tokens = _perturbed(tokens, perturb, rng)
    merge = _merging_distance(tokens, merge)
    show = shown(progress)
    journey = _Journey(flow, tokens, merge, rtol, until)
    try:
        outcome = journey.travel(max_steps, budget, show)
    finally:
        if isinstance(show, Bar):
            show.close()
    return journey.dataset(outcome)


@dataclasses.dataclass(frozen=True)
class _Merge:
    """Two heavy tokens that became one."""

    log_time: float
    first: int
    second: int
    masses: tuple[float, float]
    energies: tuple[float, float]
    levels: tuple[float, float]
    log_duration: float
    predicted_log_duration: float


@dataclasses.dataclass(frozen=True)
class _State:
    """What is kept of one moment."""

    log_time: float
    heavy: HeavyTokens
    energy: float


class _Journey:
    """Heavy tokens on their way."""

    def __init__(self, flow: AbstractDynamics, tokens: np.ndarray, merge: float, rtol: float, until: float):
        self.flow, self.first_tokens, self.merge, self.rtol, self.until = flow, tokens, merge, rtol, until
        self.heavy = HeavyTokens.alone(tokens, flow.masses)
        self.total = float(self.heavy.masses.sum())
        self.pull = Pull.of(flow, self.total)
        self.log_time, self.step, self.steps, self.rejected = -np.inf, 0.02, 0, 0
        self.states: list[_State] = []
        self.merges: list[_Merge] = []
        self._keep()
        self.heavy = self.heavy.merged(0.0)[0]  # tokens in one place are one from the start
        self.plateau = self._keep()
        self.gaps = self.heavy.gaps()

    def travel(self, max_steps: int, budget: float | None, show: Any) -> str:
        """Until one cluster is left or something ends it; returns the outcome as a sentence."""
        began, count = time.monotonic(), max(len(self.heavy) - 1, 1)
        while len(self.heavy) > 1:
            velocity = self.pull.velocity(self.heavy.places, self.heavy.masses)
            if velocity.is_balanced:
                return self._rests()
            if self.log_time >= self.until - ROUNDING:
                return f"Reached log t = {self.until:.6g} with {len(self.heavy)} clusters, after {self.steps} steps."
            if self.steps + self.rejected >= max_steps:
                return (
                    f"Stopped after {max_steps} steps at log t = {self.log_time:.6g}, {len(self.heavy)} clusters left."
                )
            if budget is not None and time.monotonic() - began > budget:
                return f"Reached the time budget at log t = {self.log_time:.6g} with {len(self.heavy)} clusters."
            try:
                self._advance(velocity)
            except KeyboardInterrupt:
                return f"Interrupted at log t = {self.log_time:.6g} with {len(self.heavy)} clusters."
            if show is not None:
                show(1 - (len(self.heavy) - 1) / count, f"{len(self.heavy)} clusters, log t = {self.log_time:.4g}")
        return f"One cluster since log t = {self.log_time:.6g}, after {self.steps} steps."

    def _rests(self) -> str:
        return (
            f"At rest with {len(self.heavy)} clusters since log t = {self.log_time:.6g}: all pulls cancel. Such an "
            "equilibrium is unstable under attraction; pass `perturb=1e-6` to leave it."
        )

    def _advance(self, velocity: Velocity) -> None:
        """One accepted step, and what has met at its end."""
        gaps, nearest = self.gaps
        relative = np.linalg.norm(velocity.directions - velocity.directions[nearest], axis=1) / gaps
        rate = max(float(relative.max()), float(np.abs(velocity.directions).max()) / np.pi)
        unit = -velocity.logarithm - np.log(rate)  # logarithm of the time that a short step of length one takes
        clock = self._clock(velocity, rate)
        scales = self.rtol * np.maximum(gaps, NARROW)
        # The fastest pair shrinks by e^-step: no farther than to where it has met.
        longest = min(
            LONGEST, clock.longest_step(), max(float(np.log(gaps[np.argmax(relative)] / self.merge)) + 1e-3, 1e-3)
        )
        while True:
            step = clock.cut(min(self.step, longest), self._log_left() - unit)
            places, error = self._attempt(velocity, rate, step, clock)
            worst = float(np.max(np.abs(error).max(axis=1) / scales))
            fits = np.isfinite(worst) and worst <= 1
            factor = np.clip(0.9 * max(worst, 1e-10) ** -0.2, 0.2, 4.0) if np.isfinite(worst) else 0.2
            self.step = step * factor
            if fits:
                break
            self.rejected += 1
            if self.step < 1e-12:
                raise ArithmeticError("steps became too short; the gaps cannot be resolved in float64")
        self.steps += 1
        self.heavy = self.heavy.moved_to(places)
        self.log_time = float(np.logaddexp(self.log_time, unit + np.log(clock.duration(step))))
        self.gaps = self.heavy.gaps()
        if self.gaps[0].min() <= self.merge:
            self._merge()
            self.gaps = self.heavy.gaps()
        elif self.log_time - self.states[-1].log_time >= EVERY_LOG_TIME or self.log_time >= self.until - ROUNDING:
            self._keep()

    def _clock(self, velocity: Velocity, rate: float) -> Clock:
        """Slows down as the logarithm of the largest speed grows along the straight way ahead."""
        way = velocity.directions / rate
        here = velocity.log_speed
        behind, ahead = (
            self.pull.velocity(self.heavy.places + reach * way, self.heavy.masses).log_speed - here
            for reach in (-PROBE, PROBE)
        )
        first, second = (ahead - behind) / (2 * PROBE), (ahead + behind) / PROBE**2
        return Clock(float(first), float(second)) if np.isfinite(first + second) else Clock()

    def _log_left(self) -> float:
        """Logarithm of the time until the end."""
        if np.isinf(self.until):
            return np.inf
        return self.until + float(np.log(-np.expm1(min(self.log_time - self.until, -1e-16))))

    def _attempt(self, velocity: Velocity, rate: float, step: float, clock: Clock) -> tuple[np.ndarray, np.ndarray]:
        """Places one step later, and the estimate of their error."""
        slopes, places = [velocity.directions / rate], self.heavy.places
        with np.errstate(over="ignore", invalid="ignore"):
            for node, row in zip(NODES, STAGES, strict=True):
                places = self.heavy.places + step * sum(a * slope for a, slope in zip(row, slopes, strict=True))
                there = self.pull.velocity(places, self.heavy.masses)
                growth = there.logarithm - velocity.logarithm - clock.exponent(node * step)
                slopes.append(there.directions * (np.exp(growth) / rate))
            error = sum((e * slope for e, slope in zip(ERROR, slopes, strict=True)), start=np.zeros_like(places))
            return places, step * error

    def _merge(self) -> None:
        before, (self.heavy, groups) = self.heavy, self.heavy.merged(self.merge)
        last = self.plateau
        state = self._keep()
        level = _level(before, self.total)
        for group in groups:
            mass = float(before.masses[group[0]])
            for other in group[1:]:
                event = self._event(before, int(group[0]), int(other), mass, level, last, state)
                self.merges.append(event)
                mass, level = mass + event.masses[1], event.levels[1]
        self.plateau = state

    def _event(
        self, before: HeavyTokens, one: int, other: int, mass: float, level: float, last: _State, now: _State
    ) -> _Merge:
        """`other` joins `one`, whose mass is `mass` by then; of several in one step each raises the level in turn."""
        angle = 2 * np.arcsin(min(1.0, np.linalg.norm(last.heavy.places[one] - last.heavy.places[other]) / 2))
        masses = (mass, float(before.masses[other]))
        return _Merge(
            self.log_time,
            int(before.members[one][0]),
            int(before.members[other][0]),
            masses,
            (last.energy, now.energy),
            (level, level + 2 * masses[0] * masses[1] / self.total**2),
            _log_difference(self.log_time, last.log_time),
            self._predicted(float(angle), masses),
        )

    def _predicted(self, angle: float, masses: tuple[float, float]) -> float:
        """Logarithm of the time in which two isolated clusters meet, to leading order for large beta, or NaN."""
        beta = float(getattr(self.flow.attention, "beta", np.nan))
        plain = np.array_equal(self.pull.scores, beta * np.eye(len(self.pull.scores))) and self.pull.is_scalar
        if not plain or beta <= 0 or np.sin(angle) == 0:
            return np.nan
        first, second = masses
        if self.pull.offset is None:
            strength, delay = first / second + second / first, beta * (1 - np.cos(angle))
        else:
            strength, delay = (first + second) / self.total, self.pull.offset - beta * np.cos(angle)
        return float(delay - np.log(beta * strength * self.pull.value[0, 0] * np.sin(angle) ** 2))

    def _keep(self) -> _State:
        shares = self.heavy.masses / self.total
        beta = float(getattr(self.flow.attention, "beta", np.nan))
        energy = float(shares @ np.exp(beta * (self.heavy.places @ self.heavy.places.T - 1)) @ shares)
        self.states.append(_State(self.log_time, self.heavy, energy))
        return self.states[-1]

    def dataset(self, outcome: str) -> xr.Dataset:
        """Everything that was kept."""
        if self.states[-1].log_time < self.log_time:
            self._keep()
        states, merges = self.states[1:], self.merges
        of_merges = {
            "merge_log_time": [one.log_time for one in merges],
            "first": np.array([one.first for one in merges], int),
            "second": np.array([one.second for one in merges], int),
            "log_duration": [one.log_duration for one in merges],
            "predicted_log_duration": [one.predicted_log_duration for one in merges],
        }
        for place, end in enumerate(("before", "after")):
            of_merges[f"energy_{end}"] = [one.energies[place] for one in merges]
            of_merges[f"level_{end}"] = [one.levels[place] for one in merges]
        for place, end in enumerate(("first", "second")):
            of_merges[f"mass_of_{end}"] = [one.masses[place] for one in merges]
        variables: dict[str, Any] = {name: (("merge",), np.asarray(values)) for name, values in of_merges.items()}
        variables |= {
            "tokens": (("state", "token", "coordinate"), np.stack([one.heavy.tokens() for one in states])),
            "clusters": (("state",), np.array([len(one.heavy) for one in states])),
            "energy": (("state",), np.array([one.energy for one in states])),
            "level": (("state",), np.array([_level(one.heavy, self.total) for one in states])),
            "initial_tokens": (("token", "coordinate"), self.first_tokens),
            "steps": ((), self.steps),
            "rejected_steps": ((), self.rejected),
        }
        attributes = {"kind": COALESCENCE, "outcome": outcome, "merge": self.merge, "rtol": self.rtol}
        attributes["flow"] = json.dumps(records.record(self.flow))
        coordinates = {"log_time": (("state",), np.array([one.log_time for one in states]))}
        return xr.Dataset(variables, coordinates, attributes)


def _level(heavy: HeavyTokens, total: float) -> float:
    return float(np.sum((heavy.masses / total) ** 2))


def _log_difference(later: float, earlier: float) -> float:
    """log(e^later - e^earlier)."""
    return later if np.isneginf(earlier) else later + float(np.log(-np.expm1(min(earlier - later, -1e-16))))


def _require_served(flow: AbstractDynamics, tokens: Any) -> np.ndarray:
    door.require_flow(flow)
    reasons = {
        "tokens must move on the sphere without lengths of their own": not (
            isinstance(flow, SphereAttention) and isinstance(flow.normalisation, Post)
        ),
        "noise would part tokens that have met": flow.noise is not None,
        "an MLP is not supported": flow.mlp is not None,
        "frozen tokens would have to stay apart from moving ones": flow.frozen is not None,
        "it takes one head with constant weights": len(flow.heads) != 1 or not isinstance(flow.heads[0], Head),
        "attention must be softmax or unnormalised": not isinstance(flow.attention, Softmax | Unnormalised),
        "under a mask tokens in one place see different others, and part again": not isinstance(flow.mask, Full),
    }
    broken = [reason for reason, is_so in reasons.items() if is_so]
    if broken:
        raise InputError(f"`coalesce` does not serve this flow: {broken[0]}. Use `simulate`.")
    tokens = door.require_tokens_of(flow, tokens)
    if tokens.ndim != 2:
        raise InputError(f"`tokens` must have shape (n, d) here, but the shape is {tokens.shape}. Take one run.")
    return tokens / np.linalg.norm(tokens, axis=1, keepdims=True)


def _perturbed(tokens: np.ndarray, size: float, rng: Rng) -> np.ndarray:
    require_positive_number(size, "perturb", "Use 1e-6, or None.")
    noise = np.random.default_rng(seed_sequence(rng)).normal(size=tokens.shape)
    moved = tokens + size * noise
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


def _merging_distance(tokens: np.ndarray, merge: float | None) -> float:
    gaps = HeavyTokens.alone(tokens).merged(0.0)[0].gaps()[0]
    smallest = float(gaps.min())
    if merge is None:
        merge = min(USUAL_MERGE, smallest / 10)
        if merge < LEAST_MERGE:
            raise InputError(
                f"Two tokens are only {smallest:.2g} apart, too close to follow. Put them in one place or apart."
            )
        return merge
    require_positive_number(merge, "merge", "Use 1e-6.")
    if merge < LEAST_MERGE:
        raise InputError(f"`merge` must be at least {LEAST_MERGE:g}, where floats have digits, but it is {merge:g}.")
    if merge >= smallest:
        raise InputError(f"`merge` must be below the smallest gap at the start, {smallest:.3g}, but it is {merge:g}.")
    return float(merge)
