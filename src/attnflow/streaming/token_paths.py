"""Paths of tokens as piecewise polynomials, each on a grid of its own, and looking many of them up at once."""

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np

from attnflow.streaming.exact_time import elapsed, parts_of
from attnflow.streaming.radau import STAGES, basis_at


@dataclasses.dataclass(frozen=True)
class Path:
    """One token's way: the pieces one after the other."""

    starts: np.ndarray
    """Moments at which pieces begin, in parts (pieces, parts)."""
    lengths: np.ndarray
    bends: np.ndarray
    """By how much, as a logarithm, time slows down within a piece (see `share_of`)."""
    series: np.ndarray
    """Legendre coefficients (pieces, STAGES + 1, d)."""

    @classmethod
    def resting(cls, token: np.ndarray, times: tuple[float, float], parts: int) -> "Path":
        """A token that does not move."""
        series = np.zeros((1, STAGES + 1, len(token)))
        series[0, 0] = token
        start, end = times
        return cls(parts_of(Fraction(start), parts)[None], np.array([end - start]), np.zeros(1), series)


@dataclasses.dataclass(frozen=True)
class Paths:
    """The ways of several tokens, all pieces in one row; those of token j begin at ``first[j]``."""

    starts: np.ndarray
    lengths: np.ndarray
    bends: np.ndarray
    series: np.ndarray
    first: np.ndarray

    @classmethod
    def none(cls, d: int, parts: int) -> "Paths":
        """Nobody's."""
        return cls(np.empty((0, parts)), np.empty(0), np.empty(0), np.empty((0, STAGES + 1, d)), np.zeros(1, int))

    def __len__(self) -> int:
        return len(self.first) - 1

    def followed_by(self, path: Path) -> "Paths":
        """With one more token."""
        return Paths(
            np.concatenate([self.starts, path.starts]),
            np.concatenate([self.lengths, path.lengths]),
            np.concatenate([self.bends, path.bends]),
            np.concatenate([self.series, path.series]),
            np.append(self.first, self.first[-1] + len(path.lengths)),
        )

    def of(self, token: int) -> Path:
        """One token's way."""
        own = slice(self.first[token], self.first[token + 1])
        return Path(self.starts[own], self.lengths[own], self.bends[own], self.series[own])

    def at(self, times: np.ndarray) -> np.ndarray:
        """Where everyone is at increasing times, shape (times, tokens, d)."""
        onlooker = Onlooker(self, np.arange(len(self)))
        places = []
        for time in times:
            onlooker.wait_until(parts_of(Fraction(float(time)), self.starts.shape[1]))
            places.append(onlooker.look(np.zeros(1))[0])
        return np.stack(places)


class Onlooker:
    """Looks at some tokens' paths as time goes on; it remembers in which piece everyone is."""

    def __init__(self, paths: Paths, tokens: np.ndarray):
        self._paths = paths
        self._piece, self._last = paths.first[tokens], paths.first[tokens + 1] - 1
        self._now = np.zeros(paths.starts.shape[1])

    def wait_until(self, now: np.ndarray) -> None:
        """Go on to a moment, in parts, that is not before the one before."""
        self._now = now
        self._piece = self._pieces(np.zeros(1))[0]

    def look(self, ahead: np.ndarray) -> np.ndarray:
        """Everyone's places (len(ahead), tokens, d), so much later than now."""
        piece = self._pieces(ahead)
        local = elapsed(self._paths.starts[piece], self._now) + ahead[:, None]
        elapsed_share = np.clip(local / self._paths.lengths[piece], 0.0, 1.0)
        share = share_of(elapsed_share, self._paths.bends[piece])
        return np.einsum("stk,stkd->std", basis_at(share), self._paths.series[piece])

    def _pieces(self, ahead: np.ndarray) -> np.ndarray:
        """In which pieces everyone is then. The moments at which these begin decide, since sums of lengths round."""
        pieces = np.tile(self._piece, (len(ahead), 1))
        passing = self._begun(self._piece, self._last, ahead[-1])  # within the longest time ahead
        row, column = (each.ravel() for each in np.meshgrid(np.arange(len(ahead)), passing, indexing="ij"))
        while len(row):
            late = self._begun(pieces[row, column], self._last[column], ahead[row])
            row, column = row[late], column[late]
            pieces[row, column] += 1
        return pieces

    def _begun(self, piece: np.ndarray, last: np.ndarray, wait: Any) -> np.ndarray:
        """Of which of these the next piece has begun by then."""
        following = self._paths.starts[np.minimum(piece + 1, last)]
        return np.flatnonzero((elapsed(following, self._now) + wait >= 0) & (piece < last))


def share_of(elapsed_share: np.ndarray, bend: np.ndarray) -> np.ndarray:
    """Where on its polynomial, from 0 to 1, a token is when so much of a piece's time has passed.

    Within a piece the clock dt = e^(-bend share) slows down, as far as speeds were growing when it began: tokens that
    run into each other at t = T move like 1 / (T - t), and are nearly uniform on this clock.

    Examples
    --------
    >>> np.round(share_of(np.array([0.5, 0.5]), np.array([0.0, 2.0])), 3)
    array([0.5  , 0.283])
    """
    safe = np.where(bend > 0, bend, 1.0)
    return np.where(bend > 0, -np.log1p(elapsed_share * np.expm1(-safe)) / safe, elapsed_share)
