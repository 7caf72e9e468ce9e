"""Paths of tokens as piecewise polynomials, each with pieces of its own, and their evaluation at common times."""

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np

from attnflow.streaming.exact_time import components_of, elapsed
from attnflow.streaming.radau import STAGES, legendre_basis


@dataclasses.dataclass(frozen=True)
class TokenPath:
    """The pieces of one token's path, in the order of time."""

    starts: np.ndarray
    """Times at which pieces start, as sums of floats (pieces, components)."""
    lengths: np.ndarray
    log_compressions: np.ndarray
    """The parameters c of the time change within each piece (see `position_at`)."""
    series: np.ndarray
    """Legendre coefficients (pieces, STAGES + 1, d)."""

    @classmethod
    def constant(cls, token: np.ndarray, times: tuple[float, float], components: int) -> "TokenPath":
        """The path of a token that does not move."""
        series = np.zeros((1, STAGES + 1, len(token)))
        series[0, 0] = token
        start, end = times
        return cls(components_of(Fraction(start), components)[None], np.array([end - start]), np.zeros(1), series)


@dataclasses.dataclass(frozen=True)
class TokenPaths:
    """The paths of several tokens, their pieces concatenated; those of token j begin at index ``first[j]``."""

    starts: np.ndarray
    lengths: np.ndarray
    log_compressions: np.ndarray
    series: np.ndarray
    first: np.ndarray

    @classmethod
    def none(cls, d: int, components: int) -> "TokenPaths":
        """The paths of no tokens, to which those of others are added one by one."""
        return cls(np.empty((0, components)), np.empty(0), np.empty(0), np.empty((0, STAGES + 1, d)), np.zeros(1, int))

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def components(self) -> int:
        """The number of floats of a time."""
        return self.starts.shape[1]

    def with_path(self, path: TokenPath) -> "TokenPaths":
        """All paths and that of the next token."""
        return TokenPaths(
            np.concatenate([self.starts, path.starts]),
            np.concatenate([self.lengths, path.lengths]),
            np.concatenate([self.log_compressions, path.log_compressions]),
            np.concatenate([self.series, path.series]),
            np.append(self.first, self.first[-1] + len(path.lengths)),
        )

    def at(self, times: np.ndarray) -> np.ndarray:
        """All tokens at increasing times, shape (times, tokens, d)."""
        reader, snapshots = PathReader.at_start(self, np.arange(len(self))), []
        for time in times:
            reader = reader.advance_to(components_of(Fraction(float(time)), self.components))
            snapshots.append(reader.evaluate(np.zeros(1))[0])
        return np.stack(snapshots)


@dataclasses.dataclass(frozen=True)
class PathReader:
    """Evaluates the paths of some tokens from a current time on, and remembers the piece that each token is in."""

    paths: TokenPaths
    piece: np.ndarray
    """Index of the current piece of each token."""
    last: np.ndarray
    """Index of the last piece of each token."""
    now: np.ndarray
    """The current time, as a sum of floats."""

    @classmethod
    def at_start(cls, paths: TokenPaths, tokens: np.ndarray) -> "PathReader":
        """A reader of these tokens in their first pieces."""
        return cls(paths, paths.first[tokens], paths.first[tokens + 1] - 1, np.zeros(paths.components))

    def advance_to(self, now: np.ndarray) -> "PathReader":
        """The reader at a later time, given as float components."""
        later = dataclasses.replace(self, now=now)
        return dataclasses.replace(later, piece=later._pieces(np.zeros(1))[0])

    def evaluate(self, delays: np.ndarray) -> np.ndarray:
        """The tokens at increasing delays after the current time, shape (delays, tokens, d)."""
        piece = self._pieces(delays)
        local = elapsed(self.paths.starts[piece], self.now) + delays[:, None]
        fraction = np.clip(local / self.paths.lengths[piece], 0.0, 1.0)
        position = position_at(fraction, self.paths.log_compressions[piece])
        return np.einsum("stk,stkd->std", legendre_basis(position), self.paths.series[piece])

    def _pieces(self, delays: np.ndarray) -> np.ndarray:
        """Index of each token's piece after each delay. Starts of pieces decide, since sums of lengths are rounded."""
        pieces = np.tile(self.piece, (len(delays), 1))
        changing = self._past_next_start(self.piece, self.last, delays[-1])
        row, column = (each.ravel() for each in np.meshgrid(np.arange(len(delays)), changing, indexing="ij"))
        while len(row):
            past = self._past_next_start(pieces[row, column], self.last[column], delays[row])
            row, column = row[past], column[past]
            pieces[row, column] += 1
        return pieces

    def _past_next_start(self, piece: np.ndarray, last: np.ndarray, delay: Any) -> np.ndarray:
        """Indices of the entries of `piece` whose next piece has started `delay` after now."""
        next_start = self.paths.starts[np.minimum(piece + 1, last)]
        return np.flatnonzero((elapsed(next_start, self.now) + delay >= 0) & (piece < last))


def position_at(elapsed_fraction: np.ndarray, log_compression: np.ndarray) -> np.ndarray:
    """The parameter s in [0, 1] of a piece after a fraction of its time.

    The time change dt/ds = h e^(-c s) gives the fraction (1 - e^(-c s)) / (1 - e^(-c)), solved here for s.

    Examples
    --------
    >>> np.round(position_at(np.array([0.5, 0.5]), np.array([0.0, 2.0])), 3)
    array([0.5  , 0.283])
    """
    c = np.where(log_compression > 0, log_compression, 1.0)
    return np.where(log_compression > 0, -np.log1p(elapsed_fraction * np.expm1(-c)) / c, elapsed_fraction)
