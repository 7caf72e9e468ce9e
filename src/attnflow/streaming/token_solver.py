"""The adaptive solver of one token: Radau collocation piece by piece, along the given paths of earlier tokens."""

import dataclasses
import time
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from attnflow.solvers.status import Status
from attnflow.streaming.exact_time import SHORTEST_STEP, components_of
from attnflow.streaming.newton import CONVERGED_CHANGE, NodeValues, solve_nodes
from attnflow.streaming.radau import END_DERIVATIVES, NODES, STAGES, series_of, truncation_estimate
from attnflow.streaming.token_field import TokenField
from attnflow.streaming.token_paths import PathReader, TokenPath, TokenPaths

MAX_STEP_RATIO = 10.0  # of successive steps
MAX_LOG_COMPRESSION = 6.0  # c of the time change: dt/ds falls by a factor of 400 at most
MAX_LOG_GROWTH = 8.0  # of perturbations in one step: longer L-stable steps would stay at an unstable equilibrium
LENGTH_ROUNDING = 8 * float(np.finfo(float).eps)  # relative, of the length that a time change gives
MAX_PIECES = 20_000  # of one token: fifty times those of a token up to t = 1e300 at beta = 20


@dataclasses.dataclass(frozen=True)
class TokenSolution:
    """A token's path, the number of rejected steps, and the reason why it ended."""

    path: TokenPath
    rejected: int
    status: Status
    """REACHED; or OUT_OF_TIME, STEP_TOO_SMALL, OUT_OF_STEPS; or NOT_FINITE where scores have lost their digits, since
    the velocity is then no number to any accuracy."""


@dataclasses.dataclass(frozen=True)
class _PieceTime:
    """The time change t(s) = h (1 - e^(-c s)) / c of a piece, s in [0, 1]."""

    scale: float
    """h, the value of dt/ds at the start."""
    log_compression: float
    """c."""

    @property
    def length(self) -> float:
        return float(self.after(np.ones(1))[0])

    def after(self, position: np.ndarray) -> np.ndarray:
        """The time from the start of the piece to positions s."""
        c = self.log_compression
        return self.scale * (position if c == 0 else -np.expm1(-c * position) / c)

    def rates(self, position: np.ndarray) -> np.ndarray:
        """dt/ds at positions s."""
        return self.scale * np.exp(-self.log_compression * position)


class _Piece(NamedTuple):
    start: np.ndarray
    length: float
    log_compression: float
    series: np.ndarray


@dataclasses.dataclass(frozen=True)
class _State:
    """A token at the end of its last piece, and the step to attempt next."""

    point: np.ndarray
    time: Fraction
    reader: PathReader
    step: float = 0.05  # units of time; corrected within a few attempts
    speed_growth: float = 0.0
    """Relative growth rate of the token's speed at the end of the last piece."""


class _PieceAttempt(NamedTuple):
    """The state after an attempted step, and its piece; None if the step was rejected."""

    state: _State
    piece: _Piece | None
    has_lost_digits: bool
    """Whether the rounding of scores dominates the velocity, which no shorter step mends."""


