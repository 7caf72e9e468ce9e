"""A course: what is ahead in one step, walkers at their pace and runners before them.

The clock of a step follows the fastest relative change among walkers. Runners have shorter steps of their own
(`sprint`), in which walkers go straight on. How far that was wrong shows in the runners' last velocities; where it
matters they run again while the walkers go the way they went.
"""

from typing import NamedTuple

import numpy as np

from attnflow.clock import Clock
from attnflow.heavy import HeavyTokens, Pull, Velocity
from attnflow.sprint import MOST_RUNNERS, Ending, Sprint, Tolerances, Walks, groups, sprint
from attnflow.stride import Stride, moments, stride

PROBE = 1e-3  # of the step of length one, for derivatives of the speed
LONGEST = 2.0  # of a step, in units of the fastest relative change
BEYOND = 0.5  # a step goes so much farther than to the merging distance, in logarithms of the gap


class TooLongError(ArithmeticError):
    """A sprint that costs more than the walkers could save."""


class Course:
    """The next step of everybody: how long it may be, and where it leads."""

    def __init__(
        self,
        pull: Pull,
        heavy: HeavyTokens,
        velocity: Velocity,
        closing: np.ndarray,
        running: np.ndarray,
        tolerances: Tolerances,
    ):
        self.pull, self.heavy, self.velocity, self.tolerances = pull, heavy, velocity, tolerances
        self.running, self.walkers = running, np.ones(len(heavy), bool)
        self.walkers[running] = False
        gaps = heavy.gaps[0]
        self.groups = groups(pull, heavy, running) if len(running) else []
        self.groups.sort(key=lambda group: -float((closing[group] / gaps[group]).max()))
        self.sprinted: tuple[float, tuple[float, Sprint]] | None = None
        fastest = int(np.argmax(np.where(self.walkers, closing / gaps, -1.0)))
        speed = float(np.abs(velocity.directions[self.walkers]).max())
        # The fastest relative change: steps are in units of one over it.
        self.rate = max(float(closing[fastest] / gaps[fastest]), speed / np.pi)
        # Logarithm of the time that a short step of length one takes.
        self.unit = -velocity.logarithm - float(np.log(self.rate))
        self.clock = self._clock()
        # The fastest pair shrinks by e^-step: not much farther than to where it has met.
        met = float(np.log(gaps[fastest] / tolerances.merge)) + BEYOND
        self.longest = min(LONGEST, self.clock.longest_step(), met)

    def log_duration(self, step: float) -> float:
        """Logarithm of the time that a step takes."""
        return self.unit + float(np.log(self.clock.duration(step)))

    def sprint(self, step: float) -> tuple[float, Sprint]:
        """Where the runners go within a step, and the step, which ends where two of them meet."""
        if self.sprinted and self.sprinted[0] == step:  # asked for again as walkers were not looked at closely enough
            return self.sprinted[1]
        found, met, wanted = [], np.empty(0, int), step
        for group in self.groups:  # the soonest to fall first: it mostly decides where the step ends
            one = self._run(step, group, Ending.EARLY)
            if one.met <= 1:
                step, met = self.clock.cut(step, float(np.log(one.met * self.clock.duration(step)))), one.pair
                found = [self._run(step, group, _ending(group, met)) for group in self.groups[: len(found) + 1]]
            else:
                found.append(one)
        ahead = Sprint.of_all(found) if found else Sprint.of_nobody(self.heavy.places.shape[1])
        self.sprinted = (wanted, (step, ahead._replace(pair=met)))
        return self.sprinted[1]

    def stride(self, step: float, fast: np.ndarray, ahead: Sprint) -> Stride:
        """Where everybody goes; `fast` walkers are looked at closely."""
        return stride(self.pull, self.heavy, self.velocity, self.rate, self.clock, step, fast, ahead)

    def jumps(self, step: float, found: Stride, rows: np.ndarray, ahead: Sprint) -> np.ndarray:
        """Errors of walkers `rows` near runners: a pull that changes within a step at once misleads stages and errors.

        Stages see it change somewhere in the middle; when it did, they are wrong by up to half the change.
        """
        unit = -self.log_duration(step)
        before, after = (
            self.pull.part_of(velocity.sums, places, self.heavy.masses, rows, ahead.rows, unit)
            for velocity, places in ((self.velocity, self.heavy.places), (found.velocity, found.places))
        )
        change, places = after - before, self.heavy.places[rows]
        change -= np.sum(change * places, axis=1, keepdims=True) * places
        return np.abs(change).max(axis=1) / 2

    def settled(
        self, step: float, found: Stride, ahead: Sprint, pushed: np.ndarray, scales: np.ndarray
    ) -> tuple[Stride, float]:
        """A step with runners, and walkers they have pushed, where all others' true ways lead them.

        Returns their error over the tolerance, too. What they change for others is of second order.
        """
        straight = self.heavy.places + self.clock.duration(step) * self.velocity.directions / self.rate
        errors = self._errors(step, found, ahead, straight, scales)
        again = np.union1d(ahead.rows[errors > 1], pushed)
        if not len(again):
            return found, float(errors.max(initial=0.0))
        together = groups(self.pull, self.heavy, np.union1d(self.running, pushed))
        chosen = [group for group in together if np.isin(group, again).any()]
        rerun = Sprint.of_all([self._run(step, one, _ending(one, ahead.pair), found.places) for one in chosen])
        places = found.places.copy()
        places[rerun.rows] = rerun.paths[-1]
        sums = found.velocity.sums.replaced(rerun.rows, self.pull.sums(places, self.heavy.masses, rerun.rows))
        settled = Stride(places, found.errors, self.pull.velocity_of(sums, places, self.heavy.masses))
        errors = self._errors(step, settled, rerun._replace(pair=ahead.pair), found.places, scales)
        return settled, float(errors.max())

    def joined(self, found: Stride, pair: np.ndarray) -> Stride:
        """Two that a step has brought within the merging distance, give or take its error, are in one place."""
        if not len(pair):
            return found
        places = found.places.copy()
        places[pair] = np.average(places[pair], axis=0, weights=self.heavy.masses[pair])
        return found._replace(places=places)

    def _errors(
        self, step: float, found: Stride, ahead: Sprint, expected: np.ndarray, scales: np.ndarray
    ) -> np.ndarray:
        """What walkers that are elsewhere than `expected` change in the last velocities of runners."""
        velocity, duration = found.velocity, self.log_duration(step)
        with np.errstate(over="ignore", invalid="ignore"):
            true = velocity.directions[ahead.rows] * np.exp(velocity.logarithm + duration)
            errors = np.abs(true - ahead.velocities).max(axis=1) / (2 * scales[ahead.rows])
        if len(ahead.pair):  # who has met moves by what others do; what the two do to each other would drown that
            is_met = np.isin(ahead.rows, ahead.pair)
            errors[is_met] = self._error_of_two(found.places, ahead, expected, duration) / (
                2 * scales[ahead.rows[is_met]]
            )
        return np.nan_to_num(errors, nan=np.inf)

    def _error_of_two(self, places: np.ndarray, ahead: Sprint, expected: np.ndarray, log_duration: float) -> float:
        """What walkers elsewhere than `expected` change in the way of two that have met, as one."""
        one, other = ahead.pair
        masses, places = self.heavy.masses.copy(), places.copy()
        masses[one] += masses[other]
        places[one] = np.average(places[ahead.pair], axis=0, weights=self.heavy.masses[ahead.pair])
        expected = np.where(self.walkers[:, None], expected, places)
        rest = np.delete(np.arange(len(places)), other)
        row = np.array([np.searchsorted(rest, one)])
        true, found = (self.pull.velocity(where[rest], masses[rest], row) for where in (places, expected))
        ways = [one.directions * np.exp(one.logarithm + log_duration) for one in (true, found)]
        return float(np.abs(ways[0] - ways[1]).max())

    def _run(self, step: float, group: np.ndarray, ending: Ending, ends: np.ndarray | None = None) -> Sprint:
        """A group of runners, while walkers go straight on or, bent, to `ends`."""
        ways = self.clock.duration(step) * self.velocity.directions / self.rate
        walks = Walks.of(
            ways, np.union1d(self.running, group), None if ends is None else ends - self.heavy.places - ways
        )
        duration, times = self.log_duration(step), moments(self.clock, step)
        found = sprint(self.pull, self.heavy, walks, group, duration, self.tolerances, times, ending)
        if found is None:
            raise TooLongError("a sprint takes too many steps")
        return found

    def _clock(self) -> Clock:
        """Slows down as the logarithm of the largest speed of walkers grows along the straight way ahead."""
        way = np.where(self.walkers[:, None], self.velocity.directions / self.rate, 0.0)
        sizes = np.abs(way).max(axis=1)
        fastest = np.array([int(np.argmax(sizes))])
        now = self.velocity.logarithm + float(np.log(self.rate * sizes[fastest[0]]))
        behind, ahead = (
            self.pull.velocity(self.heavy.places + reach * way, self.heavy.masses, fastest).log_speed - now
            for reach in (-PROBE, PROBE)
        )
        first, second = (ahead - behind) / (2 * PROBE), (ahead + behind) / PROBE**2
        return Clock(float(first), float(second)) if np.isfinite(first + second) else Clock()


