"""A journey: heavy tokens on their way through metastable states, step by step and meeting by meeting."""

import time
from typing import Any

import numpy as np
import xarray as xr

from attnflow.coalescence.cluster_state import HeavyTokens, Pull, Velocity
from attnflow.coalescence.merge_events import Joining, joinings
from attnflow.coalescence.multirate import Attempt, Course, TooLongError, attempt
from attnflow.coalescence.pair_quadrature import Meeting, meeting
from attnflow.coalescence.recorder import Chronicle, State
from attnflow.coalescence.subcycling import Tolerances, is_possible, runners
from attnflow.model.dynamics import AbstractDynamics

NOBODY = np.empty(0, int)
NARROW = 1e4  # merging distances: gaps below need no finer error than this one, tokens meet there
WIDEST = 0.01  # of that
ROUNDING = 1e-12  # of log t
EVERY_LOG_TIME = 0.05  # of log t: so densely states are kept while something moves
FAR = 0.1  # so far nobody moves between states, but in a meeting
SUDDEN = 0.01  # a meeting takes at most this share of the time so far
CHATTER = 10.0  # tolerances by which steps move tokens to and fro at a stable equilibrium
ALIKE = (
    1e-3  # |B| times the merging distance: below, who receives from two or from one of them feels 1e-7 of a difference
)
STILL = 10  # steps in which nobody goes farther while time doubles, at rest; on a plateau a single step takes longer