@dataclasses.dataclass(frozen=True)
class TokenSolver:
    """Solves for one token from `start` to `end`, along the paths of the earlier tokens."""

    field: TokenField
    paths: TokenPaths
    start: Fraction
    end: Fraction
    tolerance: float

    def solve(self, token: np.ndarray, deadline: float = np.inf) -> TokenSolution:
        """The path that starts at `token`; it ends early when `time.monotonic` passes `deadline`."""
        state, rejected = _State(token, self.start, PathReader.at_start(self.paths, self.field.seen)), 0
        pieces: list[_Piece] = []
        status = Status.REACHED if state.time >= self.end else None
        while status is None:
            attempt = self._attempt(state)
            state = attempt.state
            if attempt.piece is None:
                rejected += 1
            else:
                pieces.append(attempt.piece)
            status = self._status(attempt, len(pieces), deadline)
        return TokenSolution(self._path(pieces, len(token)), rejected, status)

    def _status(self, attempt: _PieceAttempt, pieces: int, deadline: float) -> Status | None:
        """Why the solution ends here; None if it does not.

        Several reasons may apply: the end of the path comes first, then causes before their effects, then limits.
        """
        if attempt.state.time >= self.end:
            return Status.REACHED
        if attempt.has_lost_digits and attempt.piece is None:  # rejected steps become too small later
            return Status.NOT_FINITE
        if attempt.state.step < SHORTEST_STEP:
            return Status.STEP_TOO_SMALL
        if pieces >= MAX_PIECES:
            return Status.OUT_OF_STEPS
        return Status.OUT_OF_TIME if time.monotonic() > deadline else None

    def _path(self, pieces: list[_Piece], d: int) -> TokenPath:
        count = len(pieces)
        return TokenPath(
            np.array([piece.start for piece in pieces]).reshape(count, self.paths.components),
            np.array([piece.length for piece in pieces]),
            np.array([piece.log_compression for piece in pieces]),
            np.array([piece.series for piece in pieces]).reshape(count, STAGES + 1, d),
        )

    def _attempt(self, state: _State) -> _PieceAttempt:
        """One step: solved at the nodes, and accepted if the series resolves it and perturbations grow little."""
        remaining = float(self.end - state.time)
        piece_time = _piece_time(state, remaining)
        start = components_of(state.time, self.paths.components)
        reader = state.reader.advance_to(start)
        seen = self.field.keys_and_values(reader.evaluate(piece_time.after(NODES)))
        start_size = self._size(state.point)
        # Rounding of the velocity alone exceeds the tolerance in every step longer than 0.001 units of time.
        has_lost_digits = self.field.rounding(state.point, seen) > 1e3 * self.tolerance * start_size
        # An error of Newton's method of 1 % of the tolerance does not affect the error estimate.
        accuracy = start_size * max(0.01 * self.tolerance, CONVERGED_CHANGE)
        nodes = solve_nodes(self.field, state.point, seen, piece_time.rates(NODES), accuracy)
        if nodes is None:
            # No error estimate says by how much the step is too long: a quarter is half an order of magnitude.
            shorter = dataclasses.replace(state, reader=reader, step=piece_time.scale / 4)
            return _PieceAttempt(shorter, None, has_lost_digits)
        points = np.concatenate([state.point[None], nodes.points])
        series, size = series_of(points), self._size(points)
        error = truncation_estimate(series) / (self.tolerance * size)
        tried = dataclasses.replace(state, reader=reader, step=_next_step(piece_time.scale, error, nodes))
        # A step is chosen for MAX_LOG_GROWTH with the growth of the step before; half as much again, perturbations that
        # grow by e^12, is accepted without a second attempt.
        if error > 1 or nodes.log_growth > 1.5 * MAX_LOG_GROWTH:
            return _PieceAttempt(tried, None, has_lost_digits)
        piece = _Piece(start, piece_time.length, piece_time.log_compression, series)
        is_last = piece_time.length >= remaining * (1 - LENGTH_ROUNDING)  # else a piece of 1e-16 would follow
        end = self.end if is_last else state.time + Fraction(piece_time.length)
        reached = dataclasses.replace(tried, point=points[-1], time=end)
        return _PieceAttempt(self._with_speed_growth(reached, piece_time, series, size), piece, has_lost_digits)

    def _size(self, points: np.ndarray) -> float:
        """The length that the tolerance is relative to."""
        return 1.0 if self.field.is_on_sphere else max(1.0, float(np.abs(points).max()))

    def _with_speed_growth(self, state: _State, piece_time: _PieceTime, series: np.ndarray, size: float) -> _State:
        """The state with the relative growth rate of the speed at its time, and its step in units of dt/ds there.

        With dt/ds = r, v = dx/ds and a = d^2x/ds^2 the rate is  d log|dx/dt| / dt = ((v, a) / |v|^2 + c) / r.
        """
        velocity, change = END_DERIVATIVES @ series
        speed, end_rate = float(np.linalg.norm(velocity)), float(piece_time.rates(np.ones(1))[0])
        # A token that moved by less than 1e4 tolerances has no speed whose growth could be measured.
        is_moving = speed > 1e4 * self.tolerance * size
        growth = float(velocity @ change) / speed**2 + piece_time.log_compression if is_moving else 0.0
        step = state.step * (end_rate / piece_time.scale)
        return dataclasses.replace(state, step=step, speed_growth=max(growth, 0.0) / end_rate)


def _next_step(step: float, error: float, nodes: NodeValues) -> float:
    """The step that brings the error, of order STAGES in the step, below one, and perturbations below their limit."""
    safety = 0.8  # of the step whose error would be one: errors that grow a little need no second attempt
    is_negligible = error < 1e-6  # mostly rounding, which does not say how much longer the step may be
    ratio = MAX_STEP_RATIO if is_negligible else safety * error ** (-1 / STAGES)
    ratio = min(ratio, MAX_LOG_GROWTH / nodes.log_growth) if nodes.log_growth > 0 else ratio
    return step * float(np.clip(ratio, 1 / MAX_STEP_RATIO, MAX_STEP_RATIO))


def _piece_time(state: _State, remaining: float) -> _PieceTime:
    """The time change of the next piece, no longer than the remaining time.

    With c = a h for the growth rate a of the speed, the time change continues that growth: t(1) = (1 - e^(-c)) / a.
    """
    uniform = 1e-3  # a smaller c changes nothing
    rate = state.speed_growth
    c = min(rate * state.step, MAX_LOG_COMPRESSION)
    if c < uniform:
        return _PieceTime(min(state.step, remaining), 0.0)
    piece_time = _PieceTime(c / rate, c)
    if piece_time.length < remaining:
        return piece_time
    # The last piece: its length is `remaining` up to rounding.
    c = -float(np.log1p(-min(rate * remaining, 1 - np.exp(-MAX_LOG_COMPRESSION))))
    return _PieceTime(remaining, 0.0) if c < uniform else _PieceTime(c * remaining / -float(np.expm1(-c)), c)