def _ending(group: np.ndarray, met: np.ndarray) -> Ending:
    """Of a sprint in a step that ends as the two of `met` meet."""
    return Ending.WITH_MEETING if np.isin(met, group).any() else Ending.ON_TIME


class Attempt(NamedTuple):
    """A step that was tried: its length, the one wanted, where it leads, and errors over the tolerance."""

    step: float
    wanted: float
    stride: Stride
    ahead: Sprint
    worst: float
    missed: np.ndarray
    """Slow walkers whose error is too large: others have made them fast."""
    ran: float

    @property
    def is_good(self) -> bool:
        """Whether everybody's error is within the tolerance."""
        return self.worst <= 1 and self.ran <= 1 and not self.missed.any()

    @property
    def next_step(self) -> float:
        """What the errors suggest; one that ended early at a meeting says nothing against longer ones."""
        new = self.step * float(np.clip(0.9 * max(self.worst, 1e-10) ** -0.2, 0.2, 4.0))
        if self.is_good:
            return max(new, self.wanted) if self.step < self.wanted else new
        if self.worst > 1:
            return new
        return self.wanted if self.missed.any() else self.step / 3


def attempt(course: Course, wanted: float, calm: np.ndarray, startled: np.ndarray, scales: np.ndarray) -> Attempt:
    """One step, whatever its errors; walkers that go farther than `calm`, or are startled, are looked at closely."""
    step, ahead = course.sprint(wanted)
    speeds = np.where(course.walkers, np.abs(course.velocity.directions).max(axis=1) / course.rate, -1.0)
    is_far = startled | (speeds * course.clock.duration(step) > calm) | (speeds == speeds.max())
    fast = is_far & course.walkers
    found = course.stride(step, fast, ahead)
    errors = np.nan_to_num(found.errors / scales, nan=np.inf)
    worst, missed = float(errors[fast].max(initial=0.0)), ~fast & course.walkers & (errors > 1)
    ran = 0.0
    if len(ahead.rows) and worst <= 1 and missed.sum() <= MOST_RUNNERS:
        rows = np.flatnonzero(fast)
        pushed = np.union1d(rows[course.jumps(step, found, rows, ahead) > scales[rows]], np.flatnonzero(missed))
        found, ran = course.settled(step, found, ahead, pushed, scales)
        found, missed = course.joined(found, ahead.pair), np.zeros_like(missed)
    return Attempt(step, wanted, found, ahead, worst, missed, ran)
