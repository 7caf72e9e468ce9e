"""A walk: one token followed along the given paths of those it sees, piece by piece, to the last time."""

import dataclasses
import time
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from attnflow.solvers.status import Status
from attnflow.streaming.exact_time import SHORTEST, parts_of
from attnflow.streaming.radau import (
    DERIVATIVE,
    END_DERIVATIVES,
    NODES,
    STAGES,
    exact_correction,
    mean_correction,
    series_of,
    unresolved,
)
from attnflow.streaming.token_field import Chart, LoneToken
from attnflow.streaming.token_paths import Onlooker, Path, Paths

FIRST_STEP = 0.05  # of time; what it should be is found within a few attempts
LONGER = 10.0  # than the last step, at most
RESOLVED = 1e-6  # of the tolerance: below is rounding, which does not say how much longer a step may be
MOST_NEWTON = 12
NEWTON_SHARE = 0.01  # of the tolerance: Newton's error is no part of the error
ROUNDING = 1e-14
FEW = 20  # unknowns: so many are solved for at all nodes at once
SLOW = 0.3  # of Newton's last move: where the next is larger, one slope for all nodes is too rough
FARTHEST = 1.0  # in the chart, an eighth of a turn: beyond, its scale changes too much
MOST_BEND = 6.0  # time within a piece slows down by a factor of 400 at most
MOST_GROWTH = 8.0  # of a deviation within a piece, as a logarithm: steps far longer would hold a token at an
# equilibrium that it leaves, as all implicit methods do; up to half as much more, twelve stages follow the growth
MOVED = 1e4  # tolerances: what moves less within a piece has no speed that could be seen to grow
MOST_STEPS = 20_000
BLURRED = 1e3  # tolerances: where scores round to so much of a token's velocity, no shorter step mends it


@dataclasses.dataclass(frozen=True)
class Walked:
    """A token's path, how many steps were rejected, and why it ended."""

    path: Path
    rejected: int
    status: Status
    """REACHED; or OUT_OF_TIME, STEP_TOO_SMALL, OUT_OF_STEPS, or NOT_FINITE where scores outgrow their digits."""


class _Step(NamedTuple):
    """A step to attempt: at the share s of it time passes at the rate `pace` e^(-bend s)."""

    pace: float
    bend: float

    @property
    def length(self) -> float:
        return float(self.after(np.ones(1))[0])

    def after(self, shares: np.ndarray) -> np.ndarray:
        """The time that shares of the step take."""
        return self.pace * (shares if self.bend == 0 else -np.expm1(-self.bend * shares) / self.bend)

    def paces(self, shares: np.ndarray) -> np.ndarray:
        """The rate at which time passes there."""
        return self.pace * np.exp(-self.bend * shares)


class _Piece(NamedTuple):
    start: np.ndarray
    length: float
    bend: float
    series: np.ndarray