class Journey:
    """Heavy tokens on their way; without shortcuts everybody is looked at in every step."""

    def __init__(
        self, flow: AbstractDynamics, tokens: np.ndarray, merge: float, rtol: float, until: float, shortcuts: bool
    ):
        self.merge, self.rtol, self.until, self.shortcuts = merge, rtol, until, shortcuts
        self.narrow = min(NARROW * merge, WIDEST)
        heavy = HeavyTokens.alone(tokens, flow.masses)
        self.pull = Pull.of(flow, float(heavy.masses.sum()))
        self.may_run = shortcuts and is_possible(self.pull)
        self.chronicle = Chronicle(flow, self.pull, merge)
        self.log_time, self.step, self.steps, self.rejected = -np.inf, 0.02, 0, 0
        self.meetings, self.meeting_error, self.sprints = 0, 0.0, 0
        self.hope = 1.0  # falls where a meeting was tried too early
        self.chronicle.keep(self.log_time, heavy)
        self.heavy = heavy
        self._stand(heavy.distinct())  # tokens in one place are one from the start
        self.plateau = self._keep()
        self.stirred = (self.log_time, self.steps, self.heavy)  # where somebody last had gone farther than chatter

    def travel(self, max_steps: int, budget: float | None, show: Any) -> str:
        """Until one cluster is left or something ends it; returns the outcome as a sentence."""
        began, count = time.monotonic(), max(len(self.heavy) - 1, 1)
        while len(self.heavy) > 1:
            if self.velocity.is_balanced or self._is_still():
                return self._rests()
            if self._is_over():
                return f"Reached log t = {self.until:.6g} with {len(self.heavy)} clusters, after {self.steps} steps."
            if self.steps + self.rejected >= max_steps:
                return f"Stopped after {max_steps} steps at {self._now()}, {len(self.heavy)} clusters left."
            if budget is not None and time.monotonic() - began > budget:
                return f"Reached the time budget at {self._now()} with {len(self.heavy)} clusters."
            try:
                self._advance()
                if show is not None:
                    show(1 - (len(self.heavy) - 1) / count, f"{len(self.heavy)} clusters, log t = {self.log_time:.4g}")
            except KeyboardInterrupt:
                return f"Interrupted at {self._now()} with {len(self.heavy)} clusters."
            except ArithmeticError as problem:
                return f"Stopped at {self._now()} with {len(self.heavy)} clusters: {problem}."
        return self._has_met()

    def _now(self) -> str:
        return "the start" if np.isneginf(self.log_time) else f"log t = {self.log_time:.6g}"

    def _has_met(self) -> str:
        """One cluster is left."""
        count = sum(map(len, self.heavy.members))
        alone = "" if self.pull.is_scalar else " Where V carries it from there, by x' = P_x V x, is not followed."
        if np.isfinite(self.log_time):
            since = self.chronicle.merges[-1].log_time  # within the last step
            return f"One cluster since log t = {since:.6g}, after {self.steps} steps.{alone}"
        if count == 1:
            return f"One token from the start: nobody to meet.{alone}"
        return f"All {count} tokens are in one place from the start; `perturb=1e-6` parts them.{alone}"

    def _rests(self) -> str:
        """Several clusters are left."""
        since = "from the start" if np.isneginf(self.log_time) else f"since {self._now()}"
        rests = f"At rest with {len(self.heavy)} clusters {since}: "
        if self.heavy.places.shape[1] == 1:
            return rests + "on a line the sphere is two points, between which nobody can move."
        if not self.velocity.is_balanced:
            way = CHATTER * self.rtol
            return (
                rests
                + f"while time doubled, nobody has moved by more than {way:.2g} of the gap to another.{self._unless()}"
            )
        if np.isnan(self.pull.beta):
            return rests + f"all pulls cancel.{self._unless()}"
        return rests + (
            "all pulls cancel. Such an equilibrium is unstable under attraction; pass `perturb=1e-6` to leave it."
        )

    def _unless(self) -> str:
        """What a rest may be instead, where tokens' own V x drowns what they do to each other."""
        if self.pull.is_scalar or not self.velocity.size_of_terms:
            return ""
        return " It may be a metastable state: V is no multiple of I, so pulls of order e^-beta are lost beside V x."

    def _is_still(self) -> bool:
        """Whether nobody has gone anywhere while time doubled, which under plain attraction is no rest."""
        log_time, steps, _ = self.stirred
        doubled = self.log_time - log_time >= np.log(2) and self.steps - steps >= STILL
        return bool(doubled and np.isnan(self.pull.beta))

    def _watch(self) -> None:
        """Remember this place where somebody has met, or gone farther than steps chatter."""
        heavy = self.stirred[2]
        if len(heavy) == len(self.heavy):
            ways = np.linalg.norm(self.heavy.places - heavy.places, axis=1)
            if np.all(ways <= CHATTER * self._tolerances()):
                return
        self.stirred = (self.log_time, self.steps, self.heavy)

    def _tolerances(self) -> np.ndarray:
        """The error that a step may make, of every token."""
        return self.rtol * np.maximum(self.heavy.gaps[0], self.narrow)

    def _stand(self, heavy: HeavyTokens, velocity: Velocity | None = None) -> None:
        """Be here now."""
        if velocity is None:
            self.startled = np.zeros(len(heavy), bool)  # slow ones that others have made fast
        self.heavy = heavy
        if len(heavy) > 1:
            self.velocity = velocity or self.pull.velocity(heavy.places, heavy.masses)

    def _keep(self) -> State:
        return self.chronicle.keep(self.log_time, self.heavy, self.velocity.sums if len(self.heavy) > 1 else None)

    def _advance(self) -> None:
        """One accepted step or one meeting, and what has met at its end."""
        gaps, nearest = self.heavy.gaps
        closing = np.linalg.norm(self.velocity.directions - self.velocity.directions[nearest], axis=1)
        fastest = int(np.argmax(closing / gaps))
        pair = np.array([fastest, nearest[fastest]])
        met = self._meeting(pair, float(closing[fastest] / gaps[fastest])) if self.shortcuts else None
        if met is not None:
            self.meetings, self.meeting_error = self.meetings + 1, max(self.meeting_error, met.error)
            self._arrive(met.places, met.log_duration)
            return
        running = runners(self.pull, self.heavy, closing, self.merge) if self.may_run else NOBODY
        try:
            self._step(closing, running)
        except TooLongError:
            self._step(closing, NOBODY)

    def _step(self, closing: np.ndarray, running: np.ndarray) -> None:
        """One accepted step, in which runners have shorter ones of their own."""
        tolerances = Tolerances(self.rtol, self.narrow, self.merge)
        course = Course(self.pull, self.heavy, self.velocity, closing, running, tolerances)
        found = self._accepted(course)
        self.steps, self.sprints = self.steps + 1, self.sprints + int(len(running) > 0)
        self._arrive(found.stride.places, found.log_duration, found.stride.velocity)

    def _meeting(self, pair: np.ndarray, relative: float) -> Meeting | None:
        """The meeting of the fastest pair, if the others are still enough and it takes next to no time."""
        gaps, beta = self.heavy.gaps[0], self.pull.beta
        gap = float(gaps[pair[0]])
        if relative == 0:  # next to a balance nobody nears anybody
            return None
        reach = min(gap, 1 / (beta * gap))  # a way on which the pair becomes faster by a factor
        others = float(np.delete(np.linalg.norm(self.velocity.directions, axis=1), pair).max(initial=0.0))
        tolerance = self.rtol * max(float(np.delete(gaps, pair).min(initial=1.0)), self.narrow)
        latest = min(self.log_time + np.log(SUDDEN), self._log_left())
        drift, log_duration = others * reach / (relative * gap), np.log(reach / (relative * gap))
        is_hopeful = 2 * beta * (drift / self.hope) ** 2 <= tolerance
        if not is_hopeful or log_duration - self.velocity.logarithm > latest:  # also where beta is NaN
            return None
        found = meeting(self.pull, self.heavy, pair, self.velocity.sums, self.merge)
        if found.error <= tolerance and found.log_duration <= latest:
            return found
        self.hope /= 4
        return None

    def _accepted(self, course: Course) -> Attempt:
        """A step whose error is within the tolerance."""
        scales = self._tolerances()
        # What moves by D changes its velocity by a share |B| D, and so its way by |B| D^2.
        calm = np.sqrt(scales / max(self.pull.score_size, 1.0)) / 3 if self.shortcuts else np.full_like(scales, -1.0)
        while True:
            wanted = course.clock.cut(min(self.step, course.longest), self._log_left() - course.unit)
            found = attempt(course, wanted, calm, self.startled, scales)
            self.step = found.next_step
            if found.is_good:
                return found
            self.startled |= found.missed
            self.rejected += 1
            if self.step < 1e-12:
                raise ArithmeticError("steps became too short to resolve the gaps in float64; a larger `rtol` may help")

    def _log_left(self) -> float:
        """Logarithm of the time until the end."""
        if np.isinf(self.until):
            return np.inf
        return self.until + float(np.log(-np.expm1(min(self.log_time - self.until, -1e-16))))

    def _arrive(self, places: np.ndarray, log_duration: float, velocity: Velocity | None = None) -> None:
        """Be there after so long; who has met, on the way or just then, becomes one, and what is worth it is kept."""
        began, moved = self.log_time, self.heavy.moved_to(places)
        self.log_time = float(np.logaddexp(began, log_duration))
        joined = joinings(self.heavy.places, moved, self.merge)
        merged = moved.joined((one, other) for _, one, other in joined) if joined else moved
        if joined and velocity is not None:
            velocity = self._velocity_of_merged(merged, joined, velocity)
        self._stand(merged, velocity)
        self._watch()
        if joined:
            last, self.plateau, self.hope = self.plateau, self._keep(), 1.0
            with np.errstate(divide="ignore"):  # at once
                log_times = np.logaddexp(began, log_duration + np.log([one.share for one in joined]))
            met = [(float(log_time), one, other) for log_time, (_, one, other) in zip(log_times, joined, strict=True)]
            self.chronicle.record(moved, met, last, self.plateau)
        elif self._has_changed() or self._is_over():
            self._keep()

    def _velocity_of_merged(self, merged: HeavyTokens, joined: list[Joining], velocity: Velocity) -> Velocity | None:
        """What everybody receives is as before, but for those who are one now; None where that is not near enough."""
        if self.pull.score_size * self.merge > ALIKE or len(merged) == 1:
            return None
        gone = [one.other for one in joined]
        kept = np.delete(np.arange(len(self.heavy)), gone)
        ones = np.searchsorted(kept, np.setdiff1d([one.one for one in joined], gone))
        rows = merged.near(ones, WIDEST)  # to those the centre is in another direction
        self.startled = self.startled[kept]
        sums = velocity.sums.of(kept).replaced(rows, self.pull.sums(merged.places, merged.masses, rows))
        return self.pull.velocity_of(sums, merged.places, merged.masses)

    def _has_changed(self) -> bool:
        """Since the last state that was kept, in which nobody had met who has not now."""
        last = self.chronicle.states[-1]
        way = float(np.abs(self.heavy.places - last.heavy.places).max())
        return way > FAR or self.log_time - last.log_time >= EVERY_LOG_TIME

    def _is_over(self) -> bool:
        return self.log_time >= self.until - ROUNDING

    def dataset(self, first_tokens: np.ndarray, outcome: str) -> xr.Dataset:
        """Everything that was kept."""
        if self.chronicle.states[-1].log_time < self.log_time:
            self._keep()
        attributes = {"outcome": outcome, "merge": self.merge, "rtol": self.rtol}
        counts = {"steps": self.steps, "rejected_steps": self.rejected}
        counts |= {"quadrature_merges": self.meetings, "quadrature_error": self.meeting_error}
        counts |= {"subcycled_steps": self.sprints}
        return self.chronicle.dataset(first_tokens, attributes, counts)
