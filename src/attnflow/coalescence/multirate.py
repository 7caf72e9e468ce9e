"""A course: what is ahead in one step, walkers at their pace and runners before them.

The clock of a step follows the fastest relative change among walkers. Runners have shorter steps of their own
(`sprint`), in which walkers first go straight on. Once a step has shown how walkers go, runners run again, and walkers
are moved by what that changes.
"""

from typing import NamedTuple

import numpy as np

from attnflow.coalescence.cluster_state import HeavyTokens, Pull, Velocity
from attnflow.coalescence.macro_step import SEEN, Stride, integral, moments, stride, unseen
from attnflow.coalescence.subcycling import MOST_RUNNERS, NEAR, Ending, Sprint, Tolerances, Walks, groups, sprint
from attnflow.coalescence.time_change import Clock

PROBE = 1e-3  # of the step of length one, for derivatives of the speed
LONGEST = 2.0  # of a step, in units of the fastest relative change
BEYOND = 0.5  # a step goes so much farther than to the merging distance, in logarithms of the gap
FAR = 100.0  # tolerances
UNFORESEEN = 0.1  # growth of the logarithm of the speed: beyond, errors of a step are too large to tell
MOST_SURPRISE = 10.0  # steps become shorter by no more at once
ON_TIME = 1e-4  # share of a step: two that meet so much earlier or later change no velocity of others
MOST_SHIFT = 0.01  # of a meeting: beyond, walkers' ways are not known well enough
SMALL = 0.1  # share of a tolerance: what changes a way by less is let be
LONGER = 1.1  # a step that ended at a meeting, once it is known better when that is


class TooLongError(ArithmeticError):
    """A sprint that costs more than the walkers could save."""