class Walk:
    """The state of a walk: place, moment, and the step to try next."""

    def __init__(self, lone: LoneToken, token: np.ndarray, paths: Paths, times: tuple[float, float], tolerance: float):
        self.lone, self.place, self.tolerance = lone, token, tolerance
        self.parts = paths.starts.shape[1]
        self.onlooker = Onlooker(paths, lone.seen)
        self.now, self.end = Fraction(times[0]), Fraction(times[1])
        self.pace, self.acceleration, self.rejected = FIRST_STEP, 0.0, 0
        self.is_blurred = False
        self.pieces: list[_Piece] = []

    def to_the_end(self, deadline: float = np.inf) -> Walked:
        """Piece after piece, until the clock `time.monotonic` says `deadline` at the latest."""
        status = Status.REACHED if self.now >= self.end else None
        while status is None:
            is_kept = self._advance()
            self.rejected += not is_kept
            status = self._status(is_kept, deadline)
        return Walked(self._path(), self.rejected, status)

    def _status(self, is_kept: bool, deadline: float) -> Status | None:
        """Why the walk is over; None while it is not."""
        reasons = {
            Status.REACHED: self.now >= self.end,
            Status.NOT_FINITE: self.is_blurred and not is_kept,
            Status.STEP_TOO_SMALL: self.pace < SHORTEST,
            Status.OUT_OF_STEPS: len(self.pieces) >= MOST_STEPS,
            Status.OUT_OF_TIME: time.monotonic() > deadline,
        }
        return next((status for status, is_so in reasons.items() if is_so), None)

    def _path(self) -> Path:
        count, d = len(self.pieces), len(self.place)
        return Path(
            np.array([piece.start for piece in self.pieces]).reshape(count, self.parts),
            np.array([piece.length for piece in self.pieces]),
            np.array([piece.bend for piece in self.pieces]),
            np.array([piece.series for piece in self.pieces]).reshape(count, STAGES + 1, d),
        )

    def _advance(self) -> bool:
        """One attempt; whether it was kept."""
        left = float(self.end - self.now)
        step = self._step(left)
        start = parts_of(self.now, self.parts)
        self.onlooker.wait_until(start)
        found = self._solve(step)
        if found is None:
            self.pace = step.pace / 4
            return False
        places, growth = np.concatenate([self.place[None], found[0]]), found[1]
        series = series_of(places)
        size = self._size(places)
        error = unresolved(series) / (self.tolerance * size)
        factor = LONGER if error < RESOLVED else 0.8 * error ** (-1 / STAGES)
        factor = min(factor, MOST_GROWTH / growth) if growth > 0 else factor
        self.pace = step.pace * float(np.clip(factor, 1 / LONGER, LONGER))
        if error > 1 or growth > 1.5 * MOST_GROWTH:
            return False
        self.pieces.append(_Piece(start, step.length, step.bend, series))
        self.now = self.end if step.length == left else self.now + Fraction(step.length)
        self.place = places[-1]
        self._look_back(step, series, size)
        return True

    def _size(self, places: np.ndarray) -> float:
        """What tolerances are relative to."""
        return 1.0 if self.lone.is_on_sphere else max(1.0, float(np.abs(places).max()))

    def _step(self, left: float) -> _Step:
        """As long as the pace says, or as is left."""
        rate = self.acceleration
        bend = min(rate * self.pace, MOST_BEND)
        if bend < 1e-3:
            return _Step(min(self.pace, left), 0.0)
        step = _Step(bend / rate, bend)
        if step.length < left:
            return step
        # Within what is left time slows down by less; the length has to be that to the last digit.
        bend = -float(np.log1p(-min(rate * left, 1 - np.exp(-MOST_BEND))))
        return _Step(left, 0.0) if bend < 1e-3 else _Step(bend * left / -float(np.expm1(-bend)), bend)

    def _look_back(self, step: _Step, series: np.ndarray, size: float) -> None:
        """The pace for what is ahead in its own units, and the rate at which the speed was growing at the end."""
        velocity, change = END_DERIVATIVES @ series
        speed, end_pace = float(np.linalg.norm(velocity)), float(step.paces(np.ones(1))[0])
        self.pace *= end_pace / step.pace
        growth = float(velocity @ change) / speed**2 + step.bend if speed > MOVED * self.tolerance * size else 0.0
        self.acceleration = max(growth, 0.0) / end_pace

    def _solve(self, step: _Step) -> tuple[np.ndarray, float] | None:
        """Newton's method for the places at the nodes, in the chart around the start; None where it does not converge.

        Besides how much small deviations grow, at most, as a logarithm.
        """
        paces = step.paces(NODES)
        offers = self.lone.offers(self.onlooker.look(step.after(NODES)))
        chart, size, scale = Chart.around(self.place, self.lone.is_on_sphere), np.inf, self._size(self.place)
        farthest = FARTHEST if self.lone.is_on_sphere else np.inf
        self.is_blurred = self.lone.rounding(self.place, offers) > BLURRED * self.tolerance * scale
        y, rates = np.zeros((STAGES, len(self.place) - self.lone.is_on_sphere)), DERIVATIVE / paces[:, None]
        is_exact = y.shape[1] <= FEW
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(MOST_NEWTON):
                velocity, slopes = self.lone.velocity(chart, y, offers)
                correction = exact_correction if is_exact else mean_correction
                move = correction(rates, slopes, velocity - rates @ y)
                y, before, size = y + move, size, float(np.abs(move).max(initial=0.0))
                is_exact = is_exact or not size <= SLOW * before
                if not size <= 2 * before or np.abs(y).max(initial=0.0) > farthest:
                    return None
                if size <= scale * max(NEWTON_SHARE * self.tolerance, ROUNDING):
                    fastest = np.linalg.eigvals(slopes).real.max(axis=1, initial=-np.inf)
                    return chart.places(y), float((paces * fastest).max())
        return None