class Settled(NamedTuple):
    """A step with runners, the share of it after which it ends, and the runners' error over the tolerance."""

    stride: Stride
    end: float
    error: float


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
        gaps = heavy.gaps[0]
        self.relative = closing / gaps
        self._start_running(running)
        fastest = int(np.argmax(np.where(self.walkers, self.relative, -1.0)))
        speed = float(np.abs(velocity.directions[self.walkers]).max())
        # The fastest relative change: steps are in units of one over it.
        self.rate = max(float(self.relative[fastest]), speed / np.pi)
        # Logarithm of the time that a short step of length one takes.
        self.unit = -velocity.logarithm - float(np.log(self.rate))
        self.clock = self._clock()
        # As far as they are known, in units of this time: of the unit of steps.
        self.walks, self.walked = Walks.straight(velocity.directions / self.rate), 1.0
        # The fastest pair shrinks by e^-step: not much farther than to where it has met.
        met = float(np.log(gaps[fastest] / tolerances.merge)) + BEYOND
        self.longest = min(LONGEST, self.clock.longest_step(), met)

    def _start_running(self, rows: np.ndarray) -> None:
        """These, and nobody else."""
        self.running, self.walkers = rows, np.ones(len(self.heavy), bool)
        self.walkers[rows] = False
        self.groups = groups(self.pull, self.heavy, rows) if len(rows) else []
        self.groups.sort(key=lambda group: -float(self.relative[group].max()))
        self.sprinted: tuple[float, tuple[float, Sprint]] | None = None

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
                if any(one.met <= 1 and not _is_met(one, met) for one in found):
                    raise TooLongError("two meetings at one time")
            else:
                found.append(one)
        ahead = Sprint.of_all(found) if found else Sprint.of_nobody(self.heavy.places.shape[1])
        self.sprinted = (wanted, (step, ahead._replace(pair=met)))
        return self.sprinted[1]

    def stride(self, step: float, fast: np.ndarray, ahead: Sprint) -> Stride:
        """Where everybody goes; `fast` walkers are looked at closely. Their ways are known from then on."""
        found = stride(self.pull, self.heavy, self.velocity, self.rate, self.clock, step, fast, ahead)
        if len(ahead.rows) and np.isfinite(found.places).all():
            self._learn(step, found)
        return found

    def surprise(self, step: float, found: Stride, fast: np.ndarray, scales: np.ndarray) -> float:
        """Above one where speed has grown, and otherwise than the clock foresaw: a step's error is not true then.

        As an error of order 5, so that it tells how much shorter the step should be. Where nobody goes far nothing is
        too far.
        """
        ways = np.abs(found.places - self.heavy.places).max(axis=1)
        if np.all(ways[fast] < FAR * scales[fast]):
            return 0.0
        with np.errstate(divide="ignore"):  # so slow beside runners that floats end
            first, last = (
                one.logarithm + np.log(np.abs(one.directions[fast]).max()) for one in (self.velocity, found.velocity)
            )
        grown, foreseen = last - first, self.clock.exponent(step)
        if not np.isfinite(grown) or max(grown, foreseen) < 0:
            return 0.0
        return min(abs(float(grown) - foreseen) / UNFORESEEN, MOST_SURPRISE) ** 5

    def _learn(self, step: float, found: Stride) -> None:
        """How everybody goes, for sprints to come."""
        last_ways = found.velocity.directions * np.exp(found.velocity.logarithm + self.log_duration(step))
        self.walks = Walks.between(found.places - self.heavy.places, self._walks(step).ways, last_ways)
        self.walked = self.clock.duration(step)

    def _walks(self, step: float) -> Walks:
        """In units of a step, as far as they are known."""
        return self.walks.in_units_of(self.clock.duration(step) / self.walked)

    def jumps(self, step: float, found: Stride, rows: np.ndarray, ahead: Sprint) -> np.ndarray:
        """Errors of walkers `rows` near runners: a pull that changes at once between stages misleads them.

        They are what a look between the stages adds to the way that runners pull a walker.
        """
        pulls = self._pulls(step, found, rows, ahead.rows, ahead.paths)
        return np.abs(np.tensordot(self._weights(step, unseen()), pulls, 1)).max(axis=1)

    def settled(
        self, step: float, found: Stride, ahead: Sprint, fast: np.ndarray, pushed: np.ndarray, scales: np.ndarray
    ) -> Settled:
        """A step with runners, and walkers they have pushed, where all others' true ways lead them.

        It ends where two meet after all. Where others do before, its error is infinite, and who was pushed runs from
        now on.
        """
        more = np.union1d(self.running, pushed)
        together = groups(self.pull, self.heavy, more) if len(more) > len(self.running) else self.groups
        calm = ahead.rows[self._off(step, found, ahead) <= SMALL * scales[ahead.rows]]  # walkers went as expected
        ran = [
            self._run(step, group, _ending(group, ahead.pair))
            for group in together
            if np.isin(group, ahead.pair).any() or not np.isin(group, calm).all()
        ]
        if not ran:
            return Settled(found, 1.0, 0.0)
        rerun = Sprint.of_all(ran)._replace(pair=ahead.pair)
        if any(one.met <= 1 and not _is_met(one, ahead.pair) for one in ran):
            self._start_running(more)
            return Settled(found, 1.0, np.inf)
        places = found.places.copy()
        places[rerun.rows] = rerun.paths[-1]
        rows = np.setdiff1d(fast, rerun.rows)
        ways, changes = self._drawn(step, found, rows, ahead, rerun)
        places[rows] += ways
        changed = np.union1d(rerun.rows, rows[np.abs(changes).max(axis=1, initial=0.0) > SMALL * scales[rows]])
        sums = found.velocity.sums.replaced(changed, self.pull.sums(places, self.heavy.masses, changed))
        settled = Stride(places, found.errors, self.pull.velocity_of(sums, places, self.heavy.masses))
        error = float(self._errors(step, settled, rerun, found.places, scales).max())
        end = next((one.met for one in ran if _is_met(one, ahead.pair)), 1.0)
        there = [one.rows for one in ran if _is_met(one, ahead.pair)]
        settled = self._shifted(settled, np.concatenate([np.empty(0, int), *there]), self.log_duration(step), end)
        error = max(error, abs(end - 1) / MOST_SHIFT)
        self.sprinted = self.sprinted if error <= 1 else None
        return Settled(settled, end, error)

    def _shifted(self, found: Stride, there: np.ndarray, log_duration: float, end: float) -> Stride:
        """A step that ends a little earlier or later, where those `there` are already."""
        velocity = found.velocity
        ways = velocity.directions * np.exp(velocity.logarithm + log_duration)
        ways[there] = 0.0
        places = found.places + (end - 1) * ways
        changed = np.arange(len(places)) if abs(end - 1) > ON_TIME else np.flatnonzero(self.heavy.gaps[0] < NEAR)
        sums = velocity.sums.replaced(changed, self.pull.sums(places, self.heavy.masses, changed))
        return Stride(places, found.errors, self.pull.velocity_of(sums, places, self.heavy.masses))

    def _drawn(
        self, step: float, found: Stride, rows: np.ndarray, ahead: Sprint, rerun: Sprint
    ) -> tuple[np.ndarray, np.ndarray]:
        """What it changes in the ways and in the last velocities of walkers `rows` that runners went elsewhere."""
        walks, times = self._walks(step).of(rerun.rows), moments(self.clock, step)
        before = np.stack([walks.places(self.heavy.places[rerun.rows], time) for time in times])
        again = np.isin(ahead.rows, rerun.rows)
        before[:, np.searchsorted(rerun.rows, ahead.rows[again])] = ahead.paths[:, again]
        old, new = (self._pulls(step, found, rows, rerun.rows, paths) for paths in (before, rerun.paths))
        return np.tensordot(self._weights(step, integral()), new - old, 1), new[-1] - old[-1]

    def _weights(self, step: float, weights: np.ndarray) -> np.ndarray:
        """Of values at the moments of a step in an integral over its time."""
        nodes = step * np.array([0.0, *SEEN])
        return weights * np.exp(-self.clock.exponent(nodes)) * step / self.clock.duration(step)

    def _pulls(self, step: float, found: Stride, rows: np.ndarray, givers: np.ndarray, paths: np.ndarray) -> np.ndarray:
        """What walkers `rows` receive from `givers` on their `paths` at the moments of a step, in ways a step."""
        walks, times = self._walks(step).of(rows), [0.0, *moments(self.clock, step)]
        first, last = (
            self.pull.log_divisors(velocity.sums.of(rows), places[rows], self.heavy.masses[rows])
            for velocity, places in ((self.velocity, self.heavy.places), (found.velocity, found.places))
        )
        pulls = []
        for time, there in zip(times, [self.heavy.places[givers], *paths], strict=True):
            places = walks.places(self.heavy.places[rows], time)
            divisors = (1 - time) * first + time * last - self.log_duration(step)
            pull = self.pull.part_from(there, self.heavy.masses[givers], places, divisors)
            pulls.append(pull - np.sum(pull * places, axis=1, keepdims=True) * places)
        return np.stack(pulls)

    def joined(self, found: Stride, pair: np.ndarray) -> Stride:
        """Two that a step has brought within the merging distance, give or take its error, are in one place."""
        if not len(pair):
            return found
        places = found.places.copy()
        places[pair] = np.average(places[pair], axis=0, weights=self.heavy.masses[pair])
        return found._replace(places=places)

    def _off(self, step: float, found: Stride, ahead: Sprint) -> np.ndarray:
        """How far runners are off: by what walkers elsewhere than expected change in their last velocities."""
        with np.errstate(over="ignore", invalid="ignore"):
            true = found.velocity.directions[ahead.rows] * np.exp(found.velocity.logarithm + self.log_duration(step))
            return np.nan_to_num(np.abs(true - ahead.velocities).max(axis=1, initial=0.0) / 2, nan=np.inf)

    def _errors(
        self, step: float, found: Stride, ahead: Sprint, expected: np.ndarray, scales: np.ndarray
    ) -> np.ndarray:
        """Of runners over their tolerances, where walkers are elsewhere than `expected`."""
        off = self._off(step, found, ahead)
        if len(ahead.pair):  # who has met moves by what others do; what the two do to each other would drown that
            off[np.isin(ahead.rows, ahead.pair)] = self._off_as_one(step, found.places, ahead.pair, expected)
        return off / scales[ahead.rows]

    def _off_as_one(self, step: float, places: np.ndarray, pair: np.ndarray, expected: np.ndarray) -> float:
        """How far two that have met are off as one, where walkers are elsewhere than `expected`."""
        one, other = pair
        masses, places = self.heavy.masses.copy(), places.copy()
        masses[one] += masses[other]
        places[one] = np.average(places[pair], axis=0, weights=self.heavy.masses[pair])
        expected = np.where(self.walkers[:, None], expected, places)
        rest = np.delete(np.arange(len(places)), other)
        row = np.array([np.searchsorted(rest, one)])
        true, found = (self.pull.velocity(where[rest], masses[rest], row) for where in (places, expected))
        ways = [one.directions * np.exp(one.logarithm + self.log_duration(step)) for one in (true, found)]
        return float(np.abs(ways[0] - ways[1]).max()) / 2

    def _run(self, step: float, group: np.ndarray, ending: Ending) -> Sprint:
        """A group of runners, while walkers go as far as is known."""
        walks = self._walks(step).without(np.union1d(self.running, group))
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
        with np.errstate(divide="ignore"):  # walkers so slow that floats end
            now = self.velocity.logarithm + float(np.log(self.rate * sizes[fastest[0]]))
        behind, ahead = (
            self.pull.velocity(self.heavy.places + reach * way, self.heavy.masses, fastest).log_speed - now
            for reach in (-PROBE, PROBE)
        )
        first, second = (ahead - behind) / (2 * PROBE), (ahead + behind) / PROBE**2
        return Clock(float(first), float(second)) if np.isfinite(first + second) else Clock()


def _ending(group: np.ndarray, met: np.ndarray) -> Ending:
    """Of a sprint in a step that ends as the two of `met` meet."""
    return Ending.WITH_MEETING if np.isin(met, group).any() else Ending.EARLY


def _is_met(ran: Sprint, pair: np.ndarray) -> bool:
    """Whether these two are who met."""
    return len(pair) > 0 and set(ran.pair) == set(pair)


class Attempt(NamedTuple):
    """A step that was tried: its length, the one wanted, where it leads, and errors over the tolerance."""

    step: float
    wanted: float
    log_duration: float
    stride: Stride
    worst: float
    missed: np.ndarray
    """Slow walkers whose error is too large: others have made them fast."""
    ran: float
    is_first: bool
    """Whether runners had run without knowing how walkers go."""

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
        if self.missed.any():
            return self.wanted
        return min(self.wanted, LONGER * self.step) if self.is_first else self.step / 3


def attempt(course: Course, wanted: float, calm: np.ndarray, startled: np.ndarray, scales: np.ndarray) -> Attempt:
    """One step, whatever its errors; walkers that go farther than `calm`, or are startled, are looked at closely."""
    is_first = not course.walks.bends.any()
    step, ahead = course.sprint(wanted)
    speeds = np.where(course.walkers, np.abs(course.velocity.directions).max(axis=1) / course.rate, -1.0)
    is_far = startled | (speeds * course.clock.duration(step) > calm) | (speeds == speeds.max())
    fast = is_far & course.walkers
    found = course.stride(step, fast, ahead)
    with np.errstate(over="ignore"):  # of a step far too long
        errors = np.nan_to_num(found.errors / scales, nan=np.inf)
    worst = max(float(errors[fast].max(initial=0.0)), course.surprise(step, found, fast, scales))
    missed = ~fast & course.walkers & (errors > 1)
    settled = Settled(found, 1.0, 0.0)
    if len(ahead.rows) and worst <= 1 and missed.sum() <= MOST_RUNNERS:
        rows = np.flatnonzero(fast)
        pushed = np.union1d(rows[course.jumps(step, found, rows, ahead) > scales[rows]], np.flatnonzero(missed))
        settled, missed = course.settled(step, found, ahead, rows, pushed, scales), np.zeros_like(missed)
    duration = course.log_duration(step) + float(np.log(settled.end))
    return Attempt(
        step, wanted, duration, course.joined(settled.stride, ahead.pair), worst, missed, settled.error, is_first
    )
